"""Adders of integer sums, for all sums, partial sums and biases, at their real width.

The total is the true sum modulo 2^32. Overflow is set if and only if the true sum leaves INT32. A partial sum counts
only if the descriptor adds it. The second of two additions takes the earlier total.
"""

from typing import Any

from amaranth.hdl import Const, Module, Mux, Signal, Value, signed

from tensordash.arithmetic.integer_adder import IntegerAdder
from tensordash.block import Block
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset

from ..harness import Fault, Harness
from ..proof import Proof, make_variants
from .integer_converter import is_integer_core

__all__ = ["PROOF"]

MIN_INT32 = -(1 << 31)
MAX_INT32 = (1 << 31) - 1


def build(config: CoreConfig, fault: tuple[type[Block], Fault] | None = None) -> Harness:
    """Build the claims (docs/core.md, "Integers").

    The row adder gates the bias with the complement of the adder's `add`.
    """
    dut = IntegerAdder(biased=config.bias)
    harness = Harness(dut, fault=fault)
    first, second = dut.sum, Mux(dut.add, dut.partial, Const(0, signed(1)))
    if config.bias:
        harness.assume(~dut.add | (dut.bias == 0))
        first, second = Mux(dut.second_pass, dut.earlier, dut.sum), second + dut.bias
    exact = Signal(signed(40), name="exact")
    harness.m.d.comb += exact.eq(first + second)
    too_low, too_high = exact < MIN_INT32, exact > MAX_INT32
    fits = ~too_low & ~too_high
    harness.claim("the_total_is_the_sum", dut.total == exact, when=fits)
    harness.claim("a_low_total_wraps", dut.total == exact + (1 << 32), when=too_low)
    harness.claim("a_high_total_wraps", dut.total == exact - (1 << 32), when=too_high)
    harness.claim("overflow_where_the_sum_leaves_int32", dut.overflow, when=~fits)
    harness.claim("no_overflow_elsewhere", ~dut.overflow, when=fits)
    return harness


def _saturates(at: int) -> Fault:
    def fault(m: Module, sound: Any, outer: Any) -> None:
        with m.If(sound.overflow & ((outer.sum < 0) == (at < 0))):
            m.d.comb += outer.total.eq(at)

    return fault


def _no_overflow(of: Any) -> Fault:
    def fault(m: Module, sound: Any, outer: Any) -> None:
        m.d.comb += outer.overflow.eq(sound.overflow & ~Value.cast(of(outer)))

    return fault


def _overflow_at_the_ends(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.overflow.eq(sound.overflow | (sound.total == MIN_INT32))


BROKEN_VARIANTS = make_variants(
    IntegerAdder,
    {
        "the_total_is_the_sum": {
            "partial sums always count": lambda m, sound, outer: sound.add.eq(1),
            "a bias is never added to an earlier total": lambda m, sound, outer: sound.second_pass.eq(0),
            "biases have no sign": lambda m, sound, outer: sound.bias.eq(outer.bias[:-1]),
        },
        "a_low_total_wraps": {"low totals saturate": _saturates(MIN_INT32)},
        "a_high_total_wraps": {"high totals saturate": _saturates(MAX_INT32)},
        "overflow_where_the_sum_leaves_int32": {
            "low totals do not overflow": _no_overflow(lambda adder: adder.sum < 0),
            "a bias never overflows": _no_overflow(lambda adder: adder.bias.any()),
        },
        "no_overflow_elsewhere": {"a total of -2^31 counts as an overflow": _overflow_at_the_ends},
    },
    depth=2,
)

PROOF = Proof(
    name="integer_adder",
    build=build,
    applies=is_integer_core,
    broken_variants=BROKEN_VARIANTS,
    cover_depth=2,
    broken_config=load_any_preset("core-int8"),
)
