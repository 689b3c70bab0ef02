"""Drain: moves a finished block out, row by row, rounding it on the way."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import stream
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In, Out

from ..arithmetic.binned_result import BinnedResult
from ..arithmetic.fused_initial_adder import FusedInitialAdder
from ..arithmetic.fused_result import FusedResult
from ..arithmetic.initial_adder import InitialAdder
from ..arithmetic.integer_result import IntegerResult
from ..arithmetic.rounder import Rounder
from ..arithmetic.sum_ports import starts_from_c
from ..block import Block, placed
from ..configuration.numerics import Binned, Fused, Numerics
from ..configuration.parameters import require_int
from ..layouts import RESULT_BITS, accumulator_shape, beat_layout, sum_shape

__all__ = ["Drain", "adds_c"]


def adds_c(numerics: Numerics) -> bool:
    """Return whether C is added to sums as they leave. Otherwise sums start from C."""
    return numerics.initial and not starts_from_c(numerics)


class Drain(Block):
    """Sends the block that the PEs hold as ``rows / out_rows`` beats, with one rounder per result of a beat.

    Timing: the first beat is valid two cycles after `take`, or three where C is added to floating-point sums. Then one
    beat leaves in each cycle in which `out` is ready.

    Parameters
    ----------
    rows, columns, out_rows : int
        Shape of a block, and rows of a beat.
    numerics : Numerics
        As in `PE`.

    Members
    -------
    sums : In(sum_shape, columns, rows)
        The PEs' finished sums.
    take : In(1)
        The PEs finish a block in this cycle. Only while `free`.
    free : Out(1)
        The block has left, or its last beat leaves in this cycle.
    moves : Out(1)
        A beat leaves the block in this cycle.
    c : In(32, columns, out_rows), overflow : Out(1)
        Only where C is added: the C of the beat that `moves`; an INT32 sum with C leaves its range.
    empty : Out(1)
        No beat is left in the block, nor in the registers after it.
    non_finite : Out(1)
        A beat with an infinity or NaN leaves `out` in this cycle.
    out : Out(stream of beat_layout)
        Results.

    Raises
    ------
    ValueError
        If `out_rows` does not divide `rows`.

    Source: docs/tile.md, "One cycle", step 1.
    """

    def __init__(self, *, rows: int, columns: int, out_rows: int, numerics: Numerics) -> None:
        self.rows = require_int("rows", rows, 1)
        self.columns = require_int("columns", columns, 1)
        self.out_rows = require_int("out_rows", out_rows, 1, rows)
        if rows % out_rows:
            raise ValueError(f"out_rows must divide rows = {rows}, not {out_rows}")
        self.numerics = numerics
        self.adds_c = adds_c(numerics)
        self.rounds_sum = self.adds_c and numerics.result == "fp32"
        members: dict = {
            "sums": In(ArrayLayout(ArrayLayout(sum_shape(numerics), columns), rows)),
            "take": In(1),
            "free": Out(1),
            "moves": Out(1),
            "empty": Out(1),
            "non_finite": Out(1),
            "out": Out(stream.Signature(beat_layout(out_rows, columns))),
        }
        if self.adds_c:
            members |= {"c": In(ArrayLayout(ArrayLayout(RESULT_BITS, columns), out_rows)), "overflow": Out(1)}
        super().__init__(members)
        places = [(row, column) for row in range(out_rows) for column in range(columns)]
        width, least_exponent = accumulator_shape(numerics)
        self._adders: dict[tuple[int, int], InitialAdder | FusedInitialAdder] = {}
        if self.rounds_sum and least_exponent is None:
            self._adders = {place: FusedInitialAdder(numerics) for place in places}
        elif self.rounds_sum and least_exponent is not None:
            adders = {place: InitialAdder(width=width, least_exponent=least_exponent) for place in places}
            width, least_exponent = adders[0, 0].total_width, adders[0, 0].total_least_exponent
            self._adders = {**adders}
        self._results: dict[tuple[int, int], Any] = {place: self._result(width, least_exponent) for place in places}

    def _result(self, width: int, least_exponent: int | None) -> Block:
        """Return the unit that makes a result from a sum."""
        if isinstance(self.numerics.accumulator, Binned):
            return BinnedResult(self.numerics)
        if isinstance(self.numerics.accumulator, Fused):
            return FusedResult(self.numerics.accumulator)
        if self.numerics.result == "int32":
            return IntegerResult(width=width, initial=self.adds_c)
        assert least_exponent is not None
        return Rounder(width=width, least_exponent=least_exponent, bypassed=self.adds_c)

    def elaborate(self, platform):
        """Build a one-hot beat counter, a row mux, and the registers of a beat after it."""
        m = Module()
        beats = self.rows // self.out_rows
        beat = Signal(beats)  # the beat that moves next, one-hot; zero without a block
        loads = self._beat_registers(m, beat)
        m.d.comb += self.free.eq(~beat.any() | (beat[-1] & self.moves))
        with m.If(self.take):
            m.d.sync += beat.eq(1)
        with m.Elif(self.moves):
            m.d.sync += beat.eq(beat << 1)

        for (row, column), result in self._results.items():
            m.submodules[f"result_{row}_{column}"] = placed(result, platform)
            choices = [Value.cast(self.sums[i * self.out_rows + row][column]) for i in range(beats)]
            chosen = reduce(or_, (choice & beat[i].replicate(len(choice)) for i, choice in enumerate(choices)))
            if self._adders:
                adder = self._adders[row, column]
                m.submodules[f"initial_adder_{row}_{column}"] = placed(adder, platform)
                m.d.comb += [Value.cast(adder.sum).eq(chosen), adder.c.eq(self.c[row][column])]
                m.d.comb += adder.load.eq(loads[0])
                if isinstance(adder, InitialAdder):
                    m.d.comb += [result.bypass.eq(adder.bypass), result.other.eq(adder.other)]
                chosen = adder.total
            elif self.adds_c:
                m.d.comb += result.c.eq(self.c[row][column])
            m.d.comb += [
                Value.cast(result.sum).eq(chosen),
                result.load.eq(loads[-1]),
                self.out.payload.values[row][column].eq(result.value),
            ]
        integer, results = self.numerics.result == "int32", self._results.values()
        leaves = self.out.valid & self.out.ready
        if self.adds_c:
            overflows = Cat(result.overflow for result in results) if integer else Const(0)
            m.d.comb += self.overflow.eq(self.moves & overflows.any())
        specials = Const(0) if integer else Cat(result.non_finite for result in results)
        m.d.comb += self.non_finite.eq(leaves & specials.any())
        return m

    def _beat_registers(self, m: Module, beat: Signal):
        """Find when each register of a beat loads. The last one is the output register."""
        free = Signal()
        sum_valid = Signal()
        m.d.comb += [
            free.eq(~self.out.valid | self.out.ready),
            self.empty.eq(~beat.any() & ~sum_valid & ~self.out.valid),
        ]
        valid, final = beat.any(), beat[-1]
        if not self.rounds_sum:
            m.d.comb += self.moves.eq(valid & free)
            loads = [self.moves]
        else:
            sum_final = Signal(reset_less=True)
            m.d.comb += self.moves.eq(valid & (~sum_valid | free))
            with m.If(self.moves):
                m.d.sync += [sum_valid.eq(1), sum_final.eq(final)]
            with m.Elif(free):
                m.d.sync += sum_valid.eq(0)
            valid, final = sum_valid, sum_final
            loads = [self.moves, valid & free]
        last = Signal(reset_less=True)
        m.d.comb += self.out.payload.last.eq(last)
        with m.If(loads[-1]):
            m.d.sync += [self.out.valid.eq(1), last.eq(final)]
        with m.Elif(self.out.ready):
            m.d.sync += self.out.valid.eq(0)
        return loads
