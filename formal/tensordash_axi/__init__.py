"""Rules of AXI4 and AXI4-Lite as Amaranth components, for any design (docs/axi.md). Depends only on Amaranth."""

from .axi4 import Axi4Rules
from .lite import AxiLiteRules
from .rules import Rule
from .statements import Statements, to_verilog

__all__ = ["Axi4Rules", "AxiLiteRules", "Rule", "Statements", "to_verilog"]
