"""Mutants: emitted Verilog with one wrong bit, many in one model, of which a run chooses one."""

import re
from dataclasses import dataclass
from pathlib import Path

from tensordash import TileConfig
from tensordash.emission.verilog import render
from tensordash_synth.hierarchy import Hierarchy, role
from tensordash_synth.yosys import run_yosys

__all__ = ["COMPONENTS", "PLUSARG", "Mutant", "Mutants"]

PLUSARG = "mutant"
SELECT, SELECT_BITS = "mutant_select", 16
COMPONENTS: dict[str, tuple[str, ...]] = {
    "scheduler": ("scheduler",),
    "staging_buffer": ("staging_buffer",),
    "pe": ("pe", "multiplier", "exact_accumulator", "fused_accumulator", "integer_multiplier", "integer_accumulator"),
    "transposer": ("transposer",),
    "tile": (),
}
"""The bench of each component, and the modules that it mutates; the tile's are all that no other component has."""


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A change of one bit.

    Parameters
    ----------
    number : int
        What `PLUSARG` chooses it with, from 1.
    command : str
        Options of Yosys' `mutate`.
    """

    number: int
    command: str

    def option(self, name: str) -> str:
        """The value of one of the command's options."""
        return self.command.split(f"-{name} ", 1)[1].split()[0]

    @property
    def module(self) -> str:
        """The module that is changed."""
        return self.option("module")

    @property
    def line(self) -> int:
        """The line of the emitted Verilog; of its cell, where the wire has one too."""
        return int(re.findall(r"-src \S+?:(\d+)", self.command)[-1])

    @property
    def title(self) -> str:
        """What is changed."""
        return f"{self.option('mode')} on bit {self.option('portbit')} of {self.option('port')}"


class Mutants:
    """Mutants of one component of a tile.

    Parameters
    ----------
    config : TileConfig
        The tile.
    component : str
        One of `COMPONENTS`.
    count, seed : int
        How many, and which.
    folder : Path
        An existing folder for temporary files.
    """

    def __init__(self, config: TileConfig, component: str, count: int, seed: int, folder: Path) -> None:
        name = "tensordash_transposer" if component == "transposer" else "tensordash"
        self.top = f"tensordash_{component}"
        self.text = render(config)[f"{name}.v"]
        self.hierarchy = Hierarchy(self.text, self.top)
        self._folder = folder
        (folder / "emitted.v").write_text(self.text, encoding="utf-8")
        # The text repeats expressions bit by bit; a change in the part of one that nobody reads would say nothing.
        self._read = ["read_verilog emitted.v", f"hierarchy -top {self.top}", "proc", "opt_merge", "opt_clean"]
        chosen = " ".join(self._modules(component))
        listed = f"mutate -list {count} -seed {seed} -o mutants.txt {chosen}"
        run_yosys([*self._read, listed], folder, self.top)
        lines = (folder / "mutants.txt").read_text(encoding="utf-8").splitlines()
        self.mutants = [
            Mutant(number=i, command=line.removeprefix("mutate ").strip()) for i, line in enumerate(lines, 1)
        ]

    def _modules(self, component: str) -> list[str]:
        below, waiting = set(), [self.top]
        while waiting:
            name = waiting.pop()
            below.add(name)
            waiting += [child for _, child in self.hierarchy.modules[name].children]
        others = {each for names in COMPONENTS.values() for each in names}
        roles = COMPONENTS[component]
        return sorted(name for name in below if (role(name) in roles if roles else role(name) not in others))

    def model(self) -> str:
        """Verilog of all mutants: a run with the plusarg `PLUSARG` behaves as that mutant, one without as emitted."""
        changes = [f"mutate -ctrl {SELECT} {SELECT_BITS} {each.number} {each.command}" for each in self.mutants]
        run_yosys([*self._read, *changes, "write_verilog -noattr model.v"], self._folder, self.top)
        text = (self._folder / "model.v").read_text(encoding="utf-8")
        # Yosys hands the choice down from a port of the top, which no bench knows: the top finds it by itself.
        head, begin, rest = text.partition(f"module {self.top}(")
        rest = rest.replace(f", {SELECT}", "", 1).replace(f"  wire [{SELECT_BITS - 1}:0] {SELECT};\n", "", 1)
        chosen = f'  initial if (!$value$plusargs("{PLUSARG}=%d", {SELECT})) {SELECT} = 0;\n'
        declared = f"[{SELECT_BITS - 1}:0] {SELECT};\n"
        return head + begin + rest.replace(f"  input {declared}", f"  reg {declared}{chosen}", 1)

    def verilog(self, mutant: Mutant | None) -> str:
        """Verilog of one mutant alone; None: as emitted, but for what Yosys makes of the text."""
        changes = [] if mutant is None else [f"mutate {mutant.command}"]
        run_yosys([*self._read, *changes, "write_verilog -noattr mutant.v"], self._folder, self.top)
        return (self._folder / "mutant.v").read_text(encoding="utf-8")

    def source(self, mutant: Mutant) -> str:
        """The line of Verilog that a mutant changes."""
        return " ".join(self.text.splitlines()[mutant.line - 1].split())
