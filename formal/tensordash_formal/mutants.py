"""Mutants: emitted Verilog with one thing wrong, many in one model, of which a run chooses one."""

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
    """A change of one thing.

    Parameters
    ----------
    number : int
        What `PLUSARG` chooses it with, from 1.
    module : str
        The module that is changed.
    kind : str
        The kind of change.
    title : str
        What is changed.
    line : int
        The line of the emitted Verilog, from 1.
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
        All of them.
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
        # The text repeats expressions bit by bit; a change in the part of one that nobody reads would say nothing.
        self._read = ["read_verilog emitted.v", f"hierarchy -top {self.top}", "proc", "opt_merge", "opt_clean"]

    def cuts(self, module: str) -> list[list[str]]:
        """What may be cut off below a module to compare it, the most first; last what has to be, of most nothing."""
        children = sorted({child for _, child in self._hierarchy.modules[module].children})
        inside = below(self._hierarchy, module) - {module}
        apart, opaque = (
            [name for name in names if name in inside] for names in (self.subject.apart, self.subject.opaque)
        )
        return [each for each in (children, apart) if each] + [opaque]

    @abstractmethod
    def model(self) -> str:
        """Verilog of all mutants: a run with the plusarg `PLUSARG` behaves as that mutant, one without as emitted.

        A bench can choose another one, in the register `mutant_select` of the top.
        """

    def _choosing(self, text: str) -> str:
        """A model whose top has the register that chooses."""
        head, begin, rest = text.partition(f"module {self.top}(")
        ports, end, rest = rest.partition(");\n")
        chosen = f"""\
  reg [{SELECT_BITS - 1}:0] {SELECT};
  initial if (!$value$plusargs("{PLUSARG}=%d", {SELECT})) {SELECT} = 0;
"""
        return head + begin + ports + end + chosen + rest

    @abstractmethod
    def verilog(self, mutant: Mutant | None) -> str:
        """Verilog of one mutant alone; None: as emitted, but for what Yosys makes of the text."""

    def source(self, mutant: Mutant) -> str:
        """The line of Verilog that a mutant changes."""
        return " ".join(self.text.splitlines()[mutant.line - 1].split())


@dataclass(frozen=True, kw_only=True)
class BitMutant(Mutant):
    """One bit of an operator's operand or result: constant, inverted, or mixed with another bit.

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
        # Of its cell, where the wire has one too.
        line=int(re.findall(r"-src \S+?:(\d+)", command)[-1]),
        command=command,
    )


class BitMutants(Mutants):
    """Mutants of one bit each, drawn among all operators.

    Parameters
    ----------
    subject, folder
        As in `Mutants`.
    count, seed : int
        How many, and which.
    """

    def __init__(self, subject: Subject, count: int, seed: int, folder: Path) -> None:
        super().__init__(subject, folder)
        listed = f"mutate -list {count} -seed {seed} -o mutants.txt {' '.join(self.modules)}"
        run_yosys([*self._read, listed], folder, self.top)
        lines = (folder / "mutants.txt").read_text(encoding="utf-8").splitlines()
        self.mutants: Sequence[BitMutant] = [
            _bit_mutant(i, line.removeprefix("mutate ").strip()) for i, line in enumerate(lines, 1)
        ]

    def model(self) -> str:
        """As in `Mutants`."""
        changes = [f"mutate -ctrl {SELECT} {SELECT_BITS} {each.number} {each.command}" for each in self.mutants]
        run_yosys([*self._read, *changes, "write_verilog -noattr model.v"], self._folder, self.top)
        text = (self._folder / "model.v").read_text(encoding="utf-8")
        # Yosys hands the choice down from a port of the top, which no bench knows: the top finds it by itself.
        head, begin, rest = text.partition(f"module {self.top}(")
        rest = rest.replace(f", {SELECT}", "", 1).replace(f"  wire [{SELECT_BITS - 1}:0] {SELECT};\n", "", 1)
        return self._choosing(head + begin + rest.replace(f"  input [{SELECT_BITS - 1}:0] {SELECT};\n", "", 1))

    def verilog(self, mutant: Mutant | None) -> str:
        """As in `Mutants`."""
        changes = [f"mutate {mutant.command}"] if isinstance(mutant, BitMutant) else []
        run_yosys([*self._read, *changes, "write_verilog -noattr mutant.v"], self._folder, self.top)
        return (self._folder / "mutant.v").read_text(encoding="utf-8")
