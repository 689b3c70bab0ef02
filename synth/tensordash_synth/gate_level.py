"""Files to simulate a mapped netlist: the library's models of cells, and random registers at power-up."""

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
"""Module that sets the first values of registers and memories. It is a second top module of the simulation."""
DEPOSIT_NS = 0.5
"""Time at which the module sets them: after the gates have settled, before the first clock edge at 1 ns."""


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
    """Map a tile or a core and write the files that a simulator needs.

    No cell has a reset, so registers without a reset in the design are unknown at power-up. Models of gates spread an
    unknown bit further than silicon does. Therefore every register starts with a random value, as on silicon. A core's
    memories stay as emitted, and each of their words also starts with a random value.

    Parameters
    ----------
    config : TileConfig, CoreConfig or Hierarchy
        The tile or the core, or the modules of any part of one.
    folder : Path
        Folder of the files; it is created.
    seed : int
        Seed of the values.
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
    """Return the file of the library's Verilog models, which is in the library's folder."""
    models = library.path.with_suffix(".v")
    if not models.is_file():
        raise LibertyError(f"{library.path}: no Verilog models of its cells in the same folder ({models.name})")
    return models


def _power_up(design: Hierarchy, netlists: Mapping[str, str], library: Liberty, seed: int) -> str:
    """Return a module that deposits a random bit in each flip-flop's state. Liberty file and models name it equally.

    The module assigns words of memories, because nothing else drives them before the first clock edge.
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
    return "\n".join([f"module {POWER_UP};", f"  initial #{DEPOSIT_NS} begin", *lines, "  end", "endmodule", ""])


def _random_words(path: str, text: str, random: Random) -> Iterator[str]:
    """Yield assignments to all of a memory's registers, in the order of their declarations."""
    for bits, names, words in re.findall(r"\breg (?:\[(\d+):0\] )?(\w+(?:, \w+)*)(?: \[0:(\d+)\])?[,;\n]", text):
        width = int(bits or 0) + 1
        for name in names.split(", "):
            for place in [f"[{word}]" for word in range(int(words) + 1)] if words else [""]:
                yield f"    {path}{name}{place} = {width}'h{random.getrandbits(width):x};"


def _states(text: str) -> dict[str, str]:
    """Map each flip-flop of a library to the name of its state."""
    pattern = r"\bcell\s*\(\s*\"?(\w+)\"?\s*\)|\bff\s*\(\s*\"?(\w+)\"?\s*,"
    states, cell = {}, ""
    for found in re.finditer(pattern, text):
        cell = found[1] or cell
        if found[2]:
            states[cell] = found[2]
    return states
