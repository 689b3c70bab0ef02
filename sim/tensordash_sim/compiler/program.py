"""Programs: descriptors built from field names, loops and tokens."""

from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import BYTES, OPERATIONS, UNITS, decode, encode

TOKENS = ("wait", "signal", "output_wait", "output_signal")
NO_TOKENS = (0, 0, 0, 0)
ADDRESSED = ("load", "store", "record")
"""Operations with an address in memory."""
MEMORY = OPERATIONS["load"].fields[0]
"""Low half of that address; the high half is next to it."""

RECORD_BYTES = 32
"""Bytes that a `record` descriptor writes."""

__all__ = ["RECORD_BYTES", "Loop", "Program", "ProgramError", "dense_steps", "program_with_record", "walk"]


class ProgramError(ValueError):
    """An illegal program. The message names the descriptor, the field and the values that are allowed."""


def dense_steps(config: CoreConfig, descriptors: Iterable[int]) -> int:
    """Return the steps of all passes of a program, with the zeros after each stream's last step.

    They include the steps of skipped passes and dropped steps, which the counter `steps` of a core leaves out.

    Parameters
    ----------
    config : CoreConfig
        The core.
    descriptors : iterable of int
        Legal descriptors.

    Examples
    --------
    >>> program = Program()
    >>> program.add("multiply", a_streams=2, b_streams=3, steps=5)
    0
    >>> dense_steps(CoreConfig(), program.descriptors)
    48
    """
    total, depth = 0, config.tile.window_depth
    for operation, values in map(decode, descriptors):
        if operation is OPERATIONS["multiply"]:
            total += values["a_streams"] * values["b_streams"] * -(-values["steps"] // depth) * depth
    return total


class Loop(NamedTuple):
    """A loop of a walk through the buffer.

    Attributes
    ----------
    count : int
        Number of iterations.
    address, x, y : int
        Increments of each iteration.
    """

    count: int  # type: ignore[assignment]
    address: int = 0
    x: int = 0
    y: int = 0


def walk(loops: Sequence[Loop], most: int) -> dict[str, int]:
    """Return the descriptor fields of a loop nest, the innermost loop first.

    Parameters
    ----------
    loops : sequence of Loop
        At most `most`.
    most : int
        Number of loops in the descriptor.

    Returns
    -------
    dict of str to int
        The increments of loop k include the undoing of all inner loops' increments, modulo 2^16.

    Raises
    ------
    ProgramError
        If there are more than `most` loops, or if a count is below 1.

    Examples
    --------
    >>> fields = walk([Loop(count=3, x=1), Loop(count=2, address=5)], most=6)
    >>> fields["x_0"], fields["x_1"], fields["address_1"], fields["count_0"], fields["count_1"]
    (1, -2, 5, 3, 2)
    """
    used = [loop for loop in loops if loop.count != 1]
    if any(loop.count < 1 for loop in used):
        raise ProgramError(f"a loop's count must be at least 1, not {min(loop.count for loop in used)}")
    if len(used) > most:
        raise ProgramError(f"a walk must have at most {most} loops that run more than once, not {len(used)}")
    fields: dict[str, int] = {}
    inside = {"address": 0, "x": 0, "y": 0}
    for k, loop in enumerate(used):
        for name, undone in inside.items():
            turn = getattr(loop, name)
            if turn or undone:
                fields[f"{name}_{k}"] = _wrapped(turn - undone)
                inside[name] += (loop.count - 1) * turn
        if k < most - 1:
            fields[f"count_{k}"] = loop.count
    return fields


def _wrapped(value: int) -> int:
    """Wrap a value to a signed number of 16 bits."""
    return (value + (1 << 15)) % (1 << 16) - (1 << 15)


class Program:
    """A sequence of descriptors.

    Examples
    --------
    >>> program = Program()
    >>> program.add("load", signal=["layout_a"], memory=0x1000, address=0, count_0=4)
    0
    >>> program.add("layout_a", wait=["load"], steps=4, streams=1, x_size=4, loops=[Loop(count=4, address=1)])
    1
    >>> program.add("end")
    2
    >>> len(program.image())
    192
    """

    def __init__(self) -> None:
        self.descriptors: list[int] = []

    def add(
        self,
        operation: str,
        *,
        wait: Iterable[str] = (),
        signal: Iterable[str] = (),
        output_wait: Iterable[str] = (),
        output_signal: Iterable[str] = (),
        loops: Sequence[Loop] | None = None,
        **fields: int,
    ) -> int:
        """Add a descriptor.

        Parameters
        ----------
        operation : str
            One of `OPERATIONS`.
        wait, signal : iterable of str
            Units for whose tokens the descriptor waits, and units to which it signals a token.
        output_wait, output_signal : iterable of str
            Tokens of the output unit, for a multiply.
        loops : sequence of Loop, optional
            Loops of a layout or an output, the innermost first.
        fields : int
            Other fields by name. `memory` and `table` are full addresses.

        Returns
        -------
        int
            Its index.

        Raises
        ------
        ProgramError
            If the operation, a unit, a loop or a field is illegal.
        """
        if operation not in OPERATIONS:
            raise ProgramError(f"operation must be one of {', '.join(OPERATIONS)}, not {operation!r}")
        # Addresses differ, but the other fields of most descriptors are those of an earlier one.
        is_apart = operation in ADDRESSED and fields.get("memory", 0) >> 64 == 0
        memory = fields.pop("memory", 0) if is_apart else 0
        named = wait, signal, output_wait, output_signal
        tokens = tuple(map(_units, named)) if any(named) else NO_TOKENS
        try:
            bits = _encode(operation, tuple(fields.items()), None if loops is None else tuple(loops), tokens)
        except ProgramError:
            raise
        except ValueError as error:
            raise ProgramError(f"descriptor {len(self.descriptors)}: {error}") from None
        self.descriptors.append(bits | memory << MEMORY.low)
        return len(self.descriptors) - 1

    def image(self) -> bytes:
        """Return the memory image of the descriptors."""
        return b"".join(bits.to_bytes(BYTES, "little") for bits in self.descriptors)

    def listing(self) -> str:
        """Return a line for each descriptor, with the fields that differ from their defaults."""
        lines = []
        for index, bits in enumerate(self.descriptors):
            operation, values = decode(bits)
            assert operation is not None
            least = {field.name: max(field.least or 0, 0) for field in operation.fields}
            shown = [f"{name}={values[name]}" for name in least if values[name] != least[name] and name not in TOKENS]
            for name in TOKENS:
                units = [unit for k, unit in enumerate(UNITS) if values.get(name, 0) >> k & 1]
                shown += [f"{name}={'+'.join(units)}"] if units else []
            lines.append(" ".join([f"{index:4}", f"{operation.name:8}", *shown]))
        return "\n".join(lines)


def program_with_record(program: Program, memory: int) -> Program:
    """Insert a record of counts before a program's end. The store unit writes it at `memory`, after all stores."""
    end = program.descriptors.pop()
    program.add("record", memory=memory)
    program.descriptors.append(end)
    return program


@cache
def _count_loops(operation: str) -> int:
    """Return the number of loops in an operation's descriptors."""
    return sum(field.name.startswith("address_") for field in OPERATIONS[operation].fields)


@lru_cache(maxsize=1 << 14)
def _encode(
    operation: str, fields: Iterable[tuple[str, int]], loops: Sequence[Loop] | None, tokens: Sequence[int]
) -> int:
    """Return the bits of a descriptor; see `Program.add`."""
    values = dict(fields)
    for name in ("memory", "table"):
        if name in values:
            values[f"{name}_high"], values[name] = divmod(values[name], 1 << 32)
    if loops is not None:
        values |= walk(loops, _count_loops(operation))
    values |= dict(zip(TOKENS, tokens[: len(TOKENS) if operation == "multiply" else 2], strict=False))
    return encode(OPERATIONS[operation], values)


def _units(names: Iterable[str]) -> int:
    bits = 0
    for name in names:
        if name not in UNITS:
            raise ProgramError(f"a token's unit must be one of {', '.join(UNITS)}, not {name!r}")
        bits |= 1 << UNITS.index(name)
    return bits
