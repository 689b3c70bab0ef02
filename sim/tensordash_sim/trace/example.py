"""Example trace of the package."""

from pathlib import Path

__all__ = ["example_trace"]


def example_trace() -> Path:
    """Return the folder of a trace with values: one training step of a small CNN on scikit-learn's digits.

    The step is the first one after five epochs, so its zeros come from a network that has learned. The network has
    two convolutions and two fully connected layers. The batch is 16 images. Training is in mixed precision: operands
    are fp16, and the loss is scaled by 1024. examples/digits_cnn.py is the script and describes the recording.

    Returns
    -------
    Path
        The folder. Do not write to it.

    Examples
    --------
    >>> from tensordash_sim.trace import Trace
    >>> for record in Trace.open(example_trace()).records:
    ...     if record.operation == "AxG":
    ...         print(record.layer, {name: operand.shape for name, operand in record.operands.items()})
    CNN.fc2 {'A': (1, 16, 32), 'G': (1, 16, 10)}
    CNN.fc1 {'A': (1, 16, 144), 'G': (1, 16, 32)}
    CNN.conv2 {'A': (16, 16, 8, 8), 'G': (16, 16, 6, 6)}
    CNN.conv1 {'A': (16, 1, 8, 8), 'G': (16, 16, 8, 8)}
    """
    return Path(__file__).parents[1] / "data" / "digits_cnn.trace"
