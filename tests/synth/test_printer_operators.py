"""Prove printed random statements equal to RTLIL: every operator, width, sign and kind of condition."""

import random

import pytest
from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib.data import StructLayout
from amaranth.lib.wiring import In, Out

from tensordash.block import Block
from tensordash.emission.library import Library
from tensordash_synth.printed import prove_printed

SHAPES = {"a": unsigned(5), "b": signed(4), "c": unsigned(1), "d": signed(7), "e": unsigned(3)}
PAIR = StructLayout({"low": 3, "high": signed(4)})


class RandomAssignments(Block):
    """Wires and registers that random statements assign."""

    def __init__(self, *, seed: int) -> None:
        self.seed = seed
        outputs = {f"y{k}": Out(unsigned(6 + k) if k % 2 else signed(5 + k)) for k in range(4)}
        super().__init__(
            {**{name: In(shape) for name, shape in SHAPES.items()}, "pair": In(PAIR), "out": Out(PAIR), **outputs},
            variant=str(seed),
        )

    def elaborate(self, platform):
        m = Module()
        draw = random.Random(self.seed)
        wires = [Signal(draw.choice([unsigned(4), signed(6), unsigned(1)]), name=f"w{k}", init=k % 2) for k in range(3)]
        registers = [
            Signal(draw.choice([unsigned(6), signed(5)]), name=f"r{k}", init=k, reset_less=k == 2) for k in range(3)
        ]
        values = [getattr(self, name) for name in SHAPES] + [self.pair.low, self.pair.high, *registers]
        for wire in wires:
            self._statements(m, draw, m.d.comb, wire, values)
            values.append(wire)
        for register in registers:
            self._statements(m, draw, m.d.sync, register, values)
        with m.FSM():
            with m.State("REST"), m.If(expression(draw, values, 1).bool()):
                m.next = "WORK"
            with m.State("WORK"):
                m.d.comb += self.out.low.eq(expression(draw, values, 2))
                with m.If(self.c):
                    m.next = "END"
            with m.State("END"):
                m.next = "REST"
        m.d.comb += self.out.high.eq(expression(draw, values, 2))
        m.d.comb += [getattr(self, f"y{k}").eq(expression(draw, values, 3)) for k in range(4)]
        return m

    def _statements(self, m, draw, domain, target, values) -> None:
        domain += target.eq(expression(draw, values, 3))
        with m.If(expression(draw, values, 1).bool()):
            domain += target[: draw.randint(1, len(target))].eq(expression(draw, values, 2))
        with m.Elif(expression(draw, values, 1).bool()), m.Switch(self.e):
            with m.Case(1, 3):
                domain += target.eq(expression(draw, values, 2))
            with m.Case("1-0"):
                domain += target[-1].eq(expression(draw, values, 2))
            with m.Default():
                domain += target.eq(draw.randint(0, 9))
        with m.Switch(self.a):
            for case in (0, 7, 9, 30):
                with m.Case(case):
                    domain += target.eq(expression(draw, values, 1))


def expression(draw, values, depth):
    """Draw a value of a few operators."""
    if depth == 0 or draw.random() < 0.1:
        return draw.choice(values) if draw.random() < 0.85 else Const(draw.randint(-9, 20))
    a, b = (expression(draw, values, depth - 1) for _ in range(2))
    few = draw.choice(values[:3])
    result = draw.choice(
        [
            lambda: a + b,
            lambda: a - b,
            lambda: -a,
            lambda: ~a,
            lambda: a & b,
            lambda: a | b,
            lambda: a ^ b,
            lambda: a == b,
            lambda: a != b,
            lambda: a < b,
            lambda: a >= b,
            lambda: (a > b) & (a <= b + 1),
            lambda: Mux(a, b, a),
            lambda: Mux(b[0], a, few),
            lambda: Cat(a, b),
            lambda: Cat(a, b)[1 : 1 + len(a)],
            lambda: (a + b)[1:],
            lambda: (a - b)[:2],
            lambda: few.as_unsigned() << few.as_unsigned()[:2],
            lambda: a >> few.as_unsigned()[:2],
            lambda: a << draw.randint(0, 3),
            lambda: a >> draw.randint(0, 3),
            lambda: few * few,
            lambda: a.any() | b.all() | a.xor(),
            lambda: a.as_signed() if len(a) else a,
            lambda: b.as_unsigned(),
            lambda: a.replicate(2),
            lambda: a.as_unsigned() % 4 + a.as_unsigned() // 2,
            lambda: a.as_unsigned().bit_select(few.as_unsigned()[:2], 2),
            lambda: Cat(a, Const(0, 8))[:8].word_select(few.as_unsigned()[:2], 2),
            lambda: Array([a, b, few])[few.as_unsigned()[:2]],
            lambda: Cat(a, few)[:2].matches(1, 2),
        ]
    )()
    return Value.cast(result)


@pytest.mark.parametrize(
    ("enables", "seed", "count"),
    [
        (True, 1, 2),
        (False, 101, 2),
        *(pytest.param(*each, 8, marks=pytest.mark.slow) for each in ((True, 1), (False, 101))),
    ],
)
def test_random_statements_are_proven(enables, seed, count):
    print(f"seed {seed}")
    library = Library(enables=enables)
    for k in range(count):
        library.module(RandomAssignments(seed=seed + k))
    results = prove_printed(library, library.verilog(), jobs=2).values()
    assert [each for each in results if not each.proven] == []
    assert len(results) == count
