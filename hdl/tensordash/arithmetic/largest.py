"""Maximum of unsigned numbers: a tree of comparisons."""

from collections.abc import Sequence

from amaranth.hdl import Module, Mux, Signal, Value

__all__ = ["largest_of"]


def largest_of(m: Module, numbers: Sequence[Value], name: str) -> Value:
    """Find the largest of `numbers` (unsigned, of one width) in a tree that is log2 of their count deep.

    Its signals in `m` are named `name_PAIRS_INDEX`. A chain would be as small, but deeper, and its signal events would
    double with each comparison.
    """
    rest = [*numbers]
    while len(rest) > 1:
        pairs, rest = [rest[i : i + 2] for i in range(0, len(rest), 2)], []
        for pair in pairs:
            larger = Signal(len(numbers[0]), name=f"{name}_{len(pairs)}_{len(rest)}")
            m.d.comb += larger.eq(Mux(pair[0] > pair[-1], pair[0], pair[-1]))
            rest.append(larger)
    return rest[0]
