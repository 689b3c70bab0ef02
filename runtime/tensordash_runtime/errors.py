"""Errors of devices, offloading and program folders."""

from tensordash.configuration.errors import TensorDashError

__all__ = ["DeviceError", "NoRoomError", "OffloadError", "ProgramFolderError", "RoundingError"]


class DeviceError(TensorDashError, RuntimeError):
    """A device is closed, belongs to another thread, or failed to run an operation. The message is one line."""


class NoRoomError(DeviceError):
    """Tensors or a program do not fit into the device's memory."""


class OffloadError(TensorDashError, RuntimeError):
    """A product did not run on the device, and `strict` forbids that. The message is one line."""


class ProgramFolderError(TensorDashError, ValueError):
    """A program folder cannot be written, read or run. The message is one line."""


class RoundingError(OffloadError):
    """Rounding lost more values of an operand than `strict` allows. The message is one line."""
