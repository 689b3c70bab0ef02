"""Base class of all hardware components: equal components can share one Verilog module."""

import inspect
from contextlib import suppress
from typing import Any, Protocol, Self

from amaranth.hdl import Elaboratable, ResetInserter, Value
from amaranth.lib import wiring

__all__ = ["Block", "ModuleLibrary", "placed"]


class ModuleLibrary(Protocol):
    """An Amaranth platform that turns components into references to shared modules."""

    def place(self, block: "Block", reset: Value | None = None) -> Elaboratable:
        """Return a reference to the module of `block`, wired to its members, with a `reset` besides the domain's."""
        ...


class Block(wiring.Component):
    """A component whose hardware is a function only of its class and its constructor's arguments.

    Parameters
    ----------
    signature : dict or wiring.Signature
        Members.
    variant : str
        Suffix of the module's name, if a design has several modules of the class: letters, digits, underscores.

    Attributes
    ----------
    identity : tuple
        The class and the constructor's arguments, including defaults. They must be hashable. Blocks of equal identity
        become one Verilog module.
    """

    # A block that shares another's module is never elaborated itself: Amaranth would warn.
    _MustUse__silence = True
    identity: tuple[Any, ...]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Store the arguments, independently of a subclass's constructor."""
        self = super().__new__(cls, *args, **kwargs)
        with suppress(TypeError):  # the constructor raises the error
            bound = inspect.signature(cls).bind(*args, **kwargs)
            bound.apply_defaults()
            self.identity = (cls, *bound.arguments.items())
        return self

    def __init__(self, signature: Any, variant: str = "") -> None:
        super().__init__(signature)
        self.variant = variant


def placed(block: Block, platform: Any, reset: Value | None = None) -> Elaboratable:
    """Return the submodule for a component: the component, or a reference to its shared module.

    Parameters
    ----------
    block : Block
        The component.
    platform
        The argument of `elaborate`.
    reset : Value, optional
        Resets the component, besides its domain's reset.

    Raises
    ------
    TypeError
        If a transformer (`ResetInserter`, `EnableInserter`, `DomainRenamer`) is around it: a shared module cannot be
        transformed.
    """
    if hasattr(platform, "place"):
        return platform.place(block, reset)
    return block if reset is None else ResetInserter(reset)(block)
