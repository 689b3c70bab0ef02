"""Emulator: compiled matrix products, layer operations and conversions, bit-identical to golden but without cycles."""

from .contraction import contract
from .conversions import decode, encode, result_bits
from .products import matrix_product
from .random_bits import RandomBits
from .scaled import contract_scaled
from .threads import limited_threads, start_threads

__all__ = [
    "RandomBits",
    "contract",
    "contract_scaled",
    "decode",
    "encode",
    "limited_threads",
    "matrix_product",
    "result_bits",
    "start_threads",
]
