"""Compaction: a network that brings the marked ones of some values together, and back."""

from collections.abc import Sequence

from amaranth.hdl import Const, Module, Mux, Signal, Value

__all__ = ["Compaction", "ring_slots", "unit_bits"]

MOST_GROUPS = 65535
"""Of a compressed move."""


def unit_bits(lanes: int, width: int) -> int:
    """Bits of the number of units of the largest compressed move."""
    size = lanes * lanes
    return (MOST_GROUPS * (size + size // width)).bit_length()


def ring_slots(units_of_group: int, units_of_beat: int) -> int:
    """Beats that a ring must hold, a power of two, so that a group fits beside two beats of which one is not whole."""
    least = -(-(units_of_group + 2 * units_of_beat - 1) // units_of_beat)
    return 1 << (least - 1).bit_length()


class Compaction:
    """What moves where, for a mask: log2 stages of 2:1 choices instead of a mux for each value.

    A marked value goes down by the number of unmarked ones below it, in stage k by 2**k if bit k of that number is set.
    No two values meet on their way, since that number grows by less than the distance of two marked values.

    Parameters
    ----------
    m : Module
        Where it is built.
    mask : Signal
        Bit j: value j is marked.

    Attributes
    ----------
    ones : Value
        How many are marked.
    held : list of Value
        Bit i: there is an i-th marked value.

    Source: docs/core.md, "Tensors"; H. S. Warren, Hacker's Delight, 7-4 "Compress, or Generalized Extract".
    """

    def __init__(self, m: Module, mask: Signal) -> None:
        self.mask = mask
        size = len(mask)
        # Zeros up to each value: Sklansky's prefix sums.
        sums: list[Value] = [~bit for bit in mask]
        stages = (size - 1).bit_length()
        for level in range(stages):
            below = list(sums)
            for j in range(size):
                if j >> level & 1:
                    total = Signal(range(j + 2), name=f"zeros_{level}_{j}")
                    m.d.comb += total.eq(sums[j] + below[(j >> level << level) - 1])
                    sums[j] = total
        ones = Signal(range(size + 1), name="ones")
        m.d.comb += ones.eq(size - sums[-1])
        self.ones = ones
        self._moves: list[Signal] = []
        held: list[Value] = list(mask)
        away: list[Value] = [Const(0), *sums[:-1]]
        for k in range(stages):
            moves = Signal(size, name=f"moves_{k}")
            kept = Signal(size, name=f"kept_{k}")
            step = 1 << k
            next_away = []
            for q in range(size):
                source = q + step
                enters = held[source] & _bit(away[source], k) if source < size else Const(0)
                rest = Signal(stages, name=f"away_{k}_{q}")
                m.d.comb += [
                    moves[q].eq(enters),
                    kept[q].eq((held[q] & ~_bit(away[q], k)) | moves[q]),
                    rest.eq(Mux(moves[q], away[source], away[q]) if source < size else away[q]),
                ]
                next_away.append(rest)
            self._moves.append(moves)
            held, away = list(kept), list(next_away)
        self.held = held

    def together(self, m: Module, values: Sequence[Value]) -> list[Value]:
        """The marked values, one after the other from the first place on; what is behind them is any."""
        for k, moves in enumerate(self._moves):
            step = 1 << k
            values = [
                self._chosen(m, f"together_{k}_{q}", moves[q], values[q + step], values[q])
                if q + step < len(values)
                else values[q]
                for q in range(len(values))
            ]
        return list(values)

    def apart(self, m: Module, values: Sequence[Value]) -> list[Value]:
        """The reverse: every marked place has its value, all others 0."""
        for k, moves in reversed(list(enumerate(self._moves))):
            step = 1 << k
            values = [
                self._chosen(m, f"apart_{k}_{q}", moves[q - step], values[q - step], values[q])
                if q >= step
                else values[q]
                for q in range(len(values))
            ]
        return [value & bit.replicate(len(value)) for value, bit in zip(values, self.mask, strict=True)]

    @staticmethod
    def _chosen(m: Module, name: str, moves: Value, moved: Value, kept: Value) -> Value:
        chosen = Signal(len(kept), name=name)
        m.d.comb += chosen.eq(Mux(moves, moved, kept))
        return chosen


def _bit(value: Value, k: int) -> Value:
    return value[k] if k < len(value) else Const(0)
