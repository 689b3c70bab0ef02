"""Row adder: partial sums and biases join rows of sums, piece by piece."""

from amaranth.hdl import Const, Module, Signal, Value
from amaranth.lib import stream
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In, Out

from ..arithmetic.bias_aligner import BiasAligner
from ..arithmetic.sum_adder import SumAdder
from ..block import Block, placed
from ..configuration.core_config import CoreConfig
from ..layouts import RESULT_BITS, accumulator_shape, sum_shape
from ..one_hot import one_hot_mux

__all__ = ["RowAdder"]


class RowAdder(Block):
    """Adds partial sums and biases to rows of sums.

    A row goes in `result_cycles` *pieces* of as many columns, its lowest columns first.

    Timing: a piece is the next partial sums in the cycle after it is taken, or may leave in it; one piece per cycle,
    but for those that get a partial sum and a bias: one in two cycles.

    Parameters
    ----------
    config : CoreConfig
        Gives the tile and what is built.

    Members
    -------
    rows : In(stream of sums, columns)
        Rows.
    taken : Out(1)
        A piece is taken in this cycle.
    partial : In(bits of a piece)
        What is added to the piece that is taken next.
    add, emit : In(1)
        The descriptor's fields. They stay as they are while something is here.
    biased : In(1), bias : In(32, result columns), bias_valid : In(1)
        Only with biases: with `biased`, what is added to the next piece that has got none yet, as FP32; it waits for
        `bias_valid`.
    bias_taken : Out(1)
        Likewise: it is added in this cycle.
    kept : Out(bits of a piece), keep : Out(1)
        Without `emit`: the sums that become partial sums, in this cycle.
    overflows : Out(result columns)
        Which sums left their range in an addition, once for each.
    pieces : Out(stream of sums, result columns)
        With `emit`: pieces of rows.
    empty : Out(1)
        Nothing is here.

    Source: docs/core.md, "Multiply".
    """

    def __init__(self, config: CoreConfig) -> None:
        self.config = config
        tile, columns = config.tile, config.result_columns
        width, least_exponent = accumulator_shape(tile.numerics)
        assert least_exponent is not None  # exact
        piece = ArrayLayout(sum_shape(tile.numerics), columns)
        super().__init__(
            {
                "rows": In(stream.Signature(ArrayLayout(sum_shape(tile.numerics), tile.columns))),
                "taken": Out(1),
                "partial": In(piece.size),
                "add": In(1),
                "emit": In(1),
                **(
                    {
                        "biased": In(1),
                        "bias": In(ArrayLayout(RESULT_BITS, columns)),
                        "bias_valid": In(1),
                        "bias_taken": Out(1),
                    }
                    if config.bias
                    else {}
                ),
                "kept": Out(piece.size),
                "keep": Out(1),
                "overflows": Out(columns),
                "pieces": Out(stream.Signature(piece)),
                "empty": Out(1),
            }
        )
        self._adders = [SumAdder(width=width, biased=config.bias) for _ in range(columns)]
        self._aligners = [BiasAligner(width=width, least_exponent=least_exponent) for _ in range(columns * config.bias)]

    def elaborate(self, platform):
        """A register of a piece, to which its bias is added in another cycle if it has got partial sums."""
        m = Module()
        config, columns = self.config, self.config.result_columns
        held = Signal()
        due: Signal | Const = Signal(name="due") if config.bias else Const(0)  # its bias is still to be added
        piece = Signal(config.result_cycles, init=1)  # of the row that is taken next, one-hot
        moves, again, ready = Signal(name="moves"), Signal(name="again"), Signal(name="ready")
        m.d.comb += [
            self.keep.eq(held & ~self.emit),
            self.pieces.valid.eq(held & self.emit & ~due),
            moves.eq(self.keep | (self.pieces.valid & self.pieces.ready)),
            ready.eq(~held | moves),
            self.taken.eq(self.rows.valid & ready),
            self.rows.ready.eq(ready & piece[-1]),
            self.empty.eq(~held),
        ]
        if config.bias:
            at_once = Signal()  # the bias is all that is added
            m.d.comb += [
                at_once.eq(self.biased & ~self.add),
                ready.eq((~held | moves) & (~at_once | self.bias_valid)),
                again.eq(held & due & self.bias_valid),
                self.bias_taken.eq((self.taken & at_once) | again),
            ]
            with m.If(self.taken):
                m.d.sync += due.eq(self.biased & self.add)
            with m.Elif(again):
                m.d.sync += due.eq(0)
        with m.If(self.taken):
            m.d.sync += [held.eq(1), piece.eq(piece.rotate_left(1))]
        with m.Elif(moves):
            m.d.sync += held.eq(0)
        sums = [Value.cast(each) for each in self.rows.payload]
        bits = len(sums[0])
        for column, adder in enumerate(self._adders):
            m.submodules[f"adder_{column}"] = placed(adder, platform)
            place = slice(column * bits, (column + 1) * bits)
            m.d.comb += [
                Value.cast(adder.sum).eq(one_hot_mux(piece, sums[column::columns])),
                Value.cast(adder.partial).eq(self.partial[place]),
                adder.add.eq(self.add & ~due),
                adder.load.eq(self.taken | again),
                self.kept[place].eq(Value.cast(adder.total)),
                Value.cast(self.pieces.payload[column]).eq(Value.cast(adder.total)),
                self.overflows[column].eq(adder.overflow & (moves | again)),
            ]
        for column, aligner in enumerate(self._aligners):
            m.submodules[f"aligner_{column}"] = placed(aligner, platform)
            adder = self._adders[column]
            m.d.comb += [
                aligner.value.eq(self.bias[column]),
                aligner.enable.eq(at_once | due),
                adder.again.eq(due),
                Value.cast(adder.bias).eq(Value.cast(aligner.aligned)),
                adder.carry.eq(aligner.carry),
            ]
        return m
