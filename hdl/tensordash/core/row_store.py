"""Row store: collects rows of results until they make words of the buffer."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.core_config import CoreConfig
from ..layouts import RESULT_BITS
from ..one_hot import one_hot_mux

__all__ = ["RowStore"]


class RowStore(Block):
    """Stores rows of results as bank words: each group has a *column* for each of its banks.

    Operands: a column has all channels of a position. FP32: a word has room for `lanes * width / 32` channels of a
    position, so the store is full after that number of rows, a *batch*. If rows are channels, a column is a position,
    too. If rows are positions, column h * rows + i has the channels of word h of the batch's row i.

    Timing: a row that is taken can be read from the next cycle on.

    Parameters
    ----------
    config : CoreConfig
        Defines lanes, columns, and the bits of an operand.

    Members
    -------
    values : In(32, columns), take : In(1)
        A row of results, and whether to store it.
    row : In(lanes)
        The row's number in its group, one-hot.
    transposed, fp32 : In(1)
        The descriptor's fields.
    words : Out(lanes * width, groups * lanes)
        The columns of each group.

    Source: docs/core.md, "Multiply".
    """

    def __init__(self, config: CoreConfig) -> None:
        tile = config.tile
        self.lanes, self.width, self.parts = tile.lanes, config.value_bits, config.fp32_groups
        self.groups = tile.columns // tile.lanes
        super().__init__(
            {
                "values": In(ArrayLayout(RESULT_BITS, tile.columns)),
                "take": In(1),
                "row": In(self.lanes),
                "transposed": In(1),
                "fp32": In(1),
                "words": Out(ArrayLayout(self.lanes * self.width, tile.columns)),
            }
        )

    def elaborate(self, platform):
        """Build cells of an operand's bits. An FP32 value takes `parts` cells."""
        m = Module()
        lanes, parts = self.lanes, self.parts
        batch = lanes // parts  # rows of FP32, and values in a word
        of_batch = [self.row[i::batch].any() for i in range(batch)]  # the row's number in its batch, one-hot
        operands, wide = Signal(2, name="operands"), Signal(2, name="wide")  # plain, and transposed
        m.d.comb += [
            operands.eq(Cat(~self.transposed, self.transposed) & (~self.fp32).replicate(2)),
            wide.eq(Cat(~self.transposed, self.transposed) & self.fp32.replicate(2)),
        ]
        for group in range(self.groups):
            values = [self.values[group * lanes + k] for k in range(lanes)]
            for column in range(lanes):
                cells = []
                for place in range(batch):
                    for part in range(parts):
                        channel = place * parts + part
                        cells.append(
                            self._cell(
                                m,
                                f"cell_{group}_{column}_{channel}",
                                values,
                                [
                                    (operands[1], self.row[channel], column, 0),
                                    (operands[0], self.row[column], channel, 0),
                                    (wide[1], of_batch[place], column, part),
                                    (wide[0], of_batch[column % batch], column // batch * batch + place, part),
                                ],
                            )
                        )
                m.d.comb += self.words[group * lanes + column].eq(Cat(cells))
        return m

    def _cell(self, m: Module, name: str, values: list[Any], ways: list[tuple[Any, Any, int, int]]) -> Signal:
        """Build a cell, and select in each mode the row that writes it and the part of a value that it takes."""
        cell = Signal(self.width, name=name, reset_less=True)
        sources: dict[tuple[int, int], list[Any]] = {}
        for mode, _, value, part in ways:
            sources.setdefault((value, part), []).append(mode)
        chosen = one_hot_mux(
            [reduce(or_, each) for each in sources.values()],
            [values[value][part * self.width : (part + 1) * self.width] for value, part in sources],
        )
        with m.If(self.take & one_hot_mux([mode for mode, *_ in ways], [row for _, row, *_ in ways])):
            m.d.sync += cell.eq(chosen)
        return cell
