"""Test that the tables of training and of mutants match their data files and the code."""

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash_formal.campaigns import full_campaigns

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module", autouse=True)
def benches() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "bench"))
        yield


@pytest.fixture(
    params=[
        *("training_page", "recipe_losses", "mutant_page", "core", "past_four", "litex_memories", "step_programs"),
        *("system", "sparse_weights", "masked_block"),
    ]
)
def bench(request: pytest.FixtureRequest) -> ModuleType:
    module = import_module(request.param)
    if not module.RESULTS.exists():
        pytest.skip(f"{module.RESULTS.name} is not measured yet")
    return module


def test_pages_match_the_measurements(bench: ModuleType) -> None:
    page = bench.PAGE.read_text(encoding="utf-8")
    results = import_module("common").load_figures(bench.RESULTS)
    assert page == bench.fill_page(page, results), f"run python bench/{bench.__name__}.py"


def test_every_row_has_a_command_a_commit_and_a_date() -> None:
    training = import_module("training_page")
    rows = import_module("common").load_figures(training.RESULTS)
    assert set(rows) == {
        training.command_of(table, options) for table, (_, rows) in training.TABLES.items() for options in rows
    }
    assert all(row["commit"] and row["date"] for row in rows.values())


def test_mutant_counts_match_the_campaigns() -> None:
    page = import_module("mutant_page")
    stored = import_module("common").load_figures(page.RESULTS)
    rows: Counter[str] = Counter()
    for each in full_campaigns():
        row = page.row_of(each.name, each.kind, isinstance(each.config, CoreConfig))
        rows[row] += sum(count for _, count in each.parts)
    assert {name: sum(row["outcomes"].values()) for name, row in stored["rows"].items()} == rows


def test_mutants_of_an_example_are_summarised() -> None:
    page = import_module("mutant_page")
    mutants = [
        {"campaign": "paper", "kind": "bit", "outcome": "bench"},
        {"campaign": "paper", "kind": "dropped", "outcome": "equivalent"},
        {"campaign": "core, units", "kind": "bit", "outcome": "proof"},
        {"campaign": "core, units", "kind": "swapped", "outcome": "bench"},
        {"campaign": "core", "kind": "stuck", "outcome": "survives"},
    ]
    rows = page.summary(mutants)
    assert rows == {
        "tiles, bits and wires": {"bench": 1, "equivalent": 1},
        "bits of a core's units": {"proof": 1},
        "wires in a core's units": {"bench": 1},
        "wires between a core's units": {"survives": 1},
    }
    measured = {name: {"outcomes": outcomes, "commit": "c", "date": "d"} for name, outcomes in rows.items()}
    text = page.fill_page("<!-- mutants -->\n<!-- /mutants -->", {"command": "make mutate", "rows": measured})
    assert "1 mutant survives" in text
    assert "| wires between a core's units | 1 | 0 | 0 | 0 | 1 | c, d |" in text


def test_faults_have_their_results() -> None:
    bench, load = import_module("mutant_page"), import_module("common").load_figures
    page = bench.FAULT_PAGE.read_text(encoding="utf-8")
    assert page == bench.with_fault_results(page, load(bench.FAULT_RESULTS)), "run python bench/mutant_page.py"
    results = {"command": "make mutate", "commit": "c", "date": "d", "results": {"killed": 2, "survived": 1}}
    text = bench.with_fault_results("<!-- results -->\n<!-- /results -->", results)
    assert "`make mutate` ran 3 faults at commit c on d: 2 killed, 1 survived." in text


def test_figures_of_a_training_run() -> None:
    history = [{"loss": 1.0, "plain_loss": 3.0}, {"loss": 2.0, "plain_loss": 4.0}]
    document = {"steps": 2, "accuracy": 0.5, "plain_accuracy": 0.6, "speedup": 2.0, "tile_speedup": 2.5}
    found = import_module("training_page").figures({**document, "history": history, "cycles": 7})
    assert found == {**document, "loss": 1.5, "plain_loss": 3.5}


def test_a_row_of_recipes_summarises_its_seeds() -> None:
    losses = {"0": (2.02, 2.0, 1.96, 2.0), "1": (1.94, 2.0, 2.0, 2.0), "2": (2.1, 2.0, 2.0, 2.0)}
    names = ("loss", "plain_loss", "tail_loss", "plain_tail_loss")
    runs = {
        seed: {
            "commit": "c",
            "date": "d",
            "data": "t",
            "figures": {"bf16_share": 0.25, **dict(zip(names, each, strict=True))},
        }
        for seed, each in losses.items()
    }
    page = import_module("recipe_losses").fill_page("<!-- nvfp4 -->\n<!-- /nvfp4 -->", {"the recipe": runs})
    row = "| the recipe | 25% | 3 | 2.020 | +1.0% | -3.0% to +5.0% | -0.7% | c |"
    assert row in page.splitlines()


def test_float32_is_compared_with_one_changed_bit() -> None:
    bench = import_module("recipe_losses")
    plain, changed = bench.train_float32(0, 2), bench.train_float32(0, 2, 2.0**-8)
    assert plain == bench.train_float32(0, 2) != changed


def test_recipe_variant_with_bf16_in_the_last_fifth() -> None:
    bench = import_module("recipe_losses")
    names = "the recipe", "the recipe, the last fifth of the steps in bf16"
    first, late = (bench.VARIANTS[name](0, 5) for name in names)
    assert first["loss"] != late["loss"]
    assert late["bf16_share"] == pytest.approx((4 * first["bf16_share"] + 1) / 5)


def test_measurements_record_the_commit() -> None:
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    if head.returncode:
        pytest.skip("is no checkout")
    assert head.stdout.startswith(import_module("common").measured_at()["commit"])


def test_evaluation_page_matches_its_tables() -> None:
    bench = import_module("evaluation_page")
    page, tables = (path.read_text(encoding="utf-8") for path in (bench.PAGE, bench.TABLES))
    assert page == bench.fill_page(page, tables), "run python bench/evaluation_page.py"
    mean = "| mean | 1.675 | 1.888 | 1.488 | 1.538 (1.95) |"
    changed = bench.fill_page(page, tables.replace(mean, "| mean | - | - | - | 1.2 (1.9) |"))
    assert "| speedup of tiles, mean of the paper's eight networks | 1.2 | 1.9 | fig8 |" in changed


def test_the_system_page_has_the_figures_of_the_evaluation() -> None:
    bench = import_module("evaluation_page")
    tables = bench.tables_of(bench.TABLES.read_text(encoding="utf-8"))
    steps = dict(tables["system"])["speedup"]
    both = ("shared reads", "256 GB/s")
    expected = {
        "none": ("none", *both),
        "weight gradients": ("joined where faster", *both),
        "the faster operand": ("faster side", *both),
        "rows of similar": ("density order", *both),
        "all": ("all", *both),
        "tiles, none": ("none", "tiles alone"),
        "tiles that share": ("none", "shared reads"),
        "the same, with work": ("all", "shared reads"),
        "with 256 GB/s": ("none", "256 GB/s"),
        "with 25.6 GB/s": ("none", "25.6 GB/s"),
    }
    compared: set[object] = set()
    step = ""
    for line in re.findall(r"^\|(.*)\|$", (ROOT / "docs/system.md").read_text(encoding="utf-8"), re.MULTILINE):
        first, *cells = (cell.strip() for cell in line.split("|"))
        step = first.partition(":")[0] or step
        if len(cells) == 3 and (row := steps.get(f"{step}, {cells[0]} GB/s")):
            assert cells[1:] == [row["none"], row["all"]], line
            compared.add((step, cells[0]))
        for start, (measure, *conditions) in expected.items():
            if first.startswith(start):
                figures = [
                    float(bench.cell_of(tables, "system", f"speedup, {each}", "mean", measure)) for each in conditions
                ]
                shown = [float(cell.partition(",")[0]) for cell in cells[: len(conditions)]]
                assert shown == pytest.approx(figures, abs=0.006), line
                compared.add(start)
    assert len(compared) == len(expected) + len(steps)


def test_presets_are_up_to_date() -> None:
    bench = import_module("preset_page")
    page = bench.PAGE.read_text(encoding="utf-8")
    assert page == bench.fill_page(page), "run python bench/preset_page.py"
