"""What a tile costs: synthesis of TensorDash and its dense baseline through one flow."""

from .flow import measure_areas, synthesize
from .fpga import TARGETS, FpgaReport, synthesize_fpga
from .liberty import LibertyError, default_liberty, load_liberty
from .numerics import NumericsReport, every_numerics, numerics_costs
from .report import Areas, CostReport
from .table import cost_table, fpga_table, numerics_table, sweep_table
from .yosys import SynthesisError

__all__ = [
    "TARGETS",
    "Areas",
    "CostReport",
    "FpgaReport",
    "LibertyError",
    "NumericsReport",
    "SynthesisError",
    "cost_table",
    "default_liberty",
    "every_numerics",
    "fpga_table",
    "load_liberty",
    "measure_areas",
    "numerics_costs",
    "numerics_table",
    "sweep_table",
    "synthesize",
    "synthesize_fpga",
]
