"""The base of all errors that tell a user what is wrong with the input."""

__all__ = ["TensorDashError"]


class TensorDashError(Exception):
    """Input, or an environment, that cannot be used. The message is one line; the command exits with status 2."""
