"""Bench that runs programs in sequence on a core's Verilog and on the golden core, and compares after each."""

from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random

import numpy as np

from tensordash.configuration.descriptors import BITS, BYTES, decode
from tensordash.configuration.registers import COUNTERS

from ..golden.core.golden_core import GoldenCore, Memory, Outcome
from .programs.expected_outcome import BUFFER_IMAGE, fill_program
from .verilated_core import VerilatedCore

__all__ = ["FILLED", "MAX_CYCLES", "MIDDLE", "SIZE", "ProgramBench"]

SIZE = 1 << 22
"""Bytes of memory. The address in its middle is a power of two, so incrementing an address to it carries far."""
MIDDLE = SIZE // 2
RING = 0x1000
LOG2_PLACES = 11
FILLED = 0x30000
"""Base offset of the fill program's data in memory; the buffer's image is at `BUFFER_IMAGE` from there."""
MAX_CYCLES = 2_000_000
"""Cycles after which a program is taken to hang."""


class ProgramBench:
    """A core and the golden core; both keep their state from one program to the next.

    Parameters
    ----------
    device : VerilatedCore
        The core, with `SIZE` bytes of memory.
    random : Random
        Source of all random decisions.
    """

    def __init__(self, device: VerilatedCore, random: Random) -> None:
        self.device, self.config, self.random = device, device.config, random
        self.base, self.middle = device.base, device.base + MIDDLE
        self.golden = GoldenCore(self.config, Memory(SIZE, self.base, line=self.config.axi_bits // 8))
        self.golden.memory.bytes[:] = np.random.default_rng(random.getrandbits(32)).bytes(SIZE)
        if self.config.skip_masked:  # Half of the groups that the buffer is filled with are zeros, as masks.
            size = self.config.groups * self.config.group_bytes
            data = np.frombuffer(self.golden.memory.bytes, np.uint8)[FILLED + BUFFER_IMAGE :][:size]
            data.reshape(self.config.groups, -1)[random.getrandbits(1) :: 2] = 0
        self.ring, self.log2_places = self.base + RING, LOG2_PLACES
        self.tail = 0
        self.counted: Counter[str] = Counter()
        self.cleared = 0  # the cycle in which the counters were cleared last

    # Running

    def restart(self, ring: int | None = None, log2_places: int = LOG2_PLACES) -> None:
        """Issue a soft reset, and set up a ring."""
        self.device.reset()
        assert self.device.idle, "a burst was left without its end"
        self.golden.counts = type(self.golden.counts)()
        self.ring = self.base + RING if ring is None else ring
        self.tail, self.log2_places, self.counted = 0, log2_places, Counter()
        self.device.begin(self.ring, 0, size=log2_places, causes=3)
        self.cleared = self.device.cycle

    def fill(self) -> None:
        """Fill all of the core's memories."""
        self.restart()
        self.run(fill_program(self.config, self.base + FILLED), "fill")

    def start(self, descriptors: Sequence[int]) -> None:
        """Append descriptors to the ring, and start them."""
        device, places = self.device, 1 << self.log2_places
        device.memory[:] = np.frombuffer(self.golden.memory.bytes, np.uint8)
        for bits in descriptors:
            device.put([bits], self.ring + BYTES * (self.tail % places))
            self.tail += 1
        device.write("cause", 3)
        device.silence("")
        device.write("tail", self.tail)

    def run(self, descriptors: Sequence[int], title: str) -> Outcome:
        """Run a program that ends with an `end` or an error, and compare what is defined.

        Raises
        ------
        AssertionError
            If the core differs from golden.
        """
        device, before = self.device, self.tail
        self.start(descriptors)
        steps = self.golden.steps
        wanted = self.golden.run(descriptors)
        assert device.wait(MAX_CYCLES), f"{title}: no interrupt in {MAX_CYCLES} cycles"
        got = device.outcome()
        assert (got.done, got.error) == (before + wanted.done, wanted.error), f"{title}: {got}, golden: {wanted}"
        if wanted.error:
            assert got.index == before + wanted.index, f"{title}: {got}, golden: {wanted}"
            return wanted
        assert device.read("head") == self.tail, f"{title}: head is {device.read('head')}, not {self.tail}"
        assert device.read("cause") == 1, f"{title}: cause is {device.read('cause')}"
        self._same_memory(title)
        self.counted["steps"] += self.golden.steps - steps
        self._count(descriptors, title)
        return wanted

    def _same_memory(self, title: str) -> None:
        ours, theirs = self.device.memory, np.frombuffer(self.golden.memory.bytes, np.uint8)
        wrong = np.flatnonzero(ours != theirs)
        begin, end = self.ring - self.base, self.ring - self.base + (BYTES << self.log2_places)
        wrong = wrong[(wrong < begin) | (wrong >= end)]
        assert not len(wrong), f"{title}: byte {self.base + int(wrong[0]):#x} differs, and {len(wrong) - 1} others"

    def _count(self, descriptors: Sequence[int], title: str) -> None:
        """Compare counters with the bus's beats and the tile's steps; clear them in half of the calls."""
        device, moved = self.device, self.device.moved
        self.counted["read_beats"] += moved["r"] - len(descriptors) * BITS // self.config.axi_bits
        self.counted["write_beats"] += moved["w"]
        clears = self.random.random() < 0.5
        device.write("snapshot", 3 if clears else 1)
        got = {name: device.read(name) for name, _ in COUNTERS}
        wanted = {name: self.counted[name] for name in ("read_beats", "write_beats", "steps")}
        assert {name: got[name] for name in wanted} == wanted, f"{title}: counters {got}, expected {wanted}"
        cycles = device.cycle - self.cleared
        assert cycles - 1000 < got["cycles"] <= cycles, f"{title}: {got['cycles']} cycles of {cycles}"
        assert all(got[name] <= cycles for name in got if name not in (*wanted, "effectual")), f"{title}: {got}"
        assert got["scheduled"] <= got["multiplying"] or not wanted["steps"], f"{title}: {got}"
        self._see_idle(got, descriptors, title)
        if clears:
            self.counted, self.cleared = Counter(), device.cycle - 500

    def _see_idle(self, got: Mapping[str, int], descriptors: Sequence[int], title: str) -> None:
        """Check that the counters of units without a descriptor since the last clear are 0."""
        for operation in (decode(bits)[0] for bits in descriptors):
            if operation is not None and operation.unit:
                self.counted[f"{operation.unit}_busy"] += 1
        multiplies, steps = self.counted["multiply_busy"], self.counted["steps"]
        for unit in ("load", "layout_a", "layout_b", "store"):
            busy, wanted = got[f"{unit}_busy"] > 0, self.counted[f"{unit}_busy"] > 0
            assert busy == wanted, f"{title}: {unit} is counted busy for {got[f'{unit}_busy']} cycles"
        for name, done in (("multiplying", multiplies), ("output_busy", multiplies), ("scheduled", steps)):
            assert (got[name] > 0) == (done > 0), f"{title}: {name} is {got[name]} after {multiplies} multiplies"
        if not multiplies:
            assert got["stall_output"] == 0, f"{title}: stall_output is {got['stall_output']} without a multiply"
            assert got["stall_input"] == got["cycles"], f"{title}: the tile waits for {got['stall_input']} cycles"
