"""Errors of devices, offloading and program folders."""

from tensordash.configuration.errors import TensorDashError

__all__ = ["DeviceError", "NoRoomError", "OffloadError", "ProgramFolderError", "RoundingError"]


class DeviceError(TensorDashError, RuntimeError):
    """A device cannot run an operation: closed, of another thread, too small. The message is one line."""


class NoRoomError(DeviceError):
    """Tensors or a program do not fit into the device's memory."""


class OffloadError(TensorDashError, RuntimeError):
    """A product did not run on the device, though all must. The message is one line."""


class ProgramFolderError(TensorDashError, ValueError):
    """A program folder cannot be made, read or run. The message is one line."""


class RoundingError(OffloadError):
    """Rounding lost values of an operand, though none may be lost. The message is one line."""
