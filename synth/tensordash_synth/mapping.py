"""Mapping one module to a library: the recipe, which is the same for every module and both designs."""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .liberty import Liberty
from .yosys import SynthesisError, run_yosys

__all__ = ["Mapped", "map_fastest", "map_for_area"]

# What is left of the period for logic: ABC knows neither clk-to-q nor setup.
LOGIC_SHARE = 0.9
MAX_FANOUT = 16
PREPARE = "strash; ifraig; scorr; dch -f"
SIZE = f"topo; buffer -c -N {MAX_FANOUT}; upsize -D {{d}}; dnsize -D {{d}}; stime -p"
# Smallest first: the first one that meets the clock is taken.
AREA_RECIPES = {
    "area": f"{PREPARE}; amap; {SIZE}",
    "balanced": f"{PREPARE}; &get -n; &nf; &put; {SIZE}",
    "delay": f"{PREPARE}; map -B 0.9 -D {{d}}; {SIZE}",
}
SPEED_RECIPE = f"{PREPARE}; map -B 0.9; topo; buffer -c -N {MAX_FANOUT}; upsize; dnsize; stime -p"


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
    """

    area_um2: float
    delay_ns: float
    flip_flop_um2: float
    recipe: str


def map_for_area(prepare: Sequence[str], top: str, liberty: Liberty, clock_ns: float, folder: Path) -> Mapped:
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
        Target period; a tenth of it is kept for the flip-flops.
    folder : Path
        An existing, empty folder for temporary files.
    """
    _elaborate(prepare, top, liberty, folder)
    target = LOGIC_SHARE * clock_ns
    tried = []
    for name, recipe in AREA_RECIPES.items():
        mapped = _map(name, recipe, top, liberty, target, folder)
        if mapped.delay_ns <= target:
            return mapped
        tried.append(mapped)
    return min(tried, key=lambda each: each.delay_ns)


def map_fastest(prepare: Sequence[str], top: str, liberty: Liberty, folder: Path) -> Mapped:
    """Map a module to the least delay, whatever the area; parameters as in `map_for_area`."""
    _elaborate(prepare, top, liberty, folder)
    return _map("speed", SPEED_RECIPE, top, liberty, math.nan, folder)


def _elaborate(prepare: Sequence[str], top: str, liberty: Liberty, folder: Path) -> None:
    """From Verilog to gates and the library's flip-flops."""
    (folder / "cells.lib").symlink_to(liberty.path.resolve())
    (folder / "constraints").write_text(liberty.constraints, encoding="utf-8")
    commands = [
        *prepare,
        f"hierarchy -check -top {top}",
        f"synth -flatten -noabc -booth -top {top}",
        # Values at power-up: the reset is synchronous, and no cell has any.
        "setattr -unset init w:*",
        "opt -full",
        "dfflibmap -liberty cells.lib",
        "opt -full",
        "clean -purge",
        "write_rtlil elaborated.il",
    ]
    run_yosys(commands, folder, top)


def _map(name: str, recipe: str, top: str, liberty: Liberty, target_ns: float, folder: Path) -> Mapped:
    picoseconds = "" if math.isnan(target_ns) else f"{target_ns * 1000:.0f}"
    script = recipe.format(d=picoseconds).replace("; ", "\n")
    (folder / "abc.script").write_text(script + "\n", encoding="utf-8")
    commands = [
        "read_rtlil elaborated.il",
        f"tee -q -o abc.log abc -liberty cells.lib -constr constraints -script abc.script {top}",
        "clean -purge",
        f"tee -q -o stat.json stat -json -top {top} -liberty cells.lib",
    ]
    run_yosys(commands, folder, top)
    found = re.findall(r"Delay = *([\d.]+) ps", (folder / "abc.log").read_text(encoding="utf-8"))
    return Mapped(delay_ns=float(found[-1]) / 1000 if found else 0.0, recipe=name, **_areas(folder / "stat.json", top))


def _areas(path: Path, top: str) -> dict[str, float]:
    """Areas in the statistics of a mapped module."""
    text = path.read_text(encoding="utf-8")
    found = json.loads(text[text.index("{") :])["modules"].get(f"\\{top}")
    if found is None:
        raise SynthesisError(f"synthesis of {top} failed: no statistics")
    left = [cell for cell in found["num_cells_by_type"] if cell.startswith("$")]
    if left:
        raise SynthesisError(f"synthesis of {top} failed: the library has no cell for {', '.join(left)}")
    return {"area_um2": float(found.get("area", 0.0)), "flip_flop_um2": float(found.get("sequential_area", 0.0))}
