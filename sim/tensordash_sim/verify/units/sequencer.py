"""Bench of the sequencer: units of random speed check order and tokens; the outcome must follow the golden rules."""

import dataclasses
from collections import Counter
from collections.abc import Mapping
from random import Random

import cocotb

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import OPERATIONS, UNITS, decode
from tensordash.configuration.registers import ERRORS
from tensordash_sim.golden.core.legal import Sequencer
from tensordash_sim.verify.bench import start_bench
from tensordash_sim.verify.job import BenchJob
from tensordash_sim.verify.pins import Pins
from tensordash_sim.verify.stimulus import packed
from tensordash_sim.verify.units.sequencer_programs import (
    UNIT_ERRORS,
    Directed,
    error_pairs,
    hoards,
    owners,
    random_program,
    wait_sets,
)

UNREAD_EVERY = 5
"""One random program out of this number has a descriptor with a beat that memory answers with an error."""


def token_fields(bits: int, unit: str) -> tuple[int, int]:
    """Return the units that a unit waits for before a descriptor, and those that it signals after it, as bits."""
    wait, signal = next((wait, signal) for each, wait, signal in owners(bits) if each == unit)
    values = decode(bits)[1]
    return values[wait], values[signal]


class Unit:
    """Model of a unit: it accepts a descriptor, is busy for a random time, and is done."""

    def __init__(self, pins: Pins, random: Random, name: str, expected: list[tuple[int, int]]) -> None:
        self.pins, self.random, self.name, self.expected = pins, random, name, expected
        self.beats: list[int] = []
        self.busy = self.offered = 0
        self.index: int | None = None
        self.last = -1  # index of the last descriptor done
        self.ready = self.done = False

    def goes_on(self, units: dict[str, "Unit"]) -> bool:
        """Return whether the unit may be done; the two units of a multiply wait for each other."""
        if self.name not in ("multiply", "output") or self.index is None:
            return True
        other = units["output" if self.name == "multiply" else "multiply"]
        begun = other.index is not None and len(other.beats) == 4 and other.index >= self.index
        return other.last >= self.index or (self.name == "multiply" and begun)

    def _fails(self, errors: dict[tuple[str, int], str]) -> bool:
        return self.index is not None and self.done and (self.name, self.index) in errors

    def drive(self, errors: dict[tuple[str, int], str], units: dict[str, "Unit"]) -> None:
        """Drive the sequencer's inputs for a cycle."""
        self.done = self.index is not None and len(self.beats) == 4 and self.busy == 0 and self.goes_on(units)
        self.ready = len(self.beats) < 4 and self.random.random() < 0.8
        error = ERRORS[errors[self.name, self.index]] if self.index is not None and self._fails(errors) else 0
        self.pins.drive(
            **{
                f"{self.name}_descriptor_ready": int(self.ready),
                f"{self.name}_done": int(self.done),
                f"{self.name}_error": error if self.done else self.random.getrandbits(4),
            }
        )


@dataclasses.dataclass
class Plan:
    """A program, its errors, and its outcome by the golden rules.

    Attributes
    ----------
    errors : dict
        Errors that a unit reports for a descriptor, by unit and index.
    queues : dict
        Descriptors of each unit, with their indices.
    index : int
        Index of the first descriptor with an error, or the number of descriptors.
    codes : set of int
        Error codes that the sequencer may report.
    ends : int
        Number of `end` descriptors before the first error.
    busy, counted
        As in `Directed`.
    unread : (int, int)
        The beat that memory answers with an error: the descriptor's index, and the beat's number in it.
    """

    program: list[int]
    unread: tuple[int, int]
    errors: dict[tuple[str, int], str] = dataclasses.field(default_factory=dict)
    busy: Mapping[tuple[str, int], int] = dataclasses.field(default_factory=dict)
    counted: tuple[str, str] | None = None
    queues: dict[str, list[tuple[int, int]]] = dataclasses.field(default_factory=lambda: {unit: [] for unit in UNITS})
    index: int = 0
    codes: set[int] = dataclasses.field(default_factory=set)
    ends: int = 0

    def beats(self) -> list[int]:
        """Return all beats in the format of the command queue, including errors of memory."""
        return [
            (bits >> 128 * k & ((1 << 128) - 1)) | int((n, k) == self.unread) << 128
            for n, bits in enumerate(self.program)
            for k in range(4)
        ]


def plan(drawn: Random, config: CoreConfig, directed: Directed | None, number: int) -> Plan:
    """Return the plan of a directed program, or of a random one with errors."""
    program = directed.program if directed else random_program(drawn, config, drawn.choice([5, 20, 60]))
    golden = Sequencer(config)
    # Memory answers one beat of the descriptor with an error, each of the four beats in turn.
    is_unread = directed is None and number % UNREAD_EVERY == 0
    unread = drawn.randrange(len(program)) if is_unread else len(program)
    made = Plan(program, (unread, number // UNREAD_EVERY % 4), index=len(program))
    if directed:
        made.errors, made.busy, made.counted = dict(directed.errors), directed.busy, directed.counted
    error = ""
    for k, bits in enumerate(program):
        error = "fetch" if k == unread else golden.refusal(bits)
        if error:
            made.index = k
            break
        for owner, *_ in owners(bits):
            made.queues[owner].append((k, bits))
            if directed is None and drawn.random() < 0.02:
                made.errors[owner, k] = drawn.choice(UNIT_ERRORS)
    made.codes = {ERRORS[error] if error else 0}
    first = min((k for _, k in made.errors), default=made.index)
    if first < made.index:
        made.index = first
        # If two units find errors in one descriptor, the sequencer may report either.
        made.codes = {ERRORS[name] for (_, k), name in made.errors.items() if k == first}
    made.ends = sum(decode(bits)[0] is OPERATIONS["end"] for bits in program[: made.index])
    return made


class Run:
    """Run of a program on the sequencer and models of its units.

    Parameters
    ----------
    bench : (BenchJob, Random, Pins)
        Result of `start_bench`.
    made : Plan
        The program.
    title : str
        Prefix of messages.
    slow : int
        Maximum number of cycles that a unit is busy.
    earlier : int
        Value of the sequencer's `done` before the program.
    """

    def __init__(self, bench: tuple[BenchJob, Random, Pins], made: Plan, title: str, slow: int, earlier: int) -> None:
        self.job, self.random, self.pins = bench
        self.made, self.title, self.slow, self.earlier = made, title, slow, earlier
        self.units = {name: Unit(self.pins, self.random, name, made.queues[name]) for name in UNITS}
        self.tokens: Counter[tuple[str, str]] = Counter()
        self.finished: Counter[int] = Counter()
        self.wrong_at, self.wrong_cycle = len(made.program), 1 << 60
        self.beats, self.sent, self.ends = made.beats(), 0, 0

    def done(self) -> int:
        """Return the number of this program's descriptors that are done."""
        return (self.pins.read("done") - self.earlier) % (1 << 32)

    async def execute(self) -> None:
        """Send descriptors until the sequencer has been inactive for 60 cycles."""
        pins, made, units = self.pins, self.made, self.units
        quiet, began = 0, pins.cycle
        while quiet < 60:
            has_room = self.sent // 4 < len(made.program) and self.sent // 4 - self.done() < self.job.config.window
            shown = has_room and self.random.random() < 0.8
            pins.drive(descriptors_valid=int(shown), descriptors_payload=self.beats[self.sent] if shown else 0)
            for unit in units.values():
                unit.drive(made.errors, units)
            await pins.settle()
            if shown:
                assert pins.read("descriptors_ready")
                self.sent += 1
            for unit in units.values():
                self._finish(unit)
                self._take(unit)
            self.ends += pins.read("ended")
            is_right = all(self.finished[k] == len(owners(made.program[k])) for k in range(self.done()))
            assert is_right, f"{self.title}: done too early"
            quiet = 0 if self._is_active(has_room=has_room) else quiet + 1
            await pins.tick()
            await pins.settle()
            if made.counted:
                self._check_count(*made.counted)
            assert pins.cycle - began < self.job.patience(30_000), f"{self.title} hangs"

    def _finish(self, unit: Unit) -> None:
        """Process a unit's `done` in this cycle."""
        if unit.done:
            assert unit.index is not None
            k = unit.last = unit.index
            if (unit.name, k) in self.made.errors:
                self.wrong_at, self.wrong_cycle = min(self.wrong_at, k), self.pins.cycle
            else:
                self.finished[k] += 1
                bits = self.made.program[k]
                _, signal = token_fields(bits, unit.name)
                for j, other in enumerate(UNITS):
                    self.tokens[unit.name, other] += signal >> j & 1
            unit.index, unit.beats = None, []
        elif unit.index is not None and len(unit.beats) == 4:
            unit.busy = max(unit.busy - 1, 0)

    def _take(self, unit: Unit) -> None:
        """Process the beat that a unit accepts in this cycle, and check its descriptor and tokens."""
        pins, where = self.pins, f"{self.title}, cycle {self.pins.cycle}, {unit.name}"
        offered = pins.read(f"{unit.name}_descriptor_valid")
        if not offered or unit.beats:
            unit.offered = pins.cycle + 1
        if not (unit.ready and offered):
            return
        if not unit.beats:
            assert unit.expected, f"{where}: a descriptor that is not its own"
            unit.index, bits = unit.expected.pop(0)
            late = unit.offered > self.wrong_cycle + 1
            assert not (late and unit.index > self.wrong_at), f"{where}: after an error"
            wait, _ = token_fields(bits, unit.name)
            for j, other in enumerate(UNITS):
                self.tokens[other, unit.name] -= wait >> j & 1
                assert self.tokens[other, unit.name] >= 0, f"{where}: no token from {other}"
        assert unit.index is not None
        unit.beats.append(pins.read(f"{unit.name}_descriptor_payload"))
        if len(unit.beats) == 4:
            descriptor_bits = packed(unit.beats, 128)
            assert descriptor_bits == self.made.program[unit.index], f"{where}: {descriptor_bits:#x} is wrong"
            unit.busy = self.made.busy.get((unit.name, unit.index), self.random.randint(0, self.slow))

    def _check_count(self, producer: str, consumer: str) -> None:
        """Compare the sequencer's counter of tokens, from which an offered descriptor has already taken its own."""
        pins, unit, tokens = self.pins, self.units[consumer], self.tokens[producer, consumer]
        if pins.read(f"{consumer}_descriptor_valid") and not unit.beats and unit.expected:
            _, bits = unit.expected[0]
            tokens -= token_fields(bits, consumer)[0] >> UNITS.index(producer) & 1
        shown = pins.read(f"{producer}_to_{consumer}")
        assert shown == tokens, f"{self.title}, cycle {pins.cycle}: {shown} tokens are counted, not {tokens}"

    def _is_active(self, *, has_room: bool) -> bool:
        units = self.units.values()
        stuck = [unit for unit in units if len(unit.beats) == 4 and not (unit.busy or unit.goes_on(self.units))]
        working = any(unit.beats for unit in units if unit not in stuck)
        return working or (self.sent < len(self.beats) and not self.made.codes - {0} and has_room)


@cocotb.test()
@cocotb.parametrize(slow=[0, 12, 60])
async def random_programs(dut, slow: int) -> None:
    """Run programs, most with tokens and many with errors, on units that also report errors; reset between them."""
    job, random, pins = bench = start_bench(dut, f"sequencer {slow}")
    drawn = Random(f"{job.seed} programs {slow}")  # The hardware's timing must not change the programs.
    inputs = {f"{unit}_{name}": 0 for unit in UNITS for name in ("descriptor_ready", "done", "error")}
    await pins.reset(descriptors_valid=0, descriptors_payload=0, **inputs)
    found: Counter[str] = Counter()
    programs: list[Directed | None] = [None] * round((24 if slow else 32) * job.effort)
    if slow == 12:
        programs += [*wait_sets(), *error_pairs(job.config.window)]
    elif slow == 60:
        programs += hoards()
    for number, directed in enumerate(programs):
        made = plan(drawn, job.config, directed, number)
        # Start `done` at a high value; a multiple of twice the window keeps the descriptors' places in the window.
        earlier = random.choice([0, 1 << 16, 1 << 32])
        earlier -= 2 * job.config.window if earlier else 0
        dut.done.value = earlier
        await pins.settle()
        run = Run(bench, made, f"program {number}", slow, earlier)
        await run.execute()
        assert run.done() == made.index, f"program {number}: done is {run.done()}, golden has {made.index}"
        assert pins.read("failed") == (made.index < len(made.program)), f"program {number}"
        error = pins.read("error")
        assert error in made.codes, f"program {number}: error is {error}, golden has {made.codes}"
        assert run.ends == made.ends, f"program {number}: {run.ends} ends, golden has {made.ends}"
        found[str(min(made.codes))] += 1
        await pins.restart(descriptors_valid=0, **inputs)
        await pins.settle()
    cocotb.log.info("errors: %s", dict(found))
    assert len(found) > 3 or job.effort < 1
