"""Test `tensordash explore`."""

import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tensordash import TileConfig
from tensordash_cli.cached_areas import cached_areas
from tensordash_cli.explore_front import FRONT_HEADER, mark_front
from tensordash_cli.main import run
from tensordash_sim.cycles import random_counts
from tensordash_storage.jobs import Runner

SMALL = ("--depth", "2", "--sources", "3,4", "--rows", "2", "--columns", "2", "--tries", "3", "--row-steps", "200")
ONE_PROCESS = Runner(workers=1)


def tensordash(*arguments: str) -> int:
    with pytest.raises(SystemExit) as error:
        run(["explore", *arguments, "--jobs", "1"])
    return int(error.value.code or 0)


def test_explore_searches_simulates_and_resumes(tmp_path: Path, capsys):
    assert tensordash(*SMALL, "--no-area", "-o", str(tmp_path), "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert json.loads((tmp_path / "explore.json").read_text()) == document
    labels = [point["label"] for point in document["points"]]
    assert labels[0] == "4 lanes, 2 deep, 3 sources, 2x2"
    assert labels[1:3] == ["4 lanes, 2 deep, 4 sources, 2x2", "4 lanes, 2 deep, 4 sources, ring, 2x2"]
    assert "paper 2x2" in labels
    assert all(1 < point["speedup"] < 4 for point in document["points"])
    stored = {
        path: path.stat().st_mtime_ns for folder in ("search", "simulate") for path in (tmp_path / folder).iterdir()
    }
    assert tensordash(*SMALL, "--no-area", "-o", str(tmp_path)) == 0
    assert "4 lanes, 2 deep, 3 sources, 2x2" in capsys.readouterr().out
    assert stored == {path: path.stat().st_mtime_ns for path in stored}


def test_uniform_zeros_with_dropped_steps(tmp_path: Path, capsys):
    arguments = (*SMALL, "--zeros", "0.9", "--zeros", "0.5", "--drop-steps", "--no-area", "-o", str(tmp_path))
    assert tensordash(*arguments, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["conditions"]["drop_steps"] is True
    assert [each["conditions"]["zeros"] for each in document["conditions"]["traces"]] == [
        "uniform, 0.9",
        "uniform, 0.5",
    ]
    for point in document["points"]:
        config = replace(
            TileConfig.from_mapping({"tile": point["tile"]}), connectivity=tuple(map(tuple, point["options"]))
        )
        for zeros, plain, dropped in zip((0.9, 0.5), point["speedups"], point["dropped_speedups"], strict=True):
            count = partial(random_counts, config, zeros=zeros, steps=128_000, length=128, seed=1)
            assert plain == pytest.approx(count().speedup, rel=0.01)
            assert dropped == pytest.approx(count(drop_steps=True).speedup, rel=0.01)
        assert point["dropped_speedups"][0] > 1.3 * point["speedups"][0]
        assert point["dropped_speedup"] == pytest.approx(sum(point["dropped_speedups"]) / 2)
    stored = {path: path.stat().st_mtime_ns for path in (tmp_path / "simulate").iterdir()}
    assert tensordash(*arguments) == 0
    table = capsys.readouterr().out
    headers = ("zeros-0.9", "zeros-0.5", "speedup", "zeros-0.9, dropped", "zeros-0.5, dropped", "speedup, dropped")
    assert re.search("  +".join(map(re.escape, headers)), table)
    assert stored == {path: path.stat().st_mtime_ns for path in stored}


def test_the_front_is_of_dropped_steps():
    rows = [
        {"label": "slow", "speedup": 3.9, "dropped_speedup": 5.0, "area_ratio": 1.2},
        {"label": "fast", "speedup": 3.0, "dropped_speedup": 9.0, "area_ratio": 1.2},
    ]
    mark_front(rows)
    assert [row["on_front"] for row in rows] == [False, True]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--zeros 1.5", "'--zeros': must be a number from 0 to 1, not '1.5'"),
        ("--zeros 0.5 --trace run.trace", "give one of --trace and --zeros, not both"),
        ("--preset core --drop-steps", "--drop-steps: core.drop_steps must be false unless core.skip_masked is true"),
        ("--depth 9", "'--depth': must be integers from 2 to 6, separated by commas, not '9'"),
        ("--depth 2,1", "'--depth': must be integers from 2 to 6, separated by commas, not '2,1'"),
        ("--lanes 64", "'--lanes': must be integers from 2 to 32, separated by commas, not '64'"),
        ("--rows 99", "'--rows': must be integers from 1 to 16, separated by commas, not '99'"),
        ("--columns 0", "'--columns': must be integers from 1 to 32, separated by commas, not '0'"),
        ("--sources 43", "'--sources': must be integers from 2 to 42, separated by commas, not '43'"),
        ("--sources 42 --depth 2", "--sources must be at most 5 for these lanes and depths, and for a ring a multiple"),
        ("--rows 2 --set tile.out_rows=4", "2x4: tile.out_rows must be an integer from 1 to 2, not 4"),
    ],
)
def test_ranges(arguments: str, message: str, tmp_path: Path, capsys):
    assert tensordash(*arguments.split(), "--no-area", "-o", str(tmp_path / "out")) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_the_front_is_written(tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch):
    """With invented areas, the files of the front are valid configurations and list all ties."""
    areas = {2: 1.1, 3: 1.105, 4: 1.3, 5: 1.4}
    measured_configs: list[TileConfig] = []

    def measure(config: TileConfig) -> dict[str, float]:
        measured_configs.append(config)
        ratio = areas[config.depth] + 0.0001 * len(config.options)
        return {"area_ratio": ratio, "added_ge_per_pe": 100.0}

    monkeypatch.setattr("tensordash_cli.cached_areas._measure", measure)
    (tmp_path / "front").mkdir()
    own, old = tmp_path / "front" / "mine.toml", tmp_path / "front" / "old.toml"
    own.write_text("[tile]\n")
    old.write_text(f"{FRONT_HEADER}\n# Of another search.\n[tile]\n")
    assert tensordash(*SMALL, "-o", str(tmp_path)) == 0
    table = capsys.readouterr().out
    assert own.exists()
    assert not old.exists()
    points = json.loads((tmp_path / "explore.json").read_text())["points"]
    front = [point for point in points if point["on_front"]]
    assert 2 <= len(front) < len(points)
    assert len(measured_configs) == len({json.dumps([point["tile"], point["options"]]) for point in points})
    for point in front:
        text = (tmp_path / point["config"]).read_text()
        config = TileConfig.from_toml(text)
        assert config.options == tuple(tuple(option) for option in point["options"])
        assert config.to_mapping()["tile"]["rows"] == point["tile"]["rows"] == 2
        assert [f"within 1% of both: {name}." in text for name in point["ties"]] == [True] * len(point["ties"])
    for point in points:
        assert ("config" in point) == point["on_front"]
        marks = "*" * point["on_front"] + "~" * bool(point["ties"])
        (line,) = [line for line in table.splitlines() if line.startswith(f"{point['label']} ")]
        assert marks == "" or f" {marks} " in line
        for name in point["ties"]:
            (other,) = [each for each in points if f"{each['label']}, {each['row_order']}" == name]
            best, tied = (point, other) if point["on_front"] else (other, point)
            assert tied["area_ratio"] <= 1.01 * best["area_ratio"]
            assert tied["speedup"] >= 0.99 * best["speedup"]
    assert any(point["ties"] for point in points)


def test_areas_are_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A repeated search renders and maps nothing."""
    calls = []

    def measure(config: TileConfig) -> dict[str, float]:
        calls.append(config)
        return {"area_ratio": 1.25, "added_ge_per_pe": 7.0}

    monkeypatch.setattr("tensordash_cli.cached_areas._measure", measure)
    auto, paper = TileConfig(connectivity="auto"), TileConfig()
    for _ in range(2):
        areas = cached_areas([auto, paper], tmp_path, ONE_PROCESS)
        assert areas == 2 * [{"area_ratio": 1.25, "added_ge_per_pe": 7.0}]
    assert calls == [auto, paper]
    for damage in ("", "{}", '{"area_ratio": null}'):
        next(tmp_path.iterdir()).write_text(damage)
        cached_areas([auto, paper], tmp_path, ONE_PROCESS)
    assert len(calls) == 5
    monkeypatch.setattr("tensordash_cli.cached_areas.code_digest", lambda *places: "other code")
    cached_areas([paper], tmp_path, ONE_PROCESS)
    assert len(calls) == 6


@pytest.mark.slow
def test_synthesizes_and_draws(tmp_path: Path, capsys):
    arguments = (*SMALL, "--set", "tile.format=fp8_e4m3", "-o", str(tmp_path))
    assert tensordash(*arguments, "--json") == 0
    points = json.loads(capsys.readouterr().out)["points"]
    assert any(point["on_front"] for point in points)
    assert all(1 < point["area_ratio"] < 2 for point in points)
    assert (tmp_path / "explore.svg").exists()


def test_rings_of_more_than_two_steps(tmp_path: Path, capsys):
    shape = ("--depth", "3", "--sources", "3,6", "--rows", "2", "--columns", "2", "--tries", "1", "--row-steps", "100")
    assert tensordash(*shape, "--no-area", "-o", str(tmp_path), "--json") == 0
    labels = [point["label"] for point in json.loads(capsys.readouterr().out)["points"]]
    assert "4 lanes, 3 deep, 6 sources, ring, 2x2" in labels
