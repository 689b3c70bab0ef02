"""Bench of the multiply that reads by indices: the bench of `skipping_multiply`, with random indices and lengths."""

from typing import Any

import cocotb

from tensordash_sim.verify.job import current_job
from tensordash_sim.verify.stimulus import packed
from tensordash_sim.verify.units.skipping_multiply import SkippingBench, drawn, run_drawn


class IndexedBench(SkippingBench):
    """Bench of the unit with a model of the step index, whose contents are drawn for each descriptor.

    Parameters
    ----------
    dut, label, taking, rate, written, stall, hold
        As in `SkippingBench`.
    """

    first_wait = 6

    def __init__(
        self, dut: Any, label: str, taking: str, rate: float, written: float, stall: float, hold: float
    ) -> None:
        super().__init__(dut, label, taking, rate, written, stall, hold)
        words = self.words["b"]
        self.bits = {side: (count - 1).bit_length() for side, count in self.words.items()}
        self.indices = [[0] * self.depth for _ in range(words)]
        self.counts = [[0] * self.depth for _ in range(words)]
        self.shown_index = packed([0] * self.depth, self.bits["b"])
        self.shown_lengths = 0
        self.draws = True  # new indices for each descriptor
        self.empty = [0] * self.depth
        self.idle |= {"index_index": 0, "index_lengths": 0}

    def prepare(self, values: dict[str, int]) -> None:
        """Draw the indices, and the lengths of a stream at each word, up to a stream's words."""
        if not self.draws:
            return
        random, words = self.random, super().pass_words(values, 0)
        most = random.choice([0, 1, words, words, random.randint(0, words)])
        for word in range(self.words["b"]):
            self.indices[word] = [random.randrange(words) for _ in range(self.depth)]
            self.counts[word] = [random.choice([0, most, random.randint(0, most)]) for _ in range(self.depth)]

    async def cycle(self, *, reset: bool = False) -> tuple[int, int, int | None]:
        """Run one cycle. Without a read, the step index shows what was read last."""
        self.pins.drive(index_index=self.shown_index, index_lengths=self.shown_lengths)
        return await super().cycle(reset=reset)

    def serve(self) -> None:
        """Serve all ports in this cycle."""
        super().serve()
        pins = self.pins
        # What the banks show in this cycle, which `run` checks after the cycle.
        self.empty = [pins.read("empty") >> bank & 1 for bank in range(self.depth)]
        if pins.read("index_enable"):
            word = pins.read("index_word")
            self.shown_index = packed(self.indices[word], self.bits["b"])
            if pins.read("index_begins"):
                counts = self.counts[word]
                lengths = packed(counts, self.words["b"].bit_length())
                more = max(max(counts) - 1, 0)
                self.shown_lengths = lengths | more << self.depth * self.words["b"].bit_length()

    def _begin(self, values: dict[str, int], side: str, stream: int) -> int:
        """Return the first word of a stream; 0 if it is partly beyond the end."""
        words = super().pass_words(values, 0)
        begin = values[f"{side}_base"] + stream * words
        return begin if begin + words <= self.words[side] else 0

    def pass_words(self, values: dict[str, int], row: int) -> int:
        """Return the words of the longest bank, at least one."""
        return max(1, *self.counts[self._begin(values, "b", row)])

    def wanted(self, values: dict[str, int], streams: tuple[int, int], bank: int, word: int) -> dict[str, int]:
        """Return the words that a bank should show, and check whether it shows a step."""
        row, column = streams
        begin = self._begin(values, "b", row)
        empty = word >= self.counts[begin][bank]
        assert self.empty[bank] == empty, f"bank {bank}, word {word} of pass {streams}: empty is {self.empty[bank]}"
        index = 0 if empty else self.indices[begin + word][bank]
        return {"a": self._begin(values, "a", column) + index, "b": begin + word}


@cocotb.test()
@cocotb.parametrize(taking=["all", "one", "any"], stall=[0.0, 0.4])
async def random_indices(dut, taking: str, stall: float) -> None:
    """Execute descriptors in sequence, and reset within some; with stalls, banks are also written."""
    bench = IndexedBench(dut, f"{taking} {stall}", taking, 1.0 - stall, stall / 2, stall, stall)
    await run_drawn(bench, round(80 * max(current_job().effort, 0.1)))


@cocotb.test()
async def longest_streams(dut) -> None:
    """Multiply streams that fill the stream buffers, with a step in every word of one bank."""
    bench = IndexedBench(dut, "longest", "all", 1.0, 0.0, 0.0, 0.0)
    bench.draws = False
    words = min(bench.words.values())
    for bank in range(bench.depth):
        bench.counts[0] = [words * (each == bank) for each in range(bench.depth)]
        bench.indices = [[(word + each) % words for each in range(bench.depth)] for word in range(bench.words["b"])]
        await bench.begin()
        values = drawn(bench) | {"skip_masked": 0, "steps": words * bench.depth}
        await bench.run(values | {f"{side}_{name}": name == "streams" for side in "ab" for name in ("base", "streams")})
