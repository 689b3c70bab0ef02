"""Printer: converts a component's fragment to the text of its module."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from amaranth.hdl import Fragment, Value

from .choices import with_enables, without_enables
from .collect import collect
from .inlining import inline
from .naming import hoist_choices, name_fields, name_nets, name_shared, require_names
from .order import arrange
from .page import Page
from .single_uses import drop_single_uses
from .uses import driven

__all__ = ["Printed", "print_module"]


@dataclass(frozen=True)
class Printed:
    """A module: its text, which of `clk` and `rst` it has, and its inputs and nets with bits that are never read."""

    text: str
    clocked: frozenset[str]
    partly_unused: tuple[str, ...]


def print_module(
    name: str,
    ports: Sequence[tuple[str, Value, bool]],
    fragment: Fragment,
    *,
    comment: str = "",
    notes: Mapping[str, str] = {},
    enables: bool = True,
) -> Printed:
    """Return the Verilog-2005 of a module.

    Parameters
    ----------
    name : str
        Name of the module.
    ports : sequence of (str, Value, bool)
        Name of each member, its signal, and whether it is an input.
    fragment : Fragment
        The component's fragment. Its signals have their names in this module.
    comment : str
        Comment above the module.
    notes : Mapping of str to str
        Comments beside ports, by name.
    enables : bool
        As in `Library`.

    Raises
    ------
    TypeError
        For a clock domain other than sync, a submodule that is not placed, or a construct that Verilog lacks.
    ValueError
        For a signal or submodule without a name, or with a Verilog keyword as its name.
    """
    model = collect(ports, fragment)
    if not enables:
        without_enables(model)
    hoist_choices(model)
    inline(model)
    if enables:
        with_enables(model)
    require_names(model)
    states = {state for item in model.items for net in driven(item) for state in net.states.values()}
    used = name_nets(model, {"clk", "rst", *states})
    name_fields(model, used)
    names = drop_single_uses(model, name_shared(model, used))
    arrange(model, names)
    page = Page(name, model, names)
    return Printed(comment + page.module(notes), page.clocked, page.partly_unused())
