"""A netlist as files for a Verilog simulator: cells as the library models them, registers random at power-up."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random

from tensordash import TileConfig
from tensordash.configuration.core_config import CoreConfig

from .hierarchy import MEMORY, Hierarchy, hierarchy_of
from .liberty import Liberty, LibertyError
from .run import Progress, running

__all__ = ["POWER_UP", "gate_level_files"]

POWER_UP = "power_up"
"""The module that gives registers and memories their first values: a root beside the design."""
# Before the first edge of the clock, which comes at 1 ns, and when nothing moves any more.
AT_NS = 0.5


def gate_level_files(
    config: TileConfig | CoreConfig | Hierarchy,
    folder: Path,
    *,
    seed: int = 0,
    liberty: str | Path | None = None,
    clock_ns: float = 2.0,
    progress: Progress | None = None,
    jobs: int | None = None,
) -> list[Path]:
    """Map a tile or a core and write what a simulator needs.

    No cell has a reset, and what the design's reset leaves alone is unknown at power-up. Gates turn one unknown bit
    into more than are unknown, so that every register begins with a random value instead, as it does on silicon. A
    core's memories stay what was emitted, and every word of them begins with a random value, too.

    Parameters
    ----------
    config : TileConfig, CoreConfig or Hierarchy
        The tile or the core, or the modules of any part of one.
    folder : Path
        Where files go.
    seed : int
        Of the values.
    liberty, clock_ns, progress, jobs
        As in `synthesize`.

    Returns
    -------
    list of Path
        The netlist, then memories, the cells' models, and the module `POWER_UP`.

    Raises
    ------
    LibertyError
        If the library cannot be used, or has no models.
    SynthesisError
        If Yosys or ABC fails.
    """
    design = config if isinstance(config, Hierarchy) else hierarchy_of(config)
    with running(liberty, clock_ns, progress, jobs) as run:
        models = _models(run.library)
        pending = {name: run.submit(run.module, design, name, name) for name in design.logic}
        run.wait()
        netlists = {name: future.result().netlist for name, future in pending.items()}
        start = _power_up(design, netlists, run.library, seed)
    memories = {place.module: design.modules[place.module].text for place in design.placements if place.role == MEMORY}
    folder.mkdir(parents=True, exist_ok=True)
    netlist, power_up = folder / "netlist.v", folder / f"{POWER_UP}.v"
    netlist.write_text("\n".join([*netlists.values(), *memories.values(), ""]), encoding="utf-8")
    power_up.write_text(start, encoding="utf-8")
    return [netlist, models, power_up]


def _models(library: Liberty) -> Path:
    """Return the library's Verilog, which lies beside it."""
    models = library.path.with_suffix(".v")
    if not models.is_file():
        raise LibertyError(f"{library.path}: no models of its cells in Verilog beside it ({models.name})")
    return models


def _power_up(design: Hierarchy, netlists: Mapping[str, str], library: Liberty, seed: int) -> str:
    """Return a module that deposits a random bit in every flip-flop's state, which Liberty calls as the models do.

    Words of memories are assigned: nothing else gives them a value before the first edge of the clock.
    """
    states = _states(library.path.read_text(encoding="utf-8", errors="replace"))
    kinds = "|".join(cell.name for cell in library.cells if cell.is_flip_flop)
    registers = {
        name: re.findall(rf"^  ({kinds}) (\\\S+ |\w+) \($", text, re.MULTILINE) for name, text in netlists.items()
    }
    random = Random(seed)
    lines: list[str] = []
    for placement in design.placements:
        instances = (design.top, *placement.path)
        path = "".join(f"{name} ." if name.startswith("\\") else f"{name}." for name in instances)
        if placement.role == MEMORY:
            lines += _random_words(path, design.modules[placement.module].text, random)
            continue
        for kind, instance in registers[placement.module]:
            lines.append(f"    $deposit({path}{instance}.{states[kind]}, 1'b{random.getrandbits(1)});")
    return "\n".join([f"module {POWER_UP};", f"  initial #{AT_NS} begin", *lines, "  end", "endmodule", ""])


def _random_words(path: str, text: str, random: Random) -> Iterator[str]:
    """Assignments to all of a memory's registers, as they are declared."""
    for bits, names, words in re.findall(r"\breg (?:\[(\d+):0\] )?(\w+(?:, \w+)*)(?: \[0:(\d+)\])?[,;\n]", text):
        width = int(bits or 0) + 1
        for name in names.split(", "):
            for place in [f"[{word}]" for word in range(int(words) + 1)] if words else [""]:
                yield f"    {path}{name}{place} = {width}'h{random.getrandbits(width):x};"


def _states(text: str) -> dict[str, str]:
    """Return the name of each flip-flop's state in a library."""
    pattern = r"\bcell\s*\(\s*\"?(\w+)\"?\s*\)|\bff\s*\(\s*\"?(\w+)\"?\s*,"
    states, cell = {}, ""
    for found in re.finditer(pattern, text):
        cell = found[1] or cell
        if found[2]:
            states[cell] = found[2]
    return states
