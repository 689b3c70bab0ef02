"""Counters: each counter is a saturating sum, and one input clears all of them.

Assumes: a row's AS is at least the tile's AS (`tile_control`).
"""

from functools import partial
from typing import Any

from amaranth.hdl import Cat, Module, Mux

from tensordash import TileConfig
from tensordash.block import Block
from tensordash.tile.counters import COUNTER_BITS, COUNTERS, Counters

from ..harness import Fault, Harness
from ..proof import BrokenVariant, Proof

__all__ = ["PROOF"]

MAX_COUNT = 2**COUNTER_BITS - 1


def build(config: TileConfig, fault: tuple[type[Block], Fault] | None = None) -> Harness:
    """Build the claims about a tile's counters.

    Source: docs/tile.md, "Counters and flags"; the docstring of `Counters`.
    """
    depth, rows = config.window_depth, config.rows
    schedulers = {"none": 0, "rows": rows, "both": rows * config.columns}[config.sparsity]
    weight = 1 if schedulers else rows * config.lanes
    dut = Counters(rows=rows, depth=depth, selections=schedulers * config.lanes or 1, weight=weight)
    harness = Harness(dut, fault=fault)

    # The tile's AS is the minimum over its rows.
    advance = harness.free(range(depth + 1), "advance_count")
    row_advances = [harness.free(range(depth + 1), f"row_advance_count_{row}") for row in range(rows)]
    for each in row_advances:
        harness.assume((advance <= each) & (each <= depth))
    harness.drive(dut.advance, _thermometer(advance, depth))
    harness.drive(dut.row_advance, Cat(_thermometer(each, depth) for each in row_advances))

    cleared = harness.past(dut.clear)
    amounts = {
        "cycles": advance != 0,
        "steps": advance,
        "effectual": _ones(list(dut.selected)) * weight,
        "stall_input": dut.starved,
        "stall_output": dut.frozen,
        "input_limited": dut.limited,
    }
    counters = [(name, getattr(dut.counts, name), amounts[name]) for name in COUNTERS]
    counters += [("row_wait", dut.counts.row_wait[row], each - advance) for row, each in enumerate(row_advances)]
    for name, counter, amount in counters:
        increment = harness.past(amount)
        total, grows = harness.past(counter) + increment, increment.any()
        harness.claim(f"{name}_grows", counter == Mux(total > MAX_COUNT, MAX_COUNT, total), when=grows & ~cleared)
        harness.claim(f"{name}_stays", counter == total, when=~grows & ~cleared)
        harness.claim("clear_zeroes_counters", counter == 0, when=cleared)
    return harness


def _thermometer(number: Any, depth: int) -> Any:
    return Cat(number > step for step in range(depth))


def _ones(bits: list[Any]) -> Any:
    """Count set bits, adding in the hardware's order because solvers are slow to prove orders equal."""
    half = len(bits) // 2
    return _ones(bits[:half]) + _ones(bits[half:]) if half else bits[0]


def _wraps(name: str, m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += getattr(outer.counts, name).eq(getattr(sound.counts, name)[:2])


def _row_wraps(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.counts.row_wait[0].eq(sound.counts.row_wait[0][:2])


def _grows_always(name: str, m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += getattr(sound, name).eq(~0)


def _variant(claim: str, title: str, fault: Fault) -> BrokenVariant:
    return BrokenVariant(claim=claim, title=title, kind=Counters, fault=fault, depth=10)


INPUTS = {
    "cycles": "advance",
    "steps": "advance",
    "effectual": "selected",
    "stall_input": "starved",
    "stall_output": "frozen",
    "input_limited": "limited",
    "row_wait": "row_advance",
}
"""For each counter, the input of `Counters` that it counts."""

BROKEN_VARIANTS = (
    *(_variant(f"{name}_grows", "the counter has two bits", partial(_wraps, name)) for name in COUNTERS),
    _variant("row_wait_grows", "a row's counter has two bits", _row_wraps),
    *(
        _variant(f"{name}_stays", "the counter grows in every cycle", partial(_grows_always, port))
        for name, port in INPUTS.items()
    ),
    _variant("clear_zeroes_counters", "no counter is cleared", lambda m, sound, outer: sound.clear.eq(0)),
)

PROOF = Proof(name="counters", build=build, applies=lambda config: config.counts, broken_variants=BROKEN_VARIANTS)
