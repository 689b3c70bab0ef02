"""Base class of all errors about a user's input."""

__all__ = ["TensorDashError"]


class TensorDashError(Exception):
    """Input or an environment that cannot be used. The message is one line. The command exits with status 2."""
