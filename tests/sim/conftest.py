"""Random numbers of the simulator's tests."""

import zlib

import numpy as np
import pytest


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Return random numbers with a seed from the test's name."""
    seed = zlib.crc32(request.node.name.encode())
    print(f"seed of {request.node.name}: {seed}")
    return np.random.default_rng(seed)
