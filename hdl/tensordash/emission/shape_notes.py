"""Notes on ports that say what their bits are: `4 x 16` for an array, `{last, values: 64}` for a structure."""

from typing import Any

from amaranth.hdl import Shape
from amaranth.lib.data import ArrayLayout, Layout, StructLayout

__all__ = ["shape_note"]

MAX_FIELDS = 6


def shape_note(shape: Any) -> str:
    """Return how the bits of a shape are divided, highest first; empty for a plain number.

    >>> shape_note(ArrayLayout(ArrayLayout(16, 4), 3))
    '3 x 4 x 16'
    >>> shape_note(StructLayout({"values": ArrayLayout(16, 4), "last": 1}))
    '{last, values: 4 x 16}'
    >>> from amaranth.hdl import signed
    >>> shape_note(signed(8)), shape_note(8)
    ('signed', '')
    """
    layout = _layout(shape)
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


def _layout(shape: Any) -> Any:
    if isinstance(shape, Layout):
        return shape
    layout = getattr(shape, "layout", None) or getattr(shape, "_Layout", None)
    if layout is None and isinstance(shape, type) and hasattr(shape, "as_shape"):
        layout = shape.as_shape()
    return layout
