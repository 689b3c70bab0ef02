"""Test that comments, blank lines and the order of statements do not change the mapped text."""

import re

import pytest

from tensordash import TileConfig
from tensordash.emission.verilog import render
from tensordash_synth.hierarchy import Hierarchy
from tensordash_synth.module_text import interface, normalised

COMMENTED = """\
module m( // a head; with a comment
  input wire clk,
  input wire a,

  output reg b
);
  wire c = kept;
  (* keep *)
  wire kept = a; // A wire.
  localparam WAIT = 1'd0;
  /* a comment;
  assign b = a; */
  always @(posedge clk) begin
    // A register.
    if (a) b <= kept;
  end
endmodule
"""
PLAIN = """\
module m(
  input wire clk,
  input wire a,
  output reg b
);
  localparam WAIT = 1'd0;
  (* keep *)
  wire kept = a;
  wire c = kept;
  always @(posedge clk) begin
    if (a) b <= kept;
  end
endmodule
"""


def test_text_is_normalised():
    assert normalised(COMMENTED) == normalised(PLAIN) == PLAIN
    assert interface(COMMENTED) == interface(PLAIN) == f"(* blackbox *)\n{PLAIN.partition(');')[0]});\nendmodule\n"


@pytest.mark.parametrize(
    ("old", "new"), [("wire kept = a", "wire kept = ~a"), ("if (a)", "if (b)"), ("reg b", "reg c")]
)
def test_another_module_has_another_text(old, new):
    assert normalised(COMMENTED.replace(old, new)) != PLAIN


def test_every_module_of_a_tile():
    text = render(TileConfig(rows=2, columns=1, format="bf16", accumulator="volta"))["tensordash.v"]
    modules = Hierarchy(text, "tensordash_tile").modules
    assert len(modules) > 10
    for module in modules.values():
        assert "//" not in normalised(module.text)
        for keyword in ("assign", "input", "output", "always", "wire", "reg"):
            count = [len(re.findall(rf"^ *{keyword}\b", each, re.M)) for each in (module.text, normalised(module.text))]
            assert count[0] == count[1], (module.name, keyword)
