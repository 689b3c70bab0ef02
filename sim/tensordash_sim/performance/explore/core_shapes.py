"""Shapes of cores, and the products of traces on which a search compares them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np

from tensordash.configuration.core_config import CoreConfig

from ...trace import Record, Trace

__all__ = ["CoreShape", "DrawnProduct", "draw_products"]


@dataclass(frozen=True)
class CoreShape:
    """The parameters of a core that a search changes.

    Attributes
    ----------
    rows, columns : int
        As in `TileConfig`.
    axi_bits, layout_groups, buffer, stream_buffer, result_cycles : int
        As in `CoreConfig`.
    drop_steps : bool
        As in `CoreConfig`.
    """

    rows: int
    columns: int
    axi_bits: int
    layout_groups: int
    buffer: int
    stream_buffer: int
    result_cycles: int
    drop_steps: bool = field(default=False, kw_only=True)

    @classmethod
    def of(cls, core: CoreConfig) -> "CoreShape":
        """Return the shape of a core."""
        return cls(core.tile.rows, core.tile.columns, **{name: getattr(core, name) for name in CORE_FIELDS})

    def config(self, base: CoreConfig) -> CoreConfig:
        """Return a core with this shape, and all other fields from `base`.

        Raises
        ------
        ValueError
            With the field, its value and what is allowed.
        """
        tile = replace(base.tile, rows=self.rows, columns=self.columns)
        return replace(base, tile=tile, **{name: getattr(self, name) for name in CORE_FIELDS})

    @property
    def label(self) -> str:
        """Short name, such as "4x16, bus 256, groups 2, buffer 128, streams 32, results 2"."""
        drops = ", drops steps" if self.drop_steps else ""
        return (
            f"{self.rows}x{self.columns}, bus {self.axi_bits}, groups {self.layout_groups}, buffer {self.buffer}, "
            f"streams {self.stream_buffer}, results {self.result_cycles}{drops}"
        )

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers that need more hardware if they are larger; the last one is the columns added to per cycle."""
        memories = self.axi_bits, self.layout_groups, self.buffer, self.stream_buffer
        return self.rows, self.columns, self.drop_steps, *memories, self.columns // self.result_cycles

    def is_within(self, other: "CoreShape") -> bool:
        """Return whether no parameter needs more hardware than the other shape's.

        >>> narrow = CoreShape(4, 4, 128, 1, 64, 16, 2)
        >>> narrow.is_within(replace(narrow, columns=8)), narrow.is_within(replace(narrow, result_cycles=4))
        (True, False)
        """
        return all(one <= two for one, two in zip(self.sizes, other.sizes, strict=True))


CORE_FIELDS = tuple(each.name for each in fields(CoreShape) if each.name not in ("rows", "columns"))
"""Parameters of a shape that are fields of `CoreConfig`."""


@dataclass(frozen=True)
class DrawnProduct:
    """A product of a trace.

    Attributes
    ----------
    trace : int
        Index of its trace.
    record : Record
        The product.
    weight : float
        Number of the trace's products that it represents; 1 if all are used.
    """

    trace: int
    record: Record
    weight: float


def draw_products(traces: Sequence[Trace], products: int, seed: int) -> list[DrawnProduct]:
    """Draw products of each trace by their shares of its multiplications, or return all of a small trace.

    A product is drawn once for each of `products` evenly spaced places on the line of all multiplications, from a
    random start. So large products are always drawn. The weighted sum of the cycles is unbiased.

    Parameters
    ----------
    traces : sequence of Trace
        The traces.
    products : int
        Maximum number of products of each trace.
    seed : int
        Seed of the draw.
    """
    drawn = []
    for number, trace in enumerate(traces):
        records = list(trace.records)
        if len(records) <= products:
            drawn += [DrawnProduct(number, record, 1.0) for record in records]
            continue
        macs = np.array([record.geometry.macs for record in records], np.float64)
        apart = macs.sum() / products
        places = (np.arange(products) + np.random.default_rng([seed, number]).random()) * apart
        chosen, times = np.unique(np.searchsorted(np.cumsum(macs), places, side="right"), return_counts=True)
        drawn += [
            DrawnProduct(number, records[k], float(count * apart / macs[k]))
            for k, count in zip(chosen, times, strict=True)
        ]
    return drawn
