"""Test that a run's document, table and page contain the device's figures."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tensordash import load_preset
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash_runtime import Device, Run, offload
from tensordash_runtime.counting import count_cycles
from tensordash_sim.cycles import count
from tensordash_sim.lowering import MatrixProduct


def train(device: Device) -> Run:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(128, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with offload(device, model=model) as run:
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.randn(2, 1, 6, 6)).square().mean().backward()
            optimizer.step()
        torch.ones(2, 2).double() @ torch.ones(2, 2).double()
    return run


@pytest.fixture(scope="module")
def run() -> Run:
    with Device("core") as device:
        return train(device)


def test_json_document(run: Run) -> None:
    document = json.loads(json.dumps(run.to_json()))
    assert document["backend"] == "emulator"
    assert not document["cycles_measured"]
    assert document["steps"] == 2
    assert len(document["contractions"]) == 10
    first = document["contractions"][0]
    assert (first["step"], first["layer"], first["operation"], first["where"]) == (0, "0", "AxW", "emulator")
    assert first["geometry"]["kind"] == "convolution"
    assert first["macs"] == 2 * 8 * 9 * 16
    assert first["row_side"] == "A"
    names = ("macs", "cycles", "dense_cycles", "traffic")
    for name in names:
        assert document["totals"][name] == sum(each[name] for each in document["contractions"]) > 0, name
    # The product is too small for a speedup: streams are padded to the window.
    assert 0.95 < document["totals"]["dense_cycles"] / document["totals"]["cycles"] < 1.5
    (missed,) = document["missed"]
    assert (missed["step"], missed["macs"]) == (2, 8)
    assert document["share"] == pytest.approx(1 - 8 / (document["totals"]["macs"] + 8))


def test_text_table(run: Run) -> None:
    text = str(run)
    assert "3     │ WxG" in text
    assert f"{run.totals().macs:,}" in text
    assert text.count("did not run on the device, 8 MACs: operands must both be float32") == 1


def test_html_page(run: Run, tmp_path: Path) -> None:
    run.page(tmp_path / "made" / "page.html", curves={"loss": {"device": [2.0, 1.0]}})
    html = (tmp_path / "made" / "page.html").read_text(encoding="utf-8")
    data = json.loads(html.partition('id="report-data">')[2].partition("</script>")[0])
    points = data["figures"][0]["points"]
    assert [point["ours"] for point in points if point["metric"] == "loss"] == [2.0, 1.0]
    speedups = [point["ours"] for point in points if (point["metric"], point["series"]) == ("speedup", "all")]
    assert speedups == [each.speedup for each in run.by_step().values()]
    assert "operands must both be float32" in html
    assert "the paper" not in html.partition('<main id="main">')[2].partition("<script")[0]


def test_cycles_of_the_verilog_are_measured() -> None:
    with Device("core", "verilator", memory_bytes=1 << 20) as device, Device("core", "golden") as golden:
        a, b = np.ones((8, 16), np.float16), np.ones((8, 16), np.float16)
        a[:, ::2] = 0
        layer = MatrixProduct(batch=1, samples=8, in_features=16, out_features=8)
        done, same = (each.contract(layer, "AxW", {"A": a[None], "W": b[None]}).executed for each in (device, golden))
        assert done.cycles is not None
        assert done.cycles > 0
        assert done.traffic == same.traffic == 2 * (8 * 16 + 8 * 16 + 8 * 8) + 32  # The last 32 bytes are the record.
        assert same.cycles is None


def test_speedup_matches_the_cycle_simulator() -> None:
    """Few passes are counted exactly. For many passes, a sample is close."""
    config = load_preset("recommended")
    random = np.random.default_rng(0)
    for samples, exactly in ((12, True), (2000, False)):
        layer = MatrixProduct(batch=1, samples=samples, in_features=50, out_features=3)
        masks = {name: random.random(layer.shapes[name]) < share for name, share in (("A", 0.4), ("W", 0.9))}
        streams = [np.pad(rows, ((0, 0), (0, 2))).reshape(4, 13, 4) for rows in masks["A"][0].reshape(-1, 4, 50)]
        expected = count(streams, config)
        found = count_cycles(layer, "AxW", masks, "A", config)
        assert found.dense == expected.steps
        assert found.speedup == pytest.approx(expected.speedup, rel=1e-9 if exactly else 0.03)
        assert count_cycles(layer, "AxW", masks, "W", config).speedup < 1.3
        assert count_cycles(layer, "AxW", masks, "A", config.baseline).speedup == 1


@pytest.fixture(scope="module")
def tile_run() -> Run:
    core = load_any_preset("core")
    assert isinstance(core, CoreConfig)
    with Device(core.tile) as device:
        return train(device)


def test_a_tile_has_cycles_and_no_traffic(tile_run: Run) -> None:
    totals = tile_run.totals()
    assert totals.traffic == 0
    assert totals.dense_cycles == sum(each.executed.dense for each in tile_run.contractions)
    assert totals.dense_cycles > totals.cycles > 0


def test_tile_speedup_in_a_core_equals_the_speedup_of_the_tile(run: Run, tile_run: Run) -> None:
    """The tile's speedup in a core equals the speedup of the tile alone, without memory."""
    totals, alone = run.totals(), tile_run.totals()
    assert totals.dense_tile_cycles == alone.dense_cycles
    assert totals.tile_cycles == pytest.approx(alone.cycles, abs=len(run.contractions))  # Each is rounded.
    assert totals.tile_speedup == pytest.approx(totals.dense_tile_cycles / totals.tile_cycles) != totals.speedup
    document = run.to_json()
    assert document["totals"]["tile_speedup"] == round(totals.tile_speedup, 4)
    for each, alike in zip(document["contractions"], tile_run.to_json()["contractions"], strict=True):
        assert each["tile_speedup"] == alike["tile_speedup"]
        assert alike["tile_speedup"] == pytest.approx(
            alike["dense_cycles"] / alike["cycles"], rel=0.05
        )  # Rounding matters for few cycles.
