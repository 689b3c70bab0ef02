"""Test valid and invalid parameters of components."""

import pytest

from tensordash import Tile
from tensordash.arithmetic.accumulator import ExactAccumulator
from tensordash.arithmetic.addend_accumulator import AddendAccumulator
from tensordash.arithmetic.bias_aligner import BiasAligner
from tensordash.arithmetic.binned_accumulator import BinnedAccumulator
from tensordash.arithmetic.binned_adder import BinnedAdder
from tensordash.arithmetic.binned_bias import BinnedBias
from tensordash.arithmetic.binned_result import BinnedResult
from tensordash.arithmetic.converter import Converter
from tensordash.arithmetic.fused_accumulator import FusedAccumulator
from tensordash.arithmetic.fused_initial_adder import FusedInitialAdder
from tensordash.arithmetic.fused_result import FusedResult
from tensordash.arithmetic.integer_accumulator import IntegerAccumulator
from tensordash.arithmetic.integer_adder import IntegerAdder
from tensordash.arithmetic.integer_converter import IntegerConverter
from tensordash.arithmetic.integer_result import IntegerResult
from tensordash.arithmetic.product_sum import ProductSum
from tensordash.arithmetic.rounder import Rounder
from tensordash.arithmetic.sum_adder import SumAdder
from tensordash.block import Block
from tensordash.configuration.formats import FORMATS
from tensordash.configuration.numerics import Binned, Exact, Fused, Numerics
from tensordash.movers.join import Join
from tensordash.movers.read_join import ReadJoin
from tensordash.movers.write_join import WriteJoin
from tensordash.schedule.operand_flags import OperandFlags
from tensordash.schedule.operand_mux import OperandMux
from tensordash.schedule.staging_buffer import StagingBuffer
from tensordash.schedule.staging_ring import StagingRing
from tensordash.short_queue import ShortQueue
from tensordash.streams.block_quantiser import BlockQuantiser
from tensordash.streams.transposer import Transposer
from tensordash.tile.control import Control
from tensordash.tile.counters import Counters
from tensordash.tile.drain import Drain
from tensordash.tile.initial_store import InitialStore
from tensordash.tile.output_buffer import OutputBuffer
from tensordash.tile.pe import PE
from tensordash.tile.scheduled_pe import ScheduledPE
from tensordash.tile.self_scheduled_pe import SelfScheduledPE
from tensordash.tile.snapshot import Snapshot

from .component_parameters import AFTER, EXACT, FP16, FUSED, INT8, INTEGER, RIGHT

WRONG = [
    (StagingBuffer, {"width": 0}, ValueError, "width must be an integer of at least 1, not 0"),
    (StagingBuffer, {"lanes": 0}, ValueError, "lanes must be an integer of at least 1, not 0"),
    (StagingBuffer, {"depth": 0}, ValueError, "depth must be an integer of at least 1, not 0"),
    (StagingBuffer, {"depth": 2.0}, TypeError, r"depth must be an integer of at least 1, not 2\.0"),
    (StagingRing, {"width": 0}, ValueError, "width must be an integer of at least 1, not 0"),
    (StagingRing, {"lanes": 0}, ValueError, "lanes must be an integer of at least 1, not 0"),
    (StagingRing, {"depth": "4"}, TypeError, "depth must be an integer of at least 1, not '4'"),
    (StagingBuffer, {"width": True}, TypeError, "width must be an integer of at least 1, not True"),
    (PE, {"stages": 0}, ValueError, "stages must be an integer from 1 to 3, not 0"),
    (PE, {"stages": 4}, ValueError, "stages must be an integer from 1 to 3, not 4"),
    (PE, {"stages": "2"}, TypeError, "stages must be an integer from 1 to 3, not '2'"),
    (PE, {"lanes": 0}, ValueError, "lanes must be an integer of at least 1, not 0"),
    (ExactAccumulator, {"stages": 3}, ValueError, "stages must be an integer from 1 to 2, not 3"),
    (ExactAccumulator, {"lanes": 0}, ValueError, "lanes must be an integer of at least 1, not 0"),
    (ExactAccumulator, {"numerics": FUSED}, ValueError, "numerics must be floating-point and exact, not Numerics"),
    (ExactAccumulator, {"numerics": INTEGER}, ValueError, "numerics must be floating-point and exact, not Numerics"),
    (FusedAccumulator, {"numerics": EXACT}, ValueError, "numerics must be floating-point and fused, not Numerics"),
    (FusedAccumulator, {"stages": 0}, ValueError, "stages must be an integer from 1 to 2, not 0"),
    (FusedAccumulator, {"lanes": 0}, ValueError, "lanes must be an integer of at least 1, not 0"),
    (
        FusedAccumulator,
        {"numerics": AFTER},
        ValueError,
        'numerics must have accumulator.addend = "inside" or "last", not "after"',
    ),
    (AddendAccumulator, {"numerics": EXACT}, ValueError, "numerics must be floating-point and fused, not Numerics"),
    (
        AddendAccumulator,
        {"numerics": FUSED},
        ValueError,
        'numerics must have accumulator.addend = "after", not "inside"',
    ),
    (AddendAccumulator, {"stages": 3}, ValueError, "stages must be an integer from 1 to 2, not 3"),
    (AddendAccumulator, {"lanes": 0}, ValueError, "lanes must be an integer of at least 1, not 0"),
    (ProductSum, {"numerics": INTEGER}, ValueError, "numerics must be floating-point and fused, not Numerics"),
    (ProductSum, {"lanes": 0}, ValueError, "lanes must be an integer of at least 1, not 0"),
    (
        FusedInitialAdder,
        {"numerics": FUSED},
        ValueError,
        'numerics must have a fused accumulator with addend = "last", not fused 23, zero',
    ),
    (BinnedAccumulator, {"stages": 3}, ValueError, "stages must be an integer from 1 to 2, not 3"),
    (BinnedAccumulator, {"lanes": 0}, ValueError, "lanes must be an integer of at least 1, not 0"),
    (BinnedAccumulator, {"numerics": EXACT}, ValueError, "numerics must be floating-point and binned, not Numerics"),
    (BinnedResult, {"numerics": FUSED}, ValueError, "numerics must be floating-point and binned, not Numerics"),
    (BinnedBias, {"numerics": INTEGER}, ValueError, "numerics must be floating-point and binned, not Numerics"),
    (BinnedAdder, {"numerics": EXACT}, ValueError, "numerics must be floating-point and binned, not Numerics"),
    (BinnedAdder, {"biased": 1}, TypeError, "biased must be true or false, not 1"),
    (FusedResult, {"accumulator": 23}, TypeError, "accumulator must be Fused, not 23"),
    (IntegerAccumulator, {"stages": 3}, ValueError, "stages must be an integer from 1 to 2, not 3"),
    (IntegerAccumulator, {"lanes": 0}, ValueError, "lanes must be an integer of at least 1, not 0"),
    (IntegerAccumulator, {"numerics": EXACT}, ValueError, "numerics must be integer, not Numerics"),
    (IntegerAdder, {"biased": 1}, TypeError, "biased must be true or false, not 1"),
    (IntegerConverter, {"width": 32}, ValueError, "width must be an integer from 2 to 31, not 32"),
    (IntegerConverter, {"sum_bits": 2}, ValueError, "sum_bits must be an integer of at least 3, not 2"),
    (IntegerConverter, {"relu": 1}, TypeError, "relu must be true or false, not 1"),
    (IntegerConverter, {"stochastic": 1}, TypeError, "stochastic must be true or false, not 1"),
    (IntegerResult, {"width": 33}, ValueError, "width must be an integer from 2 to 32, not 33"),
    (Rounder, {"width": 1}, ValueError, "width must be an integer of at least 2, not 1"),
    (Rounder, {"least_exponent": -127}, ValueError, "width .* must stay within FP32's normal numbers$"),
    (Rounder, {"width": 200}, ValueError, "width .* must stay within FP32's normal numbers$"),
    (BiasAligner, {"width": 1}, ValueError, "width must be an integer of at least 2, not 1"),
    (BiasAligner, {"least_exponent": -127}, ValueError, "width .* must stay within FP32's normal numbers$"),
    (BiasAligner, {"least_exponent": 90}, ValueError, "width .* must stay within FP32's normal numbers$"),
    (SumAdder, {"width": 1}, ValueError, "width must be an integer of at least 2, not 1"),
    (SumAdder, {"biased": 1}, TypeError, "biased must be true or false, not 1"),
    (InitialStore, {"out_rows": 3}, ValueError, "out_rows must divide rows = 4, not 3"),
    (InitialStore, {"pops_blocks": 1}, TypeError, "pops_blocks must be true or false, not 1"),
    (Exact, {"headroom_bits": -1}, ValueError, "headroom_bits must be an integer from 0 to 64, not -1"),
    (Binned, {"bins": 2}, ValueError, r"accumulator\.bins must be an integer from 3 to 4, not 2"),
    (Binned, {"headroom_bits": 65}, ValueError, "headroom_bits must be an integer from 0 to 64, not 65"),
    (Fused, {"fraction_bits": 7}, ValueError, r"accumulator\.fused must be an integer from 8 to 64, not 7"),
    (Fused, {"rounding": "up"}, ValueError, r"accumulator\.rounding must be one of nearest, zero, not 'up'"),
    (Fused, {"result_bits": 6}, ValueError, r"accumulator\.result_bits must be an integer from 7 to 23, not 6"),
    (Fused, {"addend": "in"}, ValueError, r"accumulator\.addend must be one of after, inside, last, not 'in'"),
    (Fused, {"zero_exponent": 0}, ValueError, r"accumulator\.zero_exponent must be .* -149 to -126, not 0"),
    (Numerics, {"b_format": INT8}, ValueError, "format must be floating-point on both sides or int8 on both"),
    (Numerics, {"a_format": FORMATS["bf16"]}, ValueError, "accumulator must be fused for bf16"),
    (Drain, {"rows": 0}, ValueError, "rows must be an integer of at least 1, not 0"),
    (Drain, {"columns": 0}, ValueError, "columns must be an integer of at least 1, not 0"),
    (Drain, {"out_rows": 0}, ValueError, "out_rows must be an integer from 1 to 4, not 0"),
    (Drain, {"out_rows": 5}, ValueError, "out_rows must be an integer from 1 to 4, not 5"),
    (Drain, {"out_rows": 3}, ValueError, "out_rows must divide rows = 4, not 3"),
    (Transposer, {"width": 0}, ValueError, "width must be an integer of at least 1, not 0"),
    (BlockQuantiser, {"fmt": FP16}, ValueError, "fmt must have at most 8 bits, not fp16 of 16"),
    (BlockQuantiser, {"lanes": 3}, ValueError, "lanes must divide the block of 32, not 3"),
    (BlockQuantiser, {"lanes": 32}, ValueError, "lanes must be an integer from 1 to 16, not 32"),
    (Converter, {"fmt": FORMATS["fp4_e2m1"]}, ValueError, "saturating must be true for fp4_e2m1, which has no NaN"),
    (Transposer, {"lanes": 1}, ValueError, "lanes must be an integer of at least 2, not 1"),
    (Transposer, {"lanes": None}, TypeError, "lanes must be an integer of at least 2, not None"),
    (Control, {"ports": 0}, ValueError, "ports must be an integer of at least 1, not 0"),
    (Control, {"schedulers": -1}, ValueError, "schedulers must be an integer of at least 0, not -1"),
    (Control, {"depth": 0}, ValueError, "depth must be an integer of at least 1, not 0"),
    (Counters, {"rows": 0}, ValueError, "rows must be an integer of at least 1, not 0"),
    (Counters, {"depth": 0}, ValueError, "depth must be an integer of at least 1, not 0"),
    (Counters, {"selections": 0}, ValueError, "selections must be an integer of at least 1, not 0"),
    (Snapshot, {"rows": 0}, ValueError, "rows must be an integer of at least 1, not 0"),
    (OutputBuffer, {"out_rows": 0}, ValueError, "out_rows must be an integer of at least 1, not 0"),
    (OutputBuffer, {"columns": None}, TypeError, "columns must be an integer of at least 1, not None"),
    (OperandFlags, {"lanes": 0}, ValueError, "lanes must be an integer of at least 1, not 0"),
    (OperandFlags, {"depth": 0}, ValueError, "depth must be an integer of at least 1, not 0"),
    (OperandMux, {"width": 0}, ValueError, "width must be an integer of at least 1, not 0"),
    (ScheduledPE, {"stages": 4}, ValueError, "stages must be an integer from 1 to 3, not 4"),
    (SelfScheduledPE, {"stages": 0}, ValueError, "stages must be an integer from 1 to 3, not 0"),
    (ShortQueue, {"bits": 0}, ValueError, "bits must be an integer of at least 1, not 0"),
    (ShortQueue, {"places": 1}, ValueError, "places must be an integer of at least 2, not 1"),
    (ReadJoin, {"cores": 1}, ValueError, "cores must be an integer from 2 to 16, not 1"),
    (ReadJoin, {"outstanding": 1}, ValueError, "outstanding must be an integer from 2 to 256, not 1"),
    (ReadJoin, {"outstanding": 257}, ValueError, "outstanding must be an integer from 2 to 256, not 257"),
    (WriteJoin, {"cores": 17}, ValueError, "cores must be an integer from 2 to 16, not 17"),
    (WriteJoin, {"cores": "2"}, TypeError, "cores must be an integer from 2 to 16, not '2'"),
    (ReadJoin, {"cores": "2"}, TypeError, "cores must be an integer from 2 to 16, not '2'"),
    (Join, {"cores": 1}, ValueError, "cores must be an integer from 2 to 16, not 1"),
    (Join, {"cores": 2.0}, TypeError, r"cores must be an integer from 2 to 16, not 2\.0"),
    (Join, {"config": 4}, TypeError, "config must be a CoreConfig, not 4"),
]


@pytest.mark.parametrize("kind", RIGHT)
def test_valid_parameters(kind):
    component = kind(**RIGHT[kind])
    assert not isinstance(component, Block) or isinstance(component.identity, tuple)


@pytest.mark.parametrize(
    ("kind", "change", "error", "message"), WRONG, ids=[f"{kind.__name__}-{change}" for kind, change, _, _ in WRONG]
)
def test_invalid_parameter(kind, change, error, message):
    with pytest.raises(error, match=f"^{message}"):
        kind(**{**RIGHT[kind], **change})


@pytest.mark.parametrize("config", ["x", None, {"rows": 4}])
def test_tile_needs_a_tile_config(config):
    with pytest.raises(TypeError, match="^config must be a TileConfig, not "):
        Tile(config)
