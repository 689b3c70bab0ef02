"""Notes on the bits of ports: `4 x 16` for an array, `{last, values: 64}` for a structure."""

import re
from contextlib import suppress
from functools import cache
from typing import Any

from amaranth.hdl import Shape
from amaranth.lib.data import ArrayLayout, Layout, StructLayout

from ..block import Block

__all__ = ["port_notes", "shape_note"]

MAX_FIELDS = 6
# Members in a docstring: ``select : Out(options, lanes)``, the innermost dimension first.
DECLARED = re.compile(r"(?:^|\), )\s*(\w+(?:, \w+)*) : (?:In|Out)\(((?:[^()]|\([^()]*\))*)(?=\))", re.MULTILINE)
ALIASES = {"steps_layout": "width, lanes, depth"}


def port_notes(block: Block) -> dict[str, str]:
    """Return a note on each port of a component that is an array or a structure, with its dimensions' names."""
    notes = {}
    for path, member, _ in block.signature.flatten(block):
        note = shape_note(member.shape)
        axes = _axes(block, path)
        if note and len(axes) > 1 and len(axes) == note.partition("{")[0].count(" x ") + 1:
            note = f"{' x '.join(f'({axis})' if ' ' in axis else axis for axis in reversed(axes))} = {note}"
        notes["_".join(map(str, path))] = note
    return notes


def _axes(block: Block, path: tuple[str | int, ...]) -> list[str]:
    """Return the dimensions of a member as named in its docstring, the innermost first."""
    kind: type = type(block)
    members = block.signature.members
    for name in path[:-1]:
        if isinstance(name, str) and members[name].is_signature:
            kind, members = type(members[name].signature), members[name].signature.members
    return _declared(kind).get(str(path[-1]), [])


@cache
def _declared(kind: type) -> dict[str, list[str]]:
    """Return the dimensions of each member from the docstrings of a component or signature and its base classes."""
    return {
        name: ALIASES.get(axes, axes).split(", ")
        for base in reversed(kind.__mro__)
        for names, axes in DECLARED.findall(base.__doc__ or "")
        for name in names.split(", ")
    }


def shape_note(shape: Any) -> str:
    """Return how the bits of a shape are divided, highest first, or an empty string for a plain number.

    >>> shape_note(ArrayLayout(ArrayLayout(16, 4), 3))
    '3 x 4 x 16'
    >>> shape_note(StructLayout({"values": ArrayLayout(16, 4), "last": 1}))
    '{last, values: 4 x 16}'
    >>> from amaranth.hdl import signed
    >>> shape_note(signed(8)), shape_note(8)
    ('signed', '')
    """
    layout = None
    with suppress(TypeError):
        layout = Layout.cast(shape)
    if isinstance(layout, ArrayLayout):
        width = Shape.cast(layout.elem_shape).width
        inner = shape_note(layout.elem_shape)
        return f"{layout.length} x {inner or width}" if layout.length > 1 and width > 1 else inner
    if isinstance(layout, StructLayout):
        fields = list(layout.members.items())
        if len(fields) > MAX_FIELDS:
            return ""
        notes = [(name, shape_note(inner), Shape.cast(inner).width) for name, inner in reversed(fields)]
        return "{" + ", ".join(name + f": {note or width}" * (width > 1) for name, note, width in notes if width) + "}"
    return "signed" if Shape.cast(shape).signed else ""
