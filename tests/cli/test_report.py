"""Test that `tensordash report` writes results and schedules to one page."""

import json
from pathlib import Path

import numpy as np
import pytest

from tensordash import TileConfig
from tensordash_sim.cycles import count_words, pack
from tensordash_sim.golden.quantization import non_zeros
from tensordash_sim.lowering import MatrixProduct
from tensordash_sim.trace import Trace, TraceWriter, example_trace
from tensordash_sim.trace.layer_operands import layer_passes

from .called import run_command

RESULT = {
    "name": "fig15",
    "title": "Random zeros",
    "source": "paper, Fig. 15",
    "kind": "line",
    "x_label": "zeros",
    "y_label": "speedup",
    "points": [{"metric": "speedup", "series": "4 rows", "x": 0.9, "paper": 3.7, "ours": 3.69}],
    "notes": [],
    "conditions": {},
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "fig15.json").write_text(json.dumps(RESULT))
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "fig15.json").write_text(json.dumps(RESULT | {"kind": "pie"}))
    (tmp_path / "tile.toml").write_text("[tile]\nrows = 2\n")
    layer = MatrixProduct(batch=1, samples=9, in_features=30, out_features=5)
    rng = np.random.default_rng(0)
    with TraceWriter(tmp_path / "run.trace") as writer, writer.step(0) as step:
        step.record("fc", "AxW", layer, {name: rng.random(layer.shapes[name]) < 0.4 for name in "AW"})
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(arguments: str, capfd: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    return run_command(f"report {arguments}", capfd)


def test_results_and_schedules(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    status, out, _ = call("results -o page.html --json", capfd)
    document = json.loads(out)
    assert status == 0
    assert document["results"] == ["fig15"]
    config = TileConfig()
    records = [record for record in Trace.open(example_trace()).records if record.layer == "CNN.conv2"]
    expected = {}
    for record in records:
        ((a, b),) = layer_passes(record, config, sample=8, seed=0)
        words = [pack(non_zeros(b, config.b_format))]
        expected[f"CNN.conv2 {record.operation}"] = count_words(words, config, a=[a]).cycles
    assert {each["title"]: each["cycles"] for each in document["schedules"]} == expected
    html = (folder / "page.html").read_text(encoding="utf-8")
    for text in ("Random zeros", "CNN.conv2 AxG", "The paper&#39;s Fig. 3", "Plotly, Inc."):
        assert text in html


def test_schedules_of_a_trace(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Without results, the page shows schedules on another tile. The trace has only masks, so values are random."""
    arguments = "tile.toml -o page.html --trace run.trace --layer fc --op AxW --passes 3 --seed 1"
    status, out, _ = call(f"{arguments} --set tile.sparsity=both", capfd)
    first, second = out.splitlines()
    assert status == 0
    assert first.startswith("page.html: 0 results, 0.")
    assert second.startswith("fc AxW: 24 dense steps in ")
    html = (folder / "page.html").read_text(encoding="utf-8")
    assert "3 passes drawn with seed 1; A on the row side, W on the column side; " in html
    assert "side; values drawn at random where the trace has masks only." in html
    assert '"rows":2,"columns":4' in html
    assert "Plotly, Inc." not in html


def test_a_network_from_its_trace(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    status, out, _ = call("tile.toml run.trace -o page.html --no-synth", capfd)
    assert status == 0
    lines = out.splitlines()
    assert [line.partition(":")[0] for line in lines[:3]] == ["Speed", "Energy", "Why"]
    assert any(line.startswith("measures: From ") for line in lines)
    assert lines[-2].startswith("page.html: 7 results, ")
    html = (folder / "page.html").read_text(encoding="utf-8")
    for text in (
        "<title>TensorDash on run</title>",
        "Speedup by layer",
        "What multipliers do",
        "fc AxW",
        "Plotly, Inc.",
    ):
        assert text in html
    assert html.index('<h1 id="verdict-title">') < html.index('<h1 id="speedup-title">')
    assert html.index('<h1 id="energy-title">') < html.index('id="schedule"')
    status, out, _ = call("tile.toml run.trace -o page.html --no-synth --json", capfd)
    document = json.loads(out)
    assert status == 0
    assert list(document["figures"]) == ["verdict", "speedup", "zeros", "measures", "limits", "roofline", "energy"]


def test_dropped_steps_are_an_option(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    notes = []
    for option in ("", " --drop-steps"):
        _, out, _ = call(f"run.trace -o page.html --no-synth --json{option}", capfd)
        notes.append(json.loads(out)["figures"]["speedup"]["notes"])
    assert notes[1][0] == notes[0][0]
    assert [len(each) for each in notes] == [1, 2]
    assert notes[1][1].startswith("With dropped steps it would be ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("results", "--output"),
        ("results -o nowhere/page.html", "--output must be in a folder that exists, not nowhere/page.html"),
        ("results -o empty", "--output must be a file, not the folder empty"),
        ("nothing -o page.html", "nothing: must be a folder of results"),
        ("empty -o page.html", "empty: must hold results"),
        ("broken -o page.html", 'fig15.json: kind must be one of line, bar, table, not "pie"'),
        ("results empty -o page.html", r"give [CONFIG.toml] [DIR|RUN.trace], not results empty"),
        ("missing.toml -o page.html", "cannot read the configuration missing.toml"),
        ("-o page.html --op FxG", "--op must be one of AxW, WxG, AxG, not 'FxG'"),
        ("-o page.html --layer fc9", "--layer and --op must be one of the "),
        ("-o page.html --trace run.trace", "--layer and --op must be one of fc AxW, not None"),
        ("-o page.html --trace run.trace --layer fc --op AxG", "must be one of fc AxW, not fc AxG"),
        ("-o page.html --trace results", "results"),
        ("-o page.html --passes 0", "--passes"),
        ("run.trace -o page.html --no-synth --step 3", "--step must be one of 0, not 3"),
        ("run.trace -o page.html --no-synth --chip nowhere.toml", "cannot read the chip nowhere.toml"),
        ("run.trace -o page.html --no-synth --plan", "--plan: step 0 must have its flow recorded: by "),
        ("run.trace -o page.html --no-synth --layer fc9", "--layer and --op must be one of fc AxW, not fc9"),
        ("run.trace -o page.html --trace run.trace", "--trace does not go with RUN.trace, whose schedules are shown"),
        ("nothing.trace -o page.html --no-synth", "nothing.trace"),
        ("results -o page.html --step 0", "--step, --chip, --drop-steps, --synth and --plan go with RUN.trace"),
        ("results -o page.html --drop-steps", "--step, --chip, --drop-steps, --synth and --plan go with RUN.trace"),
        (
            "run.trace -o page.html --no-synth --drop-steps --set tile.sparsity=both",
            '--drop-steps: tile.sparsity must be "rows" to drop empty steps, not "both"',
        ),
        ("-o page.html --set tile.rows=0", "tile.rows must be an integer from 1 to 16, not 0"),
    ],
)
def test_bad_input(arguments: str, message: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = sorted(folder.rglob("*"))
    status, out, err = call(arguments, capfd)
    assert (status, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1
    assert sorted(folder.rglob("*")) == before
