"""Test the printer's expressions, conditions, instances and ports."""

from functools import reduce

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import In, Out

from tensordash.block import Block
from tensordash.emission.library import emit
from tensordash.emission.printer.expression import Expressions
from tensordash.emission.printer.nodes import Net
from tensordash.emission.printer.text import Text


def test_each_operand_of_a_long_sum_is_rendered_once(monkeypatch):
    make = Expressions()
    terms = [make.net(Net(f"term_{k}", 8)) for k in range(16)]
    rendered = []
    render = Text._render
    monkeypatch.setattr(
        Text, "_render", lambda self, node, *at, **options: rendered.append(node) or render(self, node, *at, **options)
    )
    assert Text({}).flat(reduce(make.add, terms)) == " + ".join(f"term_{k}" for k in range(16))
    assert len(rendered) == len(set(rendered)) == 31


class Cleared(Block):
    """Two registers that `clear` and `drop` may set to their reset values.

    Parameters
    ----------
    kind : str
        ``same``: both do; ``value``: `clear` sets another value, and `drop` has no effect; ``between``: both do, and
        another assignment follows.
    """

    def __init__(self, *, kind: str) -> None:
        self.kind = kind
        super().__init__({"clear": In(1), "drop": In(1), "step": In(4), "low": Out(4), "high": Out(4)})

    def elaborate(self, platform):
        m = Module()
        low, high = Signal(4, init=3), Signal(4)
        m.d.sync += [low.eq(low + self.step), high.eq(high ^ low)]
        with m.If(self.clear):
            m.d.sync += [high.eq(0), low.eq(2 if self.kind == "value" else 3)]
        if self.kind != "value":
            with m.If(self.drop):
                m.d.sync += [low.eq(3), high.eq(0)]
        if self.kind == "between":
            m.d.sync += low[0].eq(self.step[0])
        m.d.comb += [self.low.eq(low), self.high.eq(high)]
        return m


@pytest.mark.parametrize(
    ("kind", "conditions"),
    [
        ("same", ["clear | drop | rst"]),
        ("value", ["clear", "rst"]),
        ("between", ["clear | drop", "rst"]),
    ],
)
def test_neighbouring_conditions_with_the_same_assignments_are_one(kind, conditions):
    text = emit(Cleared(kind=kind))
    assert [line.strip() for line in text.splitlines() if "if (" in line] == [
        f"if ({each}) begin" for each in conditions
    ]


class Pair(Block):
    """Two instances of one block, with an instance of another block between them."""

    def __init__(self) -> None:
        super().__init__({"clear": In(1), "drop": In(1), "step": In(4), "first": Out(4), "second": Out(4)})

    def elaborate(self, platform):
        m = Module()
        blocks = {"one": Cleared(kind="same"), "other": Cleared(kind="value"), "two": Cleared(kind="same")}
        for name, block in blocks.items():
            m.submodules[name] = platform.place(block)
            m.d.comb += [block.clear.eq(self.clear), block.drop.eq(self.drop), block.step.eq(self.step)]
        m.d.comb += self.first.eq(blocks["one"].low ^ blocks["two"].high ^ blocks["other"].high)
        m.d.comb += self.second.eq(blocks["one"].high ^ blocks["two"].low ^ blocks["other"].low)
        return m


def test_instances_of_a_module_stand_together():
    text = emit(Pair())
    body = text[text.index("module tensordash_pair(") :]
    placed = [line.split()[:2] for line in body.splitlines() if line.startswith("  tensordash_")]
    assert placed == [["tensordash_cleared", "one"], ["tensordash_cleared", "two"], ["tensordash_cleared__2", "other"]]
    assert "  wire [3:0] one__low, two__low, one__high, two__high;\n  tensordash_cleared one (" in body
    assert "  );\n  tensordash_cleared two (" in body


def test_similar_ports_share_a_line():
    text = emit(Pair())
    head = text[text.index("module tensordash_pair(") :].partition(");\n")[0].splitlines()[1:]
    assert head == [
        "  input wire clk, rst,",
        "  input wire clear, drop,",
        "  input wire [3:0] step,",
        "  output wire [3:0] first, second",
    ]
