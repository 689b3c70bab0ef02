"""Bench of the sequencer: units of random speed check order and tokens; the outcome must follow the golden rules."""

import dataclasses
from collections import Counter
from itertools import chain
from random import Random

import cocotb

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import BITS, OPERATIONS, UNITS, decode, encode
from tensordash.configuration.registers import ERRORS
from tensordash_sim.golden.core.legal import MAX_TOKENS, Sequencer
from tensordash_sim.verify.bench import start_bench
from tensordash_sim.verify.job import BenchJob
from tensordash_sim.verify.pins import Pins
from tensordash_sim.verify.stimulus import packed

UNREAD_EVERY = 5
"""One random program out of this number has a descriptor with a beat that memory answers with an error."""
UNIT_ERRORS = ("range", "address", "compressed", "read", "write")


def owners(bits: int) -> list[tuple[str, str, str]]:
    """Return the units of a descriptor, and the names of their token fields."""
    operation, _ = decode(bits)
    assert operation is not None
    if not operation.unit:
        return []
    ends = [(operation.unit, "wait", "signal")]
    return [*ends, ("output", "output_wait", "output_signal")] if operation.name == "multiply" else ends


def random_fields(random: Random, config: CoreConfig, name: str) -> dict[str, int]:
    """Return random legal fields of an operation on this core, without tokens."""
    operation = OPERATIONS[name]
    fields = {}
    for field in operation.fields:
        if field.name in ("output_wait", "output_signal") or random.random() < 0.4:
            continue
        fields[field.name] = random.choice([field.minimum, field.maximum, random.randint(field.minimum, field.maximum)])
    for switch in ("bias", "scale", "relu", "mask", "stochastic", "compression"):
        if not getattr(config, switch):
            fields.pop("compressed" if switch == "compression" else switch, None)
    if "stride" in fields:
        fields["stride"] = random.randint(1, 4)
    if "memory" in fields:
        fields["memory"] &= -32 if name == "record" else -max(config.group_bytes, 16)
    if fields.get("compressed"):
        fields |= {"count_1": 1, "count_2": 1, "count_3": 1, "segment": fields.get("segment") or 1}
        fields["table"] = fields.get("table", 0) & -4
    return fields


def random_program(random: Random, config: CoreConfig, length: int) -> list[int]:
    """Return a random program of legal descriptors, mostly with one random error."""
    tokens: Counter[tuple[str, str]] = Counter()
    program: list[int] = []
    names = [name for name in OPERATIONS if name != "end"]
    hoards = random.random() < 0.3  # Units signal tokens up to the maximum.
    if hoards:
        names = random.sample(names, 2)
    draining = False
    while len(program) < length:
        draining |= random.random() < (0.005 if hoards else 0.05)
        if draining and not any(tokens.values()):
            program.append(encode(OPERATIONS["end"], {}))
            draining = False
            continue
        name = random.choice(names)
        own = [unit for unit, *_ in owners(encode(OPERATIONS[name], {}))]
        masks = {}
        for prefix, unit in zip(("", "output_"), own, strict=False):
            eager = 1.0 if draining else 0.05 if hoards else 0.4
            waits = [each for each in UNITS if tokens[each, unit] and random.random() < eager]
            for each in waits:
                tokens[each, unit] -= 1
            masks[prefix + "wait"] = _mask(waits)
        for prefix, unit in zip(("", "output_"), own, strict=False):
            share = 0.0 if draining else 0.95 if hoards else random.choice([0.2, 0.2, 0.9])
            signals = [each for each in UNITS if tokens[unit, each] < MAX_TOKENS and random.random() < share]
            for each in signals:
                tokens[unit, each] += 1
            masks[prefix + "signal"] = _mask(signals)
        program.append(encode(OPERATIONS[name], random_fields(random, config, name) | masks))
    if random.random() < 0.8:
        k = random.randrange(length)
        kind = random.choice(["bit", "bit", "code", "wait", "signal", "field", "field"])
        if kind == "bit":
            program[k] ^= 1 << random.randrange(BITS)
        elif kind == "code":
            program[k] ^= random.randrange(1, 16)
        elif kind == "wait":
            program[k] |= random.getrandbits(6) << random.choice([8, 16, 32, 40])
        elif kind == "signal":
            program[-1] |= random.getrandbits(6) << random.choice([16, 40])
        else:
            operation, _ = decode(program[k])
            assert operation is not None
            if operation.fields:
                program[k] &= ~random.choice(operation.fields).mask
    return program


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


WAYS = {unit: (next(each for each in OPERATIONS.values() if each.unit == unit), "") for unit in UNITS[:4]}
WAYS |= {"output": (OPERATIONS["multiply"], "output_"), "store": (OPERATIONS["record"], "")}
"""An operation of each unit, and the prefix of the unit's token fields."""


def wait_sets() -> list[list[int]]:
    """Return a program for each unit and each set of other units, in which the unit waits for exactly this set.

    Each other unit first signals all units except this one, then only this one. At the end the unit waits for the units
    outside the set, whose tokens must still exist.
    """
    programs = []
    for consumer, (takes, take) in WAYS.items():
        others = [each for each in UNITS if each != consumer]
        for chosen in range(1 << len(others)):
            halves = [[each for k, each in enumerate(others) if chosen >> k & 1 == is_chosen] for is_chosen in (1, 0)]
            program = []
            for producer in chain(*halves):
                gives, give = WAYS[producer]
                rest = [each for each in others if each != producer]
                program += [encode(gives, {f"{give}signal": _mask(to)}) for to in (rest, [consumer])]
            programs.append(program + [encode(takes, {f"{take}wait": _mask(half)}) for half in halves])
    return programs


def _mask(units: list[str]) -> int:
    """Return the bits of units in a token field."""
    return sum(1 << UNITS.index(each) for each in units)


def hoards() -> list[list[int]]:
    """Return a program for each pair of units, in which the producer signals the maximum of tokens before any is taken.

    The consumer first waits for a third unit, which waits for the last of these tokens. While the third unit works, the
    producer continues, so that the sequencer counts more tokens than the rule allows in program order. At the end the
    producer waits for the consumer before it signals a last token, so that no token remains.
    """
    programs = []
    for producer, (gives, give) in WAYS.items():
        for consumer, (takes, take) in WAYS.items():
            third = next(each for each in WAYS if each not in (producer, consumer))
            of_producer, of_consumer, of_third = (_mask([each]) for each in (producer, consumer, third))
            giving = encode(gives, {f"{give}signal": of_consumer})
            last = encode(gives, {f"{give}signal": of_consumer | of_third})
            gate = encode(WAYS[third][0], {"wait": of_producer, "signal": of_consumer})
            first = encode(takes, {f"{take}wait": of_producer | of_third})
            taking = encode(takes, {f"{take}wait": of_producer})
            rest = MAX_TOKENS - 1
            more = [giving, taking] * 3
            end = [
                encode(takes, {f"{take}wait": of_producer, f"{take}signal": of_producer}),
                encode(gives, {f"{give}wait": of_consumer, f"{give}signal": of_consumer}),
                taking,
            ]
            programs.append([giving] * rest + [last, gate, first] + more + [taking] * (rest - 1) + end)
    return programs


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
    unread : (int, int)
        The beat that memory answers with an error: the descriptor's index, and the beat's number in it.
    """

    program: list[int]
    unread: tuple[int, int]
    errors: dict[tuple[str, int], str] = dataclasses.field(default_factory=dict)
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


def plan(drawn: Random, config: CoreConfig, given_program: list[int] | None, number: int) -> Plan:
    """Return the plan of a program, or of a random one with errors."""
    program = given_program or random_program(drawn, config, drawn.choice([5, 20, 60]))
    golden = Sequencer(config)
    # Memory answers one beat of the descriptor with an error, each of the four beats in turn.
    is_unread = given_program is None and number % UNREAD_EVERY == 0
    unread = drawn.randrange(len(program)) if is_unread else len(program)
    made = Plan(program, (unread, number // UNREAD_EVERY % 4), index=len(program))
    error = ""
    for k, bits in enumerate(program):
        error = "fetch" if k == unread else golden.refusal(bits)
        if error:
            made.index = k
            break
        for owner, *_ in owners(bits):
            made.queues[owner].append((k, bits))
            if given_program is None and drawn.random() < 0.02:
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
                signal = next(signal for each, _, signal in owners(bits) if each == unit.name)
                for j, other in enumerate(UNITS):
                    self.tokens[unit.name, other] += decode(bits)[1][signal] >> j & 1
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
            wait = next(wait for each, wait, _ in owners(bits) if each == unit.name)
            for j, other in enumerate(UNITS):
                self.tokens[other, unit.name] -= decode(bits)[1][wait] >> j & 1
                assert self.tokens[other, unit.name] >= 0, f"{where}: no token from {other}"
        assert unit.index is not None
        unit.beats.append(pins.read(f"{unit.name}_descriptor_payload"))
        if len(unit.beats) == 4:
            descriptor_bits = packed(unit.beats, 128)
            assert descriptor_bits == self.made.program[unit.index], f"{where}: {descriptor_bits:#x} is wrong"
            unit.busy = self.random.randint(0, self.slow)

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
    programs = [*[None] * round(24 * job.effort), *(wait_sets() if slow == 12 else hoards() if slow else [])]
    for number, given_program in enumerate(programs):
        made = plan(drawn, job.config, given_program, number)
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
