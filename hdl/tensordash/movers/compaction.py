"""Compaction: a network that packs the marked values of a vector at any place of a ring, and unpacks them."""

from collections.abc import Sequence

from amaranth.hdl import Const, Module, Mux, Signal, Value

__all__ = ["Compaction", "above", "count_ones", "unit_bits"]

MAX_GROUPS = 65535
"""Groups of a compressed move."""


def unit_bits(lanes: int, width: int) -> int:
    """Return the bits of the number of units in the largest compressed move."""
    size = lanes * lanes
    return (MAX_GROUPS * (size + size // width)).bit_length()


def count_ones(bits: Sequence[Value]) -> Value:
    """Return the number of bits that are set."""
    if len(bits) == 1:
        return bits[0]
    half = len(bits) // 2
    return count_ones(bits[:half]) + count_ones(bits[half:])


class Compaction:
    """Routes marked values: log2 stages of 2:1 choices instead of a mux for each value.

    The k-th marked value has the target `start` + k in a ring with one place per value. In stage k a value moves to the
    place that has bit k of its target, and the other bits of its present place. No two values collide: the distance
    of two marked values never grows, so two values from the same 2**(k+1) places have targets that differ in one of the
    lowest k+1 bits.

    Parameters
    ----------
    m : Module
        The module that the network is built in.
    name : str
        Prefix of its signals.
    marks : sequence of Value
        Bit j: value j is marked. Their number is a power of two.
    start : Value
        Target of the first marked value.

    Attributes
    ----------
    held : list of Value
        Bit p: place p is the target of a value.

    Source: docs/core.md, "Tensors"; the reverse banyan network after a concentrator's adder, e.g. A. Huang and
    S. Knauer, Starlite: a wideband digital switch, GLOBECOM 1984.
    """

    def __init__(self, m: Module, name: str, marks: Sequence[Value], start: Value) -> None:
        size = len(marks)
        stages = (size - 1).bit_length()
        # The targets: Sklansky's prefix sums, modulo `size`.
        sums: list[Value] = [Const(0, 1), *marks[:-1]]
        for level in range(stages):
            below = list(sums)
            for j in range(size):
                if j >> level & 1:
                    total = Signal(min(level + 2, stages), name=f"{name}_before_{level}_{j}")
                    m.d.comb += total.eq(sums[j] + below[(j >> level << level) - 1])
                    sums[j] = total
        places: list[Value] = []
        for j, before in enumerate(sums):
            place = Signal(stages, name=f"{name}_place_{j}")
            m.d.comb += place.eq(start + before)
            places.append(place)
        self._name, self._swaps = name, []
        held: list[Value] = list(marks)
        for k in range(stages):
            swaps = Signal(size, name=f"{name}_swaps_{k}")
            received = Signal(size, name=f"{name}_received_{k}")
            rest = []
            for q in range(size):
                other = q ^ 1 << k
                mine = q >> k & 1
                m.d.comb += [
                    swaps[q].eq(held[other] & (places[other][0] == mine)),
                    received[q].eq((held[q] & (places[q][0] == mine)) | swaps[q]),
                ]
                if k < stages - 1:  # the bits that later stages need
                    place = Signal(stages - k - 1, name=f"{name}_place_{k}_{q}")
                    m.d.comb += place.eq(Mux(swaps[q], places[other][1:], places[q][1:]))
                    rest.append(place)
            self._swaps.append(swaps)
            held, places = list(received), rest
        self.held = held

    def compact(self, m: Module, values: Sequence[Value]) -> list[Value]:
        """Return the marked values packed from `start` on. Other places are undefined."""
        return self._through(m, "together", values, lambda q, step: q)

    def expand(self, m: Module, values: Sequence[Value]) -> list[Value]:
        """Reverse `compact`: return each marked value at its own place. Other places are undefined."""
        return self._through(m, "apart", values, lambda q, step: q ^ step)

    def _through(self, m: Module, what: str, values: Sequence[Value], source) -> list[Value]:
        stages = list(enumerate(self._swaps))
        for k, swaps in stages if what == "together" else reversed(stages):
            chosen = [Signal(len(values[0]), name=f"{self._name}_{what}_{k}_{q}") for q in range(len(values))]
            m.d.comb += [
                each.eq(Mux(swaps[source(q, 1 << k)], values[q ^ 1 << k], values[q])) for q, each in enumerate(chosen)
            ]
            values = chosen
        return list(values)


def above(value: Value, number: int) -> Value:
    """Return whether a value is above a number. The result is a constant 0 where the value's bits cannot exceed it."""
    return value > number if number < (1 << len(value)) - 1 else Const(0)
