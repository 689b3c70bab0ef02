"""What every hardware component here shares: it can stand for itself, or for one Verilog module used many times."""

import inspect
from contextlib import suppress
from typing import Any, Protocol, Self

from amaranth.hdl import Elaboratable, ResetInserter, Value
from amaranth.lib import wiring

__all__ = ["Block", "ModuleLibrary", "placed"]


class ModuleLibrary(Protocol):
    """An Amaranth platform that turns components into references to shared modules."""

    def place(self, block: "Block", reset: Value | None = None) -> Elaboratable:
        """A reference to the module of `block`, wired to its members; `reset` is a reset besides the domain's."""
        ...


class Block(wiring.Component):
    """A component whose hardware is a function of its class and what it was constructed with, and of nothing else.

    Parameters
    ----------
    signature : dict or wiring.Signature
        Members.
    variant : str
        What the module's name ends in, where a design has several modules of the class: letters, digits, underscores.

    Attributes
    ----------
    identity : tuple
        The class and the arguments that the component was constructed with, those left out as well; they must be
        hashable. Blocks of equal identity become one Verilog module.
    """

    # A block that shares another's module is never elaborated itself: Amaranth would warn.
    _MustUse__silence = True
    identity: tuple[Any, ...]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Remember the arguments, whatever the constructor of a subclass makes of them."""
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
    """What a parent adds to its submodules: the component, or a reference to its module where modules are shared.

    Parameters
    ----------
    block : Block
        The component.
    platform
        What `elaborate` was given.
    reset : Value, optional
        Resets the component, besides its domain's reset.

    Raises
    ------
    TypeError
        If a transformer (`ResetInserter`, `EnableInserter`, `DomainRenamer`) is around it: a module that others share
        is as it is.
    """
    if hasattr(platform, "place"):
        return platform.place(block, reset)
    return block if reset is None else ResetInserter(reset)(block)
