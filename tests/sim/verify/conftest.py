"""Shared fixtures of tests of the emitted Verilog."""

import sys
import zlib
from collections.abc import Callable
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import Signal, Value

from tensordash import TileConfig, generate
from tensordash.arithmetic import float_sum, product_terms
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash_sim.verify import run_bench, simulator_names
from tensordash_sim.verify.core_library import build_library, verilog_of

FASTEST = simulator_names()[0] if simulator_names() else "auto"
# Icarus builds immediately, Verilator takes seconds, which short runs of small designs do not regain.
FOR_SMALL = "icarus" if "icarus" in simulator_names() else FASTEST
CONFIG = TileConfig(rows=2, columns=1)


def core_preset(name: str) -> CoreConfig:
    config = load_any_preset(name)
    assert isinstance(config, CoreConfig)
    return config


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Verilated core of the preset `core` as a library."""
    return build_library(verilog_of(core_preset("core")), tmp_path_factory.mktemp("core"))


@pytest.fixture(scope="session")
def verilog(tmp_path_factory: pytest.TempPathFactory) -> Callable[[TileConfig], Path]:
    """Return the path of a configuration's Verilog, emitted on first use."""

    @cache
    def folder(config: TileConfig) -> Path:
        path = tmp_path_factory.mktemp(config.digest)
        generate(config, path)
        return path

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
        assert (result.bench, result.seed) == (bench, seed)
        assert simulator in ("auto", result.simulator)

    return run


@pytest.fixture
def run_faulty(tmp_path, monkeypatch):
    """Emit Verilog that is broken or has another configuration than the bench expects, and return the bench's failures.

    `only` is a regular expression for the names of the bench's tests to run.
    """

    def run(
        bench: str,
        emitted: TileConfig | None = None,
        *,
        config: TileConfig = CONFIG,
        effort: float = 0.15,
        only: str = "",
    ) -> tuple[str, ...]:
        monkeypatch.setenv("COCOTB_TEST_FILTER", only)
        generate(emitted or config, tmp_path / "verilog")
        result = run_bench(
            bench, config, tmp_path / "verilog", tmp_path / "run", seed=7, effort=effort, simulator=FOR_SMALL
        )
        print(result)
        assert result.tests > 0
        assert not result.passed
        assert result.failures
        return result.failures

    return run


@pytest.fixture
def run_quick(run_faulty):
    """Run a bench or one of its tests with little stimulus, which must find the fault."""
    return lambda bench, config, emitted=None, only="": run_faulty(
        bench, emitted, config=config, effort=0.05, only=only
    )


class Recorder:
    """Replace Amaranth's Signal in a module, and store the created signals by name."""

    def __init__(self) -> None:
        self.signals: dict[str, Any] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._keep(Signal(*args, **{"src_loc_at": 1, **kwargs}))

    def like(self, *args: Any, **kwargs: Any) -> Any:
        return self._keep(Signal.like(*args, **{"src_loc_at": 1, **kwargs}))

    def _keep(self, signal: Any) -> Any:
        self.signals[Value.cast(signal).name] = signal
        return signal


@pytest.fixture
def sabotage(monkeypatch):
    """Add assignments to a component's hardware, after its own assignments, which they override.

    `assignments` gets the component and, if it has a second parameter, the component's signals by name.
    """

    def patch(component: type, assignments, method: str = "elaborate", domain: str = "comb") -> None:
        original = getattr(component, method)

        def broken(self, argument):
            inside = Recorder()
            with monkeypatch.context() as within:
                # Components also create signals in these arithmetic modules.
                for module in (sys.modules[component.__module__], float_sum, product_terms):
                    within.setattr(module, "Signal", inside, raising=False)
                result = original(self, argument)
            module = result if method == "elaborate" else argument
            wants_signals = len(signature(assignments).parameters) == 2
            module.d[domain] += assignments(self, inside.signals) if wants_signals else assignments(self)
            return result

        monkeypatch.setattr(component, method, broken)

    return patch


def reports(failures: tuple[str, ...], *words: str) -> bool:
    """Require that every failure is a mismatch; return whether one failure contains all words."""
    assert all("golden has" in line or "undefined" in line or " is " in line for line in failures), failures
    return any(all(word in line for word in words) for line in failures)
