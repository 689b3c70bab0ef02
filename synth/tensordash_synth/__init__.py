"""Costs of a tile or core: synthesis of TensorDash and its dense baseline through one flow.

`flow` maps a tile module by module, and `core_cost` a core. `memories` and `cacti` give the costs of memories, `power`
and `core_power` the power, `wires` the loads of wires, and `fpga` look-up tables.
"""

from .core_cost import CoreCostReport, measure_core_areas, synthesize_core
from .core_table import core_cost_table
from .equivalence import prove_equivalence
from .equivalence_report import EquivalenceReport
from .flow import measure_areas, synthesize
from .fpga import TARGETS, FpgaReport, synthesize_fpga
from .fpga_families import DeviceError
from .fpga_place import FpgaPlacement, place_fpga
from .fpga_table import placed_table
from .gate_level import POWER_UP, gate_level_files
from .lef import LefError, default_lef, load_lef
from .liberty import LibertyError, default_liberty, load_liberty
from .numerics import NumericsReport, every_numerics, numerics_costs
from .placement_picture import placement_svg
from .report import Areas, CostReport
from .table import cost_table, fpga_table, numerics_table, sweep_table
from .yosys import SynthesisError

__all__ = [
    "POWER_UP",
    "TARGETS",
    "Areas",
    "CoreCostReport",
    "CostReport",
    "DeviceError",
    "EquivalenceReport",
    "FpgaPlacement",
    "FpgaReport",
    "LefError",
    "LibertyError",
    "NumericsReport",
    "SynthesisError",
    "core_cost_table",
    "cost_table",
    "default_lef",
    "default_liberty",
    "every_numerics",
    "fpga_table",
    "gate_level_files",
    "load_lef",
    "load_liberty",
    "measure_areas",
    "measure_core_areas",
    "numerics_costs",
    "numerics_table",
    "place_fpga",
    "placed_table",
    "placement_svg",
    "prove_equivalence",
    "sweep_table",
    "synthesize",
    "synthesize_core",
    "synthesize_fpga",
]
