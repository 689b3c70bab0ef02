"""Stubs of a tile's arithmetic, with the same ports and timing, that carry tags instead of numbers.

A value's tag is its sign bit. Nothing between a tile's ports and its multipliers reads this bit, except the zero test
of int8: a tagged int8 is never zero.

A sum is abstracted to three bits. `one`: the sum contains one pair of tagged values. `wrong`: the sum contains a second
such pair, or a tagged value with an untagged partner. The third bit is the tag of C. Flags of overflow, infinity and
NaN are free in every cycle.
"""

from amaranth.hdl import Cat, Const, Elaboratable, Instance, Module, Mux, Signal, Value

from tensordash.arithmetic.binned_result import BinnedResult
from tensordash.arithmetic.fused_initial_adder import FusedInitialAdder
from tensordash.arithmetic.fused_result import FusedResult
from tensordash.arithmetic.initial_adder import InitialAdder
from tensordash.arithmetic.integer_result import IntegerResult
from tensordash.arithmetic.rounder import Rounder
from tensordash.arithmetic.sum_ports import starts_from_c
from tensordash.block import Block
from tensordash.tile.pe import PE

from .harness import Stub

__all__ = ["ARITHMETIC_STUBS", "TAG_BITS"]

TAG_BITS = 3
"""Bits of an abstracted sum: `one`, `wrong`, and the tag of C."""


def _add_tags(pairs):
    """Add pairs of (one, wrong)."""
    pairs = list(pairs)
    one, wrong = pairs[0]
    for next_one, next_wrong in pairs[1:]:
        one, wrong = one ^ next_one, wrong | next_wrong | (one & next_one)
    return one, wrong


def _drive_free(m: Module, output: Signal) -> None:
    """Drive an output with a value that is free in every cycle."""
    m.submodules[f"any_{output.name}"] = Instance("$anyseq", p_WIDTH=len(output), o_Y=output)


class _TagPE(Elaboratable):
    """Stub of a PE: its pipeline, accumulator and block carry tags."""

    def __init__(self, pe: Block) -> None:
        assert isinstance(pe, PE)
        self.pe = pe

    def elaborate(self, platform):
        m = Module()
        pe = self.pe
        pairs = []
        for lane in range(pe.lanes):
            a, b = pe.a[lane][-1], pe.b[lane][-1]
            pairs.append((pe.active[lane] & a & b, pe.active[lane] & (a ^ b)))
        entering = Signal(TAG_BITS)
        m.d.comb += entering.eq(Cat(*_add_tags(pairs)))
        # These registers have no reset because some of the stubbed components have none.
        for stage in range(pe.stages - 1):
            held = Signal(TAG_BITS, name=f"stage_{stage}", reset_less=True)
            with m.If(~pe.sum.hold):
                m.d.sync += held.eq(entering)
            entering = held
        start = Signal(TAG_BITS)
        total = Signal(TAG_BITS)
        sums = Signal(TAG_BITS, reset_less=True)
        block = Signal(TAG_BITS, name="block_tags", reset_less=True)
        c = pe.sum.c[-1] if starts_from_c(pe.numerics) else Const(0)
        m.d.comb += [
            start.eq(Mux(pe.sum.start, Cat(Const(0, 2), c), sums)),
            total.eq(Cat(*_add_tags([start[:2], entering[:2]]), start[2])),
        ]
        with m.If(~pe.sum.hold):
            m.d.sync += sums.eq(total)
        with m.If(pe.sum.take):
            m.d.sync += block.eq(total)
        m.d.comb += Value.cast(pe.sum.value).eq(block)
        _drive_free(m, pe.sum.overflow)
        return m


class _TagResult(Elaboratable):
    """Stub of a component between block and output: a register of tags."""

    def __init__(self, result: Block) -> None:
        self.result = result

    def elaborate(self, platform):
        m = Module()
        result = self.result
        held = Signal(TAG_BITS, reset_less=True)
        tags = Value.cast(result.sum)[:TAG_BITS]
        c = result.c[-1] if hasattr(result, "c") else Const(0)
        with m.If(result.load):
            m.d.sync += held.eq(Cat(tags[:2], tags[2] | c))
        m.d.comb += Value.cast(
            result.total if isinstance(result, InitialAdder | FusedInitialAdder) else result.value
        ).eq(held)
        for name in ("overflow", "non_finite"):
            if hasattr(result, name):
                _drive_free(m, getattr(result, name))
        return m


ARITHMETIC_STUBS = (
    Stub(PE, _TagPE),
    *(
        Stub(kind, _TagResult)
        for kind in (Rounder, BinnedResult, FusedResult, IntegerResult, InitialAdder, FusedInitialAdder)
    ),
)
