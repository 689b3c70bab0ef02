"""Where programs and firmware are in a system's memory."""

__all__ = ["PROGRAM_BASE"]

PROGRAM_BASE = 0x10000
"""First address of programs and tensors, unless another one is chosen; firmware and its stack are below."""
