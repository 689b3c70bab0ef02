"""Valid parameters of each component."""

from typing import Any, cast

from tensordash import Connectivity
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
from tensordash.configuration.connectivity import PAPER_OPTIONS
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.formats import FORMATS, FloatFormat
from tensordash.configuration.numerics import Binned, Exact, Fused, Numerics
from tensordash.movers.join import Join
from tensordash.movers.nvfp4_expander import Nvfp4Expander
from tensordash.movers.nvfp4_product import Nvfp4Product
from tensordash.movers.nvfp4_scale import Nvfp4Scale
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
from tensordash.tile.flags import Flags
from tensordash.tile.initial_store import InitialStore
from tensordash.tile.output_buffer import OutputBuffer
from tensordash.tile.pe import PE
from tensordash.tile.scheduled_pe import ScheduledPE
from tensordash.tile.self_scheduled_pe import SelfScheduledPE
from tensordash.tile.snapshot import Snapshot

FP16 = cast(FloatFormat, FORMATS["fp16"])
INT8 = FORMATS["int8"]
PAPER = Connectivity(PAPER_OPTIONS, lanes=4, depth=4)
EXACT = Numerics(a_format=FP16, b_format=FP16, accumulator=Exact(16))
FUSED = Numerics(a_format=FP16, b_format=FP16, accumulator=Fused(23, "zero"))
AFTER = Numerics(a_format=FP16, b_format=FP16, accumulator=Fused(25, "zero", addend="after"))
BINNED = Numerics(a_format=FP16, b_format=FP16, accumulator=Binned(3))
INTEGER = Numerics(a_format=INT8, b_format=INT8, accumulator=Exact(16))
NUMBERS: dict[str, Any] = {"numerics": EXACT}


RIGHT = {
    StagingBuffer: {"width": 16, "lanes": 4, "depth": 4},
    StagingRing: {"width": 16, "lanes": 4, "depth": 4},
    PE: {**NUMBERS, "lanes": 4, "stages": 2},
    ExactAccumulator: {**NUMBERS, "lanes": 4, "stages": 1},
    FusedAccumulator: {"numerics": FUSED, "lanes": 4, "stages": 1},
    AddendAccumulator: {"numerics": AFTER, "lanes": 4, "stages": 1},
    BinnedAccumulator: {"numerics": BINNED, "lanes": 4, "stages": 1},
    BinnedResult: {"numerics": BINNED},
    BinnedBias: {"numerics": BINNED},
    BinnedAdder: {"numerics": BINNED, "biased": True},
    ProductSum: {"numerics": AFTER, "lanes": 4},
    FusedInitialAdder: {
        "numerics": Numerics(a_format=FP16, b_format=FP16, accumulator=Fused(23, "zero", addend="last"), initial=True)
    },
    FusedResult: {"accumulator": Fused(23, "zero")},
    IntegerAccumulator: {"numerics": INTEGER, "lanes": 4, "stages": 1},
    IntegerResult: {"width": 32, "initial": False},
    IntegerAdder: {"biased": True},
    IntegerConverter: {"width": 8, "relu": True, "stochastic": True},
    Rounder: {"width": 97, "least_exponent": -48},
    BiasAligner: {"width": 97, "least_exponent": -48},
    SumAdder: {"width": 97, "biased": True},
    InitialStore: {"rows": 4, "columns": 4, "out_rows": 1, "pops_blocks": False, "floating": True},
    Exact: {"headroom_bits": 16},
    Binned: {"bins": 3},
    Fused: {"fraction_bits": 23, "rounding": "zero"},
    Numerics: {"a_format": FP16, "b_format": FP16, "accumulator": Exact(16)},
    Drain: {**NUMBERS, "rows": 4, "columns": 4, "out_rows": 1},
    Transposer: {"width": 16, "lanes": 4},
    BlockQuantiser: {"fmt": FORMATS["fp4_e2m1"], "lanes": 4},
    Converter: {"fmt": FP16},
    Control: {"ports": 8, "schedulers": 4, "depth": 4, "full_window": False, "initial": False},
    Counters: {"rows": 4, "depth": 4, "selections": 16},
    Flags: {},
    Snapshot: {"rows": 4},
    OutputBuffer: {"out_rows": 1, "columns": 4},
    OperandFlags: {"fmt": FP16, "lanes": 4, "depth": 4, "zeros": True},
    OperandMux: {"width": 16, "connectivity": PAPER},
    ScheduledPE: {**NUMBERS, "connectivity": PAPER, "stages": 2},
    SelfScheduledPE: {**NUMBERS, "connectivity": PAPER, "stages": 2},
    ShortQueue: {"bits": 3, "places": 2},
    Nvfp4Scale: {"fmt": FORMATS["fp16"]},
    Nvfp4Product: {"fmt": FORMATS["fp16"]},
    Nvfp4Expander: {"lanes": 4, "fmt": FORMATS["fp16"], "data_bits": 128},
    ReadJoin: {"cores": 3, "data_bits": 64, "address_bits": 32},
    WriteJoin: {"cores": 3, "data_bits": 64, "address_bits": 32},
    Join: {"config": CoreConfig(), "cores": 2},
}
