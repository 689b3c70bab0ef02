"""Capture of the products of a PyTorch training step from its ATen operations. Needs torch."""

from .mode import Capture

__all__ = ["Capture"]
