"""Test `tensordash explore` of cores."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash_cli.explore_cores import MIN_GAIN
from tensordash_cli.main import run
from tensordash_runtime.traced_products import expect_product
from tensordash_sim.lowering import Convolution, MatrixProduct
from tensordash_sim.performance.explore import CoreShape
from tensordash_sim.trace import Trace, TraceWriter, example_trace

DOCS = Path(__file__).parents[2] / "docs"
SMALL = ("--preset", "core", "--columns", "4,8", "--buffer", "64", "--stream-buffer", "16")
ONE_CORE = ("--preset", "core", "--columns", "4", "--axi-bits", "128", "--layout-groups", "1")
LINEAR = MatrixProduct(batch=1, samples=32, in_features=64, out_features=48)
STRIDED = Convolution(
    batch=1,
    in_channels=4,
    out_channels=4,
    size=(10, 10),
    kernel=(3, 3),
    stride=(5, 5),
    padding=(0, 0),
    dilation=(1, 1),
    groups=1,
)
"""A convolution with a stride that no core has."""


def tensordash(*arguments: str) -> int:
    with pytest.raises(SystemExit) as error:
        run(["explore", *arguments, "--jobs", "1"])
    return int(error.value.code or 0)


def write_trace(path: Path, layers: int = 2, strided: bool = False) -> Path:
    """Write a trace of matrix products, half of A and G zeros, and if `strided` a convolution that no core can run."""
    random = np.random.default_rng(7)
    with TraceWriter(path) as writer, writer.step(0) as step:
        for k in range(layers):
            masks = {
                name: random.random(LINEAR.shapes[name]) < share
                for name, share in zip("AWG", (0.5, 1, 0.5), strict=True)
            }
            for operation in ("AxW", "WxG", "AxG"):
                step.record(f"fc{k}", operation, LINEAR, {name: masks[name] for name in operation if name != "x"})
        if strided:
            step.record("strided", "AxW", STRIDED, {name: np.ones(STRIDED.shapes[name]) for name in "AW"})
    return path


def explored(folder: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """Search, and return the document."""
    assert tensordash(*arguments, "-o", str(folder), "--json") == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert json.loads((folder / "explore.json").read_text()) == document
    return document


def test_cores_are_compared_and_the_search_resumes(tmp_path: Path, capsys):
    trace = write_trace(tmp_path / "run.trace", strided=True)
    arguments = (*SMALL, "--axi-bits", "64,128", "--trace", str(trace), "--no-area")
    document = explored(tmp_path / "out", capsys, *arguments)
    start, *_ = points = document["points"]
    assert start["label"] == "core: 4x4, bus 128, groups 1, buffer 64, streams 16, results 2"
    assert len(points) == len({point["label"] for point in points}) == 2 * 2 * 2
    assert start["speedup"] == 1.0
    assert 1.2 < start["over_dense"] < 2.0  # Half of the values are zeros; some products are short.
    assert start["loses_most_in"] is None
    for point in points:
        cycles = sum(each["cycles"] for each in point["products"])
        assert point["cycles"] == cycles
        assert point["speedup"] == pytest.approx(start["cycles"] / cycles)
        assert point["over_dense"] == pytest.approx(sum(each["dense_cycles"] for each in point["products"]) / cycles)
        lost = [each["lost_cycles"] for each in point["products"]]
        assert point["loses_most_in"] is None or point["loses_most_in"]["lost_cycles"] == max(lost) > 0
    by_shape = {
        (each["tile"]["columns"], each["core"]["axi_bits"], each["core"].get("layout_groups", 1)) for each in points
    }
    assert by_shape == {(columns, bits, groups) for columns in (4, 8) for bits in (64, 128) for groups in (1, 2)}
    speed = {each["label"].removeprefix("core: "): each["speedup"] for each in points}
    assert speed["4x8, bus 128, groups 2, buffer 64, streams 16, results 2"] > 1.2
    assert speed["4x4, bus 64, groups 1, buffer 64, streams 16, results 2"] < 1.0
    (left_out,) = document["conditions"]["left_out"]
    assert left_out.startswith("strided AxW: ")

    stored = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "cycles").iterdir()}
    assert len(stored) == 8 + 4  # A dense core has layouts of one group.
    assert tensordash(*arguments, "-o", str(tmp_path / "out")) == 0
    printed = capsys.readouterr().out
    assert all(re.search(f"^{re.escape(point['label'])} ", printed, re.MULTILINE) for point in points)
    assert "products: all 6\n" in printed
    assert f"left out: {left_out}\n" in printed
    assert stored == {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "cycles").iterdir()}


def test_cores_are_searched_with_and_without_dropped_steps(tmp_path: Path, capsys):
    """Small sizes of `core-drop`: most steps of the product's sparse side are empty in all rows."""
    path = tmp_path / "run.trace"
    sparse = np.random.default_rng(0).random((1, 64, 512)) < 0.02
    layer = MatrixProduct(batch=1, samples=64, in_features=512, out_features=64)
    with TraceWriter(path) as writer, writer.step(0) as step:
        step.record("fc", "AxW", layer, {"A": sparse, "W": np.ones(layer.shapes["W"])})
    sizes = ("--columns", "4", "--axi-bits", "256", "--buffer", "256", "--stream-buffer", "32", "--layout-groups", "2")
    arguments = ("--preset", "core-drop", *sizes, "--trace", str(path), "--no-area")
    (alone,) = explored(tmp_path / "alone", capsys, *arguments)["points"]
    dropping, plain = explored(tmp_path / "out", capsys, *arguments, "--drop-steps")["points"]
    assert alone == dropping
    assert dropping["core"]["drop_steps"]
    assert dropping["label"] == "core-drop: 4x4, bus 256, groups 2, buffer 256, streams 32, results 1, drops steps"
    assert "drop_steps" not in plain["core"]
    assert plain["label"] == "4x4, bus 256, groups 2, buffer 256, streams 32, results 1"
    assert plain["cycles"] > 1.2 * dropping["cycles"]
    assert plain["over_dense"] < dropping["over_dense"]


def test_products_are_drawn_from_a_large_trace(tmp_path: Path, capsys):
    trace = write_trace(tmp_path / "run.trace", layers=4)
    arguments = (*SMALL, "--columns", "4", "--layout-groups", "1", "--axi-bits", "128", "--trace", str(trace))
    every = explored(tmp_path / "every", capsys, *arguments, "--no-area")
    some = explored(tmp_path / "some", capsys, *arguments, "--no-area", "--products", "5", "--seed", "3")
    (all_products,), (drawn,) = ([each["products"] for each in document["points"]] for document in (every, some))
    assert len(all_products) == 12
    assert len(drawn) == 5
    assert some["points"][0]["cycles"] == pytest.approx(every["points"][0]["cycles"], rel=0.1)
    assert tensordash(*arguments, "--no-area", "--products", "5", "--seed", "3", "-o", str(tmp_path / "some")) == 0
    assert "products: 5 of 12, drawn with seed 3 by their shares of multiplications\n" in capsys.readouterr().out


def test_traces_have_equal_weights(tmp_path: Path, capsys):
    """The speedup is the mean of the traces' speedups, also if one has many more cycles. Searches share a folder."""
    large, small = (write_trace(tmp_path / f"{name}.trace", layers) for name, layers in (("large", 3), ("small", 1)))
    arguments = (*SMALL, "--axi-bits", "128", "--layout-groups", "2", "--no-area")
    both = explored(tmp_path / "out", capsys, *arguments, "--trace", str(large), "--trace", str(small))
    alone = explored(tmp_path / "out", capsys, *arguments, "--trace", str(small))
    for point, other in zip(both["points"], alone["points"], strict=True):
        assert len(point["products"]) == 9 + 3
        assert point["speedups"][1] == pytest.approx(other["speedup"])
        assert point["speedup"] == pytest.approx(sum(point["speedups"]) / 2)
        totals = [[0.0, 0.0], [0.0, 0.0]]
        for each in point["products"]:
            totals[each["trace"]][0] += each["cycles"]
            totals[each["trace"]][1] += each["dense_cycles"]
        assert point["over_dense"] == pytest.approx(sum(dense / cycles for cycles, dense in totals) / 2)
    assert tensordash(*arguments, "--trace", str(large), "--trace", str(small), "-o", str(tmp_path / "out")) == 0
    assert re.search("cycles +large +small +speedup +over dense", capsys.readouterr().out)


def test_a_core_that_is_too_small_has_no_speedup(tmp_path: Path, capsys):
    """Streams of 1 KiB have 32 steps, fewer than the 49 taps of a result."""
    large = replace(STRIDED, kernel=(7, 7), stride=(1, 1))
    with TraceWriter(tmp_path / "run.trace") as writer, writer.step(0) as step:
        step.record("large", "AxW", large, {name: np.ones(large.shapes[name]) for name in "AW"})
    trace = str(tmp_path / "run.trace")
    arguments = (*ONE_CORE, "--buffer", "64", "--trace", trace, "--no-area", "-o", str(tmp_path / "out"))
    assert tensordash(*arguments, "--stream-buffer", "1,16") == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if ", streams 1," in line]
    assert re.search(r" - +- +- +AxW of Layer\(", line)
    assert tensordash(*arguments, "--set", "core.stream_buffer=1") == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("tensordash: the starting core must be able to run the traces: AxW of Layer(")


def test_a_trace_needs_a_product_for_cores(tmp_path: Path, capsys):
    with TraceWriter(tmp_path / "run.trace") as writer, writer.step(0) as step:
        step.record("strided", "AxW", STRIDED, {name: np.ones(STRIDED.shapes[name]) for name in "AW"})
    trace = str(tmp_path / "run.trace")
    assert tensordash("--preset", "core", "--trace", trace, "--no-area", "-o", str(tmp_path / "out")) == 2
    error = capsys.readouterr().err
    assert error.startswith("tensordash: --trace must have a product that a core can run: strided AxW: ")
    assert error.count("\n") == 1


def test_the_front_of_cores(tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch):
    """With invented areas, only cores that gain over smaller ones are synthesized, and the front is written."""
    measured: list[CoreConfig] = []

    def measure(config: CoreConfig) -> dict[str, float]:
        measured.append(config)
        logic = 100.0 * config.tile.columns * (1.2 if config.tile.sparsity == "rows" else 1.0)
        memories = 10.0 * (config.buffer + config.stream_buffer) * config.layout_groups
        return {"logic": logic, "cacti": logic + memories, "macros": logic + 2 * memories}

    monkeypatch.setattr("tensordash_cli.cached_areas._measure_core", measure)
    monkeypatch.setattr("tensordash_synth.cacti.cacti_digest", lambda: "cacti")
    trace = write_trace(tmp_path / "run.trace")
    arguments = ("--preset", "core", "--columns", "4,8", "--axi-bits", "128", "--stream-buffer", "16")
    document = explored(tmp_path, capsys, *arguments, "--buffer", "64,128", "--trace", str(trace))
    points = document["points"]
    start, measured_points = points[0], [point for point in points if "area_ratio" in point]
    assert start in measured_points
    assert len(measured) == len({config.digest for config in measured}) < 2 * len(points)
    shapes = {
        point["label"]: CoreShape.of(CoreConfig.from_mapping({k: point[k] for k in ("tile", "core")}))
        for point in points
    }
    for point in points:
        smaller = [
            other
            for other in measured_points
            if other is not point and shapes[other["label"]].is_within(shapes[point["label"]])
        ]
        gains = all(point["speedup"] > MIN_GAIN * other["speedup"] for other in smaller)
        assert (point in measured_points) == (gains or ": " in point["label"])
    assert (start["area_ratio"], start["speed_per_area"]) == (1.0, 1.0)
    assert start["area_over_dense"] == pytest.approx((480 + 800) / (400 + 800))
    front = [point for point in points if point.get("on_front")]
    assert start in front
    assert len(front) >= 2
    for point in front:
        config = CoreConfig.from_toml((tmp_path / point["config"]).read_text())
        assert config.to_mapping() == {"tile": point["tile"], "core": point["core"]}
        better = [
            other
            for other in measured_points
            if other["area_ratio"] <= point["area_ratio"] and other["speedup"] > point["speedup"]
        ]
        assert better == []
    assert (tmp_path / "explore.svg").exists()


def test_areas_need_cacti(tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tensordash_synth.cacti.PACKAGE", "no-package-of-this-name")
    assert tensordash("--preset", "core", "-o", str(tmp_path / "out")) == 2
    assert capsys.readouterr().err.startswith("tensordash: CACTI is not installed: pip install ")
    assert not (tmp_path / "out").exists()


def test_cycles_are_close_to_those_of_the_verilog():
    """docs/core.json has the cycles of the emitted Verilog, with tilings for a finer estimate of the speedup."""
    measured = {
        (each["name"].removeprefix("digits "), each["operation"]): each
        for each in json.loads((DOCS / "core.json").read_text())["layers"]
    }
    config = load_any_preset("core")
    assert isinstance(config, CoreConfig)
    compared = 0
    for record in Trace.open(example_trace()).records:
        figures = measured.get((record.layer, str(record.operation)))
        if figures is None:
            continue
        compared += 1
        assert expect_product(config, record).cycles == pytest.approx(figures["cycles"], rel=0.1), record.layer
        assert expect_product(config.baseline, record).cycles == pytest.approx(figures["dense_cycles"], rel=0.1)
    assert compared == 5


@pytest.mark.slow
def test_areas_are_those_of_the_cost_page(tmp_path: Path, capsys):
    """The areas equal those of docs/cost.json."""
    trace = write_trace(tmp_path / "run.trace", layers=1)
    arguments = (*ONE_CORE, "--buffer", "64", "--stream-buffer", "16", "--trace", str(trace))
    (point,) = explored(tmp_path, capsys, *arguments)["points"]
    stored = json.loads((DOCS / "cost.json").read_text())["core"]["figures"]
    for design, name in (("tensordash", "area_um2"), ("baseline", "dense_area_um2")):
        areas = stored[design]["area_um2"]
        assert point[name]["logic"] == pytest.approx(areas["logic"], abs=0.1)
        for source in ("cacti", "macros"):
            assert point[name][source] == pytest.approx(areas[f"logic and memories, {source}"], abs=0.1)
    assert point["area_over_dense"] == pytest.approx(stored["ratio"]["area_with_memories"], abs=1e-4)
