"""Shared fixtures: the cell library, its shapes, and a placed netlist."""

import pytest

from tensordash_synth import load_lef, load_liberty
from tensordash_synth.lef import Lef
from tensordash_synth.liberty import Liberty
from tensordash_synth.placement import Placed

from .wire_netlists import placed_netlist


@pytest.fixture(scope="session")
def library() -> Liberty:
    return load_liberty()


@pytest.fixture(scope="session")
def lef() -> Lef:
    return load_lef()


@pytest.fixture(scope="module")
def placed(gates, library: Liberty, lef: Lef, tmp_path_factory: pytest.TempPathFactory) -> Placed:
    """Place the netlist `gates` of the test module."""
    return placed_netlist(gates, library, lef, tmp_path_factory.mktemp("placed"))
