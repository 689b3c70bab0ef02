"""Emulator: golden's bits in compiled code, without cycles: matrix products, operations of layers, conversions."""

from .contraction import contract
from .conversions import decode, encode, result_bits
from .products import matrix_product
from .random_bits import RandomBits
from .scaled import contract_scaled

__all__ = ["RandomBits", "contract", "contract_scaled", "decode", "encode", "matrix_product", "result_bits"]
