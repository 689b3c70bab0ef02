"""Addresses of programs and firmware in a system's memory."""

__all__ = ["PROGRAM_BASE"]

PROGRAM_BASE = 0x10000
"""Default first address of programs and tensors. Firmware and its stack are below."""
