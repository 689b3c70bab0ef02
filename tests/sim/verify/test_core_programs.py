"""Run programs of full size on the Verilog of core presets."""

import pytest

from tensordash_sim.verify.core_library import verilog_of
from tensordash_sim.verify.core_programs import PROGRAMS, run_core_programs

from .conftest import core_preset


@pytest.mark.parametrize("test", PROGRAMS)
def test_programs(test: str) -> None:
    config = core_preset("core")
    assert run_core_programs(config, verilog_of(config), seed=1, effort=0.3, tests=[test]) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "core-bf16",
        "core-dense",
        "core-dense-bf16",
        "core-dense-int8",
        "core-int8",
        "core-wide",
        "core-fp8",
        "core-nvfp4",
        "core-skip",
        "core-drop",
    ],
)
def test_other_presets(name: str) -> None:
    config = core_preset(name)
    assert run_core_programs(config, verilog_of(config), seed=1, effort=2) == []
