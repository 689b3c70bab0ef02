"""Random illegal programs for every clause of docs/core.md's table of errors, made from legal programs."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from types import MappingProxyType

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import HEADER, OPERATIONS, UNITS, decode

from ...golden.core.golden_core import Memory
from ...golden.core.legal import MAX_TOKENS, SWITCHED
from .corruptor import InapplicableError, NoRoomError, ProgramCorruptor
from .illegal_bounds import ADDRESSES
from .illegal_moves import MOVES
from .random_programs import random_program

__all__ = ["CLAUSES", "Clause", "IllegalProgram", "illegal_program"]


@dataclass(frozen=True, kw_only=True)
class Clause:
    """A rule that illegal programs break.

    Parameters
    ----------
    error : str
        The error, one of `ERRORS`.
    corrupt : callable
        A function that corrupts a program. It raises `InapplicableError` if this program cannot break the rule.
    """

    error: str
    corrupt: Callable[[ProgramCorruptor], None]


@dataclass(frozen=True, kw_only=True)
class IllegalProgram:
    """A program with one or two errors, and the memory before it.

    Parameters
    ----------
    descriptors : list of int
        The program.
    memory : Memory
        Its data, without the descriptors.
    base : int
        Address of the ring of descriptors; a `fetch` error occurs at a descriptor after the memory's end.
    title : str
        The broken rules.
    bounds : (int, int), optional
        The lowest and the highest address that the core may access; all addresses if None.
    """

    descriptors: list[int]
    memory: Memory
    base: int
    title: str
    bounds: tuple[int, int] | None = None


def _operation(corruptor: ProgramCorruptor) -> None:
    known = [operation.code for operation in OPERATIONS.values()]
    unknown = [code for code in range(16) if code not in known]
    corruptor.change(corruptor.pick(), operation=corruptor.random.choice(unknown))


def _reserved_bit(corruptor: ProgramCorruptor) -> None:
    index = corruptor.pick()
    operation, _ = decode(corruptor.descriptors[index])
    assert operation is not None
    free = [k for k in range(512) if not operation.mask >> k & 1]
    random = corruptor.random
    corruptor.descriptors[index] |= sum({1 << random.choice(free) for _ in range(random.randint(1, 2))})


def _reserved_switch(corruptor: ProgramCorruptor) -> None:
    config = corruptor.config
    off = [name for name in (*SWITCHED, "scale") if not getattr(config, name)]
    off += [] if config.compression else ["compressed"]
    off += [] if config.nvfp4 else ["nvfp4", "by_channel"]
    corruptor.require(off)
    name = corruptor.random.choice(off)
    operations = {"compressed": ("load", "store"), "nvfp4": ("load",), "by_channel": ("load",)}
    corruptor.change(corruptor.pick(*operations.get(name, ("multiply",))), **{name: 1})


def _field_least(corruptor: ProgramCorruptor) -> None:
    index = corruptor.pick("load", "layout_a", "layout_b", "multiply", "store")
    operation, _ = decode(corruptor.descriptors[index])
    assert operation is not None
    fields = [field.name for field in (*HEADER, *operation.fields) if field.least]
    corruptor.change(index, **{corruptor.random.choice(fields): 0})


def _field_stride(corruptor: ProgramCorruptor) -> None:
    corruptor.change(corruptor.pick("layout_a", "layout_b", "multiply"), stride=corruptor.random.choice([0, 5, 6, 7]))


def _field_skip(corruptor: ProgramCorruptor) -> None:
    """Let a multiply that skips passes have positions that are not in whole groups."""
    corruptor.require(corruptor.config.skip_masked)
    lanes, index, random = corruptor.config.tile.lanes, corruptor.pick("multiply"), corruptor.random
    name = random.choice(("stride", "x", *(f"x_{k}" for k in range(4))))
    value = corruptor.value(index, name) // lanes * lanes + random.randrange(1, lanes)
    corruptor.change(index, **{"skip_masked": 1, name: random.randint(2, 4) if name == "stride" else value})


def _range_layout(corruptor: ProgramCorruptor) -> None:
    index, random, config = corruptor.pick("layout_a", "layout_b"), corruptor.random, corruptor.config
    operation, values = decode(corruptor.descriptors[index])
    assert operation is not None
    words, each = config.stream_words(operation.name[-1]), -(-values["steps"] // config.tile.window_depth)
    if random.random() < 0.2:
        corruptor.change(index, streams=random.randint(words // each + 1, 4095))
    else:
        least = words - values["streams"] * each + 1
        corruptor.change(index, base=random.choice([least, words, random.randint(least, 65535), 65535]))


def _range_streams(corruptor: ProgramCorruptor) -> None:
    index, random, config = corruptor.pick("multiply"), corruptor.random, corruptor.config
    values, side = decode(corruptor.descriptors[index])[1], random.choice("ab")
    words, each = config.stream_words(side), -(-values["steps"] // config.tile.window_depth)
    least = words - values[f"{side}_streams"] * each + 1
    corruptor.change(index, **{f"{side}_base": random.choice([least, words, random.randint(least, 65535), 65535])})


def _range_partial(corruptor: ProgramCorruptor) -> None:
    index, config = corruptor.pick("multiply"), corruptor.config
    values = decode(corruptor.descriptors[index])[1]
    least = max(config.partial_sums - values["a_streams"] * values["b_streams"] + 1, 0)
    corruptor.require(least <= 255)
    # Clear `emit`, because partial sums at that place may be undefined.
    partial = corruptor.random.choice([least, corruptor.random.randint(least, 255), 255])
    corruptor.change(index, partial=partial, emit=0, add=0, scale=0)


def _address_layout(corruptor: ProgramCorruptor) -> None:
    index, groups = corruptor.pick("layout_a", "layout_b"), corruptor.config.groups
    corruptor.change(index, address=corruptor.random.choice([groups, 65535, corruptor.random.randint(groups, 65535)]))


def _address_layout_row(corruptor: ProgramCorruptor) -> None:
    """Let a row of positions continue beyond the buffer's end."""
    index = corruptor.pick("layout_a", "layout_b")
    corruptor.change(index, address=corruptor.config.groups - 1, x_size=65535, x=corruptor.config.tile.lanes - 1)


def _address_output(corruptor: ProgramCorruptor) -> None:
    places = [k for k, bits in enumerate(corruptor.descriptors) if decode(bits)[1].get("emit")]
    corruptor.require(places)
    groups, random = corruptor.config.groups, corruptor.random
    address = random.choice([groups, 65535, random.randint(groups, 65535), groups - 1])
    index = random.choice(places)
    more = {"fp32": 1, "stochastic": 0} if address == groups - 1 else {}
    corruptor.change(index, address=address, **more)


def _tokens_wait(corruptor: ProgramCorruptor) -> None:
    """Let a descriptor wait for a token that no unit signals."""
    index = corruptor.pick("load", "layout_a", "layout_b", "multiply", "store", "record")
    operation, _ = decode(corruptor.descriptors[index])
    assert operation is not None
    own, name = operation.unit, "wait"
    if own == "multiply" and corruptor.random.random() < 0.5:
        own, name = "output", "output_wait"
    waited = corruptor.value(index, name)
    missing = [
        k for k, producer in enumerate(UNITS) if not waited >> k & 1 and not corruptor.tokens(index, producer, own)
    ]
    corruptor.change(index, **{name: waited | 1 << corruptor.random.choice(missing)})


def _tokens_many(corruptor: ProgramCorruptor) -> None:
    """Signal one token more than the maximum."""
    size, at = corruptor.config.group_bytes, corruptor.position()
    unit = 1 << corruptor.random.randrange(len(UNITS))
    for _ in range(MAX_TOKENS + 1):
        memory, address = corruptor.place(size), corruptor.random.choice(corruptor.free_groups)
        corruptor.descriptors.insert(at, corruptor.encode("store", memory=memory, address=address, signal=unit))


def _tokens_left(corruptor: ProgramCorruptor) -> None:
    """Leave a token at an `end`, for a unit that never waits for it; a waiting unit would start too early."""
    index = corruptor.pick("load", "layout_a", "layout_b", "multiply", "store", "record")
    operation, _ = decode(corruptor.descriptors[index])
    assert operation is not None
    own, name = operation.unit, "signal"
    if own == "multiply" and corruptor.random.random() < 0.5:
        own, name = "output", "output_signal"
    value = corruptor.value(index, name)
    free = [k for k, unit in enumerate(UNITS) if not corruptor.waits(unit, own)]
    corruptor.change(index, **{name: value | 1 << corruptor.random.choice(free)})
    corruptor.descriptors.append(OPERATIONS["end"].code)


def _tokens_end(corruptor: ProgramCorruptor) -> None:
    """Let an `end` wait for tokens or signal them."""
    name = corruptor.random.choice(["wait", "signal"])
    corruptor.change(corruptor.pick("end"), **{name: corruptor.random.randint(1, 63)})


def _fetch(corruptor: ProgramCorruptor) -> None:
    """Place the ring such that a descriptor is outside memory."""
    last = len(corruptor.descriptors) - 1
    first_missing = corruptor.random.choice([0, corruptor.random.randint(0, last), last])
    corruptor.base = len(corruptor.memory.bytes) - 64 * first_missing


CLAUSES: Mapping[str, Clause] = MappingProxyType(
    {
        "unknown operation": Clause(error="operation", corrupt=_operation),
        "reserved bit": Clause(error="reserved", corrupt=_reserved_bit),
        "switched off": Clause(error="reserved", corrupt=_reserved_switch),
        "field below its least": Clause(error="field", corrupt=_field_least),
        "stride": Clause(error="field", corrupt=_field_stride),
        "positions of skipped passes": Clause(error="field", corrupt=_field_skip),
        "layout beyond the stream buffer": Clause(error="range", corrupt=_range_layout),
        "multiply beyond the stream buffer": Clause(error="range", corrupt=_range_streams),
        "beyond the partial sums": Clause(error="range", corrupt=_range_partial),
        "waits for nobody": Clause(error="tokens", corrupt=_tokens_wait),
        "16th token": Clause(error="tokens", corrupt=_tokens_many),
        "token left": Clause(error="tokens", corrupt=_tokens_left),
        "end with tokens": Clause(error="tokens", corrupt=_tokens_end),
        "layout outside the buffer": Clause(error="address", corrupt=_address_layout),
        "layout over the buffer's end": Clause(error="address", corrupt=_address_layout_row),
        "output outside the buffer": Clause(error="address", corrupt=_address_output),
        **{name: Clause(error=error, corrupt=corrupt) for name, (error, corrupt) in {**MOVES, **ADDRESSES}.items()},
        "descriptor not there": Clause(error="fetch", corrupt=_fetch),
    }
)
"""Corruptions by name."""

TRIES = 60
"""Maximum number of legal programs to try: small cores have few free groups, large cores little free memory."""


def illegal_program(random: Random, config: CoreConfig, name: str, *, second: str = "") -> IllegalProgram:
    """Draw a random legal program, and corrupt it.

    Parameters
    ----------
    random : Random
        Source of all random decisions.
    config : CoreConfig
        The core; random programs must leave at least 8 groups of its buffer free.
    name : str
        One of `CLAUSES`.
    second : str
        Another clause that the program breaks as well; the core reports the first error in program order.

    Returns
    -------
    IllegalProgram
        The program; the error is at the start, at the end or in a random place.

    Raises
    ------
    ValueError
        If no program of this core can break the clause.
    """
    for _ in range(TRIES):
        corruptor = ProgramCorruptor(random, config, random_program(random, config))
        title = name
        try:
            CLAUSES[name].corrupt(corruptor)
            if second:
                with suppress(InapplicableError):
                    CLAUSES[second].corrupt(corruptor)
                    title = f"{name}, {second}"
        except (NoRoomError, InapplicableError):
            continue
        return IllegalProgram(
            descriptors=corruptor.descriptors,
            memory=corruptor.memory,
            base=corruptor.base,
            title=title,
            bounds=corruptor.bounds,
        )
    raise ValueError(f"no program of this core can be illegal by {name}")
