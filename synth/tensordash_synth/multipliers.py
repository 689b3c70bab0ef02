"""Check multipliers of Yosys with all operands."""

import re
from collections.abc import Iterator

import numpy as np

from .aiger import Graph, Registers, literal_of

__all__ = ["is_correct", "multiplier_shapes"]


def multiplier_shapes(text: str) -> Iterator[tuple[int, int, int, bool]]:
    """Yield the bits of both operands and the product, and whether they are signed, of every multiplier in a dump."""
    for cell in text.split("cell $mul")[1:]:
        a, b, y, signed = (
            int(re.search(rf"parameter (?:signed )?\\{key} (?:\d+'(?=[01]+\s))?(\d+)", cell)[1])  # type: ignore[index]
            for key in ("A_WIDTH", "B_WIDTH", "Y_WIDTH", "A_SIGNED")
        )
        yield a, b, y, bool(signed)


def is_correct(view: Registers, a: int, b: int, y: int, signed: bool) -> bool:
    """Return whether a multiplier's logic computes the correct product for all operands."""
    graph = Graph()
    inputs = [("a", i) for i in range(a)] + [("b", i) for i in range(b)]
    input_of = {bit: graph.input() for bit in inputs}
    known = {literal: input_of[bit] for bit, literal in view.inputs.items()}
    graph.add(view, known)
    literals = [view.outputs["y", i] for i in range(y)]
    pairs = np.arange(max(64, 1 << (a + b)), dtype=np.int64)
    first, second = pairs & ((1 << a) - 1), (pairs >> a) & ((1 << b) - 1)
    values = np.stack([_packed(first >> i) for i in range(a)] + [_packed(second >> i) for i in range(b)])
    found = graph.simulate(values, [literal_of(known, each) for each in literals])
    if signed:
        first, second = first - ((first >> (a - 1)) << a), second - ((second >> (b - 1)) << b)
    return all((found[i] == _packed((first * second) >> i)).all() for i in range(y))


def _packed(bits: np.ndarray) -> np.ndarray:
    return np.packbits((bits & 1).astype(np.uint8), bitorder="little").view(np.uint64)
