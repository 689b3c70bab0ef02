"""The README is true: its configuration is the default, its Python runs, its files and presets exist."""

import re
from pathlib import Path

import pytest

from tensordash import TileConfig, load_preset
from tensordash_cli.main import COMMANDS
from tensordash_sim.trace import Trace

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_configuration_is_the_default() -> None:
    (text,) = blocks("toml")
    assert TileConfig.from_toml(text) == TileConfig() == load_preset("paper")
    assert list(TileConfig().to_mapping()["tile"]) == re.findall(r"^(\w+) =", text, re.MULTILINE)


def test_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    code, recording = blocks("python")
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out == "[[12. 12.]\n [12. 12.]] [2] [8]\n"
    assert (tmp_path / "my_tile" / "tensordash.v").is_file()

    from torch import nn, ones

    model = nn.Linear(8, 4)
    exec(compile(recording, "README.md", "exec"), {"model": model, "train": lambda it: it(ones(2, 8)).sum().backward()})
    assert [str(record.operation) for record in Trace.open("run.trace").records] == ["AxW", "AxG"]


def test_commands_and_links_exist() -> None:
    for command in re.findall(r"^tensordash (\w+)", README, re.MULTILINE):
        assert command in COMMANDS
    for link in re.findall(r"\]\((?!https)([^)#]+)\)", README):
        assert (ROOT / link).exists(), link
    for target in re.findall(r"^make (\w+)", README, re.MULTILINE):
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE), target
