"""Bench of the layout that drops steps: rebuild the streams from steps and indices, and compare them with golden's."""

from typing import Any

import cocotb
import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.descriptors import OPERATIONS, encode
from tensordash_sim.verify.job import current_job
from tensordash_sim.verify.pins import split
from tensordash_sim.verify.units import layout


class DroppingBench(layout.Bench):
    """Bench of the unit with a buffer in which most positions are zeros of either sign.

    Parameters
    ----------
    dut, label, ready, rate
        As in `layout.Bench`.
    """

    overhead = layout.Bench.overhead + 2

    def __init__(self, dut: Any, label: str, ready: float, rate: float) -> None:
        super().__init__(dut, label, ready, rate)
        noise, buffer = np.random.default_rng(self.random.getrandbits(32)), self.golden.buffer
        has_sign = self.config.tile.numerics.result != "int32"
        self.magnitude = (1 << self.config.value_bits - has_sign) - 1
        zeros = noise.integers(0, 1 + has_sign, buffer.shape) << self.config.value_bits - 1
        # Some positions have a single value with a single bit.
        single = zeros.copy()
        bits = 1 << noise.integers(0, self.config.value_bits - has_sign, buffer.shape[:2])
        channels = noise.integers(0, self.lanes, buffer.shape[:2])
        np.put_along_axis(single, channels[..., None], bits[..., None], axis=-1)
        kind = noise.random(buffer.shape[:2])[..., None]
        buffer[:] = np.where(kind < 0.75, zeros, np.where(kind < 0.9, single, buffer))
        shape = self.config.stream_words(self.side), self.depth
        self.steps = np.zeros((*shape, self.lanes, self.lanes), buffer.dtype)
        self.indices = np.zeros(shape, np.int64)
        self.lengths: dict[int, tuple[list[int], int]] = {}
        self.written: list[tuple[int, int]] = []
        self.dropped = 0

    def _write(self) -> None:
        """Collect the steps, indices and lengths of this cycle."""
        pins, words = self.pins, self.config.stream_words(self.side)
        banks = pins.read("write_bank")
        assert banks == pins.read("index_bank"), f"cycle {pins.cycle}: a step is written without its index"
        if banks:
            self._write_steps([bank for bank in range(self.depth) if banks >> bank & 1])
        if pins.read("index_ends"):
            begin, lengths, width = pins.read("index_begin"), pins.read("index_lengths"), words.bit_length()
            assert begin not in self.lengths, f"cycle {pins.cycle}: a stream's lengths are written again"
            counts = split(lengths & (1 << width * self.depth) - 1, width, self.depth)
            self.lengths[begin] = counts, lengths >> width * self.depth

    def _write_steps(self, banks: list[int]) -> None:
        """Collect the steps and indices of banks."""
        pins, config = self.pins, self.config
        bits = (config.stream_words(self.side) - 1).bit_length()
        at = split(pins.read("write_word"), bits, self.depth)
        index_at = split(pins.read("index_word"), bits, self.depth)
        indices = split(pins.read("index_index"), bits, self.depth)
        groups = split(pins.read("write_data"), config.group_bits, self.depth)
        for bank in banks:
            assert at[bank] == index_at[bank], f"cycle {pins.cycle}: word {at[bank]}, index at {index_at[bank]}"
            assert pins.read("write_part") >> bank & 1, f"cycle {pins.cycle}: no part of bank {bank} is written"
            self.written.append((at[bank], bank))
            values = np.array(split(groups[bank], config.value_bits, self.lanes**2))
            self.steps[at[bank], bank] = values.reshape(self.lanes, self.lanes)
            self.indices[at[bank], bank] = indices[bank]

    async def run(self, values: dict[str, int]) -> None:
        """Execute a descriptor as in `layout.Bench`."""
        self.lengths, self.written = {}, []
        await super().run(values)

    def _same(self, found: NDArray, expected: NDArray, values: dict[str, int]) -> None:
        """Rebuild the streams that were written, and compare them with golden's, whose empty steps are cleared."""
        words = -(-values["steps"] // self.depth)
        if values["base"] + values["streams"] * words > self.config.stream_words(self.side):
            assert all(word >= values["base"] for word, _ in self.written), f"words before the base: {values}"
            return
        begins = [values["base"] + k * words for k in range(values["streams"])]
        assert sorted(self.lengths) == begins, f"lengths at {sorted(self.lengths)}, not {begins}: {values}"
        places = [
            (begin + word, bank)
            for begin in begins
            for bank, count in enumerate(self.lengths[begin][0])
            for word in range(count)
        ]
        assert sorted(self.written) == sorted(places), f"words {sorted(self.written)} are written: {values}"
        for begin in begins:
            stream = slice(self.depth * begin, self.depth * (begin + words))
            expected[stream][~(expected[stream] & self.magnitude).any(axis=(1, 2))] = 0
            found[stream] = 0
            counts, more = self.lengths[begin]
            assert more == max(max(counts) - 1, 0), f"{more + 1} words, but the banks have {counts}: {values}"
            for bank, count in enumerate(counts):
                indices = self.indices[begin : begin + count, bank]
                assert (np.diff(indices) > 0).all(), f"bank {bank} at {begin}: indices {indices}: {values}"
                found[self.depth * (begin + indices) + bank] = self.steps[begin : begin + count, bank]
            effectual = int(np.count_nonzero((expected[stream] & self.magnitude).any(axis=(1, 2))))
            assert sum(counts) == effectual, f"{sum(counts)} steps are kept, not {effectual}: {values}"
            self.dropped += values["steps"] - effectual
        super()._same(found, expected, values)

    def _collide(self, values: dict[str, int], group: int) -> bool:
        """Return whether a group and the next one belong to different streams."""
        return (group + 1) % values["steps"] == 0


@cocotb.test()
@cocotb.parametrize(ready=[1.0, 0.5], rate=[1.0, 0.6])
async def random_layouts(dut, ready: float, rate: float) -> None:
    """Execute descriptors of all kinds in sequence, and reset within some."""
    bench = DroppingBench(dut, f"dropping {ready} {rate}", ready, rate)
    await bench.begin()
    for number in range(round(60 * max(current_job().effort, 0.1))):
        values = layout.drawn(bench)
        if number % 8 == 5:
            bench.lengths = {}  # a layout that is reset may write lengths again
            bench.beats.give(encode(OPERATIONS["layout_b"], values))
            for _ in range(bench.random.randrange(1, 40)):
                if await bench.cycle() is not None:
                    break
            await bench.cycle(reset=True)
        else:
            await bench.run(values)
    assert bench.dropped > 0


@cocotb.test()
async def longest_streams(dut) -> None:
    """Lay out a stream of all words: without zeros, with zeros only, and with one bank that has values."""
    bench = DroppingBench(dut, "longest", 1.0, 1.0)
    await bench.begin()
    names = [f"{name}_{k}" for name in ("address", "x", "y") for k in range(layout.LOOPS)]
    usual = dict.fromkeys((*names, "address", "x", "y", "base", "checked", "transposed"), 0)
    usual |= {f"count_{k}": 1 for k in range(layout.LOOPS - 1)} | {"streams": 1, "stride": 1, "x_size": bench.lanes}
    words, depth = bench.config.stream_words("b"), bench.depth
    # The outermost loop returns to the first group after each word.
    usual |= {"address_0": 1, "count_0": depth, "address_5": 1 - depth, "steps": depth * words}
    for banks in (range(depth), (), *([bank] for bank in range(depth))):
        bench.golden.buffer[:] = 0
        for bank in banks:
            bench.golden.buffer[bank, -1, -1] = 1
        await bench.run(usual)
        assert bench.lengths[0][0] == [words * (bank in banks) for bank in range(depth)]
