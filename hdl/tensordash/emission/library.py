"""Library of a design's Verilog modules: one for every distinct block, and its instances."""

import re
import textwrap
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

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
from amaranth.lib.wiring import In

from ..block import Block
from .printer.printer import Printed, print_module
from .printer.text import LINE
from .shape_notes import port_notes

__all__ = ["Library", "emit", "members", "ports"]

WORDS = ("Timing:", "Source:")
TRANSFORMERS = "ResetInserter, EnableInserter and DomainRenamer"


def members(block: Block) -> Iterator[tuple[str, Value, bool]]:
    """Yield every member of a component as (port name, signal, whether it is an input)."""
    for path, member, value in block.signature.flatten(block):
        if isinstance(value, ValueCastable):
            value = value.as_value()
        yield "_".join(map(str, path)), value, member.flow == In


def ports(block: Block) -> dict[str, dict[str, Any]]:
    """Return direction and width of every port of a component's module, by name, `clk` and `rst` first."""
    found: dict[str, dict[str, Any]] = {name: {"direction": "input", "width": 1} for name in ("clk", "rst")}
    for name, value, is_input in members(block):
        found[name] = {"direction": "input" if is_input else "output", "width": len(value)}
    return found


class Library:
    """A platform that emits every distinct block once and hands out instances of its module.

    Parameters
    ----------
    prefix : str
        Prefix of every module's name.
    check : bool
        Print every block, also those whose module exists, and compare: seven times slower.
    enables : bool
        An ``if`` assigns a register only where it changes. Otherwise it is assigned in every cycle. Then an unknown
        enable in simulation makes the register unknown; an ``if`` would leave it unchanged.

    Attributes
    ----------
    blocks : dict of str to Block
        One component for every module, by the module's name.
    texts : dict of str to str
        The modules in Verilog-2005.
    partly_unused : dict of str to tuple of str
        The modules' inputs and nets with bits that are never read.
    """

    def __init__(self, prefix: str = "tensordash", *, check: bool = False, enables: bool = True) -> None:
        self.prefix = prefix
        self.check = check
        self.enables = enables
        self.blocks: dict[str, Block] = {}
        self.texts: dict[str, str] = {}
        self.partly_unused: dict[str, tuple[str, ...]] = {}
        self._clocked: dict[str, frozenset[str]] = {}
        self._names: dict[tuple[Any, ...], str] = {}
        self._placed: dict[int, tuple[Instance, Block]] = {}

    def place(self, block: Block, reset: Value | None = None) -> Elaboratable:
        """Return an instance of the module of `block`, wired to its members. See `placed`."""
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
        """Return the name of a block's module, and which of `clk` and `rst` it has.

        Raises
        ------
        TypeError
            If the block has a transformer around a placed block, a submodule that is not placed, or a domain other than
            sync.
        ValueError
            If a signal or submodule has no name, or a Verilog keyword as its name. With `check`, if two blocks of equal
            identity are not the same hardware.
        """
        if block.identity not in self._names:
            name = self._free_name(block)
            printed = self._printed(block, name)
            self._names[block.identity] = name
            self.blocks[name] = block
            self.texts[name] = printed.text
            self.partly_unused[name] = printed.partly_unused
            self._clocked[name] = printed.clocked
        name = self._names[block.identity]
        if self.check and block is not self.blocks[name] and self._printed(block, name).text != self.texts[name]:
            raise ValueError(f"two blocks of {name} differ, though they were constructed with the same arguments")
        return name, self._clocked[name]

    def _printed(self, block: Block, name: str) -> Printed:
        try:
            with self.fragment(block) as fragment:
                return self._text(block, name, fragment)
        except BaseException:
            # Components left unfinished, for instance by Ctrl-C, are not a mistake of the design.
            warnings.simplefilter("ignore", UnusedElaboratable)
            raise

    def _text(self, block: Block, name: str, fragment: Fragment) -> Printed:
        try:
            return print_module(
                name,
                list(members(block)),
                fragment,
                comment=_comment(block),
                notes=port_notes(block),
                enables=self.enables,
            )
        except (TypeError, ValueError) as error:
            raise type(error)(f"{type(block).__name__} has {error}") from error

    def verilog(self) -> str:
        """Return the Verilog-2005 of every module placed so far. The text is the same on every machine and run."""
        return self.verilog_of(self.texts)

    def verilog_of(self, modules: Iterable[str]) -> str:
        """Return the Verilog-2005 of some modules, as in `verilog`."""
        return _document(self.texts[name] for name in modules)

    def partly_unused_of(self, modules: Iterable[str]) -> tuple[str, ...]:
        """Return the names of `partly_unused` in some modules, each once."""
        return tuple(dict.fromkeys(net for name in modules for net in self.partly_unused[name]))

    @contextmanager
    def fragment(self, block: Block) -> Iterator[Fragment]:
        """Elaborate a block, with its members named as in its module: by port, or `instance__port` for submodules."""
        fragment = Fragment.get(block, self)
        names = [(value, port) for port, value, _ in members(block)]
        for name, inner in self._instances(fragment):
            names += [(value, f"{name}__{port}") for port, value, _ in members(inner)]
        before = [(signal, signal.name) for signal, _ in names if isinstance(signal, Signal)]
        try:
            for signal, name in names:
                if isinstance(signal, Signal):
                    signal.name = name
            yield fragment
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


def _document(modules: Iterable[str]) -> str:
    """Return modules as a file with directives at both ends, so that no use declares a net."""
    return "`default_nettype none\n\n" + "\n".join(modules) + "\n`default_nettype wire\n"


def _comment(block: Block) -> str:
    """Return the comment of a component: summary, timing, source, and its numeric parameters."""
    paragraphs = {word: text for kind in reversed(type(block).__mro__) for word, text in _paragraphs(kind)}
    texts = [paragraphs[word] for word in ("", *WORDS) if word in paragraphs]
    if numbers := ", ".join(f"{name} = {value}" for name, value in block.identity[1:] if type(value) is int):
        texts.append(f"Parameters: {numbers}.")
    lines = [line for text in texts for line in textwrap.wrap(text, LINE - 3, break_on_hyphens=False)]
    return "".join(f"// {line}\n" for line in lines)


def _paragraphs(kind: type) -> Iterator[tuple[str, str]]:
    """Yield the first paragraph of a block's docstring, under the empty word, and those that begin with `WORDS`."""
    if not (issubclass(kind, Block) and kind is not Block and kind.__doc__):
        return
    for number, paragraph in enumerate(re.split(r"\n\s*\n", kind.__doc__.strip())):
        text = " ".join(paragraph.split()).replace("``", "`")
        word = text.partition(" ")[0]
        if number == 0 or word in WORDS:
            yield ("" if number == 0 else word), text


def emit(block: Block, prefix: str = "tensordash", *, enables: bool = True) -> str:
    """Return the Verilog-2005 of a component and everything below it, one module per distinct component.

    Parameters
    ----------
    block : Block
        The top.
    prefix : str
        Prefix of every module's name.
    enables : bool
        As in `Library`.

    Returns
    -------
    str
        The text, the same on every machine and run.
    """
    library = Library(prefix, enables=enables)
    library.module(block)
    return library.verilog()
