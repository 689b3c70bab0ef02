"""What takes the place of arithmetic in a tile: the same ports and timing, but only tags go through.

A value's tag is its sign bit, which nothing between a tile's ports and its multipliers looks at (int8: its zero test
does, so that a tagged int8 is never zero). A sum becomes two bits: `one` pair of tagged values, and whether anything
`wrong` was added: a second such pair, or a tagged value with an untagged partner. A third one is the tag of its C.
Whether a sum leaves its range, or a result is an infinity or NaN, may be anything in every cycle.
"""

from amaranth.hdl import Cat, Const, Elaboratable, Instance, Module, Mux, Signal, Value

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
"""Bits of a sum that stand for it: `one`, `wrong`, and C's tag."""


def _added(pairs):
    """What a number of (one, wrong) come to."""
    pairs = list(pairs)
    one, wrong = pairs[0]
    for more, other in pairs[1:]:
        one, wrong = one ^ more, wrong | other | (one & more)
    return one, wrong


def _any_value(m: Module, output: Signal) -> None:
    """Make an output anything, another value in every cycle."""
    m.submodules[f"any_{output.name}"] = Instance("$anyseq", p_WIDTH=len(output), o_Y=output)


class _TagPE(Elaboratable):
    """A PE's pipeline, accumulator and block, for tags."""

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
        m.d.comb += entering.eq(Cat(*_added(pairs)))
        # As in the components, of which some have no reset.
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
            total.eq(Cat(*_added([start[:2], entering[:2]]), start[2])),
        ]
        with m.If(~pe.sum.hold):
            m.d.sync += sums.eq(total)
        with m.If(pe.sum.take):
            m.d.sync += block.eq(total)
        m.d.comb += Value.cast(pe.sum.value).eq(block)
        _any_value(m, pe.sum.overflow)
        return m


class _TagResult(Elaboratable):
    """A register on a result's way out, for tags."""

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
                _any_value(m, getattr(result, name))
        return m


ARITHMETIC_STUBS = (
    Stub(PE, _TagPE),
    *(Stub(kind, _TagResult) for kind in (Rounder, FusedResult, IntegerResult, InitialAdder, FusedInitialAdder)),
)
