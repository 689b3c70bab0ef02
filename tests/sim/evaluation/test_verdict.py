"""Compare the figures of a recorded step with `simulate`."""

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tensordash import TileConfig, load_preset
from tensordash_sim.evaluation import Figure
from tensordash_sim.evaluation.summary import CAUSES, summary
from tensordash_sim.evaluation.verdict import verdict
from tensordash_sim.performance.chip import ChipConfig, Machine, Results, simulate_operation, totals
from tensordash_sim.performance.planner import MEASURES, Budget, plan_step, step_graph
from tensordash_sim.trace import Trace, example_trace

from .points import value

report = import_module("tensordash_sim.evaluation.verdict")
SYNTHESIS = {
    "config": "0123456789abcdef",
    "ratio": {"area": 1.17, "clock": 0.98, "power": None},
    "power": [{"operands": "0% zeros", "watts": {"total": {"tensordash": 0.12, "baseline": 0.1}}}],
}


def figures_of(**options: Any) -> dict[str, Figure]:
    found = verdict(Trace.open(example_trace()), load_preset("recommended"), synthesis=SYNTHESIS, plan=True, **options)
    return {figure.name: figure for figure in found}


@pytest.fixture(scope="module")
def figures() -> dict[str, Figure]:
    return figures_of(drop_steps=True)


@pytest.mark.parametrize(
    ("measure", "settings"),
    [
        ("as recorded", {}),
        ("density order", {"row_order": "density"}),
        ("all of them", {"join_samples": "faster", "side": "faster", "row_order": "density"}),
    ],
)
def test_figures_match_simulate(
    figures: dict[str, Figure], tmp_path: Path, measure: str, settings: dict[str, Any]
) -> None:
    trace = Trace.open(example_trace())
    is_plain = measure == "as recorded"
    machine = Machine(load_preset("recommended"), ChipConfig(), **settings, drop_steps=True)
    results = [(record, result) for record, result in Results(tmp_path, trace, machine).run(trace.steps[-1].records)]
    every = totals(result for _, result in results)
    found = figures["measures"]
    assert value(found, series=measure, x="tiles") == every["shared_speedup"]
    assert value(found, series=measure, x="25.6 GB/s") == every["speedup"]
    if not is_plain:
        return
    of_layer = [result for record, result in results if (record.layer, str(record.operation)) == ("CNN.conv2", "WxG")]
    expected = totals(of_layer)
    speedup = figures["speedup"]
    assert value(speedup, metric="speedup of tiles", series="WxG", x="CNN.conv2") == expected["shared_speedup"]
    assert value(speedup, metric="most that zeros allow", series="WxG", x="CNN.conv2") == expected["ideal_speedup"]
    assert value(figures["zeros"], series="WxG", x="CNN.conv2") == pytest.approx(of_layer[0]["zeros"])
    alone, dropped = (
        value(speedup, metric=f"{name}, if none waited", series="WxG", x="CNN.conv2")
        for name in ("speedup of tiles", "with dropped steps")
    )
    assert (alone, dropped) == (expected["compute_speedup"], expected["dropped_speedup"])
    assert alone < dropped
    assert f"{every['shared_speedup']:.2f}x over all operations" in speedup.notes[0]
    assert f"With dropped steps it would be {every['dropped_speedup']:.2f}x if tiles waited neither" in speedup.notes[1]
    energy = figures["energy"]
    # Energy of logic uses the synthesized tile's power: 1.2 times the baseline's.
    core = [value(energy, series=series, x="tiles at work") for series in ("baseline", "tensordash")]
    assert core[0] / core[1] == pytest.approx(every["dense_busy"] / every["busy"] / 1.2)
    waits = every["cycles"] * 256 - every["busy"]
    idle = value(energy, series="tensordash", x="tiles that wait")
    assert idle == pytest.approx(waits / 500 * 0.12 * ChipConfig().power.sparse_idle)
    assert value(energy, series="tensordash", x="dram") == pytest.approx(every["energy"]["dram"])


def test_dropped_steps_only_add_series(figures: dict[str, Figure]) -> None:
    without = figures_of()
    assert list(without) == list(figures)
    for name, figure in figures.items():
        points = [point for point in figure.points if "dropped" not in f"{point.metric} {point.series}"]
        notes = [note for note in figure.notes if "With dropped steps" not in note]
        hints = [note for note in without[name].notes if "--drop-steps" in note]
        assert (without[name].points, without[name].notes) == (points, notes + hints)
    assert len(figures["plan"].points) == 2 * len(without["plan"].points)
    assert len(figures["speedup"].points) == 4 / 3 * len(without["speedup"].points)


def test_report_names_operations_for_dropped_steps() -> None:
    machine = Machine(load_preset("recommended"), ChipConfig())
    results = []
    for record in Trace.open(example_trace()).steps[-1].records:
        masks = {each: record.mask(each) for each in (record.operation.left, record.operation.right)}
        found = simulate_operation(record.geometry, record.operation, masks, machine).to_json()
        results.append({"layer": record.layer, "operation": str(record.operation)} | found)
    ideal = [totals([each])["ideal_speedup"] for each in results]
    for name in ("recommended", "paper-depth2", "dense"):
        config = load_preset(name)
        _, *hints = report._speedup(results, config, "").notes  # What zeros allow does not depend on the tile.
        beyond = sum(each > config.depth for each in ideal)
        assert beyond > 0
        assert len(hints) == (name != "dense")
        assert all(f"more zeros than a window of {config.depth} steps can skip: {beyond}." in hint for hint in hints)


def test_tiles_that_cannot_drop_steps() -> None:
    config = TileConfig(rows=2, columns=2, sparsity="both")
    with pytest.raises(ValueError, match='tile.sparsity must be "rows" to drop empty steps, not "both"'):
        verdict(Trace.open(example_trace()), config, drop_steps=True)


def test_plan_uses_the_cycles_of_simulate(figures: dict[str, Figure], tmp_path: Path) -> None:
    """Plan the first and the last row of a bandwidth again."""
    trace, config, chip = Trace.open(example_trace()), load_preset("recommended"), ChipConfig()
    (step,) = trace.steps
    settings: dict[str, Any] = {"join_samples": "faster", "side": "faster", "row_order": "density"}
    plain, ordered = (
        [result for _, result in Results(tmp_path / str(number), trace, machine).run(step.records)]
        for number, machine in enumerate(
            (Machine(config, chip, drop_steps=True), Machine(config, chip, **settings, drop_steps=True))
        )
    )
    figure = figures["plan"]
    for gbps in (25.6, 256.0):
        budget = Budget.of(chip, gbps=gbps, columns=config.columns)
        for name, results, measures in (("no plan", plain, ()), ("order", ordered, tuple(MEASURES))):
            taken = [
                plan_step(step_graph(step, [x[key] for x in results], [x[key] for x in plain]), budget, measures)
                for key in ("dense_on_chip", "on_chip", "dropped_on_chip")
            ]
            for series, plan in ((f"{gbps:g} GB/s", taken[1]), (f"{gbps:g} GB/s, with dropped steps", taken[2])):
                assert value(figure, series=series, x=name) == taken[0].cycles / plan.cycles
    assert value(figure, series="256 GB/s", x="order") > value(figure, series="256 GB/s", x="no plan")
    rows = [point.x for point in figure.points if point.series == "25.6 GB/s"]
    assert rows == ["no plan", *MEASURES, "order"]


def test_slots_add_up(figures: dict[str, Figure]) -> None:
    shares: dict[tuple[str, float | str], float] = {}
    for point in figures["limits"].points:
        assert point.ours is not None
        shares[point.metric, point.x] = shares.get((point.metric, point.x), 0.0) + point.ours
    assert len(shares) == 14  # There are 11 operations, and a total for each of three kinds.
    assert all(total == pytest.approx(1) for total in shares.values())


def test_roofline(figures: dict[str, Figure]) -> None:
    chip = ChipConfig()
    roof = [point for point in figures["roofline"].points if point.series == "the baseline's roof"]
    assert (roof[0].x, roof[0].ours) == (0.0, 0.0)
    assert all(p.ours == pytest.approx(min(16384, float(p.x) * chip.dram_bytes_per_cycle)) for p in roof)


@pytest.fixture(scope="module")
def two_results(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Return results of two AxW: a small one that memory does not limit, and a large one that it limits."""
    trace, machine = Trace.open(example_trace()), Machine(load_preset("paper"), ChipConfig())
    ((_, result),) = Results(tmp_path_factory.mktemp("results"), trace, machine).run(trace.steps[-1].records[:1])
    small = {"layer": "a", "macs": 100, "zeros": 0.9, "cycles": 10, "on_chip": 10, "dense_cycles": 40}
    large = {"layer": "b", "macs": 300, "zeros": 0.1, "cycles": 30, "on_chip": 20, "dense_cycles": 60}
    small |= {"utilisation": 0.5, "idle": {"waits": 0.5, "memory": 0.0}, "traffic": {"dram": 50}}
    large |= {"utilisation": 0.1, "idle": {"waits": 0.5, "memory": 0.4}, "traffic": {"dram": 100}}
    return [result | {"operation": "AxW"} | each for each in (small, large)]


def test_zeros_of_all_layers_are_weighted_by_multiplications(two_results: list[dict[str, Any]]) -> None:
    assert value(report._zeros(two_results, ""), x="all") == pytest.approx((90 + 30) / 400)


def test_limits_of_all_layers_are_weighted_by_cycles(two_results: list[dict[str, Any]]) -> None:
    limits = report._limits(two_results, "")
    shares = {cause: value(limits, series=cause, x="all") for cause in ("effectual", "waits", "memory")}
    assert shares == pytest.approx({"effectual": (5 + 3) / 40, "waits": 0.5, "memory": 12 / 40})


def test_memory_bound_operations(two_results: list[dict[str, Any]]) -> None:
    note, _ = report._measures({"as recorded": two_results}, ChipConfig(), "").notes
    assert "it limits 1 of 2 operations" in note


def test_points_of_the_roofline_use_their_own_cycles(two_results: list[dict[str, Any]]) -> None:
    points = report._roofline(two_results, load_preset("paper"), ChipConfig(), "").points
    assert [(point.x, point.ours) for point in points if point.series == "AxW"] == [(2.0, 10.0), (3.0, 10.0)]
    roof = {point.x: point.ours for point in points if point.series != "AxW"}
    assert roof == pytest.approx({0.0: 0.0, 3.0: 3 * 51.2})


def test_verdict_is_printed_first(two_results: list[dict[str, Any]]) -> None:
    """TensorDash takes 40 cycles, dense 100. Slots are busy for 8 of 40, wait 20 for rows and 12 for memory."""
    found = summary(two_results, SYNTHESIS, ChipConfig(), "a step").notes
    assert found[0].startswith("Speed: 150% faster than the dense baseline (2.50x) with DRAM of 25.6 GB/s; ")
    assert found[0].endswith("x where DRAM never limits.")
    assert found[1].startswith("Energy: the chip takes ")
    assert found[1].endswith("DRAM and waiting tiles included.")
    without = summary(two_results, None, ChipConfig(), "a step").notes
    assert without[1].endswith("DRAM and waiting tiles included. The power of tiles is the paper's.")
    assert found[2] == (
        "Why: 20% of the multipliers' slots do work. "
        "The largest loss is 50%: the row waited for the slowest row (`waits`)."
    )
    assert found[3] == "Cost: the tile is 17% larger, and its highest clock is 2% lower, against the dense baseline."
    assert len(found) == 4


def test_notes_on_slower_steps_and_more_energy(two_results: list[dict[str, Any]]) -> None:
    changed = {"dense_cycles": 36, "cycles": 40, "utilisation": 0.05, "layer": "depthwise", "dense_busy": 1}
    changed |= {"dense_energy": two_results[0]["energy"]}
    slow = [each | changed for each in two_results]
    notes = summary(slow, SYNTHESIS, ChipConfig(), "a step").notes
    assert notes[0].startswith("Speed: 10% slower than the dense baseline (0.90x)")
    assert " more energy than " in notes[1]
    assert notes[4] == "2 of 2 operations use less than 10% of the multipliers and take 100% of the cycles."
    assert notes[5] == (
        "`depthwise` AxW: 5.0%, 100 MACs in 40 cycles. 50% of the slots are idle: the row waited for the slowest row."
    )


def test_every_cause_is_explained(two_results: list[dict[str, Any]]) -> None:
    trace, machine = Trace.open(example_trace()), Machine(load_preset("paper"), ChipConfig())
    record = trace.steps[-1].records[0]
    masks = {each: record.mask(each) for each in (record.operation.left, record.operation.right)}
    assert set(simulate_operation(record.geometry, record.operation, masks, machine).to_json()["idle"]) == set(CAUSES)


def test_cost_matches_the_synthesis(figures: dict[str, Figure]) -> None:
    assert {point.metric: point.ours for point in figures["cost"].points} == {"area": 1.17, "clock": 0.98}
    assert "0123456789ab" in figures["cost"].notes[0]


def test_unknown_step() -> None:
    with pytest.raises(ValueError, match="step must be one of 0, not 7"):
        verdict(Trace.open(example_trace()), TileConfig(), step=7)
