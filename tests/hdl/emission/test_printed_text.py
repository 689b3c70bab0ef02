"""Text of expressions that the printer writes."""

from functools import reduce

from tensordash.emission.printer.expression import Expressions, Net
from tensordash.emission.printer.text import Text


def test_each_operand_of_a_long_sum_is_rendered_once(monkeypatch):
    make = Expressions()
    terms = [make.net(Net(f"term_{k}", 8)) for k in range(16)]
    rendered = []
    render = Text._render
    monkeypatch.setattr(
        Text, "_render", lambda self, node, *at, **how: rendered.append(node) or render(self, node, *at, **how)
    )
    assert Text({}).flat(reduce(make.add, terms)) == " + ".join(f"term_{k}" for k in range(16))
    assert len(rendered) == len(set(rendered)) == 31
