"""Compare figures with independent computations, with the paper, and with the stored page."""

import csv
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tensordash import TileConfig, load_preset
from tensordash_cli.main import run
from tensordash_sim.evaluation import EXPERIMENTS, NAMES, Figure, Point, Settings, energy, page, section, write_figure
from tensordash_sim.evaluation.gpt import _block as gpt_block
from tensordash_sim.evaluation.gpt import element_wise
from tensordash_sim.evaluation.measure import masked_outputs
from tensordash_sim.evaluation.power import energies, energy_ratios
from tensordash_sim.evaluation.random_zeros import PAPER
from tensordash_sim.lowering import MatrixProduct
from tensordash_sim.networks import NAMES as MODELS
from tensordash_sim.performance.chip import ChipConfig, Machine, Results, totals
from tensordash_sim.trace import Trace, example_trace

from .points import evaluate_figure, value

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "evaluation-tables.md").read_text(encoding="utf-8")
SMALL, TINY = Settings(), Settings(scale="tiny")


def trace_model(name: str, *options: str) -> None:
    with pytest.raises(SystemExit) as end:
        run(["trace", "--model", name, *options])
    assert not end.value.code


@pytest.mark.parametrize("name", ["fig8", "fig9", "gcn", "table3"])
def test_every_kind_is_written(name: str, tmp_path: Path) -> None:
    figure = evaluate_figure(name, TINY, tmp_path / "work")
    files = write_figure(figure, tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(path.name for path in files)
    document = json.loads((tmp_path / "out" / f"{name}.json").read_text())
    assert document["name"] == name
    assert set(document["conditions"]) >= {"scale", "seed", "version", "commit", "configuration"}
    with (tmp_path / "out" / f"{name}.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(document["points"])
    assert [row["series"] for row in rows] == [point["series"] for point in document["points"]]
    assert (tmp_path / "out" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    drawn = (tmp_path / "out" / f"{name}.svg").read_bytes()
    write_figure(figure, tmp_path / "again")
    assert (tmp_path / "again" / f"{name}.svg").read_bytes() == drawn


def test_speedup_of_a_network_matches_simulate(tmp_path: Path) -> None:
    figure = evaluate_figure("fig8", TINY, tmp_path)
    trace = Trace.open(example_trace())
    results = Results(tmp_path, trace, Machine(TileConfig(), ChipConfig())).run(trace.records)
    expected = totals(result for _, result in results)
    assert value(figure, series="all", x="digits") == expected["compute_speedup"]
    assert value(figure, series="all", x="mean") == expected["compute_speedup"]
    assert value(evaluate_figure("fig1", TINY, tmp_path), series="all", x="digits") == expected["ideal_speedup"]
    ratios = energy_ratios(
        [result for _, result in Results(tmp_path, trace, Machine(TileConfig(), ChipConfig())).run(trace.records)], None
    )
    # In the paper all tiles draw power until the last one ends; in the chip only busy tiles do.
    power = ChipConfig().power
    assert ratios["core"] == pytest.approx(expected["compute_speedup"] * power.dense / power.sparse)
    at_work = expected["dense_busy"] / expected["busy"] * power.dense / power.sparse
    assert expected["core_energy_ratio"] == pytest.approx(at_work)
    assert ratios["chip, with idle tiles"] == pytest.approx(expected["energy_ratio"])


def test_recommended_tile_has_the_same_operands(tmp_path: Path) -> None:
    figure = evaluate_figure("recommended", TINY, tmp_path)
    trace = Trace.open(example_trace())
    for preset in ("paper", "recommended", "recommended-2x8"):
        results = Results(tmp_path, trace, Machine(load_preset(preset), ChipConfig())).run(trace.records)
        expected = totals(result for _, result in results)
        assert value(figure, metric="speedup", series=preset, x="digits") == expected["compute_speedup"]
        power = ChipConfig().power
        assert value(figure, metric="core energy efficiency", series=preset, x="mean") == pytest.approx(
            expected["compute_speedup"] * power.dense / power.sparse
        )
    for note, preset in zip(figure.notes, ("recommended", "recommended-2x8"), strict=False):
        assert note.startswith(f"`{preset}` is as fast or faster on 1 of 1 networks: digits +")


def test_system_speedup_matches_simulate(tmp_path: Path) -> None:
    figure = evaluate_figure("system", TINY, tmp_path)
    trace = Trace.open(example_trace())
    found: dict[str, Any] = {}
    measures: dict[str, dict[str, Any]] = {
        "none": {},
        "all": {"join_samples": "faster", "side": "faster", "row_order": "density"},
    }
    for measure, settings in measures.items():
        machine = Machine(load_preset("recommended"), ChipConfig(), **settings)
        results = [result for _, result in Results(tmp_path, trace, machine).run(trace.records)]
        expected = totals(results)
        found = found or expected
        references = {
            "tiles alone": expected["compute_speedup"],
            "shared reads": expected["shared_speedup"],
            "25.6 GB/s": expected["speedup"],
        }
        for bits, gbps in ((64, 102.4), (160, 256)):
            other = Machine(load_preset("recommended"), ChipConfig(dram_channel_bits=bits), **settings)
            remote = [result for _, result in Results(tmp_path, trace, other).run(trace.records)]
            references[f"{gbps:g} GB/s"] = totals(remote)["speedup"]
        for where, speedup in references.items():
            assert value(figure, metric=f"speedup, {where}", series=measure, x="digits") == speedup
            assert value(figure, metric=f"speedup, {where}", series=measure, x="mean") == speedup
    (point,) = (p for p in figure.points if (p.metric, p.series, p.x) == ("speedup, 256 GB/s", "all", "digits"))
    assert point.more == {"workload": "digits", "gbps": 256.0, "measures": "all"}
    assert f"digits {1 - found['shared_speedup'] / found['compute_speedup']:.1%}." in figure.notes[1]
    assert f"digits {found['unpadded_speedup']:.2f}." in figure.notes[3]


def test_system_page_matches_the_evaluation() -> None:
    tables = section_of("system").split("| speedup, ")[1:]
    means: dict[str, dict[str, float]] = {}
    for table in tables:
        where, *measures = [cell.strip() for cell in table.splitlines()[0].split("|")[:-1]]
        (line,) = (line for line in table.splitlines() if line.startswith("| mean |"))
        cells = [float(cell) for cell in line.split("|")[2:-1]]
        means[where] = dict(zip(measures, cells, strict=True))
    page = (ROOT / "docs" / "system.md").read_text(encoding="utf-8").split("## What each measure gains")[1]
    page = page.split("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("| ")]
    options = {"--join-samples faster": "joined where faster", "--side faster": "faster side"}
    options |= {"--row-order density": "density order"}
    seen = []
    for measure, tiles, with_memory, _ in rows[1:]:
        name = next((name for option, name in options.items() if option in measure), measure)
        seen.append(name)
        references = [means[where][name] for where in ("shared reads", "256 GB/s")]  # The page has three digits.
        assert [float(tiles), float(with_memory)] == pytest.approx(references, abs=0.0055)
    assert seen == ["none", *options.values(), "all"]


@pytest.mark.parametrize("zeros", PAPER)
def test_random_zeros_agree_with_the_paper_and_the_page(zeros: float) -> None:
    speedups = SMALL.random_job(load_preset("paper"), zeros).run()["speedups"]
    mean = sum(speedups) / len(speedups)
    assert mean == pytest.approx(PAPER[zeros], rel=0.03)
    text = next(line for line in section_of("fig15").splitlines() if line.startswith(f"| {zeros} |"))
    assert text.split("|")[2].strip() == f"{mean:.3f} ({PAPER[zeros]})"


def section_of(name: str) -> str:
    return f"## {name}: " + PAGE.split(f"## {name}: ")[1].split("\n## ")[0]


def test_the_page_has_every_figure() -> None:
    titles = [line.removeprefix("## ").split(":")[0] for line in PAGE.splitlines() if line.startswith("## ")]
    assert titles == ["Networks", *NAMES]
    networks = PAGE.split("## Networks")[1].split("##")[0].splitlines()[4:]
    assert [line.split("|")[1].strip() for line in networks if line] == list(MODELS)


def test_table3_matches_the_page(tmp_path: Path) -> None:
    assert section(evaluate_figure("table3", SMALL, tmp_path)).rstrip("\n") == section_of("table3").rstrip("\n")


@pytest.mark.slow
def test_fig15_matches_the_page(tmp_path: Path) -> None:
    # Random numbers and energies in floating point: compare every printed digit.
    made = section(evaluate_figure("fig15", SMALL, tmp_path))
    assert made.splitlines()[3:] == section_of("fig15").rstrip("\n").splitlines()[3:]


@pytest.mark.slow
def test_speedup_of_a_network_on_the_page_is_reproducible(tmp_path: Path) -> None:
    # This network uses synthetic data; PyTorch's sums may differ between machines.
    trace_model("snli", "--steps", "5", "--every", "25", "-o", str(tmp_path / "snli.trace"))
    figure = evaluate_figure("fig8", Settings(traces=tmp_path), tmp_path)
    row = next(line for line in section_of("fig8").splitlines() if line.startswith("| snli |")).split("|")[2:-1]
    for series, cell in zip(("AxW", "WxG", "AxG", "all"), row, strict=True):
        assert value(figure, series=series, x="snli") == pytest.approx(float(cell.split()[0]), rel=0.02)


def test_the_makefile_records_every_network() -> None:
    line = next(line for line in (ROOT / "Makefile").read_text().splitlines() if line.startswith("NETWORKS :="))
    assert sorted(line.split()[2:]) == sorted(MODELS)


def test_networks_of_another_scale_are_excluded(tmp_path: Path) -> None:
    for model in ("ncf", "snli"):
        trace_model(model, "--scale", "tiny", "-o", str(tmp_path / f"{model}.trace"))
    (tmp_path / "snli.trace").rename(tmp_path / "bert.trace")
    assert Settings(scale="tiny", traces=tmp_path).left_out == ["bert.trace (of snli)"]
    assert list(Settings(scale="tiny", traces=tmp_path).networks) == ["ncf"]
    assert list(Settings(scale="small", traces=tmp_path).networks) == ["digits"]
    figure = evaluate_figure("fig8", Settings(scale="tiny", traces=tmp_path), tmp_path)
    assert figure.conditions["data"]["ncf"]["scale"] == "tiny"
    assert any("stands in" in note for note in evaluate_figure("fig8", TINY, tmp_path).notes)


def test_speedup_by_depth_and_rows_is_monotonic(tmp_path: Path) -> None:
    depths = evaluate_figure("fig12", TINY, tmp_path)
    speedups = [value(depths, metric="speedup by depth", series="mean", x=depth) for depth in (2, 3, 4, 5)]
    assert speedups == sorted(speedups)
    rows = evaluate_figure("fig13", TINY, tmp_path)
    speedups = [value(rows, metric="speedup by rows", series="mean", x=count) for count in (1, 2, 4, 8, 16)]
    assert speedups == sorted(speedups, reverse=True)
    of_columns = [p.ours for p in rows.points if p.metric == "speedup by columns" and p.series.startswith("random")]
    assert len(set(of_columns)) == 1


POWER = [
    {"operands": f"{zeros:.0%} zeros", "watts": {"total": {"tensordash": sparse, "baseline": dense}}}
    for zeros, sparse, dense in ((0.0, 1.1, 1.0), (0.5, 1.2, 0.9))
] + [{"operands": "digits trace", "watts": {"total": {"tensordash": 9.0, "baseline": 9.0}}}]


def result(zeros: float) -> dict[str, Any]:
    energy = {"core": 0.0, "idle": 0.0, "sram": 2.0, "dram": 1.0}
    both = {"dense_energy": energy, "energy": energy}
    cycles = {"dense_compute": 1000, "compute": 500, "dense_cycles": 1200, "cycles": 900}
    busy = {"dense_busy": 256 * 900, "busy": 256 * 400}
    return {"padding_share": 0.0, "ideal_speedup": 1 / (1 - zeros), **cycles, **busy, **both}


def test_energy_is_interpolated_at_the_share_of_zeros() -> None:
    synthesis = {"power": POWER, "power_reason": None}
    chip = ChipConfig()
    added = energies([result(0.25)], synthesis)
    microseconds = 1000 / chip.clock_mhz
    assert added["baseline"]["core"] == pytest.approx(microseconds * chip.tiles * 0.95)
    assert added["tensordash"]["core"] == pytest.approx(microseconds / 2 * chip.tiles * 1.15)
    assert added["baseline"]["constant"] == pytest.approx(microseconds * chip.tiles * 1.0)
    assert added["baseline"]["anchored"] / added["baseline"]["core"] == pytest.approx(chip.power.dense / 1e3)
    ratios = energy_ratios([result(0.25)], synthesis)
    assert ratios["core, constant power"] == pytest.approx(2 / 1.1)
    core = added["baseline"]["core"], added["tensordash"]["core"]
    assert ratios["chip"] == pytest.approx((core[0] + 3) / (core[1] + 3))
    assert energies([result(0.9)], synthesis)["baseline"]["core"] == pytest.approx(microseconds * chip.tiles * 0.9)


def test_energy_of_waiting_tiles() -> None:
    """256 tiles at 500 MHz are busy for 900 and 400 cycles, and then wait until cycles 1200 and 900."""
    idle = {"watts": {"total": {"tensordash": 0.2, "baseline": 0.1}}}
    synthesis = {"power": POWER, "power_reason": None, "idle": idle}
    added = energies([result(0.0)], synthesis)
    assert added["baseline"]["busy"] == pytest.approx(900 * 256 / 500 * 1.0)
    assert added["baseline"]["idle"] == pytest.approx(300 * 256 / 500 * 0.1)
    assert added["tensordash"]["busy"] == pytest.approx(400 * 256 / 500 * 1.1)
    assert added["tensordash"]["idle"] == pytest.approx(500 * 256 / 500 * 0.2)
    ratios = energy_ratios([result(0.0)], synthesis)
    assert ratios["chip, with idle tiles"] == pytest.approx((930 * 0.512 + 3) / (540 * 0.512 + 3))
    # The paper's figures ignore waiting.
    of_paper = {"core, constant power", "chip", "core", "chip, core at the paper's power"}
    without = energy_ratios([result(0.0) | {"cycles": 10_000}], synthesis)
    assert {name for name in ratios if ratios[name] == without[name]} == of_paper
    # Without a measurement, the chip's configuration gives the shares.
    power = ChipConfig().power
    assumed = energies([result(0.0)], {"power": POWER, "power_reason": None})
    assert assumed["tensordash"]["idle"] == pytest.approx(500 * 256 / 500 * 1.1 * power.sparse_idle)


def test_energy_by_component_is_relative_to_the_baseline() -> None:
    """Logic draws the paper's power: 256 tiles for 1,000 cycles; TensorDash's for 500, with 1.1 times as much."""
    synthesis = {"power": POWER, "power_reason": None}
    settings = cast(Settings, SimpleNamespace(networks=("net",), averaged=("net",), synthesis={"paper": synthesis}))
    operations = [result(0.0)]
    answers: dict[tuple[Any, ...], Any] = {
        ("net",): {"operations": operations},
        (energy.PUBLISHED,): {"AxW": operations[0]},
    }
    points, _ = energy._breakdown(settings, answers)
    shares = {point.series: point.ours for point in points if point.x == "net"}
    logic = 1000 / 500 * 256 * ChipConfig().power.dense / 1e3
    assert shares["baseline, core"] == pytest.approx(logic / (logic + 3))
    assert shares["tensordash, core"] == pytest.approx(logic / 2 * 1.1 / (logic + 3))
    assert shares["baseline, sram"] == shares["tensordash, sram"] == pytest.approx(2 / (logic + 3))
    note = energy._reuse(settings, answers)
    assert f"DRAM {1 / (logic + 3):.0%} and {1 / (logic + 3):.0%}, SRAM {2 / (logic + 3):.0%}" in note


def test_masked_outputs_of_a_small_example() -> None:
    geometry = MatrixProduct(batch=1, samples=8, in_features=10, out_features=6).to_json()
    tile = TileConfig().to_mapping()
    dense = masked_outputs(geometry, tile, 0.0, 1, 0)
    assert dense == {"passes": 6, "kept_passes": 6, "outputs": 60, "kept_outputs": 60}
    empty = masked_outputs(geometry, tile, 1.0, 1, 0)
    assert (empty["kept_passes"], empty["kept_outputs"]) == (0, 0)
    large = MatrixProduct(batch=1, samples=8, in_features=400, out_features=400).to_json()
    scattered, blocked = (masked_outputs(large, tile, 0.875, block, 0) for block in (1, 4))
    assert scattered["kept_passes"] / scattered["passes"] == pytest.approx(1 - 0.875**16, rel=0.02)
    assert blocked["kept_passes"] * 16 == blocked["kept_outputs"], "a block is a tile's outputs"


def test_fusing_only_saves() -> None:
    for each in element_wise(gpt_block("full")):
        assert 0 <= each.fused < each.alone


def test_additional_experiments_are_marked() -> None:
    # These experiments have no value in the paper.
    for name in ("roworder", "gpt"):
        assert EXPERIMENTS[name].source.startswith("not in the paper")


def test_points_keep_additional_fields() -> None:
    point = Point(metric="speedup", series="tile", x=1, ours=2.0, more={"spread": 0.1})
    assert point.to_json() == {"metric": "speedup", "series": "tile", "x": 1, "paper": None, "ours": 2.0, "spread": 0.1}


def test_system_page_matches_the_plans() -> None:
    """The page has the steps' speedups in published shapes, without measures and with all."""
    table = section_of("system").split("| speedup |")[1].split("\n\n")[0].splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table[2:]]
    found = {name: (figures[0], figures[-1]) for name, *figures in rows}
    page = (ROOT / "docs" / "system.md").read_text(encoding="utf-8").split("## A step as a whole")[1].split("\n## ")[0]
    lines = [[cell.strip() for cell in row.split("|")[1:-1]] for row in page.splitlines() if row.startswith("| ")]
    steps = [line for line in lines if line[1] in ("25.6", "102.4", "256")]
    workloads = [name for name in ("gpt", "gpt-masked", "vgg16", "resnet50", "resnet50-ghost") for _ in range(3)]
    assert [line[0].partition(":")[0] for line in steps[::3]] == list(dict.fromkeys(workloads))
    for workload, (_, gbps, alone, planned) in zip(workloads, steps, strict=True):
        assert (alone, planned) == found[f"{workload}, {gbps} GB/s"]


def test_other_sections_of_the_page_are_kept() -> None:
    assert page([], NAMES, PAGE) == PAGE
    point = Point(metric="speedup", series="tile", x=0.5, ours=2.0)
    new = Figure(name="fig8", title="New", source="-", kind="line", x_label="", y_label="", points=[point])
    remade = page([new], NAMES, PAGE)
    assert remade.count("\n## ") == PAGE.count("\n## ")
    assert "## fig8: New" in remade
    assert [part.partition("\n")[0].split(":")[0] for part in remade.split("\n## ")[1:]] == ["Networks", *NAMES]
    for name in NAMES:
        if name != "fig8":
            assert section_of(name).rstrip() in remade
