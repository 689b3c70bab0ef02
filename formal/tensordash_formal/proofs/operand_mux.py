"""Operand muxes: a lane gets the selected value, or zero if nothing is selected.

Assumes: a lane has at most one selection (`scheduler`).
"""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In, Out

from tensordash import TileConfig
from tensordash.block import Block, placed
from tensordash.configuration.connectivity import Connectivity
from tensordash.layouts import steps_layout
from tensordash.schedule.operand_mux import OperandMux

from ..harness import Fault, Harness
from ..proof import BrokenVariant, Proof

__all__ = ["PROOF"]


class Muxes(Block):
    """A tile's operand muxes, one for each operand width, with the same selection."""

    def __init__(self, config: TileConfig) -> None:
        lanes, depth = config.lanes, config.window_depth
        connectivity = Connectivity(config.options, lanes=lanes, depth=depth)
        self.sources = connectivity.sources(config.ring)
        widths = sorted({config.a_format.width, config.b_format.width})
        self.muxes = {width: OperandMux(width=width, connectivity=connectivity, ring=config.ring) for width in widths}
        members: dict[str, Any] = {"select": In(ArrayLayout(len(self.sources), lanes))}
        for width in widths:
            members[f"window_{width}"] = In(steps_layout(width, lanes, depth))
            members[f"operands_{width}"] = Out(ArrayLayout(width, lanes))
        super().__init__(members)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        for width, mux in self.muxes.items():
            m.submodules[f"mux_{width}"] = placed(mux, platform)
            m.d.comb += [
                mux.select.eq(self.select),
                mux.window.eq(getattr(self, f"window_{width}")),
                getattr(self, f"operands_{width}").eq(mux.operands),
            ]
        return m


def build(config: TileConfig, fault: tuple[type[Block], Fault] | None = None) -> Harness:
    """Build the claims about a tile's operand muxes.

    Source: docs/tile.md, "One cycle", step 3, and the docstring of `OperandMux`.
    """
    dut = Muxes(config)
    harness = Harness(dut, fault=fault)
    for lane in range(config.lanes):
        select = dut.select[lane]
        # The scheduler's claim "one_option_per_lane".
        harness.assume((select & (select - 1)[: len(select)]) == 0)
        for width in dut.muxes:
            window, operand = getattr(dut, f"window_{width}"), getattr(dut, f"operands_{width}")[lane]
            for source, (slot, offset) in enumerate(dut.sources):
                value = window[slot][(lane + offset) % config.lanes]
                harness.claim("operand_is_the_selected_value", operand == value, when=select[source])
            harness.claim("operand_is_zero_without_a_selection", operand == 0, when=~select.any())
    return harness


def _takes_from_next_lane(m: Module, sound: Any, outer: Any) -> None:
    for inner, step in zip(sound.window, outer.window, strict=True):
        for lane in range(len(step)):
            m.d.comb += inner[lane].eq(step[(lane + 1) % len(step)])


def _selects_first_option(m: Module, sound: Any, outer: Any) -> None:
    for inner, select in zip(sound.select, outer.select, strict=True):
        m.d.comb += inner.eq(select | ~select.any())


def _variant(claim: str, title: str, fault: Fault) -> BrokenVariant:
    return BrokenVariant(claim=claim, title=title, kind=OperandMux, fault=fault, depth=4)


BROKEN_VARIANTS = (
    _variant("operand_is_the_selected_value", "a lane takes the value of its neighbour", _takes_from_next_lane),
    _variant(
        "operand_is_zero_without_a_selection",
        "a lane without a selection takes its first option",
        _selects_first_option,
    ),
)

PROOF = Proof(
    name="operand_mux", build=build, applies=lambda config: config.sparsity != "none", broken_variants=BROKEN_VARIANTS
)
