"""Test README and its linked pages: configuration, Python, commands, links, figures."""

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

from .pages import fences

ROOT = Path(__file__).parents[1]
MAX_WORDS = 700


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


README = read("README.md")
COMMAND_PAGE = read("docs/cli.md")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", read(page), re.DOTALL)


def test_readme_is_one_screen() -> None:
    assert len(README.split()) <= MAX_WORDS


def test_shown_configuration_is_the_default() -> None:
    (text,) = blocks("docs/configuration.md", "toml")
    assert TileConfig.from_toml(text) == TileConfig() == load_preset("paper")
    assert list(TileConfig.__dataclass_fields__) == re.findall(r"^(\w+) =", text, re.MULTILINE)


def test_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = blocks("docs/tutorials/first-tile.md", "python")
    exec(compile(code, "first-tile.md", "exec"), {})
    assert capsys.readouterr().out in fences(read("docs/tutorials/first-tile.md"), "")
    assert (tmp_path / "my_tile" / "tensordash.v").is_file()

    from torch import nn, ones

    model = nn.Linear(8, 4)
    namespace = {"model": model, "train": lambda it: it(ones(2, 8)).sum().backward()}
    offloading, recording = blocks("docs/tutorials/train.md", "python")
    exec(compile(offloading, "train.md", "exec"), dict(namespace))
    assert "Linear" in capsys.readouterr().out
    exec(compile(recording, "train.md", "exec"), namespace)
    assert [str(record.operation) for record in Trace.open("run.trace").records] == ["AxW", "AxG"]


def test_commands_and_links_exist() -> None:
    shown = set(re.findall(r"^tensordash (\w+)", README + COMMAND_PAGE, re.MULTILINE))
    assert shown == set(COMMANDS) - {"data", "demo", "mutate"}
    for link in re.findall(r"\]\((?!https)([^)#]+)\)", README):
        assert (ROOT / link).exists(), link
    for target in re.findall(r"^make (\w+)", README, re.MULTILINE):
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE), target


def options(command: str) -> set[str]:
    """Return the options of a command, or those that all commands of a group have."""
    entry = cli.get_command(click.Context(cli), command)
    assert entry is not None
    commands = list(entry.commands.values()) if isinstance(entry, click.Group) else [entry]
    names = [
        {name for param in each.params for name in (*param.opts, *(param.metavar or "").split())} for each in commands
    ]
    return set.intersection(*names)


def test_commands_with_a_configuration() -> None:
    (names,) = re.findall(
        r"^((?:`\w+`(?:, | and |\s)?)+)take `CONFIG\.toml` or `--preset NAME`", COMMAND_PAGE, re.MULTILINE
    )
    listed = re.findall(r"`(\w+)`", names)
    assert listed == [each for each in COMMANDS if {"[CONFIG.toml]", "--preset", "--set"} <= options(each)]
    assert "every command takes `--json`" in " ".join(COMMAND_PAGE.split())
    for each in COMMANDS:
        assert "--json" in options(each), each


def test_commands_with_a_core() -> None:
    (names,) = re.findall(r"table `\[core\]`;\n((?:`\w+`(?:, | and )?)+) take it", COMMAND_PAGE)
    with_presets = {each: cli.get_command(click.Context(cli), each) for each in COMMANDS if "--preset" in options(each)}
    helps = {
        name: next(param.help for param in command.params if "--preset" in param.opts)
        for name, command in with_presets.items()
        if command is not None
    }
    assert re.findall(r"`(\w+)`", names) == [name for name, text in helps.items() if "core-wide" in (text or "")]


def test_figures_match_the_linked_pages() -> None:
    """bench/cost.py writes the costs. Each other figure is on the page that its row links."""
    rows = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \| [\[`]", README, re.MULTILINE))
    evaluation, system, demo = (read(f"docs/{name}.md") for name in ("evaluation-tables", "system", "demo"))
    (our_mean, paper_mean) = re.findall(
        r"^- Mean (\d\.\d{3})x of .*the paper: (\d\.\d\d)x of", evaluation, re.MULTILINE
    )[0]
    tiles = rows["tiles, small versions of the paper's eight networks"]
    assert f"{float(our_mean):.2f}x in the mean (paper: {paper_mean}x)" in tiles
    assert re.search(r"^\| gcn \|.* 1\.00\d \|$", evaluation, re.MULTILINE)
    ((speedup, improved_speedup),) = re.findall(
        r"^\| with 256 GB/s \| (\S+), with the measures (\S+) \|", system, re.MULTILINE
    )
    assert rows["`recommended`, DRAM at 256 GB/s"] == f"{speedup}x; {improved_speedup}x with a better order of work"
    ((slow_dram_speedup,),) = [re.findall(r"^\| with 25\.6 GB/s, the paper's LPDDR4 \| (\S+) \|", system, re.MULTILINE)]
    assert rows["with the paper's DRAM at 25.6 GB/s"].startswith(f"{slow_dram_speedup}x:")
    (demo_speedup,) = re.findall(r"^all +[\d,]+ +[\d,]+ +(\S+)$", demo, re.MULTILINE)
    assert rows["digits CNN on a core's Verilog"] == f"{demo_speedup} an estimated dense core"
    ((efficiency,),) = [re.findall(r"tiles that wait draw power \| (\S+) \|", read("docs/evaluation.md"))]
    assert rows["`paper`'s energy efficiency, 25.6 GB/s"] == f"{float(efficiency):.2f} with idle power: a loss"
    (placed_mhz,) = re.findall(r"^\| clock, with wires, MHz \| (\d+) \|", read("docs/cost.md"), re.MULTILINE)[:1]
    assert f"placed, the tile reaches {placed_mhz} MHz" in README


def test_speedups_of_the_digits_step_equal_their_pages() -> None:
    demo = read("docs/demo.md")
    rows = dict(
        re.findall(r"^\| (?:\[([\w ]+)\].*?|this one) \| ([\d. to]+) \| (?:estimated|simulated)", demo, re.MULTILINE)
    )
    (demo_speedup,) = re.findall(r"^all +[\d,]+ +[\d,]+ +(\S+)x$", demo, re.MULTILINE)
    ((core, dense),) = re.findall(r"^cycles +([\d,]+) +([\d,]+)$", read("docs/cost-tables.md"), re.MULTILINE)
    training = re.findall(
        r"^\| `--steps .* \| ([\d.]+) \| [\d.]+ \| [\d.]+ \|", read("docs/training-results.md"), re.MULTILINE
    )
    (tutorial,) = re.findall(r"^\| all \|.*\| ([\d.]+) \| [\d.]+ \|$", read("docs/tutorials/train.md"), re.MULTILINE)
    simulated = int(dense.replace(",", "")) / int(core.replace(",", ""))
    assert rows == {
        "": demo_speedup,
        "cost tables": f"{simulated:.2f}",
        "training": f"{min(training)} to {max(training)}",
        "tutorial": tutorial,
    }


def test_first_tile_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page's first commands have the described effects. Make targets come after them."""
    monkeypatch.chdir(tmp_path)
    first_commands, *other_blocks = blocks("README.md", "sh")
    assert "make demo" in other_blocks[0]
    assert first_commands.startswith("pip install '.[simulate]'\n")
    for line in first_commands.splitlines()[1:]:
        arguments = line.removeprefix("tensordash ").partition("#")[0]
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit_info:
            run(arguments.split())
        assert not exit_info.value.code
        if "--random" in arguments:
            assert f"```\n{capsys.readouterr().out}```" in README
    assert (tmp_path / "my_tile" / "tensordash.v").is_file()
    assert (tmp_path / "schedules.html").is_file()


def test_picture_is_small_and_current(tmp_path: Path) -> None:
    """The picture is at the top of the page and below 300 kB. Its size is the program's, except for fonts."""
    (name,) = re.findall(r"\]\((docs/\S+\.png)\)", README.split("##")[0])
    stored = (ROOT / name).read_bytes()
    assert stored.startswith(b"\x89PNG")
    assert len(stored) < 300_000
    program = runpy.run_path(str(ROOT / "bench/viewer_picture.py"))
    if not any(map(shutil.which, program["BROWSERS"])):
        pytest.skip("no Chromium (apt-get install chromium)")
    pytest.importorskip("playwright.sync_api")
    program["picture"](tmp_path / "viewer.png")
    sizes = [struct.unpack(">II", data[16:24]) for data in (stored, (tmp_path / "viewer.png").read_bytes())]
    assert sizes[0][0] == sizes[1][0]
    assert abs(sizes[0][1] - sizes[1][1]) < 200
