"""Shared fixture of many tests: the cells."""

import pytest

from tensordash_synth import load_lef, load_liberty
from tensordash_synth.lef import Lef
from tensordash_synth.liberty import Liberty


@pytest.fixture(scope="session")
def library() -> Liberty:
    return load_liberty()


@pytest.fixture(scope="session")
def lef() -> Lef:
    return load_lef()
