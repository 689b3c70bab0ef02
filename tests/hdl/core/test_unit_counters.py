"""Test the emitted Verilog of the unit counters."""

from tensordash.configuration.core_config import CoreConfig
from tensordash.core.unit_counters import UnitCounters
from tensordash_sim.verify.unit_run import run_unit


def test_passes() -> None:
    assert run_unit(UnitCounters(), "unit_counters", CoreConfig(), seed=1) == []
