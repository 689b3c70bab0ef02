"""Test the proofs that printed Verilog equals Amaranth's RTLIL."""

import re

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import In, Out

from tensordash import load_preset
from tensordash.block import Block, placed
from tensordash.emission.library import Library
from tensordash.memory.memory import Memory
from tensordash_synth.printed import library_of, module_texts, prove_printed


class Product(Block):
    """Multiplies."""

    def __init__(self) -> None:
        super().__init__({"a": In(8), "b": In(8), "product": Out(16)})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.product.eq(self.a * self.b)
        return m


class Sums(Block):
    """Sums products."""

    def __init__(self) -> None:
        self.product = Product()
        super().__init__({"a": In(8), "b": In(8), "take": In(1), "sum": Out(20)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.product = placed(self.product, platform)
        total = Signal(20)
        m.d.comb += [self.product.a.eq(self.a), self.product.b.eq(self.b), self.sum.eq(total)]
        with m.If(self.take):
            m.d.sync += total.eq(total + self.product.product)
        return m


VERILOG = """\
module tensordash_product(
  input wire [7:0] a,
  input wire [7:0] b,
  output wire [15:0] product
);
  assign product = a * b;
endmodule

module tensordash_sums(
  input wire clk,
  input wire rst,
  input wire [7:0] a,
  input wire [7:0] b,
  input wire take,
  output wire [19:0] sum
);
  wire [15:0] product__product;
  reg [19:0] total;
  tensordash_product product (
    .a(a),
    .b(b),
    .product(product__product)
  );
  assign sum = total;
  always @(posedge clk)
    if (rst) total <= 20'd0;
    else if (take) total <= total + product__product;
endmodule

module tensordash_memory__4x16(
  input wire clk,
  input wire write_enable,
  input wire [1:0] write_address,
  input wire [15:0] write_data,
  input wire read_enable,
  input wire [1:0] read_address,
  output reg [15:0] read_data
);
  reg [15:0] memory [3:0];
  always @(posedge clk) begin
    if (write_enable) memory[write_address] <= write_data;
    if (read_enable) read_data <= memory[read_address];
  end
endmodule
"""


@pytest.fixture(scope="module")
def library():
    library = Library()
    library.module(Sums())
    library.module(Memory(words=4, bits=16))
    return library


def differences(library, text):
    return {each.name.removeprefix("tensordash_"): each.difference for each in prove_printed(library, text).values()}


def test_equal_modules_are_proven(library):
    assert differences(library, VERILOG) == {"product": "", "sums": "", "memory__4x16": ""}


@pytest.mark.parametrize(
    ("old", "new", "module", "difference"),
    [
        ("a * b", "a + b", "product", "product[0] differs; first difference: product is "),
        ("total + product", "total - product", "sums", "sum["),
        ("if (rst) total <= 20'd0", "if (rst) total <= 20'd4", "sums", "sum[2] differs"),
        ("if (rst)", "if (!rst)", "sums", "sum["),
        ("else if (take)", "else", "sums", "sum["),
        (".a(a)", ".a(b)", "sums", "product.a[0] differs"),
        ("sum = total", "sum = {total[19:1], 1'bx}", "sums", "sum[0] differs"),
        ("sum = total", "sum[19:1] = total[19:1]", "sums", "no driver"),
        ("if (write_enable) memory", "memory", "memory__4x16", "memory.WR_"),
        ("if (read_enable) read", "read", "memory__4x16", "memory.RD_EN[0] differs"),
        ("memory [3:0]", "memory [7:0]", "memory__4x16", "memory parameter \\SIZE 8"),
        ("reg [19:0] total", "reg [19:0] total = 0", "sums", "initial value"),
        ("output wire [19:0]", "output wire [18:0]", "sums", "only in Verilog: output sum of 19 bits"),
        ("sum = total", "sum = 20'd0", "sums", "only in RTLIL: tensordash_product product"),
        ("product (\n", "times (\n", "sums", "only in Verilog: tensordash_product times"),
        ("tensordash_product(", "tensordash_other(", "product", "the module is not printed"),
        ("a * b;", "a * c;", "product", "Identifier `\\c'"),
    ],
)
def test_a_difference_is_found(library, old, new, module, difference):
    assert old in VERILOG
    found = differences(library, VERILOG.replace(old, new))
    assert difference in found.pop(module)
    assert set(found.values()) == {""}


def test_a_module_is_proven_once(library):
    results = prove_printed(library, VERILOG)
    assert not prove_printed(library, VERILOG, skip=results)
    (repeated,) = prove_printed(library, VERILOG.replace("a * b", "(a * b)"), skip=results).values()
    assert (repeated.name, repeated.proven) == ("tensordash_product", True)


def test_modules_of_a_tile_are_proven():
    library = library_of(load_preset("paper"))
    text = library.verilog()
    names = ["tensordash_multiplier", "tensordash_scheduler", "tensordash_control", "tensordash_tile"]
    assert all(each.proven for each in prove_printed(library, text, modules=names).values())
    multiplier = module_texts(text)["tensordash_multiplier"]
    wrong = text.replace(multiplier, re.sub(r" \*\s", " + ", multiplier))
    (found,) = prove_printed(library, wrong, modules=["tensordash_multiplier"]).values()
    assert "product[0] differs" in found.difference


def test_partial_writes_are_compared_where_they_are_enabled():
    library = Library()
    library.module(Memory(words=3, bits=8, enables=2, ports=1))
    text = library.verilog()
    (proof,) = prove_printed(library, text).values()
    assert proof.proven
    for old, new in (("write_data[3:0]", "write_data[4:1]"), ("write_enable[1] & enable", "write_enable[1]")):
        assert old in text
        (proof,) = prove_printed(library, text.replace(old, new)).values()
        assert not proof.proven
