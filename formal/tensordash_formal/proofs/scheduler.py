"""Scheduler: the paper's rules for one cycle, over all inputs.

A lane selects at most one position, which is effectual, eligible and one of its options. It takes the first option, by
priority, that lanes of earlier levels left. No two lanes select the same position. AS and the remaining positions are
exact. The harness computes options and levels from the configuration, independently of the component.

Assumes: eligible steps are the oldest ones. The proof `tile`, which contains the schedulers, does not assume this.
"""

from typing import Any

from amaranth.hdl import Cat, Const, Module

from tensordash import TileConfig
from tensordash.block import Block
from tensordash.configuration.connectivity import Connectivity, Position
from tensordash.schedule.scheduler import Scheduler

from ..harness import Fault, Harness
from ..proof import Proof, make_variants

__all__ = ["PROOF"]

Selectors = dict[Position, list[tuple[int, int]]]
"""For each position, the pairs (lane, option) that can select it."""


def build(config: TileConfig, fault: tuple[type[Block], Fault] | None = None) -> Harness:
    """Build the claims about a tile's scheduler.

    Source: docs/tile.md, "One cycle", step 3; paper, section III-A, "The Hardware Scheduler".
    """
    lanes, depth = config.lanes, config.window_depth
    dut = Scheduler(Connectivity(config.options, lanes=lanes, depth=depth))
    harness = Harness(dut, fault=fault)
    # Eligible steps are the oldest ones.
    for step in range(1, depth):
        harness.assume(dut.eligible[step - 1] | ~dut.eligible[step])

    # This is computed from the configuration, independently of the component's tables. Offsets wrap around the lanes.
    reach = [[(step, (lane + offset) % lanes) for step, offset in config.options] for lane in range(lanes)]
    selectors: Selectors = {}
    for lane in range(lanes):
        for option, position in enumerate(reach[lane]):
            selectors.setdefault(position, []).append((lane, option))
    _lanes(harness, dut, reach, selectors)
    _positions(harness, dut, selectors)
    harness.claim(
        "nothing_without_eligible_steps", ~dut.select.as_value().any() & ~dut.advance.any(), when=~dut.eligible[0]
    )
    return harness


def _lanes(harness: Harness, dut: Scheduler, reach: list[list[Position]], selectors: Selectors) -> None:
    """Claim that each lane selects its first available position: effectual, eligible, and left by earlier levels."""
    levels = _levels(reach)
    for lane, positions in enumerate(reach):
        select = dut.select[lane]
        harness.claim("one_option_per_lane", _at_most_one(select), when=select.any())
        available = []
        for step, place in positions:
            earlier = [dut.select[other][at] for other, at in selectors[step, place] if levels[other] < levels[lane]]
            available.append(dut.effectual[step][place] & dut.eligible[step] & ~Cat(earlier).any())
        for option, (step, place) in enumerate(positions):
            harness.claim(
                "only_effectual_and_eligible", dut.effectual[step][place] & dut.eligible[step], when=select[option]
            )
            first = available[option] & ~Cat(available[:option]).any()
            harness.claim("first_available_is_taken", select[option], when=first)
            harness.claim("nothing_else_is_taken", ~select[option], when=~first)


def _positions(harness: Harness, dut: Scheduler, selectors: Selectors) -> None:
    """Claim that a position is selected at most once, others remain, and the window advances over drained steps."""
    drained: Any = Const(1)
    for step, effectual in enumerate(dut.effectual):
        left = []
        for place, is_effectual in enumerate(effectual):
            chosen = Cat(dut.select[lane][option] for lane, option in selectors.get((step, place), []))
            if len(chosen):
                harness.claim("no_position_twice", _at_most_one(chosen), when=chosen.any())
            left.append(is_effectual & ~chosen.any())
            remains = dut.remaining[step][place]
            harness.claim("remaining_is_what_was_not_taken", remains == left[-1], when=is_effectual)
            harness.claim("remaining_is_what_was_not_taken", ~remains, when=~is_effectual)
        drained = drained & dut.eligible[step] & ~Cat(left).any()
        harness.claim("advance_is_the_leading_drained_steps", dut.advance[step] == drained, when=dut.eligible[0])
    harness.claim("advance_is_at_least_one", dut.advance[0], when=dut.eligible[0])


def _levels(reach: list[list[Position]]) -> list[int]:
    """Compute each lane's level by the paper's rule: lanes with disjoint positions share a level.

    Filling one level after another in lane order is equivalent to giving each lane the first level without a conflict.
    """
    levels: list[int] = []
    for lane, positions in enumerate(reach):
        conflicts = {levels[other] for other in range(lane) if set(reach[other]) & set(positions)}
        levels.append(next(level for level in range(lane + 1) if level not in conflicts))
    return levels


def _at_most_one(bits: Any) -> Any:
    return (bits & (bits - 1)[: len(bits)]) == 0


def _two_options(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.select[0][1].eq(sound.select[0].any())


def _repeats_selections(m: Module, sound: Any, outer: Any) -> None:
    first = outer.connectivity.positions(0)
    for lane in range(1, outer.connectivity.lanes):
        for option, position in enumerate(outer.connectivity.positions(lane)):
            if position in first:
                m.d.comb += outer.select[lane][option].eq(sound.select[0][first.index(position)])


BROKEN_VARIANTS = make_variants(
    Scheduler,
    {
        "one_option_per_lane": {"a lane with a selection also selects its second option": _two_options},
        "only_effectual_and_eligible": {
            "steps beyond the end of the stream are eligible": lambda m, sound, outer: sound.eligible.eq(~0)
        },
        "first_available_is_taken": {
            "lane 0 never takes its first option": lambda m, sound, outer: outer.select[0][0].eq(0)
        },
        "nothing_else_is_taken": {"a lane with a selection also selects its second option": _two_options},
        "no_position_twice": {"other lanes also select lane 0's position": _repeats_selections},
        "remaining_is_what_was_not_taken": {
            "taken positions remain": lambda m, sound, outer: outer.remaining.eq(outer.effectual)
        },
        "advance_is_the_leading_drained_steps": {
            "the window advances by one step at most": lambda m, sound, outer: outer.advance.eq(sound.advance[0])
        },
        "advance_is_at_least_one": {"the window never advances": lambda m, sound, outer: outer.advance.eq(0)},
        "nothing_without_eligible_steps": {
            "the window advances without eligible steps": lambda m, sound, outer: outer.advance[0].eq(1)
        },
    },
    depth=2,
)

PROOF = Proof(
    name="scheduler", build=build, applies=lambda config: config.sparsity != "none", broken_variants=BROKEN_VARIANTS
)
