"""Small tiles of different formats and accumulators, in which tests plant faults."""

from tensordash import TileConfig

EXACT = TileConfig(rows=2, columns=2, initial=True)
E4M3 = TileConfig(rows=1, columns=1, format="fp8_e4m3", headroom_bits=3)
INT8 = TileConfig(rows=2, columns=1, format="int8", headroom_bits=5, initial=True)
VOLTA = TileConfig(rows=2, columns=1, format="bf16", accumulator="volta", initial=True)
NEAREST = TileConfig(rows=1, columns=1, accumulator={"fused": 23, "rounding": "nearest"}, initial=True)
COARSE = TileConfig(rows=1, columns=1, format="fp8_e4m3", accumulator={"fused": 8}, initial=True)
AFTER = TileConfig(rows=1, columns=1, format="bf16", accumulator="blackwell-fp8", initial=True)
NARROW = TileConfig(rows=1, columns=1, format="fp8_e4m3", accumulator="hopper-fp8", initial=True)
LAST = TileConfig(rows=2, columns=1, accumulator="blackwell-fp16", initial=True)
HALF = TileConfig(rows=1, columns=1, accumulator="hopper-fp16", initial=True)
LOW = TileConfig(rows=1, columns=1, format="bf16", accumulator={"fused": 24, "zero_exponent": -132}, initial=True)
CONFIGS = {"exact": EXACT, "e4m3": E4M3, "int8": INT8, "volta": VOLTA, "nearest": NEAREST, "coarse": COARSE}
CONFIGS |= {"last": LAST, "after": AFTER, "narrow": NARROW, "half": HALF, "low": LOW}
