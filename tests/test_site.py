"""Test that the site builds without a warning, and that its tutorials show the commands' output."""

import html
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from click.testing import CliRunner

from tensordash_cli.help_texts import EXAMPLES
from tensordash_cli.main import COMMANDS, cli

from .pages import fences

ROOT = Path(__file__).parents[1]
FIRST_TILE = (ROOT / "docs" / "tutorials" / "first-tile.md").read_text(encoding="utf-8")


def test_the_site_builds(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-q", "-d", str(tmp_path / "trees")]
    built = subprocess.run([*command, str(ROOT / "docs"), str(tmp_path)], capture_output=True, text=True)
    assert (built.returncode, built.stderr) == (0, "")
    commands = (tmp_path / "cli.html").read_text(encoding="utf-8")
    for name in COMMANDS:
        assert f'id="tensordash-{name}"' in commands
    shown = html.unescape(re.sub(r"<[^>]*>", "", commands))
    assert [each for examples in EXAMPLES.values() for each in examples if each not in shown] == []
    # Options in running text have two hyphens, and each list of examples has examples.
    assert re.search(r"[\u2013\u2014]\w", shown) is None
    assert re.search(r"Examples:\s+(?!tensordash )", shown) is None
    # A docstring's source is a section of its own, not an error that a function raises.
    assert re.search(r">Source</p>\s*<p>paper, section III-A", (tmp_path / "api.html").read_text(encoding="utf-8"))


def outputs(page: str) -> list[tuple[str, str]]:
    """Return commands of a page that show their output, with that output."""
    found = re.findall(r"```sh\n((?:[^`]*\n)?)(tensordash [^`\n]*)\n```\n\n```\n([^`]*)```", page)
    return [(command, text) for _, command, text in found]


def test_commands_of_the_first_tutorial_print_the_shown_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (toml,) = re.findall(r"```toml\n(.*?)```", FIRST_TILE, re.DOTALL)
    Path("my.toml").write_text(toml, encoding="utf-8")
    shown = outputs(FIRST_TILE)
    assert [command for command, _ in shown] == [
        "tensordash simulate --random 0.5",
        "tensordash simulate my.toml --random 0.5",
    ]
    for command, text in shown:
        assert CliRunner().invoke(cli, shlex.split(command)[1:]).stdout == text
    assert "speedup is 3.718x" in " ".join(FIRST_TILE.split())
    assert ": 3.718x " in CliRunner().invoke(cli, ["simulate", "--random", "0.9"]).output


def test_the_wrong_format_is_refused_as_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my.toml").write_text('[tile]\nrows = 2\ncolumns = 2\nformat = "bf16"\n', encoding="utf-8")
    refused = subprocess.run(
        [str(Path(sys.executable).with_name("tensordash")), "generate", "my.toml", "-o", "out"],
        capture_output=True,
        text=True,
    )
    assert refused.returncode == 2
    assert refused.stderr in FIRST_TILE
    assert refused.stderr.startswith("tensordash: my.toml: tile.accumulator must be fused for bf16")


@pytest.mark.slow
def test_the_table_of_the_training_tutorial_is_printed() -> None:
    page = (ROOT / "docs" / "tutorials" / "train.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\| (\d|all) \| (\w*) ?\| (\S+) \| (\S+) \| (\S+) \| (\S+) \| (\S+) \|$", page, re.MULTILINE)
    assert len(shown) == 5
    script = [sys.executable, str(ROOT / "examples" / "train_digits.py")]
    printed = subprocess.run(script, capture_output=True, text=True, check=True).stdout
    rows = [line.replace("\u2502", " ").split() for line in printed.splitlines()]
    for layer, operation, *figures in shown:
        (row,) = [each for each in rows if each[: 1 + bool(operation)] == [layer, operation][: 1 + bool(operation)]]
        assert set(figures) <= set(row)


OWN_DESIGN = (ROOT / "docs" / "tutorials" / "own-design.md").read_text(encoding="utf-8")
VERILOG_DESIGN = ROOT / "examples" / "verilog_design"


def test_a_tile_in_an_amaranth_design(capsys: pytest.CaptureFixture[str]) -> None:
    script = ROOT / "examples" / "amaranth_design.py"
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out in fences(OWN_DESIGN, "")
    source = script.read_text(encoding="utf-8")
    for code in fences(OWN_DESIGN, "python"):
        assert textwrap.indent(code, "        ") in source


def test_a_tile_in_a_verilog_design(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = fences(OWN_DESIGN, "verilog")
    assert code in (VERILOG_DESIGN / "dot_products.v").read_text(encoding="utf-8")
    if shutil.which("iverilog") is None:
        pytest.skip("no Icarus Verilog")
    folder = tmp_path / "verilog_design"
    shutil.copytree(VERILOG_DESIGN, folder, ignore=shutil.ignore_patterns("my_tile", "bench"))
    monkeypatch.chdir(folder)
    _, generating, simulating = fences(OWN_DESIGN, "sh")
    into, generate = generating.splitlines()
    assert into == "cd examples/verilog_design"
    assert CliRunner().invoke(cli, shlex.split(generate)[1:]).exit_code == 0
    for command in simulating.splitlines():
        printed = subprocess.run(shlex.split(command), capture_output=True, text=True, check=True).stdout
    assert printed in fences(OWN_DESIGN, "")
