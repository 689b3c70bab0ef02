"""Broken variants of a tile, one or more for each claim of `tile`."""

from dataclasses import replace

from tensordash import TileConfig
from tensordash.block import Block
from tensordash.schedule.operand_flags import OperandFlags
from tensordash.schedule.scheduler import Scheduler
from tensordash.schedule.staging_buffer import StagingBuffer
from tensordash.schedule.staging_ring import StagingRing
from tensordash.tile.control import Control
from tensordash.tile.drain import Drain
from tensordash.tile.initial_store import InitialStore
from tensordash.tile.scheduled_pe import ScheduledPE

from ..harness import Fault
from ..proof import BrokenVariant

__all__ = ["BROKEN_VARIANTS"]

SMALL = TileConfig(rows=2, columns=1, lanes=2, depth=2, connectivity=((0, 0), (1, 0), (1, 1)))
WITH_C = replace(SMALL, initial=True)
FROM_C = replace(WITH_C, format="bf16", accumulator="volta")
RING = replace(SMALL, staging="ring")
ONCE = "every_effectual_pair_is_consumed_once"
OTHER = "no_pair_meets_another_stream"


def _variant(claim: str, title: str, kind: type[Block], fault: Fault, config: TileConfig = SMALL) -> BrokenVariant:
    return BrokenVariant(claim=claim, title=title, kind=kind, fault=fault, depth=14, config=config)


BROKEN_VARIANTS = (
    _variant(
        ONCE,
        "the window advances by one step too many",
        Scheduler,
        lambda m, sound, outer: outer.advance.eq(sound.advance | (sound.advance << 1) & outer.eligible),
    ),
    _variant(
        ONCE,
        "the tile advances with its first row",
        Control,
        lambda m, sound, outer: sound.advances[1].eq(outer.advances[0]),
    ),
    _variant(
        ONCE,
        "consumed positions are forgotten",
        Scheduler,
        lambda m, sound, outer: outer.remaining.eq(outer.effectual),
    ),
    _variant(
        ONCE,
        "steps that stay in the window are lost",
        StagingBuffer,
        lambda m, sound, outer: [lines[0].eq(0) for lines in sound.refill],
    ),
    _variant(
        ONCE,
        "the selections of a ring are not rotated",
        Control,
        lambda m, sound, outer: outer.motion.oldest.eq(1),
        RING,
    ),
    _variant(
        ONCE,
        "a ring writes steps one slot too far",
        Control,
        lambda m, sound, outer: outer.write.eq(sound.write.rotate_left(1)),
        RING,
    ),
    _variant(
        ONCE,
        "a ring writes all offered steps",
        StagingRing,
        lambda m, sound, outer: sound.write.eq(~0),
        RING,
    ),
    _variant(
        ONCE,
        "a ring has the zero flags of the previous line",
        OperandFlags,
        lambda m, sound, outer: [outer.nonzero[line].eq(sound.nonzero[line - 1]) for line in range(outer.depth)],
        RING,
    ),
    _variant(
        ONCE,
        "lane 0 has the selection of lane 1",
        ScheduledPE,
        lambda m, sound, outer: sound.select[0].eq(outer.select[1]),
    ),
    _variant(
        OTHER,
        "a stream does not start from zero",
        Control,
        lambda m, sound, outer: outer.starts.eq(0),
    ),
    _variant(
        OTHER,
        "steps of the next stream are eligible",
        Scheduler,
        lambda m, sound, outer: sound.eligible.eq(outer.eligible[0].replicate(len(outer.eligible))),
    ),
    _variant(
        OTHER,
        "a result leaves twice",
        Drain,
        lambda m, sound, outer: sound.take.eq(outer.take | sound.moves & sound.out.payload.last),
    ),
    _variant(
        "no_other_pair_is_consumed",
        "every value counts as nonzero",
        OperandFlags,
        lambda m, sound, outer: outer.nonzero.as_value().eq(~0),
    ),
    _variant(
        "nothing_is_consumed_before_it_enters",
        "one more step enters than is offered",
        Control,
        lambda m, sound, outer: [sound.available[port].eq(outer.available[port] + 1) for port in range(outer.ports)],
    ),
    _variant(
        "every_c_is_added_once",
        "beats of C leave in another order",
        InitialStore,
        lambda m, sound, outer: outer.values[0].eq(0),
        WITH_C,
    ),
    _variant(
        "every_c_is_added_once",
        "a stream does not start from its C",
        Control,
        lambda m, sound, outer: outer.starts.eq(0),
        FROM_C,
    ),
    _variant(
        "no_c_is_added_to_another_stream",
        "C stays in the store",
        InitialStore,
        lambda m, sound, outer: sound.pop.eq(0),
        WITH_C,
    ),
)
