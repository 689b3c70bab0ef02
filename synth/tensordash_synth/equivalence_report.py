"""Results of comparing netlists with their RTL, module by module."""

from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Equivalence", "EquivalenceReport"]


@dataclass(frozen=True, kw_only=True)
class Equivalence:
    """Result for a module.

    Parameters
    ----------
    module : str
        Its name.
    registers, outputs : int
        Numbers of compared registers and output bits.
    how : str
        "cec": netlist and RTL are proven equal. "cec, word level": the netlist is proven equal to the output of Yosys'
        word-level passes. That output is compared with the RTL on random vectors, and its multipliers for all operands.
    equal : bool
        Whether netlist and RTL are equal.
    difference : str
        The first output or register that differs; empty if equal.
    seconds : float
        Duration of the comparison.
    """

    module: str
    registers: int
    outputs: int
    how: str
    equal: bool
    difference: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class EquivalenceReport:
    """Results for all modules of a tile or a core.

    Parameters
    ----------
    digest, library : str
        Configuration and cell library.
    modules : tuple of Equivalence
        Every module that is mapped.
    """

    digest: str
    library: str
    modules: tuple[Equivalence, ...]

    @property
    def failures(self) -> list[str]:
        """A line for each module that is not equal. A report without modules is also a failure."""
        lines = [f"{each.module}: {each.difference}" for each in self.modules if not each.equal]
        return lines if self.modules else ["no module was compared"]

    def to_json(self) -> dict[str, Any]:
        modules = [{**asdict(each), "seconds": round(each.seconds, 1)} for each in self.modules]
        return {"digest": self.digest, "library": self.library, "passed": not self.failures, "modules": modules}

    def table(self) -> str:
        """Return a line for each module."""
        width = max(len(each.module) for each in self.modules)
        lines = [f"{'module':{width}}  registers  outputs  seconds  result"]
        for each in self.modules:
            result = f"equal ({each.how})" if each.equal else f"DIFFERS: {each.difference}"
            lines.append(
                f"{each.module:{width}}  {each.registers:9,}  {each.outputs:7,}  {each.seconds:7.1f}  {result}"
            )
        return "\n".join(lines)
