"""Every distinct block of a design as one Verilog module, and its instances."""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import (
    ClockSignal,
    Elaboratable,
    Fragment,
    Instance,
    ResetSignal,
    Signal,
    UnusedElaboratable,
    Value,
    ValueCastable,
)
from amaranth.hdl._ir import PortDirection  # the public converter takes it, but no public module has it
from amaranth.lib.wiring import In

from ..block import Block
from .netlist import require_names, tidy
from .text import document, module_texts
from .yosys import to_verilog

__all__ = ["Library", "emit", "members", "ports"]


INPUT = re.compile(r"^ *wire width \d+ (?:signed )?input \d+ +(?:signed )?\\(\S+)$", re.MULTILINE)
TRANSFORMERS = "ResetInserter, EnableInserter and DomainRenamer"


def members(block: Block) -> Iterator[tuple[str, Value, bool]]:
    """Every member of a component as (port name, signal, whether it is an input)."""
    for path, member, value in block.signature.flatten(block):
        if isinstance(value, ValueCastable):
            value = value.as_value()
        yield "_".join(map(str, path)), value, member.flow == In


def ports(block: Block) -> dict[str, dict[str, Any]]:
    """Direction and width of every port of a component's module, by name, clk and rst in front."""
    found: dict[str, dict[str, Any]] = {name: {"direction": "input", "width": 1} for name in ("clk", "rst")}
    for name, value, is_input in members(block):
        found[name] = {"direction": "input" if is_input else "output", "width": len(value)}
    return found


class Library:
    """A platform that emits every distinct block once and hands out instances of its module.

    Parameters
    ----------
    prefix : str
        What every module's name begins with.
    check : bool
        Convert every block, also those whose module is there, and compare: seven times as slow.

    Attributes
    ----------
    blocks : dict of str to Block
        A component of every module, by the module's name.
    texts : dict of str to str
        The module in RTLIL, likewise.
    """

    def __init__(self, prefix: str = "tensordash", *, check: bool = False) -> None:
        self.prefix = prefix
        self.check = check
        self.blocks: dict[str, Block] = {}
        self.texts: dict[str, str] = {}
        self._names: dict[tuple[Any, ...], str] = {}
        self._placed: dict[int, tuple[Instance, Block]] = {}

    def place(self, block: Block, reset: Value | None = None) -> Elaboratable:
        """An instance of the module of `block`, wired to its members; see `placed`."""
        if not isinstance(block, Block):
            raise TypeError(
                f"a block is placed without a transformer around it: {TRANSFORMERS} do not reach its module"
            )
        name, clocked = self.module(block)
        ports: dict[str, Any] = {}
        if "clk" in clocked:
            ports["i_clk"] = ClockSignal()
        if "rst" in clocked:
            ports["i_rst"] = ResetSignal() if reset is None else ResetSignal() | reset
        for port, value, is_input in members(block):
            ports[f"{'i' if is_input else 'o'}_{port}"] = value
        instance = Instance(name, **ports)
        self._placed[id(instance)] = instance, block
        return instance

    def module(self, block: Block) -> tuple[str, frozenset[str]]:
        """The name of a block's module and which of clk and rst it has.

        Raises
        ------
        TypeError
            If there is a transformer around what the block places, a submodule that is not placed, or a domain other
            than sync.
        ValueError
            If a signal or submodule has no name, or one that is a word of Verilog; with `check`, if two blocks of equal
            identity are not the same hardware.
        """
        if block.identity not in self._names:
            name = self._free_name(block)
            text = self._converted(block, name)
            self._names[block.identity] = name
            self.blocks[name] = block
            self.texts[name] = text
        name = self._names[block.identity]
        if self.check and block is not self.blocks[name] and self._converted(block, name) != self.texts[name]:
            raise ValueError(f"two blocks of {name} differ, though they were constructed with the same arguments")
        return name, frozenset(INPUT.findall(self.texts[name])) & {"clk", "rst"}

    def _converted(self, block: Block, name: str) -> str:
        """A block in RTLIL."""
        ports = {
            port: (value, PortDirection.Input if is_input else PortDirection.Output)
            for port, value, is_input in members(block)
        }
        try:
            fragment = Fragment.get(block, self)
            with self._named_wires(block, fragment) as (driven, read):
                driven |= {signal.name for signal in _registers(fragment)}
                text = rtlil.convert(fragment, name=name, platform=self, ports=ports, emit_src=False)
        except BaseException:
            # What is left half made, by Ctrl-C for instance, is not a mistake of the design.
            warnings.simplefilter("ignore", UnusedElaboratable)
            raise
        if text.count("\nmodule ") + text.startswith("module ") > 1:
            raise TypeError(f"{type(block).__name__} has a submodule that is not placed")
        others = set(INPUT.findall(text)) - {"clk", "rst", *ports}
        if others:
            raise TypeError(f"{type(block).__name__} has a clock domain other than sync: {', '.join(sorted(others))}")
        require_names(text, type(block).__name__)
        return tidy(text, driven, read)

    def verilog(self, *, optimise: bool = True) -> str:
        """Verilog-2005 of every module placed so far: the same text on every machine and run.

        Parameters
        ----------
        optimise : bool
            Merge what is equal, and turn registers that feed themselves into ``if (enable)``. Without it, an enable
            that is unknown in simulation makes the register unknown, where an `if` would leave it as it is.
        """
        return document(self._modules(optimise=optimise).values())

    def verilog_apart(self, kind: type[Block]) -> tuple[str, str]:
        """As `verilog`, but in two files: all modules but those of components of a kind, and those."""
        modules = self._modules(optimise=True)
        apart = {name for name, block in self.blocks.items() if isinstance(block, kind)}
        return (
            document(text for name, text in modules.items() if name not in apart),
            document(text for name, text in modules.items() if name in apart),
        )

    def _modules(self, *, optimise: bool) -> dict[str, str]:
        return module_texts(to_verilog("\n".join(self.texts.values()), optimise=optimise), self.blocks)

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
            elif isinstance(inner, Instance) and inner.type in self.blocks:
                raise TypeError(
                    f"{name} is placed in a module with a transformer around it: {TRANSFORMERS} do not reach it"
                )
            else:
                yield from self._instances(inner)

    def _free_name(self, block: Block) -> str:
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", type(block).__name__).lower()
        base = f"{self.prefix}_{words}" + f"__{block.variant}" * bool(block.variant)
        numbered = (base if i == 1 else f"{base}__{i}" for i in range(1, len(self.blocks) + 2))
        return next(name for name in numbered if name not in self.blocks)


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
