"""Mapping one module to a library: the recipe, which is the same for every module and both designs."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .liberty import Liberty
from .yosys import SynthesisError, run_yosys

__all__ = [
    "LOGIC_SHARE",
    "Mapped",
    "elaborate",
    "map_fastest",
    "map_for_area",
    "map_for_area_and_fastest",
    "statistics",
]

# What is left of the period for logic: ABC models neither clk-to-q nor setup.
LOGIC_SHARE = 0.9
MAX_FANOUT = 20
# Flip-flops that share an enable stop their clock with one gate, where the library has such a cell, from this many on.
GATED_FLIP_FLOPS = 4
# `alumacc` merges a chain of additions into one tree with one carry chain only if every width in it is exact. A run of
# `wreduce` may narrow no more than one addition of a chain, so it runs for each bit by which a sum outgrows its terms.
MAX_SUM_GROWTH_BITS = 8
SIZE = f"topo; buffer -c -N {MAX_FANOUT}; upsize -D {{d}}; dnsize -D {{d}}; stime -p"
FASTER_SIZE = SIZE.replace(f"-N {MAX_FANOUT}", "-N 16")
# Mapped for area alone, then sized for the clock: the smallest that meets it is taken ...
AREA_RECIPES = {
    "area": f"strash; ifraig; scorr; dch -f; amap; {SIZE}",
    "rewritten area": f"strash; ifraig; scorr; dc2; dch -f; amap; {SIZE}",
}
FIRST_RECIPE = dict(list(AREA_RECIPES.items())[:1])
# ... and where none does, the first of these that meets it.
DELAY_RECIPES = {
    "balanced area": f"strash; ifraig; scorr; dch -f; if -g; dch -f; if -g; dch -f; amap; {FASTER_SIZE}",
    "balanced": f"strash; ifraig; scorr; dch -f; &get -n; &nf; &put; {SIZE}",
    "delay": f"strash; ifraig; scorr; dch -f; map -B 0.9 -D {{d}}; {SIZE}",
}
# For speed: mapped for delay and sized without a limit on area. The fastest counts; one alone depends on chance.
SPEED_RECIPES = {
    f"{name}speed, fan-out {fanout}": f"strash; ifraig; scorr; dch -f; {first}map -B 0.9; topo; "
    f"buffer -c -N {fanout}; upsize; dnsize; stime -p"
    for name, first, fanout in (
        ("", "", 16),
        ("balanced ", "if -g; dch -f; ", 10),
        ("balanced ", "if -g; dch -f; ", 16),
    )
}
RESUME = ["read_rtlil gates.il"]


@dataclass(frozen=True, kw_only=True)
class Mapped:
    """A module mapped to cells.

    Parameters
    ----------
    area_um2 : float
        Area of its cells, without what stands in other modules.
    delay_ns : float
        Longest path by ABC: between registers, inputs and outputs, without clk-to-q, setup and wires.
    flip_flop_um2 : float
        How much of the area is flip-flops.
    recipe : str
        The recipe that was taken.
    netlist : str
        Verilog of the cells, with instances of what stands in other modules.
    """

    area_um2: float
    delay_ns: float
    flip_flop_um2: float
    recipe: str
    netlist: str = field(repr=False)


def map_for_area(
    prepare: Sequence[str], top: str, liberty: Liberty, clock_ns: float, folder: Path, *, thorough: bool = True
) -> Mapped:
    """Map a module to the smallest area that meets the clock, or to the least delay if nothing meets it.

    Parameters
    ----------
    prepare : sequence of str
        Yosys commands that leave the module and the black boxes below it in the design.
    top : str
        Name of the module.
    liberty : Liberty
        The library.
    clock_ns : float
        Target period; a tenth is reserved for the flip-flops.
    folder : Path
        An existing, empty folder for temporary files.
    thorough : bool
        Try every recipe for area, not only the first.
    """
    target = LOGIC_SHARE * clock_ns
    gates = _elaborated(prepare, top, liberty, folder)
    return _smallest(_map(AREA_RECIPES if thorough else FIRST_RECIPE, gates, top, target, folder), top, target, folder)


def _smallest(tried: list[Mapped], top: str, target: float, folder: Path) -> Mapped:
    """Return the smallest mapping that meets the target; if none does, the fastest of the recipes for delay."""
    if fitting := [mapped for mapped in tried if mapped.delay_ns <= target]:
        return min(fitting, key=lambda mapped: mapped.area_um2)
    for name, recipe in DELAY_RECIPES.items():
        tried += _map({name: recipe}, RESUME, top, target, folder)
        if tried[-1].delay_ns <= target:
            return tried[-1]
    return min(tried, key=lambda mapped: mapped.delay_ns)


def map_fastest(prepare: Sequence[str], top: str, liberty: Liberty, folder: Path) -> Mapped:
    """Map a module to the least delay, whatever the area; parameters as in `map_for_area`."""
    gates = _elaborated(prepare, top, liberty, folder)
    return min(_map(SPEED_RECIPES, gates, top, None, folder), key=lambda mapped: mapped.delay_ns)


def map_for_area_and_fastest(
    prepare: Sequence[str], top: str, liberty: Liberty, clock_ns: float, folder: Path
) -> tuple[Mapped, Mapped]:
    """Both of a large module, from gates that are made once: `map_for_area` by its first recipe, and `map_fastest`."""
    target = LOGIC_SHARE * clock_ns
    gates = _elaborated(prepare, top, liberty, folder)
    small, *fast = _map(FIRST_RECIPE | SPEED_RECIPES, gates, top, target, folder)
    return _smallest([small], top, target, folder), min(fast, key=lambda mapped: mapped.delay_ns)


def elaborate(top: str) -> list[str]:
    """Return the Yosys commands from Verilog to Yosys' own gates."""
    return [
        "proc",
        *["wreduce t:$add t:$sub"] * MAX_SUM_GROWTH_BITS,
        f"synth -flatten -noabc -booth -top {top}",
    ]


def _elaborated(prepare: Sequence[str], top: str, liberty: Liberty, folder: Path) -> list[str]:
    """Commands from Verilog to gates and the library's flip-flops and clock gates."""
    (folder / "cells.lib").symlink_to(liberty.path.resolve())
    (folder / "constraints").write_text(liberty.constraints, encoding="utf-8")
    return [
        *prepare,
        f"hierarchy -check -top {top}",
        *elaborate(top),
        # Values at power-up: the reset is synchronous, and no cell has any.
        "setattr -unset init w:*",
        "opt -full",
        f"clockgate -liberty cells.lib -min_net_size {GATED_FLIP_FLOPS}",
        "dfflibmap -liberty cells.lib",
        "opt -full",
        "clean -purge",
        "write_rtlil gates.il",
    ]


def _map(
    recipes: Mapping[str, str], gates: Sequence[str], top: str, target_ns: float | None, folder: Path
) -> list[Mapped]:
    """Map gates by each of some recipes; `gates` are the commands that bring them into the design."""
    picoseconds = "" if target_ns is None else f"{target_ns * 1000:.0f}"
    commands = [*gates, "design -save gates"]
    for i, recipe in enumerate(recipes.values()):
        script = recipe.format(d=picoseconds).replace("; ", "\n")
        (folder / f"{i}.abc").write_text(script + "\n", encoding="utf-8")
        commands += [
            "design -load gates",
            f"tee -q -o {i}.log abc -liberty cells.lib -constr constraints -script {i}.abc {top}",
            "clean -purge",
            f"tee -q -o {i}.json stat -json -top {top} -liberty cells.lib",
            f"write_verilog -noattr -noexpr -nohex -nodec {i}.v",
        ]
    run_yosys(commands, folder, top)
    mapped = []
    for i, name in enumerate(recipes):
        delays = re.findall(r"Delay = *([\d.]+) ps", (folder / f"{i}.log").read_text(encoding="utf-8"))
        delay_ns = float(delays[-1]) / 1000 if delays else 0.0  # no logic between registers, or nothing but wires
        netlist = (folder / f"{i}.v").read_text(encoding="utf-8")
        mapped.append(Mapped(delay_ns=delay_ns, recipe=name, netlist=netlist, **_areas(folder / f"{i}.json", top)))
    return mapped


def statistics(path: Path, top: str) -> dict[str, Any]:
    """Return Yosys' `stat -json` of a module."""
    text = path.read_text(encoding="utf-8")
    found: dict[str, Any] | None = json.loads(text[text.index("{") :])["modules"].get(f"\\{top}")
    if found is None:
        raise SynthesisError(f"synthesis of {top} failed: no statistics")
    return found


def _areas(path: Path, top: str) -> dict[str, float]:
    """Areas in the statistics of a mapped module."""
    found = statistics(path, top)
    left = [cell for cell in found["num_cells_by_type"] if cell.startswith("$")]
    if left:
        raise SynthesisError(f"synthesis of {top} failed: the library has no cell for {', '.join(left)}")
    return {"area_um2": float(found.get("area", 0.0)), "flip_flop_um2": float(found.get("sequential_area", 0.0))}
