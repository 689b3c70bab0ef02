"""Functions on Amaranth's values: operands, and fields of their formats."""

from collections.abc import Iterable, Iterator
from typing import Any

from amaranth.hdl import Value
from amaranth.hdl._ast import Concat, Format, Operator, Part, Slice, SwitchValue

__all__ = ["fields_of", "is_power_of_two", "names_value", "operands_of"]


def operands_of(value: Value) -> Iterable[Value]:
    """Return the direct operands of a value."""
    if isinstance(value, Operator):
        return value.operands
    if isinstance(value, Slice):
        return (value.value,)
    if isinstance(value, Concat):
        return value.parts
    if isinstance(value, Part):
        return (value.value, value.offset)
    if isinstance(value, SwitchValue):
        return (value.test, *(arm for _, arm in value.cases))
    return ()


def fields_of(form: Any, prefix: str = "") -> Iterator[tuple[str, int, int]]:
    """Yield name, lowest bit and width of every field that is not a structure itself."""
    for name, inner in form._fields.items():
        value = _value_of(inner)
        if value is None:
            continue
        low, _ = _place(value)
        if isinstance(inner, Format.Struct):
            yield from ((deeper, low + at, width) for deeper, at, width in fields_of(inner, f"{prefix}{name}_"))
        elif len(value):
            yield f"{prefix}{name}", low, len(value)


def _value_of(form: Any) -> Value | None:
    if isinstance(form, Format.Struct | Format.Array | Format.Enum):
        return form._value
    values = [chunk[0] for chunk in form._chunks if not isinstance(chunk, str)]
    return values[0] if len(values) == 1 else None


def _place(value: Value) -> tuple[int, int]:
    """Return the lowest bit of a part within the value that directly contains it, and the part's width."""
    if isinstance(value, Operator) and value.operator in ("u", "s"):
        return _place(value.operands[0])
    return (value.start, len(value)) if isinstance(value, Slice) else (0, len(value))


def is_power_of_two(value: int) -> bool:
    """Return whether a number is a power of two."""
    return value > 0 and value.bit_count() == 1


def names_value(decoder: Any, value: int) -> bool:
    """Return whether a decoder has a name for a value."""
    try:
        return isinstance(decoder(value), str)
    except (KeyError, ValueError, IndexError):
        return False
