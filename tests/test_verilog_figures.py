"""Test the counts of `bench/verilog.py` on small texts."""

import importlib.util
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "bench/verilog.py"


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location("verilog_figures", SOURCE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def figures(bench, body, ports="  input wire [7:0] a,\n  output wire [7:0] y"):
    found = bench.count({"tensordash.v": f"// Above.\nmodule m(\n{ports}\n);\n{body}endmodule\n"})
    sizes = ("lines", "all_lines", "files", "longest_line")
    return {name: value for name, value in found.items() if name not in sizes and value}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("  assign y = ~a;\n", {}),
        ("  wire _01_;\n  assign _01_ = ~a[0];\n  assign y = {_01_, _01_};\n", {"numbered_names": 1}),
        ("  reg \\x$3 ;\n  wire kept_01_name;\n", {"numbered_names": 1}),
        ("  wire n;\n  assign n = ~a[0];\n  assign y = n & a;\n", {"single_use_wires": 1}),
        ("  wire n = ~a[0];\n  m below (\n    .n(n)\n  );\n", {"single_use_wires": 1}),
        ("  wire n = ~a[0];\n  assign y = n & {8{n}};\n", {}),
        ("  wire [7:0] n = ~a;\n  assign y = n[3:0];\n", {}),
        ("  wire n = " + " &\n    ".join(["a[0] | a[1]"] * 8) + ";\n  assign y = n;\n", {}),
        ("  wire a_sign = a[7];\n  assign y = a_sign;\n", {}),
        ("  wire below__sign = a[7];\n  m below (.a(below__sign));\n", {"single_use_wires": 1}),
        ("  reg [2:0] run_state;\n  assign y = run_state == 3'h3;\n", {"state_numbers": 1}),
        ("  assign y = (2'd1 != state) | ~| state;\n", {"state_numbers": 2}),
        ("  assign y = run_state == RUNS;\n  assign n = count == 3'h3;\n", {}),
        ("  case (run_state)\n    2'd0: n <= 1;\n    2'd1, 2'd2: n <= 0;\n  endcase\n", {"state_numbers": 2}),
        ("  case (run_state)\n    RUNS: n <= 2'd1;\n  endcase\n  case (a)\n    2'd1: n <= 1;\n  endcase\n", {}),
        ("  wire [511:0] descriptor;\n  assign y = descriptor[7:0] | in_descriptor_payload[3];\n", {"field_ranges": 2}),
        ("  wire [7:0] length = descriptor[479:472];\n  assign y = length | descriptor;\n", {}),
        ("  assign y = ~a;  // Why.\n  // Heading\n", {"comment_percent": 25.0}),
        ("  // wire _01_;\n", {"comment_percent": 14.29}),
    ],
)
def test_figures_of_a_module_body(bench, body, expected):
    assert figures(bench, body) == expected


def test_lines_of_all_files(bench):
    other = "x" * 120 + '\n  (* a = "' + "y" * 200 + '" *)\n'
    found = bench.count({"tensordash.v": "module m(a);\nendmodule\n", "other.v": other})
    assert (found["lines"], found["all_lines"]) == (2, 4)
    assert found["files"] == {"tensordash.v": 2, "other.v": 2}
    assert (found["longest_line"], found["longest_attribute"]) == (120, 214)


@pytest.mark.parametrize(("preset", "lines"), [("paper", 1700), ("recommended", 1900), ("core", 9000)])
def test_presets_meet_readability_limits(bench, preset, lines):
    files, seconds = bench.generate(preset)
    assert "tensordash.v" in files
    assert 0 < seconds < 10
    found = bench.count(files)
    assert found["lines"] <= lines
    assert found["longest_line"] <= 100
    unnamed = ("numbered_names", "single_use_wires", "state_numbers", "field_ranges")
    assert [found[name] for name in unnamed] == [0, 0, 0, 0]
    assert found["comment_percent"] >= 3
