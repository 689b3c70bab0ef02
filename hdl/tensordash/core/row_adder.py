"""Row adder: adds partial sums and biases to rows of sums, piece by piece."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream
from amaranth.lib.data import ArrayLayout, StructLayout
from amaranth.lib.wiring import In, Out

from ..arithmetic.bias_aligner import BiasAligner
from ..arithmetic.binned_adder import BinnedAdder
from ..arithmetic.binned_bias import BinnedBias
from ..arithmetic.integer_adder import IntegerAdder
from ..arithmetic.sum_adder import SumAdder
from ..block import Block, placed
from ..configuration.core_config import CoreConfig
from ..configuration.numerics import Binned
from ..layouts import RESULT_BITS, accumulator_shape, sum_shape
from ..one_hot import one_hot_mux

__all__ = ["RowAdder", "pieces_layout"]


def pieces_layout(config: CoreConfig) -> StructLayout:
    """Return the layout of a row's sums, and of the pieces that are valid: one, or all."""
    tile = config.tile
    return StructLayout({"sums": ArrayLayout(sum_shape(tile.numerics), tile.columns), "pieces": config.result_cycles})


class RowAdder(Block):
    """Adds partial sums and biases to rows of sums, and holds one row in a register.

    A row to which nothing is added passes in one cycle. Other rows pass in `result_cycles` equal *pieces*, the lowest
    columns first.

    Timing: in the cycle after a row or a piece is taken, it becomes partial sums or may leave. The adder takes one per
    cycle, or one in two cycles if a piece gets a partial sum and a bias.

    Parameters
    ----------
    config : CoreConfig
        Defines the tile and the features built.

    Members
    -------
    rows : In(stream of sums, columns)
        Rows.
    taken : Out(1)
        A piece is taken in this cycle.
    partial : In(bits of a piece)
        Partial sums of the piece that is taken next.
    add, emit : In(1)
        The descriptor's fields. They must not change while the adder holds a row.
    biased : In(1), bias : In(32, result columns), bias_valid : In(1)
        Only with biases: the biases, as FP32 or INT32. With `biased` they are added to the next piece without one,
        which waits for `bias_valid`.
    bias_taken : Out(1)
        The bias is added in this cycle.
    stored_sums : Out(bits of a piece), stores : Out(1)
        Without `emit`: sums that become partial sums in the cycles with `stores`.
    overflows : Out(result columns)
        Sums that left their range in an addition, once per addition.
    sums : Out(stream of pieces_layout)
        With `emit`: rows, or their pieces.
    empty : Out(1)
        The adder holds no row.

    Source: docs/core.md, "Multiply".
    """

    def __init__(self, config: CoreConfig) -> None:
        self.config = config
        tile, columns = config.tile, config.result_columns
        piece_bits = ArrayLayout(sum_shape(tile.numerics), columns).size
        biases = {
            "biased": In(1),
            "bias": In(ArrayLayout(RESULT_BITS, columns)),
            "bias_valid": In(1),
            "bias_taken": Out(1),
        }
        super().__init__(
            {
                "rows": In(stream.Signature(ArrayLayout(sum_shape(tile.numerics), tile.columns))),
                "taken": Out(1),
                "partial": In(piece_bits),
                "add": In(1),
                "emit": In(1),
                **(biases if config.bias else {}),
                "stored_sums": Out(piece_bits),
                "stores": Out(1),
                "overflows": Out(columns),
                "sums": Out(stream.Signature(pieces_layout(config))),
                "empty": Out(1),
            }
        )
        self._adders = [self._adder() for _ in range(columns)]
        aligned = config.bias and tile.numerics.result == "fp32"
        self._aligners = [self._aligner() for _ in range(columns * aligned)]

    def _adder(self) -> SumAdder | BinnedAdder | IntegerAdder:
        numerics, biased = self.config.tile.numerics, self.config.bias
        if numerics.result == "int32":
            return IntegerAdder(biased=biased)
        if isinstance(numerics.accumulator, Binned):
            return BinnedAdder(numerics=numerics, biased=biased)
        return SumAdder(width=accumulator_shape(numerics)[0], biased=biased)

    def _aligner(self) -> BiasAligner | BinnedBias:
        numerics = self.config.tile.numerics
        if isinstance(numerics.accumulator, Binned):
            return BinnedBias(numerics)
        width, least_exponent = accumulator_shape(numerics)
        assert least_exponent is not None
        return BiasAligner(width=width, least_exponent=least_exponent)

    def elaborate(self, platform):
        """Hold the sums, their pieces, and whether their bias is pending."""
        m = Module()
        config = self.config
        held, accept, second_pass, advance, ready, whole, two_pass, bypass = (
            Signal(name=name)
            for name in ("held", "accept", "second_pass", "advance", "ready", "whole", "two_pass", "bypass")
        )
        pending = Signal(name="pending")  # the bias of the held sums is pending
        piece = Signal(config.result_cycles, init=1)  # the next piece of the row, one-hot
        pieces = Signal(config.result_cycles)
        biased = self.biased if config.bias else Const(0, 1)
        m.d.comb += [
            whole.eq(self.emit & ~self.add & ~biased),
            two_pass.eq(biased & self.add),
            bypass.eq(biased & ~self.add),
            self.stores.eq(held & ~self.emit),
            self.sums.valid.eq(held & self.emit & ~pending),
            self.sums.payload.pieces.eq(pieces),
            advance.eq(self.stores | (self.sums.valid & self.sums.ready)),
            ready.eq(~held | advance),
            accept.eq(self.rows.valid & ready),
            self.taken.eq(accept & ~whole),
            self.rows.ready.eq(ready & (whole | piece[-1])),
            self.empty.eq(~held),
        ]
        if config.bias:
            m.d.comb += [
                ready.eq((~held | advance) & (~bypass | self.bias_valid)),
                second_pass.eq(pending & self.bias_valid),
                self.bias_taken.eq((accept & bypass) | second_pass),
            ]
            with m.If(accept):
                m.d.sync += pending.eq(two_pass)
            with m.Elif(second_pass):
                m.d.sync += pending.eq(0)
        with m.If(accept):
            m.d.sync += [held.eq(1), pieces.eq(piece | whole.replicate(len(piece)))]
            with m.If(~whole):
                m.d.sync += piece.eq(piece.rotate_left(1))
        with m.Elif(advance):
            m.d.sync += held.eq(0)
        self._add(m, platform, piece, pending)
        # Partial sums, and sums with a pending bias, use the registers of the first piece.
        first = ~self.emit | two_pass
        loads = [(accept & (piece[0] | first)) | (second_pass & pieces[0])] + [
            (accept & (whole | (piece[k] & ~first))) | (second_pass & pieces[k]) for k in range(1, len(piece))
        ]
        self._register(m, loads, whole)
        overflows = Signal(len(self._adders), reset_less=True)
        with m.If(accept | second_pass):
            m.d.sync += overflows.eq(Cat(adder.overflow for adder in self._adders))
        m.d.comb += self.overflows.eq(overflows & (advance | second_pass).replicate(len(overflows)))
        return m

    def _add(self, m: Module, platform, piece, pending) -> None:
        """Connect the adders of a piece."""
        columns = self.config.result_columns
        sums = [Value.cast(each) for each in self.rows.payload]
        bits = len(sums[0])
        for column, adder in enumerate(self._adders):
            m.submodules[f"adder_{column}"] = placed(adder, platform)
            m.d.comb += [
                Value.cast(adder.sum).eq(one_hot_mux(piece, sums[column::columns])),
                Value.cast(adder.partial).eq(self.partial[column * bits : (column + 1) * bits]),
                adder.add.eq(self.add & ~pending),
            ]
        if not self.config.bias:
            return
        counts = pending | (self.biased & ~self.add)
        for column, adder in enumerate(self._adders):
            if self._aligners:
                aligner = self._aligners[column]
                m.submodules[f"aligner_{column}"] = placed(aligner, platform)
                m.d.comb += [aligner.value.eq(self.bias[column]), aligner.enable.eq(counts)]
                bias, carry = Value.cast(aligner.aligned), aligner.carry
            else:
                bias, carry = self.bias[column] & counts.replicate(RESULT_BITS), Const(0)
            m.d.comb += [
                adder.second_pass.eq(pending),
                Value.cast(adder.earlier).eq(Value.cast(self.sums.payload.sums[column])),
                Value.cast(adder.bias).eq(bias),
                adder.carry.eq(carry),
            ]

    def _register(self, m: Module, loads, whole) -> None:
        """Build the register of a row. Its lowest columns always pass through the adders."""
        columns = self.config.result_columns
        stored = []
        for column, out in enumerate(self.sums.payload.sums):
            held = Signal(len(Value.cast(out)), name=f"sum_{column}", reset_less=True)
            total = Value.cast(self._adders[column % columns].total)
            if column >= columns:
                total = Mux(whole, Value.cast(self.rows.payload[column]), total)
            else:
                stored.append(held)
            with m.If(loads[column // columns]):
                m.d.sync += held.eq(total)
            m.d.comb += Value.cast(out).eq(held)
        m.d.comb += self.stored_sums.eq(Cat(stored))
