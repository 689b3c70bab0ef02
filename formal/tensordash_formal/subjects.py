"""Subjects of mutation: the emitted Verilog of components, the modules to mutate, and the benches of the components."""

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
from tensordash.memory.buffer import PairBuffer
from tensordash.memory.memory import Memory
from tensordash.movers.join import Join
from tensordash.movers.read_join import ReadJoin
from tensordash.movers.write_join import WriteJoin
from tensordash_sim.verify.core_run import CORE_BENCHES
from tensordash_sim.verify.run import BENCHES, applicable
from tensordash_synth.hierarchy import Hierarchy

from .import_closure import imported_files

__all__ = ["JOINS", "UNITS", "Subject", "below", "components_of", "subject_of"]

UNIT_EFFORT = 4.0
"""Factor on the effort of a unit's benches. They take seconds, and need this effort to reach their coverage."""

PATIENCE = 0.2
"""Factor on the time limits of a core's benches. Many mutants hang; the others finish within a fifth of the limit."""

VERIFY = Path(tensordash_sim.__file__ or "").parent / "verify"
TILE_CODE = tuple(
    f"{name}.py" for name in ("axi_lockstep", "lockstep", "pe_bench", "pins", "registers", "stimulus", "tile_inputs")
)
"""Files that all benches of a tile depend on. The configuration is part of the Verilog."""

# A module belongs to the first of these components that contains it.
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
"""Units of a core, and the blocks between them, that have a bench."""
JOINS = ("read_join", "write_join", "join")
"""Blocks that join several cores at one memory port."""
JOINED_CORES = 3
OUTSTANDING_READS = 64
"""Outstanding bursts of tensors of a `join`."""
QUEUED_READS = 3
"""Outstanding bursts of tensors of the mutated `read_join`: its queue of 64 would be most of the mutants."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A component to mutate.

    Parameters
    ----------
    name : str
        Name of the component; see `components_of`.
    top : str
        Name of its Verilog module.
    text : str
        Verilog that contains the component.
    modules : tuple of str
        Modules to mutate: modules that belong to no smaller subject and are no memories.
    cut_modules : tuple of str
        Modules below `top` that are separate subjects or memories. Equivalence checks may cut them off.
    opaque_modules : tuple of str
        Modules that equivalence checks always cut off: memories, and a core's tile, whose multipliers take minutes.
    benches : tuple of str
        Python modules of its benches.
    options : Mapping
        Options of the benches.
    effort : float
        Factor on the benches' effort.
    simulator : str
        Simulator of the benches.
    code : tuple of Path
        Source files that the benches depend on.
    """

    name: str
    top: str
    text: str
    modules: tuple[str, ...]
    cut_modules: tuple[str, ...]
    opaque_modules: tuple[str, ...] = ()
    benches: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    effort: float = 1.0
    simulator: str = "icarus"
    code: tuple[Path, ...]

    @property
    def hierarchy(self) -> Hierarchy:
        """The module hierarchy below `top`."""
        return Hierarchy(self.text, self.top)

    @property
    def emitted(self) -> str:
        """The Verilog of the modules at and below `top`."""
        hierarchy = self.hierarchy
        return "\n".join(hierarchy.modules[name].text for name in sorted(below(hierarchy, self.top)))


def below(hierarchy: Hierarchy, top: str) -> set[str]:
    """Return a module and all modules below it; empty if there is no such module."""
    found: set[str] = set()
    pending = [top] if top in hierarchy.modules else []
    while pending:
        name = pending.pop()
        found.add(name)
        pending += [child for _, child in hierarchy.modules[name].children]
    return found


def components_of(config: TileConfig | CoreConfig) -> tuple[str, ...]:
    """List the components of a tile or a core that have a bench, inner components first.

    >>> components_of(CoreConfig())[-5:]
    ('store', 'read_join', 'write_join', 'join', 'core')
    """
    if isinstance(config, CoreConfig):
        return (*UNITS, *(("dropping_layout",) if config.drop_steps else ()), *JOINS, "core")
    present = applicable(config)
    return tuple(name for name in TILE_ORDER if name in present)


@cache
def subject_of(config: TileConfig | CoreConfig, component: str) -> Subject:
    """Build the mutation subject of a component.

    Parameters
    ----------
    config : TileConfig or CoreConfig
        The tile or the core.
    component : str
        One of `components_of(config)`.
    """
    return _of_core(config, component) if isinstance(config, CoreConfig) else _of_tile(config, component)


def _of_tile(config: TileConfig, component: str) -> Subject:
    name = "tensordash_transposer" if component == "transposer" else "tensordash"
    text, top = render(config)[f"{name}.v"], _tile_top(component)
    hierarchy, components = Hierarchy(text, top), components_of(config)
    cut_modules = tuple(_tile_top(each) for each in components[: components.index(component)])
    return Subject(
        name=component,
        top=top,
        text=text,
        modules=_own_modules(hierarchy, cut_modules),
        cut_modules=cut_modules,
        benches=(f"{tensordash_sim.__name__}.verify.benches.{component}",),
        code=(*sorted((VERIFY / "benches").glob(f"{component}*.py")), *(VERIFY / each for each in TILE_CODE)),
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
    cut_modules: tuple[str, ...] = memories
    opaque_modules: tuple[str, ...] = memories
    if component == "core":
        blocks = (*(unit for unit, _ in units.values()), core.units["layout_b"], core.streams["b"], core.tile)
        cut_modules = (*memories, *_module_names(library, blocks))
        opaque_modules = (*memories, *_module_names(library, (core.tile,)))
    elif component == "sequencer":
        cut_modules = (*memories, *_module_names(library, (units["descriptor_check"][0],)))
    elif isinstance(join := units[component][0], Join):
        cut_modules = (*memories, *_module_names(library, (join.reads, join.writes)))
    benches = CORE_BENCHES if component == "core" else (_bench_of(config, component),)
    return Subject(
        name=component,
        top=top,
        text=text,
        modules=_own_modules(hierarchy, cut_modules),
        cut_modules=cut_modules,
        opaque_modules=opaque_modules,
        benches=tuple(f"{tensordash_sim.__name__}.verify.units.{each}" for each in benches),
        options={"patience": PATIENCE, **({} if component == "core" else units[component][1])},
        effort=1.0 if component == "core" else UNIT_EFFORT,
        # Verilator takes a minute or more to build a model, which is then several times as fast as in Icarus. It cannot
        # set ports, and the bench of the output unit sets its counts, which are ports.
        simulator="verilator" if component == "core" else "icarus",
        code=imported_files(VERIFY.parent, *(VERIFY / "units" / f"{each}.py" for each in benches)),
    )


def _bench_of(config: CoreConfig, component: str) -> str:
    """Return the bench of a unit. Multiply units of cores with `skip_masked` or `drop_steps` have their own."""
    if component in JOINS:
        return "join"
    if component != "multiply":
        return component
    return "indexed_multiply" if config.drop_steps else "skipping_multiply" if config.skip_masked else component


def _module_names(library: Library, blocks: Sequence[Block]) -> Iterator[str]:
    """Yield the module names of some blocks."""
    return (name for name, block in library.blocks.items() if any(block is each for each in blocks))


def _units(core: Core) -> dict[str, tuple[Block, dict[str, Any]]]:
    """Map each unit of a core with a bench to its block and the bench's options. Equal units are listed once."""
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
        "dropping_layout": {"side": "b"},
        "read_join": {"part": "reads", "cores": JOINED_CORES, "outstanding": QUEUED_READS},
        "write_join": {"part": "writes", "cores": JOINED_CORES, "outstanding": QUEUED_READS},
        "join": {"part": "join", "cores": JOINED_CORES, "outstanding": OUTSTANDING_READS},
    }
    bus = {"cores": JOINED_CORES, "data_bits": config.axi_bits, "address_bits": config.address_bits}
    if isinstance(buffer, PairBuffer):
        shapes["buffer"]["pair_readers"] = buffer.pair_readers
        shapes["stream_buffer"]["pairs"] = True
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
        **({"dropping_layout": core.units["layout_b"]} if config.drop_steps else {}),
        "read_join": ReadJoin(**bus, outstanding=QUEUED_READS),
        "write_join": WriteJoin(**bus),
        "join": Join(config, JOINED_CORES),
    }
    return {name: (block, shapes.get(name, {})) for name, block in blocks.items()}


def _own_modules(hierarchy: Hierarchy, cut_modules: tuple[str, ...]) -> tuple[str, ...]:
    """Return the modules that belong to no smaller subject."""
    return tuple(sorted(below(hierarchy, hierarchy.top).difference(*(below(hierarchy, each) for each in cut_modules))))
