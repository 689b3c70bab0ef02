"""Wiring of a core: every input of a unit is connected as docs/core.md defines, bit by bit.

Every input of a unit and every output of the core has its specified value in the same cycle. No port is left out: an
assertion checks this when the query is built. The proof finds wrong wires that no program of feasible length reveals,
for example bit 28 of a counter, or swapped ports that usually have equal values.

Assumes: nothing. The outputs of all units, of the tile and of the memories are free.
"""

from collections.abc import Callable, Mapping
from typing import Any

from amaranth.hdl import Cat, Const, ResetSignal, Value

from tensordash import TileConfig
from tensordash.block import Block
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import UNITS
from tensordash.configuration.preset import load_any_preset
from tensordash.configuration.registers import COUNTERS
from tensordash.core.command_queue import CommandQueue
from tensordash.core.core import Core
from tensordash.core.indexed_multiply import IndexedMultiply
from tensordash.core.registers import Registers
from tensordash.core.skipping_multiply import SkippingMultiply
from tensordash.emission.verilog import members
from tensordash.memory.stream_buffer import StreamBuffer
from tensordash.movers.dropping_layout import DroppingLayout
from tensordash.movers.layout import Layout
from tensordash.movers.load import Load
from tensordash.movers.read_arbiter import ReadArbiter
from tensordash.movers.store import Store
from tensordash.tile.tile import Tile

from ..core_stubs import ALL_BUT_REGISTERS, INSTANCES
from ..harness import Fault, FreeOutputs, Harness, Stub
from ..proof import Proof, make_variants
from .soft_reset import RESET

__all__ = ["PROOF"]

LINKS = (
    ("descriptors", "command_queue.descriptors", "sequencer.descriptors"),
    *(("descriptors", f"sequencer.{unit}", f"{instance}.command") for unit, instance in INSTANCES.items()),
    ("memory", "read_arbiter.first", "command_queue.axi"),
    ("memory", "read_arbiter.second", "load.axi"),
    ("memory", "m_axi", "read_arbiter.axi"),
    ("memory", "m_axi", "store.axi"),
    ("registers", "s_axi", "registers.axi"),
    ("buffer", "layout_a.read", "buffer.reads_0"),
    ("buffer", "layout_b.read", "buffer.reads_1"),
    ("buffer", "output_unit.read", "buffer.reads_2"),
    ("buffer", "store.buffer", "buffer.reads_3"),
    ("buffer", "output_unit.write", "buffer.writes_0"),
    ("buffer", "load.buffer", "buffer.writes_1"),
    *(("streams", f"layout_{side}.write", f"stream_buffer_{side}.write") for side in "ab"),
    *(("streams", f"multiply.{side}_read", f"stream_buffer_{side}.read") for side in "ab"),
    ("sums", "tile.out", "output_unit.sums"),
    ("skips", "multiply.marks", "output_unit.marks"),
    ("skips", "multiply.mask_read", "output_unit.skip_read"),
    ("indices", "layout_b.index", "step_index.write"),
    ("indices", "multiply.index", "step_index.read"),
)
"""Claims, each with two connected interfaces. Every member of the second interface has a counterpart in the first."""

CONSTANT_FIELDS = ("size", "burst", "lock", "cache", "prot", "qos")
"""Fields of bursts that the proof `core_axi` checks."""
TILE_COUNTERS = {name: name for name in ("steps", "effectual", "stall_input", "stall_output")} | {"scheduled": "cycles"}
"""Counters of a core that the tile counts, with their names in the tile."""


class WiringHarness(Harness):
    """A core with stubs for all units, so that only the wires and gates between them remain.

    Source: docs/core.md: the figure at its top, "Memories", "Errors", "Registers".
    """

    def __init__(self, config: CoreConfig, fault: tuple[type[Block], Fault] | None = None) -> None:
        self.dut = dut = Core(config)
        super().__init__(dut, stubs=(*ALL_BUT_REGISTERS, Stub(Registers, FreeOutputs)), fault=fault, black_box=True)
        self._blocks: dict[str, Block] = {
            **{name: getattr(dut, name) for name in ("registers", "command_queue", "sequencer", "read_arbiter")},
            **{name: getattr(dut, name) for name in ("unit_counters", "buffer", "tile")},
            **{INSTANCES[name]: unit for name, unit in dut.units.items()},
            **{f"stream_buffer_{side}": streams for side, streams in dut.streams.items()},
            **({"step_index": dut.step_index} if config.drop_steps else {}),
        }
        # A wrapper around a faulty unit contains the fault, so the claims read the unit's ports inside the wrapper.
        self._broken_kind = fault[0] if fault else None
        self._ends = {f"{unit}.{port}": each for unit, block in self._blocks.items() for port, *each in members(block)}
        self._ends |= {port: each for port, *each in members(dut)}
        self._values: dict[str, Value] = {}
        self._unchecked = {name for name in self._ends if self._is_driven(name)}
        for claim, one, other in LINKS:
            self._link(claim, one, other)
        self._check("memory", "m_axi_awid", Const(0))
        self._control()
        self._tile(config)
        self._counters()
        fixed = {f"m_axi_a{way}{each}" for way in "rw" for each in CONSTANT_FIELDS}
        assert self._unchecked <= fixed, f"port {min(self._unchecked - fixed)} is unchecked"

    def _is_driven(self, name: str) -> bool:
        """Return whether the wires drive a port: an input of a unit, or an output of the core."""
        return bool(self._ends[name][1]) == ("." in name)

    def value_at(self, name: str) -> Value:
        """Return the value at a port of a unit or of the core."""
        if name not in self._values:
            unit, _, port = name.partition(".")
            value: Value = self._ends[name][0]
            if port:
                broken = type(self._blocks[unit]) is self._broken_kind
                value = self.port(f"{unit}.sound.{port}" if broken else name, len(value))
            self._values[name] = Value.cast(value)
        return self._values[name]

    def _check(self, claim: str, name: str, value: Value) -> None:
        self._unchecked.remove(name)
        self.claim(claim, self.value_at(name) == value)

    def _link(self, claim: str, one: str, other: str) -> None:
        for name in [each for each in self._ends if each.startswith(f"{other}_")]:
            counterpart = one + name.removeprefix(other)
            driven, source = (name, counterpart) if self._is_driven(name) else (counterpart, name)
            self._check(claim, driven, self.value_at(source))

    def _control(self) -> None:
        at = self.value_at
        for name in ("enable", "queue_base", "queue_size", "tail"):
            self._check("control", f"command_queue.{name}", at(f"registers.{name}"))
        for name in ("done", "error", "failed", "ended"):
            self._check("control", f"registers.{name}", at(f"sequencer.{name}"))
        self._check("control", "registers.error_index", at("sequencer.done"))
        self._check("control", "command_queue.done", at("sequencer.done"))
        self._check("control", "registers.head", at("command_queue.head"))
        self._check("control", "registers.busy", at("command_queue.busy") & ~at("sequencer.failed"))
        idle = [at(f"{unit}.idle") for unit in ("command_queue", "load", "store")]
        self._check("control", "registers.idle", Cat(*idle).all())
        self._check("control", "command_queue.halt", at("registers.halt") | at("sequencer.failed"))
        for unit in ("load", "store"):
            self._check("control", f"{unit}.halt", at("registers.halt"))
        for unit in ("command_queue", "load", "store"):
            self._check("control", f"{unit}.bounds", at("registers.bounds"))
        self._check("control", "irq", at("registers.irq"))
        for unit in RESET:
            self.claim("resets", self.port(f"{unit}.rst", 1) == (ResetSignal() | at("registers.restart")))
        self.claim("resets", self.port("registers.rst", 1) == ResetSignal())

    def _tile(self, config: CoreConfig) -> None:
        """Claim the tile's inputs: line k of port p is part p of the word in bank k. All ports share one handshake.

        Lines of side B are empty if the multiply has no step for their bank.
        """
        at, bits = self.value_at, config.tile.lanes * config.value_bits
        for side, ports in (("a", config.tile.columns), ("b", config.tile.rows)):
            words = at(f"stream_buffer_{side}.data")
            for port in range(ports):
                lines = [words[(line * ports + port) * bits :][:bits] for line in range(config.tile.window_depth)]
                self._check("steps", f"tile.{side}_{port}_steps", Cat(*lines))
                for name in ("available", "last"):
                    self._check("steps", f"tile.{side}_{port}_{name}", at(f"multiply.{name}"))
        if config.drop_steps:
            self._check("steps", "tile.b_empty", at("multiply.empty"))
        self._check("steps", "multiply.taken", at("tile.a_0_taken"))

    def _counters(self) -> None:
        at = self.value_at
        for name in ("zeros", "non_finite", "overflow"):
            self._check("counts", f"store.{name}", at(f"output_unit.{name}"))
        self._check("counts", "output_unit.clear", at("store.clear"))
        own = [name for name, _ in COUNTERS if name not in TILE_COUNTERS]
        copies = {name: at("unit_counters.counters")[32 * k :][:32] for k, name in enumerate(own)}
        copies |= {name: at(f"tile.{theirs}") for name, theirs in TILE_COUNTERS.items()}
        self._check("counters", "registers.counters", Cat(*(copies[name] for name, _ in COUNTERS)))
        runs = {unit: at("sequencer.running")[k] for k, unit in enumerate(UNITS)}
        happens = {"cycles": Const(1), "multiplying": runs["multiply"]}
        happens |= {f"{unit}_busy": value for unit, value in runs.items()}
        # Beats of a load have ID 1; beats of descriptors are not counted.
        happens["read_beats"] = at("m_axi_rvalid") & at("m_axi_rready") & (at("m_axi_rid") == 1)
        happens["write_beats"] = at("m_axi_wvalid") & at("m_axi_wready")
        self._check("counters", "unit_counters.events", Cat(*(happens[name] for name in own)))
        self._check("counters", "unit_counters.take", at("registers.take"))
        self._check("counters", "tile.snapshot", at("registers.take"))
        for unit in ("unit_counters", "tile"):
            self._check("counters", f"{unit}.clear", at("registers.clear"))


def _stuck_input(read: Callable[[Any], Any], bit: int, value: int = 0) -> Fault:
    """Build a fault in the wires of an input, which `read` selects: a bit is stuck at a value."""
    return lambda m, sound, outer: Value.cast(read(sound)).eq(_stuck(read(outer), bit, value))


def _stuck_output(read: Callable[[Any], Any], bit: int, value: int = 0) -> Fault:
    """Build a fault in the wires of an output, as `_stuck_input`."""
    return lambda m, sound, outer: Value.cast(read(outer)).eq(_stuck(read(sound), bit, value))


def _stuck(port: Any, bit: int, value: int) -> Value:
    bits = Value.cast(port)
    return bits | 1 << bit if value else bits & ~(1 << bit)


SKIP, DROP = load_any_preset("core-skip"), load_any_preset("core-drop")

FAULTS: Mapping[tuple[type[Block], TileConfig | CoreConfig | None], Mapping[str, Mapping[str, Fault]]] = {
    (Store, None): {
        "descriptors": {
            "the last bit of a descriptor's beat is lost": _stuck_input(
                lambda unit: unit.command.descriptor.payload, 127
            )
        },
        "memory": {"responses are always taken": _stuck_output(lambda unit: unit.axi.bready, 0, 1)},
        "buffer": {"stores read in every cycle": _stuck_output(lambda unit: unit.buffer.valid, 0, 1)},
        "counts": {"bit 17 of a count is lost": _stuck_input(lambda unit: unit.overflow, 17)},
        "control": {"a bit of the stores' limit is stuck": _stuck_input(lambda unit: unit.bounds, 45, 1)},
    },
    (Load, None): {
        "descriptors": {"the top bit of a load's error is lost": _stuck_output(lambda unit: unit.command.error, 3)},
        "control": {"a load does not halt": _stuck_input(lambda unit: unit.halt, 0)},
    },
    (ReadArbiter, None): {
        "memory": {"a bit of a load's data is lost": _stuck_output(lambda unit: unit.second.rdata, 99)},
    },
    (Registers, None): {
        "registers": {"WREADY is always high": _stuck_output(lambda unit: unit.axi.wready, 0, 1)},
        "resets": {"a soft reset begins at once": _stuck_output(lambda unit: unit.restart, 0, 1)},
    },
    (Layout, None): {
        "buffer": {"layouts never wait": _stuck_input(lambda unit: unit.read.ready, 0, 1)},
    },
    (StreamBuffer, None): {
        "streams": {"a bank is never written": _stuck_input(lambda unit: unit.write.bank, 2)},
    },
    (Tile, None): {
        "sums": {"the first bit of all sums is lost": _stuck_output(lambda unit: unit.out.payload, 0)},
        "steps": {
            "a step's last bit is lost": _stuck_input(lambda unit: unit.a[3].steps, 255),
            "`last` of a row is low": _stuck_input(lambda unit: unit.b[1].last, 0),
        },
        "counters": {
            "bit 28 of `steps` is lost": _stuck_output(lambda unit: unit.steps, 28),
            "the tile's counters are copied in every cycle": _stuck_input(lambda unit: unit.snapshot, 0, 1),
        },
    },
    (CommandQueue, None): {
        "control": {"the tail has 12 bits": _stuck_input(lambda unit: unit.tail, 12)},
    },
    (SkippingMultiply, SKIP): {
        "skips": {
            "reads of masks never wait": _stuck_input(lambda unit: unit.mask_read.ready, 0, 1),
            "every pass is marked as skipped": _stuck_output(lambda unit: unit.marks.payload, 0, 1),
        },
    },
    (DroppingLayout, DROP): {
        "indices": {"the top bit of an index is lost": _stuck_output(lambda unit: unit.index.index, 7)},
    },
    (IndexedMultiply, DROP): {
        "indices": {"lengths are read with every word": _stuck_output(lambda unit: unit.index.begins, 0, 1)},
        "steps": {"a bank is never empty": _stuck_output(lambda unit: unit.empty, 2)},
    },
}
"""By component and configuration, the faults that break each claim, by title."""

BROKEN_VARIANTS = tuple(
    variant
    for (kind, config), faults in FAULTS.items()
    for variant in make_variants(kind, faults, depth=3, config=config)
)

PROOF = Proof(
    name="core_wiring",
    build=WiringHarness,
    applies=lambda config: isinstance(config, CoreConfig),
    broken_variants=BROKEN_VARIANTS,
    broken_config=load_any_preset("core"),
    is_quick=True,
)
