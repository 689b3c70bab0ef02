"""Compare zeros from formats and 2:4 sparsity with cases computed by hand and with other simulations."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensordash import TensorDashError, load_preset
from tensordash_cli.main import run
from tensordash_sim.evaluation import Settings
from tensordash_sim.evaluation.block_formats import BLOCK_FORMATS
from tensordash_sim.evaluation.measure_formats import pruned_product, pruned_weights, quantised_mask, quantised_step
from tensordash_sim.evaluation.quantised import QUANTISED
from tensordash_sim.evaluation.two_of_four import CORE, EXTRA, PRESETS, RANDOM, TWO_OF_FOUR
from tensordash_sim.lowering import MatrixProduct, Operation
from tensordash_sim.performance.chip import ChipConfig, Machine, simulate_operation, totals
from tensordash_sim.trace import Trace, TraceWriter, example_trace

from ..lowering.geometries import convolution
from .points import evaluate_figure, value

PAGE = (Path(__file__).parents[3] / "docs" / "evaluation-tables.md").read_text(encoding="utf-8")
TINY = Settings(scale="tiny")
TILE = load_preset("paper", ["tile.out_rows=4"])
LINEAR = MatrixProduct(batch=1, samples=64, in_features=64, out_features=64)


def write_trace(path: Path, values: bool = True) -> Trace:
    """Write a layer whose operands are large in the first column and small elsewhere."""
    operands = {}
    for name, shape in LINEAR.shapes.items():
        operands[name] = np.full(shape, 0.1, np.float32)
        operands[name][:, :, 0] = 6.0
    with TraceWriter(path, values=values) as writer, writer.step(7) as step:
        for operation in Operation:
            sides = {name: operands[name] for name in (operation.left, operation.right)}
            step.record("fc", operation, LINEAR, sides)
    return Trace.open(path)


@pytest.mark.parametrize(("fmt", "block"), [("mxfp4", 32), ("nvfp4", 16)])
def test_blocks_run_along_each_reduction(fmt: str, block: int, tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "a.trace")
    found = quantised_step(trace.digest, 7, TILE.to_mapping(), fmt, None, path=str(trace.path))["operations"]
    zeros = {(each["operation"], name): count["zeros"] for each in found for name, count in each["operands"].items()}
    # Along the last axis, the first block of each row contains the 6 and loses its other values. Across it, all values
    # of a block are equal, and none is lost.
    lost = 64 * (block - 1)
    along = {("AxW", "A"), ("AxW", "W"), ("WxG", "G")}
    assert zeros == {key: lost * (key in along) for key in zeros}
    assert len(zeros) == 6
    forward = found[0]
    assert forward["rows"]["ideal_speedup"] == pytest.approx(64 / (64 - block + 1))
    assert forward["both"]["ideal_speedup"] == forward["rows"]["ideal_speedup"], "both operands lose the same positions"


def test_a_transform_fills_each_block(tmp_path: Path) -> None:
    mask = quantised_mask(np.eye(64)[np.newaxis], LINEAR, Operation.FORWARD, "A", None, 0)
    assert np.array_equal(mask[0], np.kron(np.eye(4), np.ones((16, 16))).astype(bool))
    mask = quantised_mask(np.eye(64)[np.newaxis], LINEAR, Operation.FORWARD, "A", "mxfp4", 0)
    assert np.array_equal(mask[0], np.kron(np.eye(2), np.ones((32, 32))).astype(bool))


def test_blocks_of_a_convolution_run_along_positions() -> None:
    layer = convolution(channels=(2, 2), size=(4, 8), kernel=(1, 1))  # fmt: skip
    g = np.full((1, 2, 4, 8), 0.1)
    g[0, 0, 0, 0] = 6.0
    mask = quantised_mask(g, layer, Operation.WEIGHT_GRADIENT, "G", "mxfp4", None)
    assert mask.sum(axis=(2, 3)).tolist() == [[1, 32]]
    mask = quantised_mask(g, layer, Operation.INPUT_GRADIENT, "G", "mxfp4", None)
    assert (~mask).sum(axis=(2, 3)).tolist() == [[0, 1]], "a block across filters has one position"


def test_quantised_digits(tmp_path: Path) -> None:
    figure = evaluate_figure("quantised", TINY, tmp_path)
    records = list(Trace.open(example_trace()).records)
    machine = Machine(TILE, ChipConfig(tiles=1))
    results = []
    for record in records:
        masks = {name: record.mask(name) for name in record.operands}
        results.append(simulate_operation(record.geometry, record.operation, masks, machine).to_json())
    expected = totals(results)
    recorded: dict[str, Any] = {"series": "as recorded", "x": "digits"}
    assert value(figure, metric="speedup, scheduled side", **recorded) == expected["compute_speedup"]
    assert value(figure, metric="bound, scheduled side", **recorded) == expected["ideal_speedup"]
    for name in "AWG":
        operands = [record.operands[name] for record in records if name in record.operands]
        share = 1 - sum(each.nonzeros for each in operands) / sum(each.size for each in operands)
        assert value(figure, metric=f"share of zeros in {name}", **recorded) == pytest.approx(share)
        for fmt in BLOCK_FORMATS:
            assert value(figure, metric=f"share of zeros in {name}", series=fmt, x="digits") >= share - 1e-9
    for fmt in BLOCK_FORMATS:
        for side in ("scheduled side", "both sides"):
            bound, speedup = (
                value(figure, metric=f"{quantity}, {side}", series=fmt, x="digits") for quantity in ("bound", "speedup")
            )
            assert speedup >= 1
            assert bound >= value(figure, metric=f"bound, {side}", **recorded) - 1e-9
    assert {point.x for point in figure.points} == {"digits"}, "convolutions are not transformed"
    assert figure.conditions["data with values"]["digits"]["digest"] == Trace.open(example_trace()).digest
    section = PAGE.split("## quantised: ")[1].split("\n## ")[0]
    for table in section.split("\n\n| ")[1:]:
        metric, *columns = [cell.strip() for cell in table.splitlines()[0].split("|")[:-1]]
        for line in table.splitlines()[2:]:
            fmt, *cells = [cell.strip() for cell in line.split("|")[1:-1]] if line.startswith("| ") else ("", "")
            if fmt in BLOCK_FORMATS:
                found = value(figure, metric=metric, series=fmt, x="digits")
                assert float(cells[columns.index("digits")]) == pytest.approx(found, abs=0.00051)


def test_recordings_with_values_are_listed_separately(tmp_path: Path) -> None:
    command = "trace --model gpt --scale tiny --set sparsity=0 --set activation=relu --layer blocks.0.* --values -o"
    with pytest.raises(SystemExit) as exit_info:
        run([*command.split(), str(tmp_path / "values" / "gpt-relu.trace")])
    assert not exit_info.value.code
    settings = Settings(scale="tiny", traces=tmp_path)
    assert list(settings.with_values) == ["digits", "gpt-relu"]
    assert list(settings.networks) == ["digits"], "other figures do not use recordings with values"
    assert list(Settings(scale="small", traces=tmp_path).with_values) == ["digits"]
    plan = QUANTISED.plan(settings)
    labels = ("gpt-relu", "as recorded"), ("gpt-relu, Hadamard", "as recorded")
    shares = []
    for label in labels:
        counts = [each["operands"]["A"] for each in plan[label].run()["operations"] if "A" in each["operands"]]
        shares.append(sum(count["zeros"] for count in counts) / sum(count["values"] for count in counts))
    assert shares[0] > 0.1
    assert shares[1] < shares[0]
    assert ("gpt-relu, Hadamard", "nvfp4") in plan
    assert ("digits, Hadamard", "nvfp4") not in plan
    write_trace(tmp_path / "values" / "masks.trace", values=False)
    with pytest.raises(TensorDashError, match="masks.trace must have values: record it with --values"):
        _ = Settings(scale="tiny", traces=tmp_path).with_values


def test_pruning_patterns() -> None:
    w = np.array([[[1.0, 2.0, 3.0, 4.0, 10.0, 20.0, 30.0, 40.0]] * 8])
    layer = MatrixProduct(batch=1, samples=1, in_features=8, out_features=8)
    assert pruned_weights(w, layer, "2:4")[0, 0].tolist() == [False, False, True, True] * 2
    assert pruned_weights(w, layer, "half")[0, 0].tolist() == [False] * 4 + [True] * 4
    assert pruned_weights(-w.swapaxes(1, 2), layer, "2:4").sum(axis=2).tolist() == [[4] * 8]
    with pytest.raises(ValueError, match="pattern must be one of 2:4, half, not '1:4'"):
        pruned_weights(w, layer, "1:4")


def test_two_of_four() -> None:
    plan = TWO_OF_FOUR.plan(TINY)
    answers = {
        (tile, pattern): plan[RANDOM, tile, pattern].run() for weights, tile, pattern in plan if weights == RANDOM
    }
    points, _ = TWO_OF_FOUR.points(TINY, {label: answers[label[1:]] for label in plan})
    found = {(p.metric, p.series): p.ours or 0.0 for p in points if p.x == RANDOM}
    assert found["AxW, 2:4", EXTRA] == 2, "the values of two steps fill the lanes, at every position"
    assert (found["AxW, 2:4", CORE], found["WxG, 2:4", CORE]) == (2, 1)
    for tile in PRESETS:
        assert 1 < found["AxW, 2:4", tile] < 2
    for tile in ("paper", "recommended", EXTRA):
        for metric in ("WxG, 2:4", "AxW, half of all, anywhere"):
            assert found[metric, tile] < found["AxW, 2:4", tile], "the 2:4 pattern makes it faster"
    # The chip simulator gives an independent result for the paper's tile.
    answer = pruned_product(LINEAR.to_json(), TILE.to_mapping(), "2:4", 5)["operations"][0]
    mask = pruned_weights(np.random.default_rng(5).standard_normal((1, 64, 64)), LINEAR, "2:4")
    masks = {"A": np.ones((1, 64, 64), bool), "W": mask}
    expected = simulate_operation(LINEAR, Operation.FORWARD, masks, Machine(TILE, ChipConfig(tiles=1)))
    assert (answer["scheduled"], answer["zeros"]) == ("W", 0.5)
    assert answer["compute"] == expected.compute


@pytest.mark.slow
def test_two_of_four_of_digits_equals_the_page(tmp_path: Path) -> None:
    figure = evaluate_figure("two-of-four", Settings(), tmp_path)
    section = PAGE.split("## two-of-four: ")[1].split("\n## ")[0]
    for tile in (*PRESETS, EXTRA):
        cells = next(line for line in section.splitlines() if line.startswith(f"| {tile} |")).split("|")[2:4]
        for weights, cell in zip((RANDOM, "digits"), cells, strict=True):
            found = value(figure, metric="AxW, 2:4", series=tile, x=weights)
            assert float(cell) == pytest.approx(found, abs=0.00051)
