"""What a tile costs: synthesis of TensorDash and its dense baseline through one flow."""

from .flow import synthesize
from .liberty import LibertyError, default_liberty, load_liberty
from .report import CostReport
from .table import cost_table
from .yosys import SynthesisError

__all__ = [
    "CostReport",
    "LibertyError",
    "SynthesisError",
    "cost_table",
    "default_liberty",
    "load_liberty",
    "synthesize",
]
