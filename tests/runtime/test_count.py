"""Test that `count=False` counts no cycles and changes no result."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import numba
import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info
from torch import nn

from tensordash_runtime import Device, Run, offload
from tensordash_runtime.compare import comparison
from tensordash_sim.cycles import Scheduler
from tensordash_sim.emulator import limited_threads
from tensordash_sim.emulator.threads import SMALL_MACS
from tensordash_sim.lowering import MatrixProduct

from ..sim.lowering.geometries import convolution


class Network(nn.Module):
    """Layers of unusual shapes: strided, grouped and depthwise convolutions, an LSTM and attention."""

    def __init__(self) -> None:
        super().__init__()
        self.strided = nn.Conv2d(3, 6, 3, stride=2, padding=1)
        self.grouped = nn.Conv2d(6, 9, (3, 1), groups=3)
        self.depthwise = nn.Conv2d(9, 9, 2, groups=9)
        self.lstm = nn.LSTM(9, 10)
        self.attention = nn.MultiheadAttention(10, 2)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features = self.depthwise(self.grouped(self.strided(images).relu()).relu()).relu()
        words = self.lstm(features.flatten(2).permute(2, 0, 1))[0]
        result: torch.Tensor = self.attention(words, words, words)[0]
        return result


def train(device: Device, *, count: bool, steps: int = 2, golden: Device | None = None) -> tuple[list, Run]:
    """Train for some steps; return the weights and the run."""
    torch.manual_seed(0)
    model = Network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watcher = None if golden is None else comparison(golden)
    with offload(device, model=model, count=count, watcher=watcher) as run:
        for _ in range(steps):
            optimizer.zero_grad()
            model(torch.randn(2, 3, 7, 9)).square().mean().backward()
            optimizer.step()
    assert not run.missed
    return [parameter.detach().numpy() for parameter in model.parameters()], run


@pytest.mark.sampled(2)
@pytest.mark.parametrize("preset", ["core", "core-bf16", "paper-bf16", "core-fp8"])
def test_weights_are_bit_identical(preset: str) -> None:
    with Device(preset) as device, Device(preset) as other:
        uncounted_weights, run = train(device, count=False)
        counted_weights, counted = train(other, count=True)
    for one, same in zip(uncounted_weights, counted_weights, strict=True):
        assert np.array_equal(one.view(np.uint32), same.view(np.uint32))
    sides = [[each.executed.problem.rows for each in both.contractions] for both in (run, counted)]
    assert (sides[0] != sides[1]) == (preset in ("core", "core-bf16")), (
        "row sides must differ only where no result depends on them"
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize("preset", ["core", "core-bf16"])
def test_products_match_the_golden_core_without_counting(preset: str) -> None:
    with Device(preset) as device, Device(preset, "golden") as golden:
        train(device, count=False, steps=1, golden=golden)


def test_stochastic_rounding_matches_golden_with_and_without_counting() -> None:
    factor = torch.randn(24, 40).half() * (torch.rand(24, 40) < 0.2)
    with Device("core", rounding="stochastic") as device, Device("core", "golden", rounding="stochastic") as golden:
        with offload(device, count=False, watcher=comparison(golden)):
            factor @ torch.randn(40, 30).half()
        with offload(device, count=True, watcher=comparison(golden)):
            factor @ torch.randn(40, 30).half()


def test_random_bits_are_independent_of_zeros() -> None:
    """Neither zeros in other samples nor counting change a result; the zeros change the cycles."""
    random = torch.Generator().manual_seed(7)
    a, b = (torch.randn(shape, generator=random).half() for shape in ((24, 40), (40, 24)))
    sparse = a.clone()
    sparse[1:][torch.rand(23, 40, generator=random) < 0.95] = 0
    geometry, rows = MatrixProduct(batch=1, samples=24, in_features=40, out_features=24), []
    for left, count in ((a, True), (sparse, True), (a, False)):
        with Device("core", rounding="stochastic") as device:
            contraction = device.contract(geometry, "AxW", {"A": left[None], "W": b.T[None]}, count=count)
            rows.append(contraction.result.reshape(24, 24)[0])
    assert rows[0].dtype == torch.float16
    assert torch.equal(rows[0], rows[1])
    assert torch.equal(rows[0], rows[2])


def test_the_gradient_is_on_the_row_side() -> None:
    with Device("core") as device:
        _, run = train(device, count=False, steps=1)
    for each in run.contractions:
        assert each.executed.problem.rows == ("A" if each.executed.problem.operation == "AxW" else "G")


def test_count_false_skips_the_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    def schedule(*_: object) -> None:
        raise AssertionError("counted")

    monkeypatch.setattr(Scheduler, "schedule", schedule)
    values = torch.tensor([[1.0, 1e-14], [1e-14, 1.0]])
    with Device("core") as device:
        train(device, count=False, steps=1)
        with offload(device, count=False) as run:
            values @ values
        assert run.totals().flushed
        with pytest.raises(AssertionError, match="counted"):
            train(device, count=True, steps=1)


@pytest.mark.parametrize("operand", ["a", "b"])
def test_infinities(operand: str) -> None:
    """An infinity times zero is NaN, whichever operand is on the row side."""
    generator = np.random.default_rng(0)
    tensors = {name: generator.standard_normal((1, 5, 7), np.float32) for name in "ab"}
    tensors["a"][0, 1] = 0
    tensors["b"][0, 2] = 0
    tensors[operand][0, 3, 4] = np.inf
    layer = MatrixProduct(batch=1, samples=5, in_features=7, out_features=5)
    with Device("core") as device:
        operands = {"A": tensors["a"], "W": tensors["b"]}
        counted, plain = (device.contract(layer, "AxW", operands, count=count) for count in (True, False))
    assert np.array_equal(counted.result.view(np.uint32), plain.result.view(np.uint32))
    assert np.isnan(plain.result).sum() == 1
    assert not plain.executed.is_counted
    assert not any(each.is_counted for each in plain.executed.checks)


def test_a_run_has_no_cycles(tmp_path: Path) -> None:
    with Device("core") as device:
        _, run = train(device, count=False, steps=1)
        text = str(run)
        document = json.loads(json.dumps(run.to_json(), allow_nan=False))
        run.page(tmp_path / "page.html")
    totals, uncounted = run.totals(), len(run.contractions)
    assert (totals.uncounted, totals.cycles, totals.traffic) == (uncounted, 0, 0)
    assert all(np.isnan([totals.speedup, totals.tile_speedup, totals.flushed_speedup, totals.flushed_tile_speedup]))
    assert document["totals"]["uncounted"] == uncounted
    names = [name for name in document["totals"] if "cycles" in name or "speedup" in name or name == "traffic"]
    assert len(names) == 8
    assert {document["totals"][name] for name in names} == {None}
    for each in document["contractions"]:
        assert {each[name] for name in each if "cycles" in name or "speedup" in name or name == "traffic"} == {None}
    total = next(line for line in text.splitlines() if "all" in line)
    assert [cell.strip() for cell in total.split("│")[6:11]] == ["-"] * 5
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    data = json.loads(page.partition('id="report-data">')[2].partition("</script>")[0])
    assert not [point for point in data["figures"][0]["points"] if point["metric"] == "speedup"]
    assert {point["ours"] for point in data["figures"][1]["points"]} == {None}


def test_partly_counted_run_has_no_speedup() -> None:
    product = torch.randn(4, 8)
    with Device("core") as device:
        with offload(device) as run:
            product @ product.T
        alone = run.totals()
        with offload(device, run=run, count=False):
            product @ product.T
    totals = run.totals()
    assert (totals.contractions, totals.uncounted) == (2, 1)
    assert totals.cycles == alone.cycles > 0
    assert np.isnan(totals.speedup)
    assert run.to_json()["totals"]["cycles"] is None


def test_small_products_run_on_one_thread() -> None:
    def threads() -> tuple[int, set[int]]:
        blas = [each for each in threadpool_info() if each["user_api"] == "blas" and "numpy" in each["filepath"]]
        return numba.get_num_threads(), {each["num_threads"] for each in blas}

    before, inside, leave = threads(), threading.Event(), threading.Event()
    seen: list[tuple[int, set[int]]] = []

    def other() -> None:
        with limited_threads(1):
            seen.append(threads())
            inside.set()
            leave.wait(60)

    with limited_threads(SMALL_MACS):
        assert threads() == before
    with limited_threads(1):
        thread = threading.Thread(target=other)
        thread.start()
        assert inside.wait(60)
        with limited_threads(1):
            assert threads() == (1, {1})
        assert threads() == (1, {1})
    assert seen == [(1, {1})]
    assert threads() == before, "the other thread, still inside its block, must not limit BLAS"
    leave.set()
    thread.join()
    assert threads() == before


def test_pytorch_keeps_its_number_of_threads() -> None:
    """Use a new process, since Numba starts its threads once."""
    script = """
import torch
torch.set_num_threads(1)
torch.nn.functional.conv2d(torch.ones(1, 1, 8, 8), torch.ones(1, 1, 3, 3))
import numba
numba.config.NUMBA_NUM_THREADS = 2
import tensordash_runtime as tr
with tr.Device("core") as device, tr.offload(device, count=False):
    torch.ones(8, 8) @ torch.ones(8, 8)
print(torch.get_num_threads())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"


def test_grouped_convolution_matches_the_golden_core() -> None:
    """The device multiplies all groups together. Each group has its own bias."""
    layer = convolution(
        batch=3, channels=(10, 15), size=(5, 7), kernel=(3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=5
    )
    generator = np.random.default_rng(1)
    tensors = {name: generator.standard_normal(layer.shapes[name], np.float32) for name in "AWG"}
    bias = generator.standard_normal(15).astype(np.float16)
    with Device("core") as device, Device("core", "golden") as golden:
        for operation in ("AxW", "WxG", "AxG"):
            operands = {name: tensors[name].astype(np.float16) for name in operation.replace("x", "")}
            added = bias if operation == "AxW" else None
            uncounted_weights, counted_weights = (
                each.contract(layer, operation, operands, bias=added, count=False) for each in (device, golden)
            )
            assert np.array_equal(uncounted_weights.result.view(np.uint16), counted_weights.result.view(np.uint16)), (
                operation
            )
