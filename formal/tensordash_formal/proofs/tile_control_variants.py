"""Broken variants of a tile's control, one or more for each claim of `tile_control`."""

from collections.abc import Mapping
from dataclasses import replace

from amaranth.hdl import Cat, Mux, ResetSignal

from tensordash import TileConfig
from tensordash.block import Block
from tensordash.schedule.operand_flags import OperandFlags
from tensordash.tile.control import Control
from tensordash.tile.counters import Counters
from tensordash.tile.drain import Drain
from tensordash.tile.flags import Flags
from tensordash.tile.initial_store import InitialStore
from tensordash.tile.output_buffer import OutputBuffer
from tensordash.tile.snapshot import Snapshot
from tensordash.tile.tile import Tile

from ..harness import Fault
from ..proof import make_variants
from ..tile_state import count

__all__ = ["BROKEN_VARIANTS", "SMALL"]

SMALL = TileConfig(rows=2, columns=1, lanes=2, depth=3, connectivity=((0, 0), (1, 0), (2, 0), (1, 1)))
WITH_C = replace(SMALL, initial=True)
RING = replace(SMALL, connectivity=((0, 0), (1, 0), (1, 1), (2, 0), (2, 1)), staging="ring")
BUFFERED = replace(SMALL, registered_ready=True)
COPIED = replace(SMALL, counters="snapshot")
SCALED = replace(SMALL, format="fp8_e4m3", accumulator="hopper", scale="e8m0")


FAULTS: Mapping[tuple[type[Block], TileConfig | None], Mapping[str, Mapping[str, Fault]]] = {
    (Control, None): {
        "advance_is_the_least_of_the_rows": {
            "the tile advances with its first row": lambda m, sound, outer: sound.advances[1].eq(outer.advances[0])
        },
        "at_least_one_step_in_every_schedule": {
            "the first schedule of a stream does not advance": lambda m, sound, outer: outer.advance.eq(
                Mux(sound.starts, 0, sound.advance)
            )
        },
        "no_step_leaves_without_a_schedule": {
            "a tile without a schedule advances": lambda m, sound, outer: outer.advance[0].eq(1)
        },
        "no_step_of_the_next_stream_leaves": {
            "the window advances into the next stream": lambda m, sound, outer: outer.advance.eq(
                sound.advance | (sound.advance << 1)
            )
        },
        "all_ports_take_what_there_is_and_fits": {
            "at most one step is taken": lambda m, sound, outer: outer.taken.eq(sound.taken != 0)
        },
        "nothing_is_taken_without_room_or_offer": {
            "a step is taken in every cycle": lambda m, sound, outer: outer.taken.eq(
                Mux(sound.taken == 0, 1, sound.taken)
            )
        },
        "work_at_hand_is_scheduled": {
            "the tile advances only while steps enter": lambda m, sound, outer: outer.advance.eq(
                Mux(sound.entering.any(), sound.advance, 0)
            )
        },
        "input_limited_is_right": {
            "the end of a stream counts as missing input": lambda m, sound, outer: outer.limited.eq(
                sound.limited | sound.ends
            )
        },
        "protocol_error_is_right": {
            "only the first port's end counts": lambda m, sound, outer: [
                sound.last[port].eq(outer.last[0]) for port in range(outer.ports)
            ]
        },
        "idle_when_all_has_left": {
            "a stream that waits for its next steps is forgotten": lambda m, sound, outer: outer.empty.eq(
                sound.empty | (sound.starved & ~sound.entering.any())
            )
        },
        "nothing_is_taken_in_reset": {
            "steps are taken in reset": lambda m, sound, outer: outer.taken.eq(count(sound.entering))
        },
    },
    (Drain, None): {
        "a_beat_stays_until_it_is_taken": {
            "the output does not wait for `ready`": lambda m, sound, outer: sound.out.ready.eq(1)
        },
        "last_marks_the_final_beat": {
            "every beat is marked as the final one": lambda m, sound, outer: outer.out.payload.last.eq(1)
        },
        "frozen_only_while_results_leave": {"the block is never free": lambda m, sound, outer: outer.free.eq(0)},
        "frozen_for_less_than_a_block": {
            "the block is not free in the cycle in which it leaves": lambda m, sound, outer: outer.free.eq(
                sound.free & ~sound.moves
            )
        },
        "a_finished_block_is_offered": {
            "`valid` waits for `ready`": lambda m, sound, outer: outer.out.valid.eq(sound.out.valid & outer.out.ready)
        },
        "result_non_finite_is_right": {
            "waiting results raise the flag": lambda m, sound, outer: outer.non_finite.eq(
                sound.non_finite | sound.moves
            )
        },
        "idle_when_all_has_left": {
            "beats in the output registers are forgotten": lambda m, sound, outer: outer.empty.eq(sound.free)
        },
    },
    (Counters, None): {
        "cycles_is_right": {
            "a cycle counts only if it advances by more than one step": lambda m, sound, outer: sound.advance.eq(
                outer.advance & (outer.advance >> 1)
            )
        },
        "steps_is_right": {"a schedule counts as one step": lambda m, sound, outer: sound.advance.eq(outer.advance[0])},
        "effectual_is_right": {"one lane is not counted": lambda m, sound, outer: sound.selected[0].eq(0)},
        "stall_input_is_right": {
            "frozen cycles are counted as well": lambda m, sound, outer: sound.starved.eq(outer.starved | outer.frozen)
        },
        "stall_output_is_right": {
            "starved cycles are counted as well": lambda m, sound, outer: sound.frozen.eq(outer.starved | outer.frozen)
        },
        "row_wait_is_right": {
            "a row has the AS of the previous row": lambda m, sound, outer: sound.row_advance[1].eq(
                outer.row_advance[0]
            )
        },
    },
    (InitialStore, WITH_C): {
        "protocol_error_is_right": {"a wrong last of C is ignored": lambda m, sound, outer: outer.wrong_last.eq(0)},
        "idle_when_all_has_left": {"C that waits is forgotten": lambda m, sound, outer: outer.empty.eq(1)},
        "nothing_is_taken_in_reset": {
            "C is taken in reset": lambda m, sound, outer: outer.c.ready.eq(sound.c.ready | ResetSignal())
        },
        "c_is_ready_while_there_is_room": {
            "the store takes no C while a block is complete": lambda m, sound, outer: outer.c.ready.eq(
                sound.c.ready & ~sound.available
            )
        },
        "c_is_not_taken_without_room": {"C is always taken": lambda m, sound, outer: outer.c.ready.eq(1)},
        "c_waits_only_while_results_leave": {
            "C is taken only with a beat of results": lambda m, sound, outer: outer.c.ready.eq(
                sound.c.ready & outer.pop
            )
        },
    },
    (OperandFlags, None): {
        "non_finite_is_right": {"infinities and NaNs are ignored": lambda m, sound, outer: outer.non_finite.eq(0)},
    },
    (Control, RING): {
        "non_finite_is_right": {
            "a ring uses ages instead of lines": lambda m, sound, outer: outer.write.eq(sound.entering)
        },
        "entry_line_is_that_of_the_next_step": {
            "`entry_line` is the line of the oldest step": lambda m, sound, outer: outer.entry_line.eq(
                sound.motion.oldest
            )
        },
    },
    (OperandFlags, SCALED): {
        "non_finite_is_right": {"a NaN scale is ignored": lambda m, sound, outer: sound.scales.eq(0)},
    },
    (Flags, None): {
        "non_finite_is_right": {
            "operands raise the flag of results": lambda m, sound, outer: sound.raised.eq(
                Cat(outer.raised[0], outer.raised[3], outer.raised[2], outer.raised[1])
            )
        },
        "result_non_finite_is_right": {
            "results raise the flag of operands": lambda m, sound, outer: sound.raised.eq(
                (outer.raised | (outer.raised[3] << 1)) & 0b0111
            )
        },
        "overflow_is_right": {
            "an overflow is ignored in the cycle of an infinity or NaN": lambda m, sound, outer: sound.raised[2].eq(
                outer.raised[2] & ~outer.raised[1]
            )
        },
    },
    (Tile, None): {
        "idle_when_all_has_left": {"the tile is always idle": lambda m, sound, outer: outer.idle.eq(1)},
    },
    (OutputBuffer, BUFFERED): {
        "idle_when_all_has_left": {
            "beats in the output buffer are forgotten": lambda m, sound, outer: outer.empty.eq(1)
        },
    },
    (Snapshot, COPIED): {
        "copies_are_of_one_cycle": {
            "one counter is not copied": lambda m, sound, outer: outer.copied.stall_input.eq(0)
        },
        "copies_stay_until_the_next": {
            "a copy follows its counter": lambda m, sound, outer: outer.copied.steps.eq(outer.counted.steps)
        },
    },
}
"""By component and configuration, the faults that break each claim, by title."""

BROKEN_VARIANTS = tuple(
    variant
    for (kind, config), faults in FAULTS.items()
    for variant in make_variants(kind, faults, depth=12, config=config)
)
