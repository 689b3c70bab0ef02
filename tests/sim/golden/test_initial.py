"""Compare the C input cycle by cycle with traces by hand from docs/tile.md, and test its checks."""

import numpy as np
import pytest

from tensordash import TileConfig
from tensordash_sim.golden import Beat, InitialStore, Offer, Producer, Tile

ONE, F1, F2, F3 = 0x3C00, 0x3F800000, 0x40000000, 0x40400000


def tile_of(**settings) -> Tile:
    return Tile(TileConfig(**{"rows": 1, "columns": 1, "pipeline": 2, "initial": True, **settings}))


def beat(value: int, last: bool = True) -> Beat:
    return Beat(((value,),), last)


def flag_string(flags) -> str:
    return "".join("01"[flag] for flag in flags)


class Run:
    """Run a one-column tile on streams of ones with `lengths` steps. C's `beats` arrive one per cycle from `start`."""

    def __init__(self, tile: Tile, lengths, beats, start=0, cycles=16, stall=(), one=ONE) -> None:
        config = tile.config
        streams = [[[one] * config.lanes] * steps for steps in lengths]
        ports = [Producer(streams) for _ in range(1 + config.rows)]
        self.outputs = []
        left = list(beats)
        for cycle in range(cycles):
            offers = [port.offer(config.window_depth) for port in ports]
            c = left[0] if left and cycle >= start else None
            seen = tile.cycle(offers[:1], offers[1:], cycle not in stall, c=c)
            for port in ports:
                port.take(seen.taken)
            if c is not None and seen.c_ready:
                left.pop(0)
            self.outputs.append(seen)
        self.left = len(left)
        taken = [seen.out for cycle, seen in enumerate(self.outputs) if seen.out is not None and cycle not in stall]
        self.results = [int(value) for out in taken for row in out.values for value in row]

    def __getattr__(self, name):
        if name == "schedules":
            return flag_string(seen.schedule_made for seen in self.outputs)
        return flag_string(getattr(seen, name) for seen in self.outputs)


# When streams start


@pytest.mark.parametrize("accumulator", ["exact", "volta"])
def test_a_stream_waits_for_its_block_of_c(accumulator):
    """The step is in the window from cycle 1; the second beat of C enters in cycle 5."""
    tile = tile_of(rows=2, accumulator=accumulator)
    run = Run(tile, [1], [beat(F1, False), beat(F2)], start=4, cycles=12)
    assert run.schedules == "000000100000"
    # The sum is accumulated in cycle 7 and in the block in 8. An exact accumulator's sum register takes a cycle more.
    assert run.out_valid == ("000000000011" if accumulator == "exact" else "000000000110")
    assert [np.uint32(bits).view(np.float32) for bits in run.results] == [5.0, 6.0]
    assert [seen.counters.stall_input for seen in run.outputs][:8] == [0, 1, 2, 3, 4, 5, 6, 6]
    assert not any(seen.protocol_error for seen in run.outputs)


def test_c_may_come_before_the_steps():
    tile = tile_of(rows=2)
    for cycle in range(6):
        seen = tile.cycle([Offer()], [Offer()] * 2, True, c=beat(F1, last=cycle % 2 == 1))
        # The store holds only two blocks.
        assert seen.c_ready == (cycle < 4)
    run = Run(tile, [1, 1, 1], [], cycles=16)
    assert run.schedules == "0110" + "0" * 12
    assert len(run.results) == 4
    # In cycle 3 the second sum is due while the first block has two beats left.
    assert (tile.counters.stall_input, tile.counters.stall_output) == (6 + 13, 1)


def test_only_the_first_schedule_of_a_stream_waits():
    """Two streams of three steps and one block of C: the first runs, the second waits."""
    run = Run(tile_of(), [3, 3], [beat(F1)])
    assert run.schedules == "0111" + "0" * 12
    assert run.results == [0x41500000]  # 13


def test_a_block_that_completes_while_one_is_started():
    """A block has one beat: in cycle 1 the first block starts a stream and the second completes."""
    run = Run(tile_of(sparsity="none"), [1, 1], [beat(F1), beat(F2)], cycles=8)
    assert run.schedules == "01100000"


# Room in the store


def test_room_of_an_exact_accumulator():
    """Streams have one step, blocks one beat, and the store room for two blocks.

    In cycle 1, stream 1 is scheduled and C's block 2 enters. In 2, stream 2 is scheduled and stream 1 is accumulated.
    In 3, stream 1 leaves with its C, so that block 3 enters in 4. In 5, stream 3 is scheduled and block 4 enters.
    """
    run = Run(tile_of(), [1] * 6, [beat(bits) for bits in (F1, F2, F3) * 2], cycles=16)
    assert run.c_ready == "1100110011001111"
    assert run.schedules == "0110011001100000"
    assert run.out_valid == "0000011001100110"
    assert [float(np.uint32(bits).view(np.float32)) for bits in run.results] == [5, 6, 7, 5, 6, 7]


def test_room_of_a_fused_accumulator():
    """The first accumulation takes C's block: scheduled in cycle 1, accumulated in 2, room in 3."""
    run = Run(tile_of(accumulator="volta"), [1] * 3, [beat(F1), beat(F2), beat(F3)], cycles=12)
    assert run.c_ready == "100100100111"
    assert run.schedules == "010010010000"
    assert run.out_valid == "000010010010"
    # A stream of several schedules keeps C no longer.
    run = Run(tile_of(accumulator="volta"), [3] * 2, [beat(F1), beat(F2)], cycles=12)
    assert run.c_ready == "100100111111"
    assert run.schedules == "011111100000"
    assert [float(np.uint32(bits).view(np.float32)) for bits in run.results] == [13, 14]


def test_room_of_a_fused_accumulator_without_latency():
    run = Run(tile_of(accumulator="volta", pipeline=1), [1] * 3, [beat(F1), beat(F2), beat(F3)], cycles=10)
    assert run.c_ready == "1010101111"
    assert run.schedules == "0101010000"
    assert run.results == [0x40A00000, 0x40C00000, 0x40E00000]


@pytest.mark.parametrize("sparsity", ["rows", "none"])
@pytest.mark.parametrize("rows", [1, 2, 4])
@pytest.mark.parametrize(("accumulator", "kind"), [("exact", "fp16"), ("exact", "int8"), ("hopper", "fp16")])
def test_the_shortest_streams_without_a_bubble(sparsity, rows, accumulator, kind):
    """These streams take `beats + latency + 1` cycles."""
    for pipeline in (1, 2, 3):
        enough = rows + pipeline
        for length in (enough - 1, enough):
            tile = tile_of(rows=rows, pipeline=pipeline, sparsity=sparsity, accumulator=accumulator, format=kind)
            c = [beat(0, last=index % rows == rows - 1) for index in range(8 * rows)]
            run = Run(tile, [length] * 8, c, cycles=16 * enough, one=1 if kind == "int8" else ONE)
            schedules = run.schedules.strip("0")
            assert schedules.count("1") == 8 * length
            assert ("0" in schedules) == (length < enough)


def test_a_blocked_output_holds_c_back():
    """Output register, sum register and block each hold a result. The fourth is due and frozen.

    The first two results have taken their C. The store holds C of the third and fourth, so that a fifth cannot enter.
    """
    tile = tile_of()
    run = Run(tile, [1] * 6, [beat(F1)] * 6, cycles=40, stall=range(20))
    assert run.schedules[:20].count("1") == 4
    assert run.outputs[19].frozen
    assert not run.outputs[19].c_ready
    assert len(run.results) == 6
    assert run.left == 0


def test_no_sum_register_for_integers():
    """Output register and block each hold a result. The third is frozen."""
    tile = tile_of(format="int8")
    run = Run(tile, [1] * 6, [beat(1)] * 6, cycles=40, stall=range(20), one=1)
    assert run.schedules[:20].count("1") == 3
    assert run.results == [5] * 6


@pytest.mark.parametrize(
    ("settings", "extra"),
    [({}, 1), ({"format": "int8"}, 0), ({"accumulator": "volta"}, 0), ({"format": "fp8_e5m2"}, 1)],
)
@pytest.mark.parametrize("pipeline", [1, 2, 3])
def test_latency_of_results(settings, extra, pipeline):
    """C enters in cycle 0, the schedule follows in 1, and the sum `latency` later. Block and registers add cycles."""
    run = Run(tile_of(pipeline=pipeline, **settings), [1], [beat(0)], cycles=10, one=1)
    assert run.out_valid.index("1") == 1 + (pipeline - 1) + 2 + extra


# Flags


@pytest.mark.parametrize(
    ("lasts", "flag"),
    [((False, True), "0000"), ((True, True), "0111"), ((True, False), "0111"), ((False, False), "0011")],
)
def test_block_of_c_with_last_at_the_wrong_beat(lasts, flag):
    """The flag is visible a cycle later. The block ends by the count of beats."""
    run = Run(tile_of(rows=2), [1], [beat(F1, lasts[0]), beat(F2, lasts[1])], cycles=4)
    assert run.protocol_error == flag
    assert run.schedules == "0010"


def test_refused_beat_of_c_sets_no_flag():
    tile = tile_of(accumulator="ampere")
    nan = beat(0x7F800001, last=False)
    seen = [tile.cycle([Offer()], [Offer()], True, c=one) for one in (beat(F1), nan, nan)]
    assert [one.c_ready for one in seen] == [True, False, False]
    assert not tile.protocol_error
    assert not tile.non_finite


@pytest.mark.parametrize(("bits", "set_by"), [(0x7F800000, True), (0xFFC00001, True), (0x7F7FFFFF, False), (0, False)])
def test_c_that_is_not_finite(bits, set_by):
    run = Run(tile_of(), [], [beat(bits)], cycles=3)
    assert run.non_finite == ("011" if set_by else "000")
    # For int8 the same bits are an integer.
    assert Run(tile_of(format="int8"), [], [beat(bits)], cycles=3).non_finite == "000"


def test_overflow_of_c_plus_sum():
    """The sum is scheduled in cycle 1, accumulated in 2, leaves the block in 3, and sets the flag in 4."""
    run = Run(tile_of(format="int8"), [1], [beat(0x7FFFFFFC)], cycles=8, one=1)
    assert run.overflow == "00001111"
    assert run.results == [0x80000000]
    # With two beats, the second's overflow is visible a cycle later, or when the beat leaves.
    beats = [beat(0x7FFFFFFB, False), beat(0x7FFFFFFC)]
    assert Run(tile_of(format="int8", rows=2), [1], beats, cycles=9, one=1).overflow == "000000111"
    assert Run(tile_of(format="int8", rows=2), [1], beats, cycles=12, one=1, stall=range(8)).overflow == "0" * 9 + "111"


def test_clear_has_priority_over_c():
    tile = tile_of(rows=2)
    tile.cycle([Offer()], [Offer()] * 2, True, clear=True, c=beat(0x7FC00000, last=True))
    assert not tile.protocol_error
    assert not tile.non_finite
    # `clear` does not drop the beat.
    tile.cycle([Offer()], [Offer()] * 2, True, c=beat(F1))
    assert tile.datapath.initial is not None
    assert tile.datapath.initial.blocks == 1


def test_reset_empties_the_store():
    """Reset drops half a block, a complete block and a started stream."""
    for accumulator in ("exact", "volta"):
        for before in range(8):
            tile = tile_of(rows=2, accumulator=accumulator)
            Run(tile, [5, 5], [beat(F3, last=index % 2 == 1) for index in range(4)], cycles=before)
            tile.reset()
            run = Run(tile, [1, 1], [beat(F1, False), beat(F2)], cycles=12)
            assert run.schedules == "001000000000"
            assert [float(np.uint32(bits).view(np.float32)) for bits in run.results] == [5, 6]
            assert not tile.protocol_error


# Errors


def test_c_for_a_tile_without_c():
    tile = Tile(TileConfig(rows=1, columns=1))
    with pytest.raises(
        ValueError, match=r"c must be None, since the tile has no C input \(initial = false\), not Beat"
    ):
        tile.cycle([Offer()], [Offer()], True, c=beat(0))
    assert not tile.cycle([Offer()], [Offer()], True).c_ready


def test_beats_of_another_shape():
    store = InitialStore(TileConfig(rows=4, columns=2, out_rows=2, initial=True))
    store.check(Beat(((1, 2), (3, 4)), last=False))
    for values in (((1, 2),), ((1, 2), (3,))):
        with pytest.raises(ValueError, match="c must be a beat of out_rows=2 rows of columns=2 values, not Beat"):
            store.check(Beat(values, last=False))
    with pytest.raises(ValueError, match="out_rows=1 rows of columns=1 values"):
        tile_of().cycle([Offer()], [Offer()], True, c=Beat(((1, 2),), last=True))
