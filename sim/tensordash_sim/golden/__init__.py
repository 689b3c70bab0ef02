"""Golden model: a bit-accurate and cycle-accurate tile in Python integers and NumPy.

It follows the definitions (docs/tile.md, docs/numerics.md), shares no code with the hardware and puts clarity before
speed. Start with `matmul`. `Tile` runs in lockstep with a simulation. `dot_exact` is the mathematical reference.
"""

from tensordash.configuration.formats import FP32, INT32

from .accumulators import Accumulator, make_accumulator
from .binned import BinnedAccumulator
from .dot import ExactAccumulator, IntegerAccumulator, product_bits
from .encoding import encode
from .exact import dot_exact, matmul_exact
from .fused import FUSED_NAN, FusedAccumulator
from .initial import InitialStore
from .matmul import MatmulResult, checked_operands, matmul, run_streams
from .numbers import (
    FP32_NAN,
    Decoded,
    Kind,
    decode,
    fixed_values,
    float_values,
    is_finite,
    is_nan,
    is_zero,
    round_fixed,
    to_float,
)
from .ports import COUNTER_LIMIT, Beat, Counters, Offer, Outputs
from .producer import Producer
from .scheduler import Schedule, TileSchedule, levels, schedule, schedule_stream
from .staging import StagingBuffer
from .tile import Tile
from .transposer import Transposer, TransposerOutputs, transpose_group

__all__ = [
    "COUNTER_LIMIT",
    "FP32",
    "FP32_NAN",
    "FUSED_NAN",
    "INT32",
    "Accumulator",
    "Beat",
    "BinnedAccumulator",
    "Counters",
    "Decoded",
    "ExactAccumulator",
    "FusedAccumulator",
    "InitialStore",
    "IntegerAccumulator",
    "Kind",
    "MatmulResult",
    "Offer",
    "Outputs",
    "Producer",
    "Schedule",
    "StagingBuffer",
    "Tile",
    "TileSchedule",
    "Transposer",
    "TransposerOutputs",
    "checked_operands",
    "decode",
    "dot_exact",
    "encode",
    "fixed_values",
    "float_values",
    "is_finite",
    "is_nan",
    "is_zero",
    "levels",
    "make_accumulator",
    "matmul",
    "matmul_exact",
    "product_bits",
    "round_fixed",
    "run_streams",
    "schedule",
    "schedule_stream",
    "to_float",
    "transpose_group",
]
