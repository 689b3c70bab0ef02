"""Subjects of mutation: the emitted Verilog of a component, what of it is changed, and the benches that look at it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import tensordash_sim
from tensordash import TileConfig
from tensordash.block import Block
from tensordash.configuration.core_config import CoreConfig
from tensordash.core.core import Core
from tensordash.emission.library import Library
from tensordash.emission.verilog import render
from tensordash.memory.memory import Memory
from tensordash_sim.verify.core_run import CORE_BENCHES
from tensordash_sim.verify.run import BENCHES, applicable
from tensordash_synth.hierarchy import Hierarchy

from .import_closure import imported_files

__all__ = ["UNITS", "Subject", "below", "components_of", "subject_of"]

OF_UNITS = 4.0
"""Benches of a unit take seconds, and some want to have seen a little of everything."""

PATIENCE = 0.2
"""Of a core's benches: many mutants hang, and what does not is done in a fifth of the time in which benches give up."""

VERIFY = Path(tensordash_sim.__file__ or "").parent / "verify"
TILE_CODE = ("axi_lockstep.py", "lockstep.py", "pins.py", "registers.py", "stimulus.py")
"""What decides what a tile's benches see, beside their own; the configuration is in the Verilog."""

# A module belongs to the first of these that it lies below.
TILE_ORDER = ("scheduler", "staging_buffer", "staging_ring", "transposer", "pe", "tile", "axi_stream")
UNITS = (
    "read_arbiter",
    "registers",
    "command_queue",
    "descriptor_check",
    "sequencer",
    "buffer",
    "stream_buffer",
    "layout",
    "load",
    "multiply",
    "output",
    "store",
)
"""Units of a core, and what is between them, that have a bench."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A component that is mutated.

    Parameters
    ----------
    name : str
        One of `components_of` its configuration.
    top : str
        Its module.
    text : str
        Verilog of all that is in it.
    modules : tuple of str
        What is changed: modules in it that no smaller subject has, and no memory.
    apart : tuple of str
        Modules in it that are subjects of their own, or memories: what is compared without them may be equal.
    opaque : tuple of str
        Those among them that are never looked into: memories, and of a core its tile, whose multipliers take minutes.
    benches : tuple of str
        Modules with its tests.
    options : Mapping
        What the benches are told besides.
    effort : float
        Of the benches, as a multiple of what is asked for.
    simulator : str
        What the benches run on.
    code : tuple of Path
        What decides what the benches see.
    """

    name: str
    top: str
    text: str
    modules: tuple[str, ...]
    apart: tuple[str, ...]
    opaque: tuple[str, ...] = ()
    benches: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    effort: float = 1.0
    simulator: str = "icarus"
    code: tuple[Path, ...]

    @property
    def hierarchy(self) -> Hierarchy:
        """Its modules and what is in each."""
        return Hierarchy(self.text, self.top)

    @property
    def emitted(self) -> str:
        """The Verilog of its top and of what is below it, and of nothing else in the file."""
        hierarchy = self.hierarchy
        return "\n".join(hierarchy.modules[name].text for name in sorted(below(hierarchy, self.top)))


def below(hierarchy: Hierarchy, top: str) -> set[str]:
    """A module and all that is in it; nothing if there is no such module."""
    found: set[str] = set()
    waiting = [top] if top in hierarchy.modules else []
    while waiting:
        name = waiting.pop()
        found.add(name)
        waiting += [child for _, child in hierarchy.modules[name].children]
    return found


def components_of(config: TileConfig | CoreConfig) -> tuple[str, ...]:
    """The components of a tile or a core that have a bench, what lies in another one before it.

    >>> components_of(CoreConfig())[-3:]
    ('output', 'store', 'core')
    """
    if isinstance(config, CoreConfig):
        return (*UNITS, "core")
    there = applicable(config)
    return tuple(name for name in TILE_ORDER if name in there)


@cache
def subject_of(config: TileConfig | CoreConfig, component: str) -> Subject:
    """What is mutated, of a tile or a core.

    Parameters
    ----------
    config : TileConfig or CoreConfig
        What is emitted.
    component : str
        One of `components_of` it.
    """
    return _of_core(config, component) if isinstance(config, CoreConfig) else _of_tile(config, component)


def _of_tile(config: TileConfig, component: str) -> Subject:
    name = "tensordash_transposer" if component == "transposer" else "tensordash"
    text, top = render(config)[f"{name}.v"], _tile_top(component)
    hierarchy, there = Hierarchy(text, top), components_of(config)
    apart = tuple(_tile_top(each) for each in there[: there.index(component)])
    return Subject(
        name=component,
        top=top,
        text=text,
        modules=_own(hierarchy, apart),
        apart=apart,
        benches=(f"{tensordash_sim.__name__}.verify.benches.{component}",),
        code=tuple(VERIFY / each for each in (f"benches/{component}.py", *TILE_CODE)),
    )


def _tile_top(component: str) -> str:
    return f"tensordash_{BENCHES[component][0]}"


def _of_core(config: CoreConfig, component: str) -> Subject:
    core, library = Core(config), Library()
    units = _units(core)
    top, _ = library.module(core if component == "core" else units[component][0])
    text = library.verilog()
    hierarchy = Hierarchy(text, top)
    memories = tuple(name for name, block in library.blocks.items() if isinstance(block, Memory))
    apart: tuple[str, ...] = memories
    opaque: tuple[str, ...] = memories
    if component == "core":
        whole = (*(unit for unit, _ in units.values()), core.units["layout_b"], core.streams["b"], core.tile)
        apart = (*memories, *_names(library, whole))
        opaque = (*memories, *_names(library, (core.tile,)))
    elif component == "sequencer":
        apart = (*memories, *_names(library, (units["descriptor_check"][0],)))
    benches = CORE_BENCHES if component == "core" else (component,)
    return Subject(
        name=component,
        top=top,
        text=text,
        modules=_own(hierarchy, apart),
        apart=apart,
        opaque=opaque,
        benches=tuple(f"{tensordash_sim.__name__}.verify.units.{each}" for each in benches),
        options={"patience": PATIENCE, **({} if component == "core" else units[component][1])},
        effort=1.0 if component == "core" else OF_UNITS,
        # A minute or more to build, and then several times as fast as Icarus.
        simulator="verilator" if component in ("core", "output") else "icarus",
        code=imported_files(VERIFY.parent, *(VERIFY / "units" / f"{each}.py" for each in benches)),
    )


def _names(library: Library, blocks: Sequence[Block]) -> Iterator[str]:
    """Modules of some components."""
    return (name for name, block in library.blocks.items() if any(block is each for each in blocks))


def _units(core: Core) -> dict[str, tuple[Block, dict[str, Any]]]:
    """Units of a core that have a bench, and what it is told; of two that are alike one."""
    config, buffer, stream = core.config, core.buffer, core.streams["a"]
    shapes = {
        "buffer": {
            name: getattr(buffer, name) for name in ("lanes", "width", "groups", "regions", "readers", "writers")
        },
        "stream_buffer": {
            "depth": config.tile.window_depth,
            "words": config.stream_words("a"),
            "parts": config.parts("a"),
            "group_bits": config.group_bits,
        },
        "layout": {"side": "a"},
    }
    blocks: dict[str, Block] = {
        "read_arbiter": core.read_arbiter,
        "registers": core.registers,
        "command_queue": core.command_queue,
        "descriptor_check": core.sequencer._check,
        "sequencer": core.sequencer,
        "buffer": buffer,
        "stream_buffer": stream,
        "layout": core.units["layout_a"],
        **{name: core.units[name] for name in ("load", "multiply", "output", "store")},
    }
    return {name: (block, shapes.get(name, {})) for name, block in blocks.items()}


def _own(hierarchy: Hierarchy, apart: tuple[str, ...]) -> tuple[str, ...]:
    """Modules that belong to no smaller subject."""
    return tuple(sorted(below(hierarchy, hierarchy.top).difference(*(below(hierarchy, each) for each in apart))))
