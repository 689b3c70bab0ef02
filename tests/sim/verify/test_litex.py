"""Test the LiteX example with each memory of `bench/litex_memories.py`, and with a broken RAM."""

import shutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.emission.verilog import generate
from tensordash_sim.verify.simulators import SimulatorError, simulator_names

from .plain_testbench import change

ROOT = Path(__file__).parents[3]
SMALL = CoreConfig.from_toml("[core]\nbuffer = 8\nstream_buffer = 4\naddress_bits = 32\nmask = false")


@pytest.fixture
def bench() -> Iterator[ModuleType]:
    pytest.importorskip("litex")
    if "verilator" not in simulator_names():
        pytest.skip("Verilator cannot run here")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "bench"))
        yield import_module("litex_memories")


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["wide-ram", "bus-128", "bus-32"])
def test_program(memory: str, bench: ModuleType, tmp_path: Path) -> None:
    generate(SMALL, tmp_path / "verilog")
    assert 100 < bench.run(SMALL, tmp_path / "verilog", memory, tmp_path) < 3000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [(r"port.we.eq\(w.strb\)", "port.we.eq(0xFFFF)"), (r"r.id.eq\(burst_id\)", "r.id.eq(~burst_id)")],
)
def test_broken_ram_is_found(
    old: str, new: str, bench: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "EXAMPLE", shutil.copytree(bench.EXAMPLE, tmp_path / "example"))
    change(tmp_path / "example/tensordash_litex.py", old, new)
    generate(SMALL, tmp_path / "verilog")
    with pytest.raises(SimulatorError, match="wide-ram: program: "):
        bench.run(SMALL, tmp_path / "verilog", "wide-ram", tmp_path)
