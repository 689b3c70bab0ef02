"""Test that a reset of two cycles initialises tile and wrapper for any register values at power-up."""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from pathlib import Path

import pytest
from amaranth.hdl import Signal

from tensordash import TileConfig, generate
from tensordash.streams.feeder import Feeder
from tensordash.tile.control import Control
from tensordash_sim.verify import run_bench, simulator_names
from tensordash_sim.verify.run import BenchResult

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("verilator" not in simulator_names(), reason="Verilator cannot run here"),
]

SMALL = TileConfig(rows=2, columns=1, lanes=2, depth=3, connectivity=((0, 0), (1, 0), (2, 0)))
CONFIGS = {
    "shift": SMALL,
    "ring": replace(SMALL, staging="ring", registered_ready=True),
    "c": replace(SMALL, initial=True, counters="snapshot"),
    "fused-c": replace(SMALL, initial=True, format="bf16", accumulator="volta"),
    "int8-both": replace(SMALL, format="int8", sparsity="both", initial=True, pipeline=3),
    "dense": replace(SMALL, sparsity="none", pipeline=1),
}


def run(bench: str, config: TileConfig, folder: Path, seed: int, *, random: bool = True) -> BenchResult:
    """Run a bench on registers that start with random values, which depend on the seed, or with zeros."""
    generate(config, folder / "verilog")
    return run_bench(
        bench,
        config,
        folder / "verilog",
        folder / f"run{seed}",
        seed=seed,
        effort=0.1,
        simulator="verilator",
        options=["--x-initial", "unique", "--x-assign", "unique"] if random else [],
        plusargs=["+verilator+rand+reset+2", f"+verilator+seed+{seed}"] if random else [],
    )


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("bench", ["tile", "axi_stream"])
def test_benches_pass_from_any_state(bench, name, tmp_path):
    for seed in (1, 2, 3):
        result = run(bench, CONFIGS[name], tmp_path, seed)
        assert result.passed, (seed, result.failures)


def remove_reset(kind: type, attribute: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the reset of one register of a component."""
    original: Callable = kind.__init__  # type: ignore[misc]

    @wraps(original)
    def broken(self, *args, **kwargs):
        original(self, *args, **kwargs)
        setattr(self, attribute, Signal.like(getattr(self, attribute), reset_less=True))

    monkeypatch.setattr(kind, "__init__", broken)


@pytest.mark.parametrize(
    ("bench", "kind", "attribute"), [("axi_stream", Feeder, "_known"), ("tile", Control, "_present")]
)
def test_a_register_without_its_reset_is_found(bench, kind, attribute, tmp_path, monkeypatch):
    remove_reset(kind, attribute, monkeypatch)
    monkeypatch.setenv("COCOTB_TEST_FILTER", "random_traffic/idle=0.0")
    assert run(bench, SMALL, tmp_path, 9, random=False).passed, "power-up of zeros hides it"
    assert not all(run(bench, SMALL, tmp_path, seed).passed for seed in (1, 2, 3))
