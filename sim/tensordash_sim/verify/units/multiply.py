"""Bench of multiply: check each bank's word in every cycle, with a tile that accepts random numbers of steps."""

from typing import Any

import cocotb

from tensordash.configuration.descriptors import OPERATIONS, encode
from tensordash.configuration.registers import ERRORS
from tensordash_sim.verify.bench import start_bench
from tensordash_sim.verify.job import current_job
from tensordash_sim.verify.pins import split
from tensordash_sim.verify.units.beats import Beats

SIDES = "ab"


class Bench:
    """Bench of multiply, with a model of the stream buffers' addresses and ready signals, and of a tile.

    Parameters
    ----------
    dut : handle
        The unit.
    label : str
        Label of the random source.
    taking : str
        Number of offered steps that the tile accepts: "all", "one" or "any".
    rate : float
        Probability per cycle that a beat is offered.
    written : float
        Probability per cycle that a bank is written and cannot be read.
    """

    def __init__(self, dut: Any, label: str, taking: str, rate: float, written: float) -> None:
        job, self.random, self.pins = start_bench(dut, f"multiply {label}")
        self.config, self.taking, self.written = job.config, taking, written
        self.beats = Beats(self.pins, self.random, rate)
        self.depth = self.config.tile.window_depth
        self.words = {side: self.config.stream_words(side) for side in SIDES}
        self.shown: dict[str, list[int | None]] = {}
        self.waited = 0  # cycles in which a late bank reduced the offered steps
        self.idle = {"taken": 0, "command_descriptor_valid": 0, "a_read_ready": 0, "b_read_ready": 0}
        self.forget()

    def forget(self) -> None:
        """Mark the banks' outputs as stale."""
        self.shown = {side: [None] * self.depth for side in SIDES}
        self.reads = {side: [0] * self.depth for side in SIDES}
        self.late = dict.fromkeys(SIDES, 0)  # banks that could not read in the previous cycle

    async def begin(self) -> None:
        self.beats.drive()
        await self.pins.reset(**self.idle)

    async def cycle(self, *, reset: bool = False) -> tuple[int, int, int | None]:
        """Run one cycle; return the number of offered steps, `last`, and the error if the descriptor is done."""
        pins, random = self.pins, self.random
        self.beats.drive()
        ready = {side: sum((random.random() >= self.written) << k for k in range(self.depth)) for side in SIDES}
        pins.drive(taken=0, rst=int(reset), **{f"{side}_read_ready": banks for side, banks in ready.items()})
        await pins.settle()
        available, last = pins.read("available"), pins.read("last")
        self.took = {
            "all": available,
            "one": min(available, 1),
            "any": random.randrange(available + 1) if random.random() < 0.7 else 0,
        }[self.taking]
        if reset:
            self.took = 0  # A tile accepts no steps in reset.
        pins.drive(taken=self.took)
        await pins.settle()
        assert (available, last) == (pins.read("available"), pins.read("last")), "available depends on taken"
        self.before = {side: list(words) for side, words in self.shown.items()}
        self.shut = self.late["a"] | self.late["b"]
        for side in SIDES:
            enable = pins.read(f"{side}_read_enable")
            assert not self.late[side] & ~enable, f"cycle {pins.cycle}: a waiting read of side {side} is dropped"
            self.late[side] = enable & ~ready[side]
            if not enable:
                continue
            bits = (self.words[side] - 1).bit_length()
            for bank, address in enumerate(split(pins.read(f"{side}_read_address"), bits, self.depth)):
                if enable & ready[side] & 1 << bank:
                    self.reads[side][bank] += 1
                    assert address < self.words[side], f"cycle {pins.cycle}: word {address} of side {side} is read"
                    self.shown[side][bank] = address
        done = self.beats.finish()
        self.serve()
        await pins.tick()
        if reset:
            self.beats.drop()
            self.forget()
        return available, last, done

    async def run(self, values: dict[str, int]) -> None:
        """Execute a descriptor, and check that each step of each pass is offered once, in order."""
        self.reads = {side: [0] * self.depth for side in SIDES}
        self.prepare(values)
        value = await self._offered_value(values)
        words = -(-values["steps"] // self.depth)
        passes = self.passes(values)
        beyond = any(values[f"{side}_base"] + values[f"{side}_streams"] * words > self.words[side] for side in SIDES)
        while self.pins.cycle < value + 2:
            assert (await self.cycle())[0] == 0, f"steps too early: {values}"
        for p, q in passes:
            step, steps = 0, self.pass_words(values, p) * self.depth
            while step < steps:
                available, last, done = await self.offered(step)
                where = f"cycle {self.pins.cycle - 1}, pass {p} {q}, step {step} of {values}"
                left = steps - step
                assert done is None, f"{where}: done too early"
                shown = next((k for k in range(self.depth) if self.shut >> (step + k) % self.depth & 1), self.depth)
                assert available == min(left, shown), f"{where}: {available} steps are offered"
                assert last == (available == left), f"{where}: last is {last}"
                self.waited += shown < min(left, self.depth)
                for k in range(0 if beyond else available):
                    bank, word = (step + k) % self.depth, (step + k) // self.depth
                    expected = self.wanted(values, (p, q), bank, word)
                    found = {side: self.before[side][bank] for side in SIDES}
                    assert found == expected, f"{where}: bank {bank} shows words {found}, not {expected}"
                step += self.took
        available, _, error = await self.ended()
        assert (available, error) == (0, ERRORS["range"] * beyond), f"error {error} at the end of {values}"
        one_read = [sum(self.pass_words(values, p) for p, _ in passes)] * self.depth
        assert self.reads == dict.fromkeys(SIDES, one_read), f"{self.reads} words are read, not {one_read}: {values}"

    async def run_until_reset(self, values: dict[str, int], most: int) -> None:
        """Begin a descriptor, and reset after fewer than `most` cycles or when it is done."""
        self.prepare(values)
        self.beats.give(encode(OPERATIONS["multiply"], values))
        for _ in range(self.random.randrange(1, most)):
            if (await self.cycle())[2] is not None:
                break
        await self.cycle(reset=True)

    def prepare(self, values: dict[str, int]) -> None:
        """Prepare other ports for a descriptor."""

    def serve(self) -> None:
        """Serve other ports in this cycle."""

    def passes(self, values: dict[str, int]) -> list[tuple[int, int]]:
        """Return the streams of sides B and A of each pass."""
        return [(p, q) for p in range(values["b_streams"]) for q in range(values["a_streams"])]

    def pass_words(self, values: dict[str, int], row: int) -> int:
        """Return the words of a pass with a stream of side B."""
        return -(-values["steps"] // self.depth)

    def wanted(self, values: dict[str, int], streams: tuple[int, int], bank: int, word: int) -> dict[str, int]:
        """Return the words that a bank of each side should show for a word of a pass."""
        words = -(-values["steps"] // self.depth)
        row, column = streams
        return {"a": values["a_base"] + column * words + word, "b": values["b_base"] + row * words + word}

    async def offered(self, step: int) -> tuple[int, int, int | None]:
        """Run the cycle in which steps from `step` on are offered, unless its bank is late."""
        return await self.cycle()

    async def ended(self) -> tuple[int, int, int | None]:
        """Run the cycle after the last step."""
        return await self.cycle()

    async def _offered_value(self, values: dict[str, int]) -> int:
        """Send the descriptor; return the cycle in which the unit accepted its last beat."""
        self.beats.give(encode(OPERATIONS["multiply"], values))
        while self.beats.completed_in is None:
            available, _, done = await self.cycle()
            assert not available, f"{available} steps are offered without a descriptor"
            assert done is None
        return self.beats.completed_in


def drawn(bench: Bench) -> dict[str, int]:
    """Return a random descriptor, mostly with streams that fit the stream buffers."""
    random, depth = bench.random, bench.depth
    most = min(bench.words.values())
    words = random.choice([1, 1, 2, 3, random.randrange(1, most + 1)])
    words = min(words, most)
    values = {"steps": random.randrange((words - 1) * depth + 1, words * depth + 1)}
    for side in SIDES:
        streams = random.randrange(1, min(bench.words[side] // words, 3) + 1)
        room = bench.words[side] - streams * words
        values |= {f"{side}_streams": streams, f"{side}_base": random.choice([0, room, random.randrange(room + 1)])}
    if random.random() < 0.3:
        side = random.choice(SIDES)
        room = bench.words[side] - values[f"{side}_streams"] * words
        values[f"{side}_base"] = random.choice(
            [room + 1, bench.words[side], 0xFFFF, values[f"{side}_base"] | 1 << random.randrange(10, 16)]
        )
    # The unit ignores these fields.
    values |= {"address": random.getrandbits(16), "partial": random.getrandbits(8), "emit": random.getrandbits(1)}
    return values


@cocotb.test()
@cocotb.parametrize(taking=["all", "one", "any"], rate=[1.0, 0.6])
async def random_passes(dut, taking: str, rate: float) -> None:
    """Execute descriptors in sequence, and reset within some; with a low rate of beats, banks are also written."""
    written = 0.0 if rate == 1.0 else 0.3
    bench = Bench(dut, f"{taking} {rate}", taking, rate, written)
    await bench.begin()
    for number in range(round(30 * max(current_job().effort, 0.1))):
        values = drawn(bench)
        if number % 6 == 4:
            await bench.run_until_reset(values, 30)
        else:
            await bench.run(values)
    assert bool(bench.waited) == bool(written)


@cocotb.test()
async def every_bit_of_a_base(dut) -> None:
    """Check that each bit of a base above the stream buffer's addresses alone causes a `range` error."""
    bench = Bench(dut, "bases", "all", 1.0, 0.0)
    await bench.begin()
    for side in SIDES:
        for bit in range((bench.words[side] - 1).bit_length(), 16):
            values = dict.fromkeys(("steps", "a_streams", "b_streams"), 1) | dict.fromkeys(("a_base", "b_base"), 0)
            await bench.run({**values, f"{side}_base": 1 << bit})


@cocotb.test()
async def many_streams(dut) -> None:
    """Multiply a full stream buffer of one-word streams of one side by one stream of the other side."""
    bench = Bench(dut, "many streams", "all", 1.0, 0.0)
    await bench.begin()
    for side, other in ("ab", "ba"):
        streams = {f"{side}_streams": min(bench.words[side], 4095), f"{other}_streams": 1}
        await bench.run({"steps": 1, "a_base": 0, "b_base": 0, **streams})
