"""Random illegal programs: every clause of docs/core.md's table of errors, made of legal programs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from types import MappingProxyType

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import HEADER, OPERATIONS, UNITS, decode

from .golden import Memory
from .illegal_bounds import ADDRESSES
from .illegal_moves import MOVES
from .legal import MOST_TOKENS, SWITCHED
from .random_programs import random_program
from .spoiler import NoRoomError, Spoiler

__all__ = ["CLAUSES", "Clause", "IllegalProgram", "illegal_program"]


@dataclass(frozen=True, kw_only=True)
class Clause:
    """A way to be illegal.

    Parameters
    ----------
    error : str
        Which of `ERRORS` it is.
    spoil : callable
        Makes a program illegal so; false if it cannot be done to this one.
    """

    error: str
    spoil: Callable[[Spoiler], bool]


@dataclass(frozen=True, kw_only=True)
class IllegalProgram:
    """A program with an error, or two, and the memory that it finds.

    Parameters
    ----------
    descriptors : list of int
        The program.
    memory : Memory
        Its data; without the descriptors.
    base : int
        Where the ring of descriptors begins; a `fetch` fails on a descriptor after the memory's end.
    title : str
        What is wrong.
    bounds : (int, int), optional
        The lowest and the highest address that the core may use; every one if left out.
    """

    descriptors: list[int]
    memory: Memory
    base: int
    title: str
    bounds: tuple[int, int] | None = None


def _operation(spoiler: Spoiler) -> bool:
    known = [operation.code for operation in OPERATIONS.values()]
    unknown = [code for code in range(16) if code not in known]
    spoiler.change(spoiler.pick(), operation=spoiler.random.choice(unknown))
    return True


def _reserved_bit(spoiler: Spoiler) -> bool:
    index = spoiler.pick()
    operation, _ = decode(spoiler.descriptors[index])
    assert operation is not None
    free = [k for k in range(512) if not operation.mask >> k & 1]
    spoiler.descriptors[index] |= sum({1 << spoiler.random.choice(free) for _ in range(spoiler.random.randint(1, 2))})
    return True


def _reserved_switch(spoiler: Spoiler) -> bool:
    config = spoiler.config
    off = [name for name in (*SWITCHED, "scale") if not getattr(config, name)]
    off += [] if config.compression else ["compressed"]
    if not off:
        return False
    name = spoiler.random.choice(off)
    spoiler.change(spoiler.pick(*(("load", "store") if name == "compressed" else ("multiply",))), **{name: 1})
    return True


def _field_least(spoiler: Spoiler) -> bool:
    index = spoiler.pick("load", "layout_a", "layout_b", "multiply", "store")
    operation, _ = decode(spoiler.descriptors[index])
    assert operation is not None
    fields = [field.name for field in (*HEADER, *operation.fields) if field.least]
    spoiler.change(index, **{spoiler.random.choice(fields): 0})
    return True


def _field_stride(spoiler: Spoiler) -> bool:
    spoiler.change(spoiler.pick("layout_a", "layout_b", "multiply"), stride=spoiler.random.choice([0, 5, 6, 7]))
    return True


def _range_layout(spoiler: Spoiler) -> bool:
    index, random, config = spoiler.pick("layout_a", "layout_b"), spoiler.random, spoiler.config
    operation, values = decode(spoiler.descriptors[index])
    assert operation is not None
    words, each = config.stream_words(operation.name[-1]), -(-values["steps"] // config.tile.window_depth)
    if random.random() < 0.2:
        spoiler.change(index, streams=random.randint(words // each + 1, 4095))
    else:
        least = words - values["streams"] * each + 1
        spoiler.change(index, base=random.choice([least, words, random.randint(least, 65535), 65535]))
    return True


def _range_streams(spoiler: Spoiler) -> bool:
    index, random, config = spoiler.pick("multiply"), spoiler.random, spoiler.config
    values, side = decode(spoiler.descriptors[index])[1], random.choice("ab")
    words, each = config.stream_words(side), -(-values["steps"] // config.tile.window_depth)
    least = words - values[f"{side}_streams"] * each + 1
    spoiler.change(index, **{f"{side}_base": random.choice([least, words, random.randint(least, 65535), 65535])})
    return True


def _range_partial(spoiler: Spoiler) -> bool:
    index, config = spoiler.pick("multiply"), spoiler.config
    values = decode(spoiler.descriptors[index])[1]
    least = max(config.partial_sums - values["a_streams"] * values["b_streams"] + 1, 0)
    if least > 255:
        return False
    # Without `emit`, for what would be added need never have been put there.
    partial = spoiler.random.choice([least, spoiler.random.randint(least, 255), 255])
    spoiler.change(index, partial=partial, emit=0, add=0, scale=0)
    return True


def _address_layout(spoiler: Spoiler) -> bool:
    index, groups = spoiler.pick("layout_a", "layout_b"), spoiler.config.groups
    spoiler.change(index, address=spoiler.random.choice([groups, 65535, spoiler.random.randint(groups, 65535)]))
    return True


def _address_layout_row(spoiler: Spoiler) -> bool:
    """Positions go on behind the buffer's end, where a row ends."""
    index = spoiler.pick("layout_a", "layout_b")
    spoiler.change(index, address=spoiler.config.groups - 1, x_size=65535, x=spoiler.config.tile.lanes - 1)
    return True


def _address_output(spoiler: Spoiler) -> bool:
    places = [k for k, bits in enumerate(spoiler.descriptors) if decode(bits)[1].get("emit")]
    if not places:
        return False
    groups, random = spoiler.config.groups, spoiler.random
    address = random.choice([groups, 65535, random.randint(groups, 65535), groups - 1])
    index = random.choice(places)
    more = {"fp32": 1, "stochastic": 0} if address == groups - 1 else {}
    spoiler.change(index, address=address, **more)
    return True


def _tokens_wait(spoiler: Spoiler) -> bool:
    """A token that nobody gives."""
    index = spoiler.pick("load", "layout_a", "layout_b", "multiply", "store", "record")
    operation, _ = decode(spoiler.descriptors[index])
    assert operation is not None
    own, name = operation.unit, "wait"
    if own == "multiply" and spoiler.random.random() < 0.5:
        own, name = "output", "output_wait"
    waited = spoiler.value(index, name)
    missing = [k for k, giver in enumerate(UNITS) if not waited >> k & 1 and not spoiler.tokens(index, giver, own)]
    spoiler.change(index, **{name: waited | 1 << spoiler.random.choice(missing)})
    return True


def _tokens_many(spoiler: Spoiler) -> bool:
    """One more than may be."""
    size, at = spoiler.config.group_bytes, spoiler.position()
    unit = 1 << spoiler.random.randrange(len(UNITS))
    for _ in range(MOST_TOKENS + 1):
        memory, address = spoiler.place(size), spoiler.random.choice(spoiler.free_groups)
        spoiler.descriptors.insert(at, spoiler.made("store", memory=memory, address=address, signal=unit))
    return True


def _tokens_left(spoiler: Spoiler) -> bool:
    """One that is left at an end, of a unit for which nobody waits: another would begin too early."""
    index = spoiler.pick("load", "layout_a", "layout_b", "multiply", "store", "record")
    operation, _ = decode(spoiler.descriptors[index])
    assert operation is not None
    own, name = operation.unit, "signal"
    if own == "multiply" and spoiler.random.random() < 0.5:
        own, name = "output", "output_signal"
    given = spoiler.value(index, name)
    free = [k for k, unit in enumerate(UNITS) if not spoiler.waits(unit, own)]
    spoiler.change(index, **{name: given | 1 << spoiler.random.choice(free)})
    spoiler.descriptors.append(OPERATIONS["end"].code)
    return True


def _tokens_end(spoiler: Spoiler) -> bool:
    """An end with tokens of its own."""
    name = spoiler.random.choice(["wait", "signal"])
    spoiler.change(spoiler.pick("end"), **{name: spoiler.random.randint(1, 63)})
    return True


def _fetch(spoiler: Spoiler) -> bool:
    """The ring goes on where there is no memory."""
    last = len(spoiler.descriptors) - 1
    first_missing = spoiler.random.choice([0, spoiler.random.randint(0, last), last])
    spoiler.base = len(spoiler.memory.bytes) - 64 * first_missing
    return True


CLAUSES: Mapping[str, Clause] = MappingProxyType(
    {
        "unknown operation": Clause(error="operation", spoil=_operation),
        "reserved bit": Clause(error="reserved", spoil=_reserved_bit),
        "switched off": Clause(error="reserved", spoil=_reserved_switch),
        "field below its least": Clause(error="field", spoil=_field_least),
        "stride": Clause(error="field", spoil=_field_stride),
        "layout beyond the stream buffer": Clause(error="range", spoil=_range_layout),
        "multiply beyond the stream buffer": Clause(error="range", spoil=_range_streams),
        "beyond the partial sums": Clause(error="range", spoil=_range_partial),
        "waits for nobody": Clause(error="tokens", spoil=_tokens_wait),
        "16th token": Clause(error="tokens", spoil=_tokens_many),
        "token left": Clause(error="tokens", spoil=_tokens_left),
        "end with tokens": Clause(error="tokens", spoil=_tokens_end),
        "layout outside the buffer": Clause(error="address", spoil=_address_layout),
        "layout over the buffer's end": Clause(error="address", spoil=_address_layout_row),
        "output outside the buffer": Clause(error="address", spoil=_address_output),
        **{name: Clause(error=error, spoil=spoil) for name, (error, spoil) in (*MOVES.items(), *ADDRESSES.items())},
        "descriptor not there": Clause(error="fetch", spoil=_fetch),
    }
)
"""Ways to be illegal, by name."""

TRIES = 60
"""Legal programs that are tried: of small cores few groups are left over, of large ones little memory."""


def illegal_program(random: Random, config: CoreConfig, name: str, *, second: str = "") -> IllegalProgram:
    """A random legal program made illegal.

    Parameters
    ----------
    random : Random
        Decides everything.
    config : CoreConfig
        The core; at least 8 groups of its buffer must be left over by random programs.
    name : str
        One of `CLAUSES`.
    second : str
        Another one, which is done to the program as well; the first in the program's order counts.

    Returns
    -------
    IllegalProgram
        The clause stands at the begin, at the end or anywhere.

    Raises
    ------
    ValueError
        If no program of this core can be illegal so.
    """
    for _ in range(TRIES):
        spoiler = Spoiler(random, config, random_program(random, config))
        try:
            spoiled = [CLAUSES[each].spoil(spoiler) for each in (name, second) if each]
        except NoRoomError:
            continue
        if spoiled[0]:
            title = f"{name}, {second}" if len(spoiled) > 1 and spoiled[1] else name
            return IllegalProgram(
                descriptors=spoiler.descriptors,
                memory=spoiler.memory,
                base=spoiler.base,
                title=title,
                bounds=spoiler.bounds,
            )
    raise ValueError(f"no program of this core can be illegal by {name}")
