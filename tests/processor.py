"""Kernels that PyTorch has on the processor of these tests."""

from functools import cache

import torch


@cache
def has_bf16_lstm() -> bool:
    """Return whether PyTorch runs an LSTM in bf16: on x86 without AVX-512, oneDNN has no kernel for it."""
    try:
        with torch.autocast("cpu", torch.bfloat16):
            torch.nn.LSTM(8, 8)(torch.zeros(3, 2, 8))
    except RuntimeError as error:
        if "could not create a primitive descriptor" not in str(error):
            raise
        return False
    return True
