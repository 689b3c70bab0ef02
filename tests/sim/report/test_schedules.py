"""Compare the viewer's schedules with the golden model and the cycle simulator."""

import json
import re

import numpy as np
import pytest

from tensordash import TileConfig
from tensordash_sim.golden import matmul, schedule
from tensordash_sim.golden.quantization import non_zeros
from tensordash_sim.report import ScheduleRun, layer_runs, record_run
from tensordash_sim.trace import Trace, example_trace

from .conftest import TILES, streams

NAMES = [*TILES, "real", "figure 3"]


@pytest.mark.parametrize("name", NAMES)
def test_cycles_match_the_simulators(name: str, runs: dict[str, ScheduleRun]) -> None:
    run = runs[name]
    document = run.to_json()
    assert len(run.schedules) == run.counters.cycles == run.simulated_cycles == document["simulated_cycles"]
    assert sum(document["advance"]) == sum(document["streams"]) == run.counters.steps
    config = TileConfig(**{**run.config.to_mapping()["tile"], "initial": False})
    alone = sum(int(matmul(a, b, config).cycles.sum()) for a, b in run.streams)
    assert alone == run.counters.cycles
    if name == "none":
        assert run.counters.cycles == run.counters.steps


@pytest.mark.parametrize("name", NAMES)
def test_document_contains_the_complete_schedule(name: str, runs: dict[str, ScheduleRun]) -> None:
    """Its options and advances take exactly the effectual positions, each once. Waits add up."""
    run = runs[name]
    document = json.loads(json.dumps(run.to_json(), allow_nan=False))
    tile, lanes = document["tile"], document["tile"]["lanes"]
    steps = sum(document["streams"])
    schedulers = tile["rows"] * (tile["columns"] if tile["sparsity"] == "both" else 1)
    taken = np.zeros((schedulers, steps, lanes), int)
    head = 0
    for options, advance in zip(document["taken"], document["advance"], strict=True):
        for place, option in enumerate(options):
            if option >= 0:
                step, offset = tile["options"][option]
                taken[place // lanes, head + step, (place + offset) % lanes] += 1
        head += advance
    b = np.concatenate([non_zeros(b, run.config.b_format) for _, b in run.streams], axis=1)
    a = np.concatenate([non_zeros(a, run.config.a_format) for a, _ in run.streams], axis=1)
    expected = {"rows": b, "both": (b[:, None] & a).reshape(-1, steps, lanes), "none": np.ones_like(b)}
    assert np.array_equal(taken, expected[tile["sparsity"]])
    waits = np.array(document["row_advance"]) - np.array(document["advance"])[:, None]
    assert waits.sum(axis=0).tolist() == list(run.counters.row_wait) == document["counters"]["row_wait"]
    assert np.array_equal(np.array(document["b"]) != 0, b.reshape(len(b), -1))
    assert np.array_equal(np.array(document["a"]) != 0, a.reshape(len(a), -1))


def test_taken_steps_are_in_the_window(runs: dict[str, ScheduleRun]) -> None:
    for run in runs.values():
        document = run.to_json()
        for options, present in zip(document["taken"], document["present"], strict=True):
            assert 1 <= present <= document["tile"]["depth"]
            assert all(option < 0 or document["tile"]["options"][option][0] < present for option in options)


def test_figure_3_matches_the_golden_example(runs: dict[str, ScheduleRun]) -> None:
    run = runs["figure 3"]
    assert (run.counters.cycles, run.counters.steps, run.counters.effectual) == (2, 4, 7)
    pairs = run.streams[0][1][0] != 0
    for cycle, window in zip(run.schedules, (pairs[0:2], pairs[2:4]), strict=True):
        assert cycle.schedules[0][0] == schedule(window, 2, run.config.options)


def test_values_have_three_digits() -> None:
    config = TileConfig(rows=1, columns=1)
    b = np.array([[[0x0000, 0x8000, 0x0001, 0xBC01]]], np.uint16)  # 0, -0, fp16's least number, -1.00098
    document = record_run([(b, b)], config, "values").to_json()
    assert json.dumps(document["b"]) == "[[0, 0, 5.96e-08, -1]]"


def test_layer_describes_whether_values_are_recorded() -> None:
    record = next(iter(Trace.open(example_trace()).records))
    (run,) = layer_runs([record], TileConfig(), passes=2, seed=3)
    assert run.title == f"{record.layer} {record.operation}"
    (other,) = set(record.operands) - {record.sparser}
    sides = f"2 passes drawn with seed 3; {record.sparser} on the row side, {other} on the column side"
    assert run.about == f"{sides}; values as recorded."


@pytest.mark.parametrize("name", ["int8", "fp8_e4m3", "fp8_e5m2", "bf16"])
def test_text_describes_the_rounding_of_values(name: str) -> None:
    """The scale applies to the shown values and is the largest that fits."""
    record = next(record for record in Trace.open(example_trace()).records if record.layer == "CNN.fc1")
    config = TileConfig(format=name, accumulator="volta") if name == "bf16" else TileConfig(format=name)
    (run,) = layer_runs([record], config, passes=2, seed=3)
    shown = run.to_json()
    for side, operand in (("b", record.sparser), ("a", next(n for n in record.operands if n != record.sparser))):
        rounding = re.search(rf"{operand}(?: scaled by 2\^(-?\d+) and)? rounded to {name}", run.about)
        assert rounding is not None
        scale = 2.0 ** int(rounding[1] or 0)
        values = np.abs(record.values(operand).astype(float))
        if name != "bf16":
            top = {"int8": 127, "fp8_e4m3": 448, "fp8_e5m2": 57344}[name]
            assert top / 2 < values.max() * scale <= top
        least = values[values > 0].min() * scale
        for value in np.abs(np.array(shown[side])).ravel():
            nearest = np.abs(values * scale - value).min()
            assert nearest <= max(value * 2**-3, least, 0.5)


def test_real_schedule_is_compact(runs: dict[str, ScheduleRun]) -> None:
    run = record_run(streams(TileConfig(), (300,), 0.5, 0), TileConfig(), "300 steps")
    assert len(json.dumps(run.to_json(), separators=(",", ":"))) < 80_000
