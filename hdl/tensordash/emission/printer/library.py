"""A library whose modules the printer writes; what users generate still comes through Yosys."""

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from amaranth.hdl import Fragment, UnusedElaboratable

from ...block import Block
from ..library import Library, members
from ..text import document
from .printer import Printed, print_module

__all__ = ["PrintingLibrary"]


class PrintingLibrary(Library):
    """As `Library`, but `texts` are the modules in Verilog-2005, printed from Amaranth's statements.

    Parameters
    ----------
    prefix, check
        As for `Library`.
    enables : bool
        Registers that keep what they have do so by an ``if``. Without it they are assigned in every cycle, and an
        enable that is unknown in simulation makes the register unknown, where an ``if`` would leave it as it is.

    Attributes
    ----------
    partly_unused : dict of str to tuple of str
        Of every module, its inputs and nets of which nobody reads all bits.
    """

    def __init__(self, prefix: str = "tensordash", *, check: bool = False, enables: bool = True) -> None:
        super().__init__(prefix, check=check)
        self.enables = enables
        self.partly_unused: dict[str, tuple[str, ...]] = {}
        self._clocked: dict[str, frozenset[str]] = {}

    def module(self, block: Block) -> tuple[str, frozenset[str]]:
        """As of `Library`."""
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
                return print_module(name, list(members(block)), fragment, enables=self.enables)
        except BaseException:
            # What is left half made, by Ctrl-C for instance, is not a mistake of the design.
            warnings.simplefilter("ignore", UnusedElaboratable)
            raise

    def verilog(self, *, optimise: bool = True) -> str:
        """Verilog-2005 of every module placed so far: the same text on every machine and run."""
        return self.verilog_of(self.texts)

    def verilog_of(self, modules: Iterable[str]) -> str:
        """As `verilog`, of some modules."""
        return document(self.texts[name] for name in modules)

    @contextmanager
    def fragment(self, block: Block) -> Iterator[Fragment]:
        """A block elaborated, its members called as in its module: own ones by their port, others `instance__port`."""
        fragment = Fragment.get(block, self)
        with self._named_wires(block, fragment):
            yield fragment
