"""Result pipeline: converts rows of sums to rows of results."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import stream
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In, Out

from ..arithmetic.binned_result import BinnedResult
from ..arithmetic.integer_converter import IntegerConverter
from ..arithmetic.integer_result import IntegerResult
from ..arithmetic.random_bits import RandomBits
from ..arithmetic.result_converter import OFFSET_BITS, ResultConverter, offset_of
from ..arithmetic.rounder import Rounder
from ..block import Block, placed
from ..configuration.core_config import CoreConfig
from ..configuration.formats import FP32, IntegerFormat
from ..configuration.numerics import Binned
from ..layouts import RESULT_BITS, accumulator_shape
from .row_adder import pieces_layout

__all__ = ["FLAGS", "ResultPipeline"]

FLAGS = ("fp32", "relu", "stochastic", "toward_zero")
"""One-bit fields of a descriptor that the pipeline takes."""


class ResultPipeline(Block):
    """Rounds rows of sums, and converts them.

    Timing: a row leaves as results two cycles after its last piece is taken. The pipeline takes a row or a piece per
    cycle. Up to two rows wait at `out`, so that its `ready` drives registers only. Otherwise a later unit would stop
    the tile in the same cycle.

    Parameters
    ----------
    config : CoreConfig
        Defines the tile and the features built.

    Members
    -------
    sums : In(stream of pieces_layout)
        Rows, complete or piece by piece.
    fp32, relu, stochastic, toward_zero : In(1), scale : In(signed(8))
        The descriptor's fields. They must not change while the pipeline holds a row.
    seed : In(32), start : In(1)
        Restart the random bits with this seed. No row is taken in this cycle or the next.
    out : Out(stream of 32 bits, columns)
        Results. Operands are in the lowest bits of each value.

    Source: docs/core.md, "Multiply".
    """

    def __init__(self, config: CoreConfig) -> None:
        self.config = config
        tile = config.tile
        super().__init__(
            {
                "sums": In(stream.Signature(pieces_layout(config))),
                **{name: In(1) for name in (*FLAGS, "start")},
                "scale": In(signed(8)),
                "seed": In(32),
                "out": Out(stream.Signature(ArrayLayout(RESULT_BITS, tile.columns))),
            }
        )
        self._rounders = [self._rounder() for _ in range(tile.columns)]
        self._converters = [self._converter() for _ in range(tile.columns)]
        self._random = RandomBits(columns=tile.columns) if config.stochastic else None

    def _converter(self) -> ResultConverter | IntegerConverter:
        fmt, built = self.config.tile.a_format, {"relu": self.config.relu, "stochastic": self.config.stochastic}
        if isinstance(fmt, IntegerFormat):
            return IntegerConverter(width=fmt.width, **built)
        return ResultConverter(fmt=fmt, **built)

    def _rounder(self) -> Rounder | BinnedResult | IntegerResult:
        numerics = self.config.tile.numerics
        if numerics.result == "int32":
            return IntegerResult(width=RESULT_BITS, initial=False)
        if isinstance(numerics.accumulator, Binned):
            return BinnedResult(numerics)
        width, least_exponent = accumulator_shape(numerics)
        assert least_exponent is not None
        return Rounder(width=width, least_exponent=least_exponent)

    def elaborate(self, platform):
        """Build a register of normalised sums, and two of rounded rows: the one at `out` and the next one."""
        m = Module()
        normal, rounded, waiting = Signal(name="normal"), Signal(name="rounded"), Signal(name="waiting_valid")
        accepts, advances, free = Signal(name="accepts"), Signal(name="advances"), Signal(name="free")
        m.d.comb += [
            self.out.valid.eq(rounded),
            free.eq(~rounded | self.out.ready),
            advances.eq(normal & ~waiting),
            self.sums.ready.eq(~normal | advances),
            accepts.eq(self.sums.valid & self.sums.ready),
        ]
        with m.If(accepts & self.sums.payload.pieces[-1]):
            m.d.sync += normal.eq(1)
        with m.Elif(advances):
            m.d.sync += normal.eq(0)
        with m.If(free):
            m.d.sync += [rounded.eq(waiting | advances), waiting.eq(0)]
        with m.Else():
            m.d.sync += waiting.eq(waiting | advances)
        scale = self.scale if self.config.scale else 0
        if not isinstance(fmt := self.config.tile.a_format, IntegerFormat):
            offset = Signal(signed(OFFSET_BITS))
            m.d.comb += offset.eq(offset_of(fmt, self.fp32, scale))
            scale = offset
        columns = self.config.result_columns
        for column, rounder in enumerate(self._rounders):
            m.submodules[f"rounder_{column}"] = placed(rounder, platform)
            m.d.comb += [
                Value.cast(rounder.sum).eq(Value.cast(self.sums.payload.sums[column])),
                rounder.load.eq(accepts & self.sums.payload.pieces[column // columns]),
            ]
            self._convert(m, platform, column, (advances, rounded, waiting, free), scale)
        if self._random:
            m.submodules.random = placed(self._random, platform)
            # The first row leaves four cycles after `start` or later. The bits are ready by then.
            m.d.comb += [
                self._random.seed.eq(self.seed),
                self._random.start.eq(self.start),
                self._random.step.eq(rounded & self.out.ready),
            ]
        return m

    def _convert(self, m: Module, platform, column: int, state, scale) -> None:
        """Build a column's registers of rounded values, and its converter."""
        config, converter = self.config, self._converters[column]
        advances, shown, waiting, free = state
        rounder = self._rounders[column]
        rounded = rounder.value
        if isinstance(rounder, BinnedResult) and rounder.has_subnormals:
            fraction, field, sign = rounded[: FP32.fraction_bits], rounded[FP32.fraction_bits : -1], rounded[-1]
            rounded = Cat(fraction & field.any().replicate(len(fraction)), field, sign)
        value, later = (Signal(RESULT_BITS, name=f"{name}_{column}", reset_less=True) for name in ("value", "waiting"))
        with m.If(advances & shown):
            m.d.sync += later.eq(rounded)
        with m.If(free & (advances | waiting)):
            m.d.sync += value.eq(Mux(waiting, later, rounded))
        m.submodules[f"converter_{column}"] = placed(converter, platform)
        if isinstance(converter, IntegerConverter):
            m.d.comb += [converter.scale.eq(scale), converter.wide.eq(self.fp32)]
        else:
            m.d.comb += [converter.offset.eq(scale), converter.fp32.eq(self.fp32)]
        m.d.comb += [
            converter.value.eq(value),
            converter.toward_zero.eq(self.toward_zero),
            self.out.payload[column].eq(converter.result),
        ]
        if config.relu:
            m.d.comb += converter.relu.eq(self.relu)
        if self._random:
            m.d.comb += [converter.stochastic.eq(self.stochastic), converter.random.eq(self._random.bits[column])]
