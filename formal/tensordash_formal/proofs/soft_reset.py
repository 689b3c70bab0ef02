"""Soft reset: it ends when every AXI transaction has ended, and leaves the core in the state after reset.

No transaction begins during a soft reset. Arriving data and responses are taken, and remaining write data have no
strobes. Then every unit, the buffer's control, the tile and the counters are reset, and in no other cycle. `enable`,
`tail` and `irq` are 0.

Assumes: the assumptions of `core_axi`. A soft reset ends only if memory answers every transaction.
"""

from typing import Any

from amaranth.hdl import Cat, Module, ResetSignal, Value

from tensordash.block import Block
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash.core.registers import Registers
from tensordash.movers.axi_reader import AxiReader
from tensordash.movers.axi_writer import AxiWriter

from ..core_stubs import INSTANCES
from ..harness import Fault, Harness
from ..proof import Proof, make_variants
from .core_axi import PortHarness

__all__ = ["PROOF"]

RESET = (
    *("command_queue", "sequencer", "read_arbiter", "unit_counters", "buffer", "tile"),
    *INSTANCES.values(),
)
"""Components that a soft reset resets: all except the registers, which control it, and the stream buffers."""


def build(config: CoreConfig, fault: tuple[type[Block], Fault] | None = None) -> Harness:
    """Build the claims about a core during a soft reset, with stubs for components that do not drive its ports.

    Source: docs/core.md, "Registers" (soft reset).
    """
    harness = PortHarness(config, fault, claimed=False)
    axi, rules, past = harness.dut.m_axi, harness.rules, harness.past
    halt, restart = (harness.port(f"registers.{name}", 1) & ~ResetSignal() for name in ("halt", "restart"))
    stays, ends = halt & past(halt), ~halt & past(halt) & ~ResetSignal()

    def begins(valid: Any, ready: Any) -> Value:
        return Value.cast(valid & ~past(valid & ~ready))

    offers = []
    for unit in ("command_queue", "load"):
        valid, ready = harness.port(f"{unit}.axi_arvalid", 1), harness.port(f"{unit}.axi_arready", 1)
        offers.append(valid)
        harness.claim("no_read_begins", ~begins(valid, ready), when=halt)
        left = harness._left(f"{unit}.reader", 0 if unit == "command_queue" else 1)
        harness.lemma((left == 0) | harness.probe(f"{unit}.reader.offered", 1), when=stays)
    left = harness.probe("store.writer.left", harness.dut.units["store"]._writer.count_bits)
    harness.lemma((left == 0) | harness.probe("store.writer.offered", 1), when=stays)
    on_way = Cat(
        *(queue.count for queue in (*rules.reads, *rules.responses)),
        rules.writes.count,
        rules.leading.count,
        rules.sent,
    ).any()
    offered = Cat(*offers, axi.arvalid, axi.awvalid, axi.wvalid).any()
    harness.claim("no_write_begins", ~begins(axi.awvalid, axi.awready), when=stays)
    harness.claim("remaining_data_write_nothing", axi.wstrb == 0, when=halt & begins(axi.wvalid, axi.wready))
    harness.claim("arriving_data_are_taken", axi.rready, when=halt & axi.rvalid)
    harness.claim("data_are_sent_without_waiting", axi.wvalid, when=stays & (rules.writes.count != 0))
    harness.claim("responses_are_taken", axi.bready, when=halt)
    harness.claim("ends_when_no_transaction_is_outstanding", ~on_way & ~offered, when=restart)
    harness.claim("ends_once_none_is_outstanding", restart, when=stays & ~on_way & ~offered)
    resets = Cat(harness.port(f"{unit}.rst", 1) for unit in RESET)
    harness.claim("all_units_are_reset_at_its_end", past(resets.all()), when=ends)
    harness.claim("no_unit_is_reset_before", ~resets.any(), when=halt & on_way)
    harness.claim("no_unit_is_reset_otherwise", ~resets.any(), when=~halt & ~ResetSignal())
    is_cleared = Cat(harness.port("registers.enable", 1), harness.port("registers.tail", 32), harness.dut.irq) == 0
    harness.claim("registers_are_as_after_reset", is_cleared, when=ends)
    return harness


def _ignores_halt(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.halt.eq(0)


def _waits_for_data(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.axi.wvalid.eq(sound.axi.wvalid & outer.beats.valid)


BROKEN_VARIANTS = (
    *make_variants(
        AxiReader,
        {
            "no_read_begins": {"readers ignore `halt`": _ignores_halt},
            "arriving_data_are_taken": {
                "RREADY waits for the unit": lambda m, sound, outer: outer.axi.rready.eq(outer.beats.ready)
            },
        },
        depth=14,
    ),
    *make_variants(
        AxiWriter,
        {
            "no_write_begins": {"the writer ignores `halt`": _ignores_halt},
            "remaining_data_write_nothing": {"strobes stay high": lambda m, sound, outer: outer.axi.wstrb.eq(-1)},
            "data_are_sent_without_waiting": {"WVALID waits for the unit's data": _waits_for_data},
            "responses_are_taken": {"BREADY is low": lambda m, sound, outer: outer.axi.bready.eq(~outer.halt)},
        },
        depth=14,
    ),
    *make_variants(
        Registers,
        {
            "ends_when_no_transaction_is_outstanding": {
                "the soft reset ends at once": lambda m, sound, outer: sound.idle.eq(1)
            },
            "ends_once_none_is_outstanding": {"the soft reset never ends": lambda m, sound, outer: sound.idle.eq(0)},
            "all_units_are_reset_at_its_end": {"no unit is reset": lambda m, sound, outer: outer.restart.eq(0)},
            "no_unit_is_reset_before": {
                "units are reset at its start": lambda m, sound, outer: outer.restart.eq(sound.halt)
            },
            "no_unit_is_reset_otherwise": {
                "units are reset with the counters": lambda m, sound, outer: outer.restart.eq(
                    sound.restart | sound.clear
                )
            },
            "registers_are_as_after_reset": {"the queue stays enabled": lambda m, sound, outer: outer.enable.eq(1)},
        },
        depth=14,
    ),
)

PROOF = Proof(
    name="soft_reset",
    build=build,
    applies=lambda config: isinstance(config, CoreConfig),
    broken_variants=BROKEN_VARIANTS,
    cover_depth=14,
    broken_config=load_any_preset("core"),
)
