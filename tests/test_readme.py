"""The README is true: its configuration is the default, its Python runs, its files and presets exist."""

import re
import runpy
import shutil
import struct
from pathlib import Path

import click
import pytest

from tensordash import TileConfig, load_preset
from tensordash_cli.main import COMMANDS, cli, run
from tensordash_sim.trace import Trace

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_configuration_is_the_default() -> None:
    (text,) = blocks("toml")
    assert TileConfig.from_toml(text) == TileConfig() == load_preset("paper")
    assert list(TileConfig.__dataclass_fields__) == re.findall(r"^(\w+) =", text, re.MULTILINE)


def test_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    code, offloading, recording = blocks("python")
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out == "[[12. 12.]\n [12. 12.]] [2] [8]\n"
    assert (tmp_path / "my_tile" / "tensordash.v").is_file()

    from torch import nn, ones

    model = nn.Linear(8, 4)
    namespace = {"model": model, "train": lambda it: it(ones(2, 8)).sum().backward()}
    exec(compile(offloading, "README.md", "exec"), dict(namespace))
    assert "Linear" in capsys.readouterr().out
    exec(compile(recording, "README.md", "exec"), namespace)
    assert [str(record.operation) for record in Trace.open("run.trace").records] == ["AxW", "AxG"]


def test_commands_and_links_exist() -> None:
    for command in re.findall(r"^tensordash (\w+)", README, re.MULTILINE):
        assert command in COMMANDS
    for link in re.findall(r"\]\((?!https)([^)#]+)\)", README):
        assert (ROOT / link).exists(), link
    for target in re.findall(r"^make (\w+)", README, re.MULTILINE):
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE), target


def options(command: str) -> set[str]:
    """Of a command or, of a group, of all that is in it."""
    found = cli.get_command(click.Context(cli), command)
    assert found is not None
    inner = list(found.commands.values()) if isinstance(found, click.Group) else [found]
    names = [{name for param in one.params for name in (*param.opts, *(param.metavar or "").split())} for one in inner]
    return set.intersection(*names)


def test_which_commands_take_a_configuration() -> None:
    (names,) = re.findall(r"^((?:`\w+`(?:, | and |\s)?)+)take `CONFIG\.toml` or `--preset NAME`", README, re.MULTILINE)
    listed = re.findall(r"`(\w+)`", names)
    assert listed == [each for each in COMMANDS if {"[CONFIG.toml]", "--preset", "--set"} <= options(each)]
    assert "every command takes `--json`" in " ".join(README.split())
    for each in COMMANDS:
        assert "--json" in options(each), each


def test_first_tile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The first commands do what stands beside them, before any make target is named."""
    monkeypatch.chdir(tmp_path)
    first, *others = blocks("sh")
    assert "make demo" in others[0]
    assert first.startswith("pip install '.[simulate]'\n")
    for line in first.splitlines()[1:]:
        arguments, _, said = line.removeprefix("tensordash ").partition("#")
        with pytest.raises(SystemExit) as end:
            run(arguments.split())
        assert not end.value.code
        if ratio := re.search(r"\d\.\d+x", said):
            assert f"cycles: {ratio[0][:-1]}" in capsys.readouterr().out
    assert (tmp_path / "my_tile" / "tensordash.v").is_file()
    assert (tmp_path / "schedules.html").is_file()


def test_picture(tmp_path: Path) -> None:
    """At the head, small, and what the command makes, but for the fonts that there are."""
    (name,) = re.findall(r"\]\((docs/\S+\.png)\)", README.split("##")[0])
    stored = (ROOT / name).read_bytes()
    assert stored.startswith(b"\x89PNG")
    assert len(stored) < 300_000
    made = runpy.run_path(str(ROOT / "bench/viewer_picture.py"))
    if not any(map(shutil.which, made["BROWSERS"])):
        pytest.skip("no Chromium (apt-get install chromium)")
    pytest.importorskip("playwright.sync_api")
    made["picture"](tmp_path / "viewer.png")
    sizes = [struct.unpack(">II", data[16:24]) for data in (stored, (tmp_path / "viewer.png").read_bytes())]
    assert sizes[0][0] == sizes[1][0]
    assert abs(sizes[0][1] - sizes[1][1]) < 200
