"""Recording: what a training step of PyTorch multiplies, seen as its ATen operations pass. Needs torch."""

from .mode import Capture

__all__ = ["Capture"]
