"""What can go wrong while a device computes."""

from tensordash.configuration.errors import TensorDashError

__all__ = ["DeviceError", "NoRoomError", "OffloadError", "ProgramFolderError", "RoundingError"]


class DeviceError(TensorDashError, RuntimeError):
    """A device that cannot do what it is asked for: closed, of another thread, too small. The message is one line."""


class NoRoomError(DeviceError):
    """Tensors or a program that do not fit the device's memory."""


class OffloadError(TensorDashError, RuntimeError):
    """A multiplication that did not run on the device, where all must. The message is one line."""


class ProgramFolderError(TensorDashError, ValueError):
    """A program folder that cannot be made, read or run. The message is one line."""


class RoundingError(OffloadError):
    """An operand that lost values when it was rounded, where none may. The message is one line."""
