"""What is mapped is one text, whatever numbers Yosys gave to its wires: the same figure, whatever ran before."""

import random
import re
from pathlib import Path

import pytest

from tensordash import TileConfig
from tensordash.emission.verilog import render
from tensordash_synth.canonical import canonical, interface
from tensordash_synth.hierarchy import Hierarchy
from tensordash_synth.run import running

THING = """\
module tensordash_thing(clk, a, b, c, out);
  wire [3:0] _00_;
  wire [3:0] _01_;
  wire _02_;
  wire [4:0] _03_;
  wire [5:0] _04_;
  wire _05_;
  wire [7:0] _06_;
  wire [7:0] _07_;
  input [3:0] a;
  input [3:0] b;
  input clk;
  input [4:0] c;
  output [7:0] out;
  reg [7:0] out;
  assign _00_ = a & b;
  assign _01_ = a ^ { _02_, _02_, _02_, _02_ };
  assign _02_ = | _00_;
  assign _03_ = _01_ + b;
  assign _04_ = _03_ - c;
  assign { _05_, _06_[6:0] } = _04_ * _00_;
  assign _06_[7] = _05_ ^ _02_;
  assign _07_ = _05_ ? _06_ : out;
  always @(posedge clk)
    out <= _07_;
endmodule
"""


def shuffled(text: str, seed: int) -> str:
    """The same module with other numbers for its wires, and its assignments in another order."""
    draw = random.Random(seed)
    wires = sorted(set(re.findall(r"\b_\d+_\b", text)))
    names = dict(zip(wires, draw.sample(wires, len(wires)), strict=True))
    text = re.sub(r"\b_\d+_\b", lambda found: names[found[0]], text)
    assigns = re.findall(r"^  assign [^;]*;\n", text, re.MULTILINE)
    order = iter(draw.sample(assigns, len(assigns)))
    return re.sub(r"^  assign [^;]*;\n", lambda found: next(order), text, flags=re.MULTILINE)


def test_one_text_for_one_module():
    assert len({shuffled(THING, seed) for seed in range(20)}) == 20
    assert {canonical(shuffled(THING, seed)) for seed in range(20)} == {canonical(THING)}


@pytest.mark.parametrize(
    ("old", "new"), [("a & b", "a | b"), ("_06_[7] =", "_06_[0] ="), ("<= _07_", "<= _06_"), ("[4:0] c", "[3:0] c")]
)
def test_another_text_for_another_module(old, new):
    assert canonical(THING.replace(old, new)) != canonical(THING)


def test_every_module_of_a_tile():
    """Nothing is lost, and numbers and order do not matter."""
    text = render(TileConfig(rows=2, columns=1, format="bf16", accumulator="volta"))["tensordash.v"]
    modules = Hierarchy(text, "tensordash_tile").modules
    assert len(modules) > 10
    for module in modules.values():
        made = canonical(module.text)
        assert canonical(shuffled(module.text, 1)) == made == canonical(made)
        for keyword in ("assign", "input", "output", "always"):
            counted = [len(re.findall(rf"^  {keyword}\b", each, re.MULTILINE)) for each in (module.text, made)]
            assert counted[0] == counted[1]


WRITTEN = """\
module m(clk, a, b); // a head; with a comment
  input clk;
  input a;
  output b;
  reg b;
  (* keep *)
  wire kept;
  always @(posedge clk)
    if (a)
      b <= kept;
    else
      b <= 1'h0;
  /* a comment;
  assign b = a; */
  other inner (
    .x(a)
  );
  assign kept = a;
endmodule
"""
READ = """\
module m(clk, a, b);
  input a;
  input clk;
  output b;
  reg b;
  (* keep *)
  wire kept;
  always @(posedge clk)
    if (a)
      b <= kept;
    else
      b <= 1'h0;
  assign kept = a;
  other inner (
    .x(a)
  );
endmodule
"""


def test_statements_of_several_lines_stay_whole():
    assert canonical(WRITTEN) == canonical(READ) == READ
    ports = "".join(READ.splitlines(keepends=True)[:4])
    assert interface(WRITTEN) == f"(* blackbox *)\n{ports}endmodule\n"


def test_the_same_figure_whatever_ran_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Each with an empty cache: nothing is found, and yet the netlists are equal, name by name."""
    made = []
    for number, text in enumerate((THING, shuffled(THING, 3))):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / str(number)))
        with running(None, 2.0, None, 1) as run:
            made.append(run.module(Hierarchy(text, "tensordash_thing"), "tensordash_thing", "thing"))
    kept = [[path.name for path in (tmp_path / str(number)).rglob("*.json")] for number in (0, 1)]
    assert len(kept[0]) == 1
    assert kept[0] == kept[1]
    assert made[0] == made[1]
