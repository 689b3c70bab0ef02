"""Mutants: emitted Verilog with one change each. One model contains many mutants, and each run selects one."""

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tensordash_synth.yosys import run_yosys

from .subjects import Subject, below

__all__ = ["PLUSARG", "BitMutant", "BitMutants", "Mutant", "Mutants"]

PLUSARG = "mutant"
SELECT, SELECT_BITS = "mutant_select", 16


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One change of the emitted Verilog.

    Parameters
    ----------
    number : int
        Number that selects the mutant by `PLUSARG`, from 1.
    module : str
        The changed module.
    kind : str
        The kind of change.
    title : str
        Description of the change.
    line : int
        The changed line of the emitted Verilog, from 1.
    """

    number: int
    module: str
    kind: str
    title: str
    line: int


class Mutants(ABC):
    """Mutants of one component of a tile or a core.

    Parameters
    ----------
    subject : Subject
        The component.
    folder : Path
        An existing folder for temporary files.

    Attributes
    ----------
    mutants : sequence of Mutant
        All mutants.
    """

    mutants: Sequence[Mutant]

    def __init__(self, subject: Subject, folder: Path) -> None:
        self.subject = subject
        self.top = subject.top
        self.text = subject.text
        self.modules = subject.modules
        self._hierarchy = subject.hierarchy
        self._folder = folder
        (folder / "emitted.v").write_text(self.text, encoding="utf-8")
        # The text repeats expressions bit by bit. Merging them avoids useless mutants of unread bits.
        self._read = ["read_verilog emitted.v", f"hierarchy -top {self.top}", "proc", "opt_merge", "opt_clean"]

    def cuts(self, module: str) -> list[list[str]]:
        """List sets of modules to cut off in equivalence checks of a module: largest first, the mandatory set last."""
        children = sorted({child for _, child in self._hierarchy.modules[module].children})
        inside = below(self._hierarchy, module) - {module}
        cut_modules, opaque_modules = (
            [name for name in names if name in inside]
            for names in (self.subject.cut_modules, self.subject.opaque_modules)
        )
        return [each for each in (children, cut_modules) if each] + [opaque_modules]

    @abstractmethod
    def model(self) -> str:
        """Return Verilog of all mutants. The plusarg `PLUSARG` selects one; without it, the model behaves as emitted.

        A bench can select another mutant with the register `mutant_select` of the top.
        """

    def _with_select(self, text: str) -> str:
        """Add the register that selects a mutant to the top."""
        head, begin, rest = text.partition(f"module {self.top}(")
        ports, end, rest = rest.partition(");\n")
        declaration = f"""\
  reg [{SELECT_BITS - 1}:0] {SELECT};
  initial if (!$value$plusargs("{PLUSARG}=%d", {SELECT})) {SELECT} = 0;
"""
        return head + begin + ports + end + declaration + rest

    @abstractmethod
    def verilog(self, mutant: Mutant | None) -> str:
        """Return Verilog of one mutant or, for None, the emitted Verilog as Yosys rewrites it."""

    def source(self, mutant: Mutant) -> str:
        """Return the line of Verilog that a mutant changes."""
        return " ".join(self.text.splitlines()[mutant.line - 1].split())


@dataclass(frozen=True, kw_only=True)
class BitMutant(Mutant):
    """A mutant of one bit of an operator's operand or result: constant, inverted, or combined with another bit.

    Parameters
    ----------
    command : str
        Options of Yosys' `mutate`.
    """

    command: str


def _bit_mutant(number: int, command: str) -> BitMutant:
    options = dict(re.findall(r"-(\w+) (\S+)", command))
    return BitMutant(
        number=number,
        module=options["module"],
        kind="bit",
        title=f"{options['mode']} on bit {options['portbit']} of {options['port']}",
        # The last `-src` belongs to the cell. The wire may have one too.
        line=int(re.findall(r"-src \S+?:(\d+)", command)[-1]),
        command=command,
    )


class BitMutants(Mutants):
    """Bit mutants, sampled from all operators.

    Parameters
    ----------
    subject, folder
        As in `Mutants`.
    count, seed : int
        Number of mutants, and seed of the sample.
    """

    def __init__(self, subject: Subject, count: int, seed: int, folder: Path) -> None:
        super().__init__(subject, folder)
        command = f"mutate -list {count} -seed {seed} -o mutants.txt {' '.join(self.modules)}"
        run_yosys([*self._read, command], folder, self.top)
        lines = (folder / "mutants.txt").read_text(encoding="utf-8").splitlines()
        self.mutants: Sequence[BitMutant] = [
            _bit_mutant(i, line.removeprefix("mutate ").strip()) for i, line in enumerate(lines, 1)
        ]

    def model(self) -> str:
        """Return Verilog of all mutants; see `Mutants`."""
        changes = [f"mutate -ctrl {SELECT} {SELECT_BITS} {each.number} {each.command}" for each in self.mutants]
        run_yosys([*self._read, *changes, "write_verilog -noattr model.v"], self._folder, self.top)
        text = (self._folder / "model.v").read_text(encoding="utf-8")
        # Yosys adds an input to the top, which no bench drives. Replace it by the register.
        head, begin, rest = text.partition(f"module {self.top}(")
        rest = rest.replace(f", {SELECT}", "", 1).replace(f"  wire [{SELECT_BITS - 1}:0] {SELECT};\n", "", 1)
        return self._with_select(head + begin + rest.replace(f"  input [{SELECT_BITS - 1}:0] {SELECT};\n", "", 1))

    def verilog(self, mutant: Mutant | None) -> str:
        """Return Verilog of one mutant; see `Mutants`."""
        changes = [f"mutate {mutant.command}"] if isinstance(mutant, BitMutant) else []
        run_yosys([*self._read, *changes, "write_verilog -noattr mutant.v"], self._folder, self.top)
        return (self._folder / "mutant.v").read_text(encoding="utf-8")
