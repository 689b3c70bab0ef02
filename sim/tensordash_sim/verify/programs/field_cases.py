"""Descriptors with each field at and near its limits, one field at a time.

The cases are generated from the table of descriptors, so a new field is covered as well.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import OPERATIONS, Field, Operation, encode

from ...compiler.program import Loop, walk

__all__ = ["FieldCase", "field_cases", "near_values"]

TOKENS = ("operation", "wait", "signal", "output_wait", "output_signal")
"""Fields that no case changes, because programs depend on them."""
WALK = ("address", "mask_address", "x", "count_")
"""Beginnings of the names of fields that affect which masks a multiply reads."""
SAMPLED_POWERS = 3
"""Number of random powers of two near which each field of a loop has cases, besides its limits."""
STEPS = 3
STREAMS = 2
"""Streams of a layout or multiply whose field is changed; `STEPS` is its number of steps."""


@dataclass(frozen=True, kw_only=True)
class FieldCase:
    """A descriptor with an unusual value in one field.

    Parameters
    ----------
    operation, field : str
        Names from the table of descriptors.
    value : int
        The field's value.
    fields : dict of str to int
        All fields that are not at their default, including this one.
    """

    operation: str
    field: str
    value: int
    fields: Mapping[str, int]

    def descriptor(self, **tokens: int) -> int:
        """Encode the descriptor, with the masks of `wait`, `signal`, `output_wait` and `output_signal`."""
        return encode(OPERATIONS[self.operation], {**self.fields, **tokens})

    @property
    def title(self) -> str:
        """Operation, field and value."""
        return f"{self.operation}.{self.field} = {self.value}"


def near_values(field: Field, powers: Iterator[int] | range | None = None) -> list[int]:
    """Return values at and next to both limits of a field, and at and next to powers of two of either sign.

    Examples
    --------
    >>> near_values(Field(name="a", low=0, width=4, doc="", least=1))
    [1, 2, 3, 4, 5, 7, 8, 9, 14, 15]
    """
    low, high = field.minimum, field.maximum
    values = {low, low + 1, high - 1, high}
    for power in range(2, field.width) if powers is None else powers:
        values |= {sign * (1 << power) + away for sign in (1, -1) for away in (-1, 0, 1)}
    return sorted(value for value in values if low <= value <= high)


def field_cases(
    random: Random, config: CoreConfig, names: tuple[str, ...], groups: range, moves: Mapping[str, Mapping[str, int]]
) -> Iterator[FieldCase]:
    """Yield cases of every field of some operations.

    Parameters
    ----------
    random : Random
        Source of the powers of two for the loops' fields.
    config : CoreConfig
        The core. Fields of features that it lacks have no cases.
    names : tuple of str
        Operations.
    groups : range
        Groups of the buffer that a layout reads, a multiply or a load writes, or a store reads.
    moves : dict of str to dict of str to int
        Fields of moves: "plain" has a tensor's address in memory, "compressed" all fields of a compressed tensor.
    """
    for name in names:
        operation = OPERATIONS[name]
        for field in operation.fields:
            if field.name in TOKENS or not _is_built(config, field.name):
                continue
            base = _usual(config, operation, groups, moves["plain"])
            if field.name in ("compressed", "segment", "table", "table_high"):
                base = {"address": groups.start, **moves["compressed"]}
            sampled = field.name[-1].isdigit()
            powers = random.sample(range(2, field.width), min(SAMPLED_POWERS, max(0, field.width - 2)))
            for value in near_values(field, iter(powers) if sampled else None):
                if field.greatest is not None and value > field.greatest:
                    continue
                fields = {**base, field.name: value}
                moved = _moved(config, field.name, value, fields, groups)
                for made in [fields] if moved is None else [fields, moved]:
                    yield FieldCase(operation=name, field=field.name, value=value, fields=made)
                    if name == "multiply" and _can_skip(config, field.name, made):
                        skipping = {**made, "skip_masked": 1}
                        yield FieldCase(operation=name, field=field.name, value=value, fields=skipping)


def _can_skip(config: CoreConfig, name: str, fields: Mapping[str, int]) -> bool:
    """Return whether a field affects which masks a multiply reads, and the multiply may skip passes."""
    walk = (name for name in fields if name == "x" or name.startswith("x_"))
    has_whole_groups = all(fields[name] % config.tile.lanes == 0 for name in walk if name != "x_size")
    return config.skip_masked and name.startswith(WALK) and has_whole_groups


def _is_built(config: CoreConfig, name: str) -> bool:
    switch = {"bias_address": "bias", "mask_address": "mask", "seed": "stochastic", "segment": "compression"}
    switch |= {"compressed": "compression", "table": "compression", "table_high": "compression", "by_channel": "nvfp4"}
    return bool(getattr(config, switch.get(name, name), True))


def _usual(config: CoreConfig, operation: Operation, groups: range, memory: Mapping[str, int]) -> dict[str, int]:
    """Return the fields of a small descriptor in which most fields have an effect."""
    lanes = config.tile.lanes
    if operation.name.startswith("layout"):
        turns = STREAMS * config.parts(operation.name[-1])
        loops = [Loop(count=STEPS, address=2, y=1), Loop(count=turns, x=lanes)]
        fields = {"steps": STEPS, "streams": STREAMS, "address": groups.start, "x_size": 1 << 12, "y_size": 1 << 12}
        return {**fields, "checked": 1, **walk(loops, 6)}
    if operation.name == "multiply":
        parts = config.parts("a") * config.parts("b")
        width = config.fp32_groups
        fields = {"a_streams": STREAMS, "b_streams": 1, "steps": STEPS, "emit": 1, "fp32": 1, "x_size": 1 << 12}
        fields |= {"address": groups.start, "bias_address": 1, "mask_address": 1}
        return {**fields, **walk([Loop(count=STREAMS, address=width * parts), Loop(count=parts, address=width)], 4)}
    if operation.name in ("load", "store"):
        fields = {"address": groups.start, "count_0": 3, "count_1": 2, "stride_1": 5, "stride_2": 11, "stride_3": 20}
        return {**memory, **fields}
    return {**memory}


def _moved(
    config: CoreConfig, name: str, value: int, fields: Mapping[str, int], groups: range
) -> dict[str, int] | None:
    """Return the case's fields, with others changed such that the descriptor stays in the buffer, or None."""
    lanes = config.tile.lanes
    width = config.fp32_groups if fields.get("fp32") else 1

    def away(x: int) -> int:
        return x // lanes * width

    made = dict(fields)
    if name == "x":
        made |= {"address": (groups.start - away(value)) % (1 << 16), "x_size": 0xFFFF}
    elif name == "y" and "y_size" in fields:
        made |= {"y_size": 0xFFFF}
    elif name.startswith("x_") and name[2:].isdigit():
        loop = int(name[2:])
        made |= {f"address_{loop}": _signed(fields.get(f"address_{loop}", 0) - away(value)), "x_size": 0xFFFF}
    elif name.startswith("address_"):
        made |= {f"x_{name[8:]}": _signed(-value // width * lanes), "x_size": 0xFFFF, "x": 1 << 14}
        made["address"] = (groups.start - away(1 << 14)) % (1 << 16)
    elif name.startswith("count_") and "stride_1" in fields:
        made |= {f"count_{k}": 1 for k in range(4)} | {name: value}
    elif name in ("bias", "mask", "bias_address", "mask_address"):
        made |= {name.removesuffix("_address"): 1}
    elif name == "steps" and "emit" in fields:
        made |= {"a_streams": 1}
    elif name == "by_channel":
        made |= {"nvfp4": 1}
    elif name == "seed":
        made |= {"stochastic": 1, "fp32": 0}
    elif name == "scale":
        made |= {"fp32": 0}
    elif name == "partial":
        made |= {"emit": 0, "a_streams": 1}
    else:
        return None
    return made


def _signed(value: int) -> int:
    return (value + (1 << 15)) % (1 << 16) - (1 << 15)
