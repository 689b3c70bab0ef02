"""Test `tensordash evaluate`."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from tensordash_cli.main import run
from tensordash_sim.evaluation import NAMES
from tensordash_sim.lowering import MatrixProduct, Operation
from tensordash_sim.trace import TraceWriter


def call(*arguments: str) -> int | str:
    with pytest.raises(SystemExit) as end:
        run(["evaluate", *arguments])
    return end.value.code or 0


pytestmark = pytest.mark.usefixtures("folder")


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert call() == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(NAMES)
    assert call("--json") == 0
    assert list(json.loads(capsys.readouterr().out)) == list(NAMES)


def test_figures_files_and_page(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--scale", "tiny", "--no-synth", "--jobs", "1", "-o", "out", "--page", "page.md")
    assert call("fig8", "table4", *options, "--json") == 0
    documents = json.loads(capsys.readouterr().out)
    assert [document["name"] for document in documents] == ["fig8", "table4"]
    assert documents[0] == json.loads((folder / "out" / "fig8.json").read_text())
    assert all(point["ours"] is None for point in documents[1]["points"]), "nothing was synthesized"
    page = (folder / "page.md").read_text()
    assert "## fig8: " in page
    assert "## table4: " in page
    assert call("fig8", *options) == 0
    assert "speedup, all, mean:" in capsys.readouterr().out


def test_synthesis_results_are_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tensordash import load_preset

    watts = {"total": {"tensordash": 0.3, "baseline": 0.25}}
    ge = {"tensordash_ge": 200_000.0, "baseline_ge": 160_000.0}
    document = {
        "config": load_preset("paper").digest,
        "ratio": {"area": 1.25, "power": 1.2, "chip": 1.07},
        "components": {"total": ge},
        "power": [{"operands": "0% zeros", "watts": watts}],
        "power_reason": None,
    }
    (folder / "synth").mkdir()
    path = folder / "synth" / "paper.json"
    path.write_text(json.dumps(document))
    assert call("table4", "--synth", "synth", "-o", "out", "--json") == 0
    (table,) = json.loads(capsys.readouterr().out)
    ours = {(p["metric"], p["series"], p["x"]): p["ours"] for p in table["points"]}
    assert ours["area, mm2 at 65 nm", "baseline", "total"] == pytest.approx(160_000 * 1.44e-6 * 256)
    assert ours["power, mW", "tensordash", "total"] == pytest.approx(0.3 * 1000 * 256)
    assert ours["TensorDash over the baseline", "ratio", "area"] == 1.25
    path.write_text(json.dumps(document | {"config": "0" * 16}))
    assert call("table4", "--synth", "synth", "-o", "out") == 2
    assert "must be of the configuration" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fig2",), "NAME must be one of fig1, table3"),
        (("fig8", "--all"), "--all goes with no NAME, not with fig8"),
        (("fig8", "--scale", "huge"), "--scale must be one of full, small, tiny, not 'huge'"),
        (("table3", "-o", "file"), "--output must be a folder, not the file file"),
        (("table3", "--page", "nowhere/page.md"), "--page must be in a folder that exists, not nowhere/page.md"),
        (("table4", "--synth", "file"), "--synth must be a folder of PRESET.json, not file"),
        (("table4", "--synth", "broken"), "paper.json must be what tensordash synth --preset paper --json prints"),
        (("table4", "--synth", "broken", "--no-synth"), "--synth and --no-synth exclude each other"),
        (("fig8", "--traces", "broken", "--scale", "tiny", "--no-synth"), "snli.trace: not a trace"),
        (("fig8", "--traces", "file", "--no-synth"), "--traces must be a folder, not the file file"),
    ],
)
def test_invalid_arguments(
    arguments: tuple[str, ...], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "file").write_text("")
    (folder / "broken").mkdir()
    (folder / "broken" / "paper.json").write_text("{}")
    (folder / "broken" / "snli.trace").mkdir()
    assert call(*arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1
    assert not (folder / "build" / "evaluation" / "fig8.json").exists()


@pytest.fixture(scope="module")
def own_traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of traces for `--traces`: a network with many zeros, and a network without zeros."""
    folder = tmp_path_factory.mktemp("own")
    layer = MatrixProduct(batch=1, samples=64, in_features=64, out_features=64)
    rng = np.random.default_rng(0)
    for name, density in (("mine", 0.05), ("full", 1.0)):
        with TraceWriter(folder / f"{name}.trace", conditions={"script": "train.py"}) as writer, writer.step(3) as step:
            for operation in Operation:
                masks = {side: rng.random(layer.shapes[side]) < density for side in (operation.left, operation.right)}
                step.record("fc", operation, layer, masks)
    return folder


OWN = ("--scale", "tiny", "--no-synth", "--jobs", "1", "-o", "out", "--json")


def test_own_networks_are_used(own_traces: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("fig8", "--traces", str(own_traces), *OWN) == 0
    (figure,) = json.loads(capsys.readouterr().out)
    speedups = {point["x"]: point["ours"] for point in figure["points"] if point["series"] == "all"}
    assert list(speedups) == ["full", "mine", "mean"]
    assert speedups["full"] == 1
    assert speedups["mine"] > 2.6
    assert list(figure["conditions"]["data"]) == ["full", "mine"]
    assert "Means are over full, mine: none of the paper's networks is recorded." in figure["notes"]


def test_notes_match_the_figures(own_traces: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fewer zeros explain a smaller speedup, but not a larger one."""
    for network, fewer in (("full", True), ("mine", False)):
        (folder / network).mkdir()
        shutil.copytree(own_traces / f"{network}.trace", folder / network / f"{network}.trace")
        assert call("fig1", "fig8", "fig9", "--traces", network, *OWN) == 0
        figures = json.loads(capsys.readouterr().out)
        notes = " ".join(note for figure in figures for note in figure["notes"])
        assert ("Fewer zeros cause the difference" in notes) == fewer
        assert "tensordash trace --model" not in notes
        assert "first steps" not in notes


def test_trace_named_like_a_network_of_the_paper(
    own_traces: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(own_traces / "full.trace", folder / "traces" / "bert.trace")
    assert call("fig1", "--traces", "traces", *OWN) == 0
    (figure,) = json.loads(capsys.readouterr().out)
    point = next(point for point in figure["points"] if point["series"] == "all")
    assert (point["x"], point["paper"]) == ("bert.trace", None)


def test_missing_traces_are_errors(own_traces: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "empty").mkdir()
    conditions = {"model": "ncf", "scale": "full"}
    with TraceWriter(folder / "wrong" / "ncf.trace", conditions=conditions) as writer, writer.step(0):
        pass
    for traces, message in (
        ("empty", "empty is a folder without any"),
        ("missing", "missing is missing"),
        (str(own_traces / "mine.trace"), "mine.trace is a trace itself"),
        ("wrong", "wrong is a folder with none of scale tiny: left out ncf.trace (scale full)"),
    ):
        assert call("fig8", "--traces", traces, *OWN) == 2
        assert message in capsys.readouterr().err
        assert call("table3", "--traces", traces, *OWN) == 0, "it uses no network"
        capsys.readouterr()
    assert not list((folder / "out").glob("fig8*"))
