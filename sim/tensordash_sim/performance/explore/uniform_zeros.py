"""Traces of uniform random zeros, for searches without a recording."""

from pathlib import Path

import numpy as np

from ...lowering import MatrixProduct, Operation
from ...trace import Trace, TraceWriter

__all__ = ["PRODUCT", "write_uniform_zeros"]

PRODUCT = MatrixProduct(batch=1, samples=2048, in_features=512, out_features=512)
"""The product of each trace: with four lanes, streams of 128 steps."""


def write_uniform_zeros(folder: Path, zeros: float, seed: int) -> Trace:
    """Write a trace of one product: A has uniform random zeros, and W has none. Equal arguments give equal digests.

    Parameters
    ----------
    folder : Path
        Folder of the trace, which is named after its zeros. An earlier trace of this name is replaced.
    zeros : float
        Probability of a zero, 0 to 1.
    seed : int
        Seed of the zeros.

    Raises
    ------
    TraceError
        If the trace cannot be written.
    """
    path = folder / f"zeros-{zeros}.trace"
    conditions = {"zeros": f"uniform, {zeros}", "seed": str(seed)}
    random = np.random.default_rng(seed)
    masks = {"A": random.random(PRODUCT.shapes["A"]) >= zeros, "W": np.ones(PRODUCT.shapes["W"], np.bool_)}
    with TraceWriter(path, conditions=conditions, overwrite=True) as writer, writer.step(0) as step:
        step.record("uniform", Operation.FORWARD, PRODUCT, masks)
    return Trace.open(path)
