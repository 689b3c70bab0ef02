"""Programs for the bench of the sequencer: random ones, and directed ones."""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain, permutations, product
from random import Random

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import BITS, OPERATIONS, UNITS, decode, encode
from tensordash_sim.golden.core.legal import MAX_TOKENS

__all__ = ["UNIT_ERRORS", "Directed", "error_pairs", "hoards", "owners", "random_fields", "random_program", "wait_sets"]

GATE_CYCLES = 250
"""Cycles in which a producer signals three more tokens, while their consumer waits for a third unit."""
HELD_CYCLES = 120
"""Cycles of a descriptor that ends after the errors of two other units."""
UNIT_ERRORS = ("range", "address", "compressed", "read", "write")


@dataclasses.dataclass(frozen=True)
class Directed:
    """A program with a purpose.

    Attributes
    ----------
    program : list of int
        Its descriptors.
    errors : mapping
        Errors that a unit reports for a descriptor, by unit and index.
    busy : mapping
        Cycles that a unit takes for a descriptor, by unit and index; others take random times.
    counted : (str, str) or None
        Producer and consumer of tokens; the bench compares the sequencer's counter of them in each cycle.
    """

    program: list[int]
    errors: Mapping[tuple[str, int], str] = dataclasses.field(default_factory=dict)
    busy: Mapping[tuple[str, int], int] = dataclasses.field(default_factory=dict)
    counted: tuple[str, str] | None = None


@lru_cache(maxsize=1024)
def owners(bits: int) -> Sequence[tuple[str, str, str]]:
    """Return the units of a descriptor, and the names of their token fields."""
    operation, _ = decode(bits)
    assert operation is not None
    if not operation.unit:
        return ()
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
    for switch in ("bias", "scale", "relu", "mask", "stochastic", "compression", "nvfp4", "skip_masked"):
        if not getattr(config, switch):
            fields.pop("compressed" if switch == "compression" else switch, None)
    if not config.nvfp4:
        fields.pop("by_channel", None)
    if fields.get("compressed"):
        fields.pop("nvfp4", None)
    if "stride" in fields:
        fields["stride"] = random.randint(1, 4)
    if fields.get("skip_masked"):
        walk = [name for name in ("x", "x_0", "x_1", "x_2", "x_3") if name in fields]
        fields |= {name: fields[name] - fields[name] % config.tile.lanes for name in walk} | {"stride": 1}
    if "memory" in fields:
        group_bytes = config.group_bytes >> fields.get("nvfp4", 0)
        fields["memory"] &= -32 if name == "record" else -max(group_bytes, 16)
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


WAYS = {unit: (next(each for each in OPERATIONS.values() if each.unit == unit), "") for unit in UNITS[:4]}
WAYS |= {"output": (OPERATIONS["multiply"], "output_"), "store": (OPERATIONS["record"], "")}
"""An operation of each unit, and the prefix of the unit's token fields."""


def wait_sets() -> list[Directed]:
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
            program += [encode(takes, {f"{take}wait": _mask(half)}) for half in halves]
            programs.append(Directed(program))
    return programs


def error_pairs(window: int) -> list[Directed]:
    """Return programs in which two units work at the same time and report errors, for each pair of units.

    The first descriptor's unit reports before the second's in one program and after it in another. In half of the
    programs a third unit is still executing an earlier descriptor, so the sequencer has not failed yet. The outcome is
    always the first descriptor's error.
    """
    programs = []
    cases = product((False, True), ((20, 60), (60, 20)), permutations(WAYS, 2))
    for number, (is_held, cycles, (first, second)) in enumerate(cases):
        place = number % window
        third = next(each for each in WAYS if each not in (first, second))
        earlier = ["load"] * place + [third] * is_held
        program = [encode(WAYS[each][0], {}) for each in (*earlier, first, second, "load", "store")]
        errors = {(first, len(earlier)): UNIT_ERRORS[0], (second, len(earlier) + 1): UNIT_ERRORS[1]}
        busy = dict(zip(errors, cycles, strict=True)) | {(third, place): HELD_CYCLES}
        programs.append(Directed(program, errors, busy=busy))
    return programs


def hoards() -> list[Directed]:
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
            program = [giving] * rest + [last, gate, first] + more + [taking] * (rest - 1) + end
            counted = (producer, consumer) if producer != consumer else None
            programs.append(Directed(program, busy={(third, rest + 1): GATE_CYCLES}, counted=counted))
    return programs


def _mask(units: list[str]) -> int:
    """Return the bits of units in a token field."""
    return sum(1 << UNITS.index(each) for each in units)
