"""Test that docs/integration.md and docs/ports.md match the design."""

import json
import re
import runpy
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import pytest
import wavedrom

from tensordash import TileConfig, load_preset
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import preset_text
from tensordash.emission.core_files import core_port_table, render_core
from tensordash.emission.verilog import port_tables, render
from tensordash_sim.verify.core_testbench import render_core_testbench

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/integration.md").read_text(encoding="utf-8")
PORTS = (ROOT / "docs/ports.md").read_text(encoding="utf-8")
WAVES = ROOT / "docs/waves"
TOPS = ("NAME_tile", "NAME_axi_stream_tile", "NAME_core")
CORE = CoreConfig.from_toml(preset_text("core"))


@cache
def core_files() -> dict[str, str]:
    """Return all files of the core and of its testbench."""
    return render_core(CORE, "NAME", render_core_testbench(CORE, "NAME"))


def test_port_tables() -> None:
    inside = PORTS.split("<!-- ports -->\n")[1].split("<!-- end of ports -->")[0]
    assert inside == port_tables(load_preset("paper"))
    inside = PORTS.split("<!-- ports of a core -->\n")[1].split("<!-- end of ports of a core -->")[0]
    assert inside == core_port_table(CORE)


def test_memories_of_a_core() -> None:
    inside = PAGE.split("<!-- memories -->\n")[1].split("<!-- end of memories -->")[0].splitlines()[2:]
    memories = json.loads(core_files()["config.json"])["memories"]
    names = ("module", "words", "bits", "instances", "bits_total")
    assert [re.findall(r"[\w]+", line) for line in inside] == [[str(each[name]) for name in names] for each in memories]


@pytest.mark.slow
def test_timing_diagrams_match_the_design() -> None:
    found = runpy.run_path(str(ROOT / "bench/timing_diagrams.py"))["diagrams"]()
    assert {path.stem for path in WAVES.glob("*.json")} == {path.stem for path in WAVES.glob("*.svg")} == set(found)
    for name, source in found.items():
        assert json.loads((WAVES / f"{name}.json").read_text(encoding="utf-8")) == source, name
        assert f"](waves/{name}.svg)" in PAGE


@pytest.mark.parametrize("source", sorted(WAVES.glob("*.json")), ids=lambda path: path.stem)
def test_pictures_match_their_sources(source: Path) -> None:
    picture = wavedrom.render(source.read_text(encoding="utf-8")).tostring()
    stored = source.with_suffix(".svg").read_text(encoding="utf-8")
    # The first shape is a white rectangle as large as the picture: black lines are legible on any page.
    ground = '<rect width="100%" height="100%" fill="white" />'
    assert stored.count(ground) == 1
    assert re.match(rf"<svg [^>]*>{re.escape(ground)}", stored)
    assert stored.replace(ground, "") == picture + "\n"


def test_file_names_match_the_emitted_files() -> None:
    named = {each.replace("TOP", top) for each in re.findall(r"`([\w.*]+)`", PAGE) for top in TOPS}
    files = [*render(TileConfig(rows=1, columns=1, lanes=2, sparsity="none", format="int8"), "NAME"), *core_files()]
    assert [name for name in files if not any(fnmatchcase(name, each) for each in named)] == []
