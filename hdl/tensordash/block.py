"""What every hardware component here shares: it can stand for itself, or for one Verilog module used many times."""

from typing import Any, Protocol

from amaranth.hdl import Elaboratable
from amaranth.lib import wiring

__all__ = ["Block", "ModuleLibrary"]


class ModuleLibrary(Protocol):
    """An Amaranth platform that turns components into references to shared modules."""

    def place(self, block: "Block") -> Elaboratable:
        """A reference to the module of `block`, wired to its members."""
        ...


class Block(wiring.Component):
    """A component whose hardware is a function of its class and `identity` alone.

    Parameters
    ----------
    signature : dict or wiring.Signature
        Members.
    identity : hashable
        Everything that the hardware depends on. Blocks of equal class and identity become one Verilog module.
    variant : str
        What the module's name ends in, where a design has several modules of the class: letters, digits, underscores.
    """

    # A block that shares another's module is never elaborated itself: Amaranth would warn of it.
    _MustUse__silence = True

    def __init__(self, signature: Any, identity: tuple[Any, ...], variant: str = "") -> None:
        super().__init__(signature)
        self.identity = identity
        self.variant = variant

    def place(self, platform: Any) -> Elaboratable:
        """What a parent adds to its submodules: this component, or a reference when modules are shared."""
        return platform.place(self) if hasattr(platform, "place") else self
