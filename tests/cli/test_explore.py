"""`tensordash explore` as a user runs it."""

import json
from pathlib import Path

import pytest

from tensordash_cli.main import run

SMALL = ("--depth", "2", "--sources", "3,4", "--rows", "2", "--columns", "2", "--tries", "3", "--row-steps", "200")


def tensordash(*arguments: str) -> int:
    with pytest.raises(SystemExit) as error:
        run(["explore", *arguments])
    return int(error.value.code or 0)


def test_finds_simulates_and_resumes(tmp_path: Path, capsys):
    assert tensordash(*SMALL, "--no-area", "-o", str(tmp_path), "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert json.loads((tmp_path / "explore.json").read_text()) == document
    labels = [point["label"] for point in document["points"]]
    assert labels[0] == "4 lanes, 2 deep, 3 sources, 2x2"
    assert labels[1:3] == ["4 lanes, 2 deep, 4 sources, 2x2", "4 lanes, 2 deep, 4 sources, ring, 2x2"]
    assert "paper 2x2" in labels
    assert all(1 < point["speedup"] < 4 for point in document["points"])
    kept = {
        path: path.stat().st_mtime_ns for folder in ("search", "simulate") for path in (tmp_path / folder).iterdir()
    }
    assert tensordash(*SMALL, "--no-area", "-o", str(tmp_path)) == 0
    assert "4 lanes, 2 deep, 3 sources, 2x2" in capsys.readouterr().out
    assert kept == {path: path.stat().st_mtime_ns for path in kept}


@pytest.mark.slow
def test_synthesizes_and_draws(tmp_path: Path, capsys):
    arguments = (*SMALL, "--set", "tile.format=fp8_e4m3", "-o", str(tmp_path))
    assert tensordash(*arguments, "--json") == 0
    points = json.loads(capsys.readouterr().out)["points"]
    assert any(point["on_front"] for point in points)
    assert all(1 < point["area_ratio"] < 2 for point in points)
    assert (tmp_path / "explore.svg").exists()
