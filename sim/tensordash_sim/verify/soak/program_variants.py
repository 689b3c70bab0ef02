"""Variants of a legal program: one that runs twice, and one with unnecessary tokens."""

from collections.abc import Sequence
from random import Random

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import OPERATIONS, UNITS, decode

from ...compiler.order import add_tokens, find_races
from ...golden.core.legal import Sequencer
from ..programs.corruptor import with_fields

__all__ = ["repeat_program", "with_tokens"]


def repeat_program(config: CoreConfig, descriptors: Sequence[int]) -> list[int]:
    """Return a program that runs twice; the second run's loads start once the first run has read the buffer.

    Only the second run records the counts, because no token orders the counts of the two runs.
    """
    first = [bits for bits in descriptors[:-1] if decode(bits)[0] is not OPERATIONS["record"]]
    return add_tokens(config, [*first, *descriptors])


def with_tokens(random: Random, config: CoreConfig, descriptors: Sequence[int]) -> list[int]:
    """Return the same program with up to four more tokens, which do not change its results.

    Each token goes from a descriptor to a later one, so the program cannot deadlock.
    """
    extended = list(descriptors)
    for _ in range(random.randint(0, 4)):
        producer, consumer = random.sample(range(len(extended)), 2)
        producer, consumer = min(producer, consumer), max(producer, consumer)
        ends = [_ends(extended[k]) for k in (producer, consumer)]
        if not all(ends):
            continue
        (producing_unit, (_, signal)), (consuming_unit, (wait, _)) = (
            random.choice(sorted(each.items())) for each in ends
        )
        changed = list(extended)
        changed[producer] = _with_bit(extended[producer], signal, consuming_unit)
        changed[consumer] = _with_bit(extended[consumer], wait, producing_unit)
        # A consumer may take an earlier token than the one that was added for it.
        sequencer = Sequencer(config)
        if changed[producer] == extended[producer] or changed[consumer] == extended[consumer]:
            continue
        if not any(map(sequencer.refusal, changed)) and not find_races(config, changed):
            extended = changed
    return extended


def _ends(bits: int) -> dict[str, tuple[str, str]]:
    """Return a descriptor's units, and the fields of their tokens."""
    operation, _ = decode(bits)
    assert operation is not None
    if not operation.unit:
        return {}
    output = {"output": ("output_wait", "output_signal")} if operation.name == "multiply" else {}
    return {operation.unit: ("wait", "signal")} | output


def _with_bit(bits: int, name: str, unit: str) -> int:
    return with_fields(bits, **{name: decode(bits)[1][name] | 1 << UNITS.index(unit)})
