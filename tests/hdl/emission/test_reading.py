"""Test that the emitted Verilog meets limits of readability, and that each limit finds a text that exceeds it."""

import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tensordash import TileConfig, load_preset
from tensordash.emission.verilog import render
from tensordash_sim.verify.builds import verilator_environment

from .emitted import NAMES, emitted_core, needs_verilator

CONFIGS = {
    "paper": load_preset("paper"),
    "recommended": load_preset("recommended"),
    "int8": TileConfig(rows=2, columns=1, format="int8", initial=True, sparsity="none"),
    "fused": TileConfig(rows=1, columns=2, format="fp8_e4m3", accumulator="hopper", initial=True),
    "both": TileConfig(rows=2, columns=1, format={"a": "fp8_e4m3", "b": "fp8_e5m2"}, sparsity="both", pipeline=1),
}
MAX_LINES = {"paper": 1700, "recommended": 1900}
MAX_CORE_LINES = 9000
MAX_UNUSED = 15
MAX_CORE_UNUSED = 50
MAX_LINE_LENGTH = 100

cached_render = cache(render)


@pytest.fixture(params=CONFIGS)
def rendered(request):
    return request.param, cached_render(CONFIGS[request.param])


def modules(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield (comment above it, name, text) of every module."""
    for found in re.finditer(r"^((?://[^\n]*\n)*)(module (\w+)\(.*?^endmodule\n)", text, re.M | re.S):
        yield found[1], found[3], found[2]


def repeated(module: str) -> int:
    """Count assignments whose right side repeats that part of another assignment."""
    sides = re.findall(r"^  assign [^;]*? = ([^;]*);", module, re.M)
    computed = [" ".join(side.split()) for side in sides if re.search(r"\s", side)]
    return len(computed) - len(set(computed))


def feedback(module: str) -> list[str]:
    """Return registers that hold their value through a `?:` instead of an `if`."""
    muxes = re.findall(r"^ +(?:if \(.*\) )?(\w+) <=\s+[^;?]*\?([^;]*);", module, re.M)
    return [register for register, values in muxes if re.search(rf"(?<=[?:]) *\b{register}\b *(?=[;:]|$)", values)]


def faults(text: str) -> set[str]:
    """Return the faults of a file of Verilog."""
    found = set()
    parts = list(modules(text))
    if re.search(r"'[bh][0-9a-f_]*[xz]", text):
        found.add("an unknown")
    if sum(repeated(module) for _, _, module in parts) > 0.01 * text.count("\n  assign "):
        found.add("the same assignment twice")
    if "\\" in text:
        found.add("an escaped name")
    if "$" in text.replace("$signed(", ""):
        found.add("a dollar")
    if any(len(line) > MAX_LINE_LENGTH for line in text.splitlines()):
        found.add("a long line")
    if any(feedback(module) for _, _, module in parts):
        found.add("an enable that is no if")
    for comment, name, module in parts:
        if not re.fullmatch(r"(// .+\n)+// Timing[:,] .+\n(// .+\n)*// Source: .+\n(// .+\n)*", comment):
            found.add("a module without a comment")
        if re.search(r"_\d+$", name):
            found.add("a module with a number")
        if re.search(r"^  input wire (?:clk, )?rst,$", module, re.M) and len(re.findall(r"\brst\b", module)) == 1:
            found.add("a reset without a use")
    body = text[text.index("`") :]
    if not (body.startswith("`default_nettype none\n") and body.endswith("\n`default_nettype wire\n")):
        found.add("nets by their use")
    return found


@pytest.mark.sampled(4)
@pytest.mark.parametrize("file", ["tensordash.v", "tensordash_transposer.v"])
def test_files_meet_all_limits(rendered, file):
    assert faults(rendered[1][file]) == set()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("file", ["tensordash.v", "tensordash_memories.v"])
def test_core_meets_all_limits(name, file):
    assert faults(emitted_core(name)[file]) == set()


def test_core_has_few_lines():
    assert emitted_core("core")["tensordash.v"].count("\n") <= MAX_CORE_LINES


@pytest.mark.parametrize("name", MAX_LINES)
def test_tile_has_few_lines(name):
    assert cached_render(CONFIGS[name])["tensordash.v"].count("\n") <= MAX_LINES[name]


BROKEN = {
    "an unknown": ("endmodule\n", "  assign _xz_ = go ? next : 1'hx;\nendmodule\n"),
    "the same assignment twice": ("endmodule\n", "  assign _x_ = a + b;\n  assign _y_ = a + b;\n" * 20 + "endmodule\n"),
    "an escaped name": ("  input wire clk, rst,\n", "  input wire clk, rst, \\rst$2 ,\n"),
    "a dollar": ("  input wire clk, rst,\n", "  input wire clk, rst, rst$2,\n"),
    "a long line": (" = ", f" = {' ' * MAX_LINE_LENGTH}"),
    "an enable that is no if": ("endmodule\n", "  always @(posedge clk)\n    held <= go ? next : held;\nendmodule\n"),
    "a module without a comment": ("// Timing:", "// When:"),
    "a module with a number": ("module tensordash_counters(", "module tensordash_counters_2("),
    "a reset without a use": ("module tensordash_multiplier(\n", "module tensordash_multiplier(\n  input wire rst,\n"),
    "nets by their use": ("`default_nettype none\n", "`timescale 1ns/1ps\n"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_text_beyond_a_limit_is_found(fault):
    text = cached_render(CONFIGS["paper"])["tensordash.v"]
    before, after = BROKEN[fault]
    assert before in text
    assert fault in faults(text.replace(before, after, 1))


def test_wires_of_instances_have_the_instance_in_their_names():
    texts = {name: module for _, name, module in modules(cached_render(CONFIGS["paper"])["tensordash.v"])}
    tile = texts["tensordash_tile"]
    for row in range(4):
        assert f".window(a_staging_{row}__window)" in tile
        assert re.search(rf"^  wire .*\ba_staging_{row}__window[,;]", tile, re.M)
        assert f".select(scheduler_{row}__select)" in tile


def test_page_shows_printed_verilog():
    page = (Path(__file__).parents[3] / "docs" / "verilog.md").read_text(encoding="utf-8")
    text = cached_render(CONFIGS["paper"])["tensordash.v"]
    shown = [line for block in re.findall(r"```verilog\n(.*?)```", page, re.S) for line in block.splitlines()]
    assert len(shown) > 15
    assert [line for line in shown if f"\n{line}\n" not in text] == []


def test_waivers_are_for_signals(rendered):
    check_waivers(rendered[1]["tensordash.vlt"], MAX_UNUSED)


@pytest.mark.parametrize("name", NAMES)
def test_waivers_of_a_core_are_for_signals(name):
    check_waivers(emitted_core(name)["tensordash.vlt"], MAX_CORE_UNUSED)


def check_waivers(text: str, max_waivers: int) -> None:
    lines = text.splitlines()
    off = [line for line in lines if line.startswith("lint_off")]
    for line in off:
        assert "WIDTH" not in line
        assert " -match " in line or "-rule DECLFILENAME" in line
        assert lines[lines.index(line) - 1].startswith("// ")
    assert len(off) <= max_waivers
    assert "in this configuration" not in text, "a signal without a reason of its own"


@needs_verilator
@pytest.mark.parametrize("name", MAX_LINES)
def test_unused_signals_without_waivers(name, tmp_path):
    (tmp_path / "tensordash.v").write_text(cached_render(CONFIGS[name])["tensordash.v"])
    command = ["verilator", "--lint-only", "-Wall", "--top-module", "tensordash_axi_stream_tile", "tensordash.v"]
    run = subprocess.run(command, cwd=tmp_path, env=verilator_environment(), capture_output=True, text=True)
    warnings = re.findall(r"%Warning-(\w+)", run.stderr)
    assert "UNUSEDSIGNAL" in warnings
    assert warnings.count("UNUSEDSIGNAL") <= MAX_UNUSED
    assert not [each for each in warnings if each.startswith("WIDTH")]


def test_every_state_has_a_comment():
    states = re.findall(r"^  localparam .*", emitted_core("core")["tensordash.v"], re.M)
    assert len(states) == 14
    assert [line for line in states if "  // " not in line] == []
