"""What the tests of emitted Verilog share."""

import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tensordash import TileConfig, generate
from tensordash_sim.verify import run_bench, simulator_names

FASTEST = simulator_names()[0] if simulator_names() else "auto"
# Verilator takes seconds to build what Icarus builds at once; small designs do not make up for it.
FOR_SMALL = "icarus" if "icarus" in simulator_names() else FASTEST


@pytest.fixture(scope="session")
def verilog(tmp_path_factory: pytest.TempPathFactory) -> Callable[[TileConfig], Path]:
    """Where a configuration's Verilog is, emitted on first use."""

    @cache
    def folder(config: TileConfig) -> Path:
        made = tmp_path_factory.mktemp(config.digest)
        generate(config, made)
        return made

    return folder


@pytest.fixture
def check(verilog, tmp_path, request):
    """Run a bench that must pass."""

    def run(bench: str, config: TileConfig, *, effort: float, simulator: str) -> None:
        seed = zlib.crc32(request.node.name.encode()) % 1000
        result = run_bench(bench, config, verilog(config), tmp_path, seed=seed, effort=effort, simulator=simulator)
        print(result)
        assert result.tests > 0, f"{bench}, seed {seed}: no test ran"
        assert result.passed, f"{bench}, seed {seed}: {'; '.join(result.failures)}"
        assert (result.bench, result.seed, result.simulator) == (bench, seed, simulator)

    return run
