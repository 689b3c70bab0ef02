"""Result pipeline: rows of sums become rows of results."""

from amaranth.hdl import Cat, Module, Signal, Value, signed
from amaranth.lib import stream
from amaranth.lib.data import ArrayLayout, StructLayout
from amaranth.lib.wiring import In, Out

from ..arithmetic.converter import Converter
from ..arithmetic.initial_adder import InitialAdder
from ..arithmetic.random_bits import RandomBits
from ..arithmetic.rounder import Rounder
from ..arithmetic.sum_adder import SumAdder
from ..block import Block, placed
from ..configuration.core_config import CoreConfig
from ..configuration.formats import FP32
from ..layouts import RESULT_BITS, accumulator_shape, sum_beat_layout
from ..one_hot import one_hot_mux

GOLDEN_RATIO = 0x9E3779B9

__all__ = ["FLAGS", "ResultPipeline", "row_layout"]

FLAGS = ("add", "emit", "fp32", "relu", "stochastic", "toward_zero")
"""Fields of a descriptor that the pipeline takes, of one bit."""


def row_layout(columns: int) -> StructLayout:
    """A row of results: values in their lowest bits, and what each of them is."""
    return StructLayout({"values": ArrayLayout(RESULT_BITS, columns), "zero": columns, "non_finite": columns})


class ResultPipeline(Block):
    """Adds partial sums and biases to rows of sums, rounds them, and converts them.

    A row comes in `result_cycles` *pieces* of as many columns, its lowest columns first.

    Timing: a piece is the next partial sums in the cycle after it is taken, or leaves as results four cycles after it
    (three in a core without biases), one piece per cycle.

    Parameters
    ----------
    config : CoreConfig
        Gives the tile and what is built.

    Members
    -------
    sums : In(stream of sum_beat_layout)
        Pieces, with `last` of their row.
    partial : In(bits of a piece)
        What is added to the piece that is taken next.
    bias : In(32, result columns), bias_valid : In(1)
        Only with biases: what is added to the piece that was taken last, as FP32; it waits for `bias_valid`.
    bias_taken : Out(1)
        Likewise: it is added in this cycle.
    add, emit, fp32, relu, stochastic, toward_zero : In(1), scale : In(signed(8))
        The descriptor's fields. They stay as they are while something is in the pipeline.
    seed : In(32), start : In(1)
        Random bits begin anew with this seed.
    kept : Out(bits of a piece), keep : Out(1)
        Without `emit`: the sums that become partial sums, in this cycle.
    overflows : Out(result columns)
        Which sums leave their range, in this cycle.
    out : Out(stream of row_layout)
        With `emit`: results. Operands in the lowest bits of each value.
    empty : Out(1)
        Nothing is in the pipeline.

    Source: docs/core.md, "Multiply".
    """

    def __init__(self, config: CoreConfig) -> None:
        self.config = config
        tile = config.tile
        columns = config.result_columns
        width, least_exponent = accumulator_shape(tile.numerics)
        assert least_exponent is not None  # exact
        row = sum_beat_layout(tile.numerics, columns)
        self.piece_bits = row.size - 1
        super().__init__(
            {
                "sums": In(stream.Signature(row)),
                "partial": In(self.piece_bits),
                **(
                    {"bias": In(ArrayLayout(RESULT_BITS, columns)), "bias_valid": In(1), "bias_taken": Out(1)}
                    if config.bias
                    else {}
                ),
                **{name: In(1) for name in (*FLAGS, "start")},
                "scale": In(signed(8)),
                "seed": In(32),
                "kept": Out(self.piece_bits),
                "keep": Out(1),
                "overflows": Out(columns),
                "out": Out(stream.Signature(row_layout(columns))),
                "empty": Out(1),
            }
        )
        self._adders = [SumAdder(width=width) for _ in range(columns)]
        self._bias_adders = (
            [InitialAdder(width=width, least_exponent=least_exponent) for _ in range(columns)] if config.bias else []
        )
        if config.bias:
            width, least_exponent = self._bias_adders[0].total_width, self._bias_adders[0].total_least_exponent
        self._rounders = [
            Rounder(width=width, least_exponent=least_exponent, bypassed=config.bias) for _ in range(columns)
        ]
        fmt = tile.a_format
        self._narrow = [
            Converter(
                fmt=fmt,  # type: ignore[arg-type]
                scaled=config.scale,
                relu=config.relu,
                stochastic=config.stochastic,
                truncating=True,
            )
            for _ in range(columns)
        ]
        self._wide = [
            Converter(fmt=FP32, scaled=config.scale, relu=config.relu, stochastic=False) for _ in range(columns)
        ]
        self._generators = [RandomBits() for _ in range(tile.columns)] if config.stochastic else []

    def elaborate(self, platform):
        """Stages with a valid bit each; one moves when the next is free."""
        m = Module()
        with_bias = self.config.bias
        count = 4 if with_bias else 3
        valid = Signal(count)
        moves = [Signal(name=f"moves_{k}") for k in range(count)]
        free = [~valid[k] | moves[k] for k in range(count)]
        taken = Signal()
        m.d.comb += [
            self.sums.ready.eq(free[0]),
            taken.eq(self.sums.valid & free[0]),
            self.empty.eq(~valid.any()),
            self.keep.eq(valid[0] & ~self.emit),
            self.out.valid.eq(valid[-1]),
            moves[-1].eq(valid[-1] & self.out.ready),
        ]
        ready = free[1]
        if with_bias:
            ready = ready & self.bias_valid
            m.d.comb += self.bias_taken.eq(moves[0] & self.emit)
        m.d.comb += moves[0].eq(valid[0] & (~self.emit | ready))
        m.d.comb += [moves[k].eq(valid[k] & free[k + 1]) for k in range(1, count - 1)]
        loads = [taken, moves[0] & self.emit, *moves[1:-1]]
        for k, load in enumerate(loads):
            with m.If(load):
                m.d.sync += valid[k].eq(1)
            with m.Elif(moves[k]):
                m.d.sync += valid[k].eq(0)
        piece = Signal(self.config.result_cycles, init=1)  # which one leaves, one-hot
        with m.If(moves[-1]):
            m.d.sync += piece.eq(piece.rotate_left(1))
        for column in range(self.config.result_columns):
            self._column(m, platform, column, loads, piece)
        for column, generator in enumerate(self._generators):
            m.submodules[f"generator_{column}"] = placed(generator, platform)
            m.d.comb += [
                generator.seed.eq(self.seed ^ ((column + 1) * GOLDEN_RATIO % 2**32)),
                generator.start.eq(self.start),
                generator.step.eq(moves[-1] & piece[column // self.config.result_columns]),
            ]
        m.d.comb += self.overflows.eq(
            Cat(adder.overflow for adder in self._adders) & moves[0].replicate(len(self._adders))
        )
        return m

    def _column(self, m: Module, platform, column: int, loads, piece) -> None:
        """One column's way through the stages; as many columns of a row take it as there are pieces."""
        config = self.config
        adder, rounder = self._adders[column], self._rounders[column]
        m.submodules[f"adder_{column}"] = placed(adder, platform)
        m.submodules[f"rounder_{column}"] = placed(rounder, platform)
        bits = len(Value.cast(adder.sum))
        m.d.comb += [
            Value.cast(adder.sum).eq(Value.cast(self.sums.payload.values[column])),
            Value.cast(adder.partial).eq(self.partial[column * bits : (column + 1) * bits]),
            adder.add.eq(self.add),
            adder.load.eq(loads[0]),
            self.kept[column * bits : (column + 1) * bits].eq(Value.cast(adder.total)),
            rounder.load.eq(loads[-2]),
        ]
        if config.bias:
            biased = self._bias_adders[column]
            m.submodules[f"bias_adder_{column}"] = placed(biased, platform)
            m.d.comb += [
                Value.cast(biased.sum).eq(Value.cast(adder.total)),
                biased.c.eq(self.bias[column]),
                biased.load.eq(loads[1]),
                Value.cast(rounder.sum).eq(Value.cast(biased.total)),
                rounder.bypass.eq(biased.bypass),
                rounder.other.eq(biased.other),
            ]
        else:
            m.d.comb += Value.cast(rounder.sum).eq(Value.cast(adder.total))
        rounded = Signal(RESULT_BITS, name=f"rounded_{column}", reset_less=True)
        with m.If(loads[-1]):
            m.d.sync += rounded.eq(rounder.value)
        narrow, wide = self._narrow[column], self._wide[column]
        m.submodules[f"narrow_{column}"] = placed(narrow, platform)
        m.submodules[f"wide_{column}"] = placed(wide, platform)
        for converter in (narrow, wide):
            m.d.comb += converter.value.eq(rounded)
            if config.scale:
                m.d.comb += converter.scale.eq(self.scale)
            if config.relu:
                m.d.comb += converter.relu.eq(self.relu)
        m.d.comb += narrow.toward_zero.eq(self.toward_zero)
        if config.stochastic:
            draws = [generator.bits for generator in self._generators[column :: config.result_columns]]
            m.d.comb += [narrow.stochastic.eq(self.stochastic), narrow.random.eq(one_hot_mux(piece, draws))]
        out = self.out.payload
        with m.If(self.fp32):
            m.d.comb += [
                out.values[column].eq(wide.result),
                out.zero[column].eq(wide.zero),
                out.non_finite[column].eq(wide.non_finite),
            ]
        with m.Else():
            m.d.comb += [
                out.values[column].eq(narrow.result),
                out.zero[column].eq(narrow.zero),
                out.non_finite[column].eq(narrow.non_finite),
            ]
