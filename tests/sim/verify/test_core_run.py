"""Test that `verify` runs a core's bench on emitted files and finds faults in them."""

from pathlib import Path

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.emission.verilog import generate
from tensordash_sim.verify import SimulatorError, VerificationError
from tensordash_sim.verify.core_run import CORE_BENCHES, run_core_bench, verify_core

from .plain_testbench import needs_icarus

SMALL = CoreConfig.from_toml("[core]\nbuffer = 8\nstream_buffer = 4\nmask = false\nstochastic = false")


@pytest.fixture(scope="module")
def verilog(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("core")
    generate(SMALL, folder)
    return folder


@pytest.mark.slow  # tests/cli runs these benches by `verify`.
@needs_icarus
@pytest.mark.parametrize("bench", CORE_BENCHES)
def test_passes(bench: str, verilog: Path, tmp_path: Path) -> None:
    result = run_core_bench(bench, SMALL, verilog, tmp_path, effort=0.1, simulator="icarus")
    assert result.passed, result.failures
    assert result.tests >= 2
    assert (result.bench, result.simulator, result.seed) == (bench, "icarus", 0)


@needs_icarus
def test_broken_verilog_is_found(verilog: Path, tmp_path: Path) -> None:
    """The bench also uses the emitted file of memories."""
    file = tmp_path / "tensordash_memories.v"
    for path in verilog.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    before, module, after = file.read_text().partition("module tensordash_memory__64x64(")  # the buffer's
    assert module
    file.write_text(before + module + after.replace("read__data <= ", "read__data <= ~", 1))
    result = run_core_bench("core", SMALL, tmp_path, tmp_path / "run", effort=0.1, simulator="icarus")
    assert not result.passed
    assert result.failures


def test_wrong_use(tmp_path: Path) -> None:
    with pytest.raises(
        VerificationError, match="bench must be one of core, core_queue, core_errors for a core, not 'tile'"
    ):
        run_core_bench("tile", SMALL, tmp_path, tmp_path)
    with pytest.raises(SimulatorError, match="simulator must be one of auto"):
        verify_core(SMALL, simulator="spice")
