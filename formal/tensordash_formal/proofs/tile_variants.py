"""Broken variants of a tile, one or more for each claim of `tile`."""

from collections.abc import Mapping
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
from ..proof import make_variants

__all__ = ["BROKEN_VARIANTS"]

SMALL = TileConfig(rows=2, columns=1, lanes=2, depth=2, connectivity=((0, 0), (1, 0), (1, 1)))
WITH_C = replace(SMALL, initial=True)
FROM_C = replace(WITH_C, format="bf16", accumulator="volta")
RING = replace(SMALL, staging="ring")
ONCE = "every_effectual_pair_is_consumed_once"
OTHER = "no_pair_meets_another_stream"


FAULTS: Mapping[tuple[type[Block], TileConfig | None], Mapping[str, Mapping[str, Fault]]] = {
    (Scheduler, SMALL): {
        ONCE: {
            "the window advances by one step too many": lambda m, sound, outer: outer.advance.eq(
                sound.advance | (sound.advance << 1) & outer.eligible
            ),
            "consumed positions are forgotten": lambda m, sound, outer: outer.remaining.eq(outer.effectual),
        },
        OTHER: {
            "steps of the next stream are eligible": lambda m, sound, outer: sound.eligible.eq(
                outer.eligible[0].replicate(len(outer.eligible))
            )
        },
    },
    (Control, SMALL): {
        ONCE: {"the tile advances with its first row": lambda m, sound, outer: sound.advances[1].eq(outer.advances[0])},
        OTHER: {"a stream does not start from zero": lambda m, sound, outer: outer.starts.eq(0)},
        "nothing_is_consumed_before_it_enters": {
            "one more step enters than is offered": lambda m, sound, outer: [
                sound.available[port].eq(outer.available[port] + 1) for port in range(outer.ports)
            ]
        },
    },
    (StagingBuffer, SMALL): {
        ONCE: {
            "steps that stay in the window are lost": lambda m, sound, outer: [lines[0].eq(0) for lines in sound.refill]
        },
    },
    (Control, RING): {
        ONCE: {
            "the selections of a ring are not rotated": lambda m, sound, outer: outer.motion.oldest.eq(1),
            "a ring writes steps one slot too far": lambda m, sound, outer: outer.write.eq(sound.write.rotate_left(1)),
        },
    },
    (StagingRing, RING): {
        ONCE: {"a ring writes all offered steps": lambda m, sound, outer: sound.write.eq(~0)},
    },
    (OperandFlags, RING): {
        ONCE: {
            "a ring has the zero flags of the previous line": lambda m, sound, outer: [
                outer.nonzero[line].eq(sound.nonzero[line - 1]) for line in range(outer.depth)
            ]
        },
    },
    (ScheduledPE, SMALL): {
        ONCE: {"lane 0 has the selection of lane 1": lambda m, sound, outer: sound.select[0].eq(outer.select[1])},
    },
    (Drain, SMALL): {
        OTHER: {
            "a result leaves twice": lambda m, sound, outer: sound.take.eq(
                outer.take | sound.moves & sound.out.payload.last
            )
        },
    },
    (OperandFlags, SMALL): {
        "no_other_pair_is_consumed": {
            "every value counts as nonzero": lambda m, sound, outer: outer.nonzero.as_value().eq(~0)
        },
    },
    (InitialStore, WITH_C): {
        "every_c_is_added_once": {"beats of C leave in another order": lambda m, sound, outer: outer.values[0].eq(0)},
        "no_c_is_added_to_another_stream": {"C stays in the store": lambda m, sound, outer: sound.pop.eq(0)},
    },
    (Control, FROM_C): {
        "every_c_is_added_once": {"a stream does not start from its C": lambda m, sound, outer: outer.starts.eq(0)},
    },
}
"""By component and configuration, the faults that break each claim, by title."""

BROKEN_VARIANTS = tuple(
    variant
    for (kind, config), faults in FAULTS.items()
    for variant in make_variants(kind, faults, depth=14, config=config)
)
