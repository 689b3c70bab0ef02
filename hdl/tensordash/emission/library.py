"""Every distinct block of a design as one Verilog module, and its instances."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import ClockSignal, Elaboratable, Fragment, Instance, ResetSignal, Signal, Value, ValueCastable
from amaranth.hdl._ir import PortDirection  # the public converter takes it, but no public module has it
from amaranth.lib.wiring import In

from ..block import Block
from .netlist import tidy
from .text import document
from .yosys import to_verilog

__all__ = ["Library", "emit", "members"]


def members(block: Block) -> Iterator[tuple[str, Value, bool]]:
    """Every member of a component as (port name, signal, whether it is an input)."""
    for path, member, value in block.signature.flatten(block):
        if isinstance(value, ValueCastable):
            value = value.as_value()
        yield "_".join(map(str, path)), value, member.flow == In


class Library:
    """A platform that emits every distinct block once and hands out instances of its module.

    Parameters
    ----------
    prefix : str
        What every module's name begins with.

    Attributes
    ----------
    blocks : dict of str to Block
        A component of every module, by the module's name.
    """

    def __init__(self, prefix: str = "tensordash") -> None:
        self.prefix = prefix
        self.blocks: dict[str, Block] = {}
        self.modules: dict[tuple[Any, ...], tuple[str, frozenset[str]]] = {}
        self.texts: list[str] = []
        self._placed: dict[int, tuple[Instance, Block]] = {}

    def place(self, block: Block) -> Elaboratable:
        """An instance of the module of `block`, wired to its members."""
        name, clocked = self.module(block)
        ports: dict[str, Any] = {}
        if "clk" in clocked:
            ports["i_clk"] = ClockSignal()
        if "rst" in clocked:
            ports["i_rst"] = ResetSignal()
        for port, value, is_input in members(block):
            ports[f"{'i' if is_input else 'o'}_{port}"] = value
        instance = Instance(name, **ports)
        self._placed[id(instance)] = instance, block
        return instance

    def module(self, block: Block) -> tuple[str, frozenset[str]]:
        """The name of a block's module and which of clk and rst it has."""
        key = (type(block), *block.identity)
        if key not in self.modules:
            name = self._free_name(block)
            ports = {
                port: (value, PortDirection.Input if is_input else PortDirection.Output)
                for port, value, is_input in members(block)
            }
            fragment = Fragment.get(block, self)
            with self._named_wires(block, fragment) as (driven, read):
                driven |= {signal.name for signal in _registers(fragment)}
                text = rtlil.convert(fragment, name=name, platform=self, ports=ports, emit_src=False)
            text = tidy(text, driven, read)
            clocked = frozenset(re.findall(r"^ *wire width 1 input \d+ +\\(clk|rst)$", text, re.MULTILINE))
            self.modules[key] = name, clocked
            self.blocks[name] = block
            self.texts.append(text)
        return self.modules[key]

    def verilog(self, *, optimise: bool = True) -> str:
        """Verilog-2005 of every module placed so far: the same text on every machine and run.

        Parameters
        ----------
        optimise : bool
            Merge what is equal, and turn registers that feed themselves into ``if (enable)``. Without it, an enable
            that is unknown in simulation makes the register unknown, where an `if` would leave it as it is.
        """
        return document(to_verilog("\n".join(self.texts), optimise=optimise), self.blocks)

    @contextmanager
    def _named_wires(self, block: Block, fragment: Fragment) -> Iterator[tuple[set[str], set[str]]]:
        """Call members as they are called in this module: own ones by their port, an instance's `instance__port`.

        Gives the names of what instances drive, and of what they read.
        """
        driven: set[str] = set()
        read: set[str] = set()
        names = [(value, port) for port, value, _ in members(block)]
        for name, inner in self._instances(fragment):
            for port, value, is_input in members(inner):
                names.append((value, f"{name}__{port}"))
                (read if is_input else driven).add(f"{name}__{port}")
        before = [(signal, signal.name) for signal, _ in names if isinstance(signal, Signal)]
        try:
            for signal, name in names:
                if isinstance(signal, Signal):
                    signal.name = name
            yield driven, read
        finally:
            for signal, name in before:
                signal.name = name

    def _instances(self, fragment: Fragment) -> Iterator[tuple[str, Block]]:
        for inner, name, _ in fragment.subfragments:
            if id(inner) in self._placed:
                yield name, self._placed[id(inner)][1]
            else:
                yield from self._instances(inner)

    def _free_name(self, block: Block) -> str:
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", type(block).__name__).lower()
        taken = {name for name, _ in self.modules.values()}
        base = f"{self.prefix}_{words}" + f"__{block.variant}" * bool(block.variant)
        numbered = (base if i == 1 else f"{base}__{i}" for i in range(1, len(taken) + 2))
        return next(name for name in numbered if name not in taken)


def _registers(fragment: Fragment) -> Iterator[Signal]:
    for domain, statements in fragment.statements.items():
        if domain != "comb":
            for statement in statements:
                yield from statement._lhs_signals()
    for inner, _, _ in fragment.subfragments:
        yield from _registers(inner)


def emit(block: Block, prefix: str = "tensordash", *, optimise: bool = True) -> str:
    """Verilog-2005 of a component and everything below it, one module per distinct component.

    Parameters
    ----------
    block : Block
        The top.
    prefix : str
        What every module's name begins with.
    optimise : bool
        As in `Library.verilog`.

    Returns
    -------
    str
        The same text on every machine and run.
    """
    library = Library(prefix)
    library.module(block)
    return library.verilog(optimise=optimise)
