"""Harness: a component's emitted Verilog, what is assumed of its inputs, and what is claimed of it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import ClockSignal, Const, Elaboratable, Instance, Module, ResetSignal, Signal, Value
from amaranth.hdl._ir import PortDirection

from tensordash.block import Block
from tensordash.emission.library import Library, members, ports
from tensordash.emission.printer.printer import Printed

__all__ = ["Anything", "Fault", "Harness", "Stand"]

Fault = Callable[[Module, Any, Any], Any]
"""Breaks a component at its ports: gets the module, the sound component and the one seen from outside, whose outputs
are those of the sound one and whose inputs reach it, unless the fault says otherwise (the last assignment wins)."""


@dataclass(frozen=True)
class Stand:
    """A component that takes the place of every instance of a kind, with the same ports."""

    kind: type[Block]
    make: Callable[[Block], Elaboratable]


class Anything(Elaboratable):
    """Any component at all with the ports of one: outputs that may be anything in every cycle."""

    def __init__(self, block: Block) -> None:
        self.block = block

    def elaborate(self, platform: Any) -> Module:
        """Free outputs."""
        m = Module()
        for name, value, is_input in members(self.block):
            if not is_input:
                m.submodules[f"any_{name}"] = Instance("$anyseq", p_WIDTH=len(value), o_Y=value)
        m.d.sync += Signal(name="clocked").eq(1)  # for the ports of clock and reset
        return m


class HollowLibrary(Library):
    """Emits modules without anything in them for components of some kinds; all others as they are.

    Parameters
    ----------
    kinds : set of type of Block
        Those kinds.
    """

    def __init__(self, kinds: set[type[Block]]) -> None:
        super().__init__()
        self._kinds = kinds

    def _printed(self, block: Block, name: str) -> Printed:
        if type(block) not in self._kinds:
            return super()._printed(block, name)
        rows = [f"  {port['direction']} wire [{port['width'] - 1}:0] {each}" for each, port in ports(block).items()]
        text = f"module {name}(\n" + ",\n".join(rows) + "\n);\nendmodule\n"
        return Printed(text, frozenset({"clk", "rst"}), ())


class Harness:
    """Statements about a component whose Verilog lies below.

    Every claim has the form "whenever `when`, then `then`"; that `when` can happen is its cover. Claims speak of ports
    and of the state that docs/tile.md defines. A lemma is what a claim needs to be inductive: it is proven along with
    the claims, and is the only place that may look inside.

    The first cycle is a reset; later ones come at any time.

    Parameters
    ----------
    block : Block
        The component. Its inputs are free in every cycle unless the harness drives them.
    within : Block, optional
        Emit this one, which holds the component, so that what is proven is its file.
    stands : iterable of Stand
        What takes the place of components below it.
    fault : tuple of (type of Block, Fault), optional
        What is broken in every component of that type.
    hollow : bool
        Emit nothing of what stands take the place of, nor of what is inside of it: of a core, that is most of it.
    pieces : int
        Questions that claims and lemmas are shared out to. In each, what the others are asked for is assumed of the
        cycle before: no first cycle is left in which one of them could fail.

    Attributes
    ----------
    m : Module
        Ghost state goes here: registers that only the statements read.
    """

    def __init__(
        self,
        block: Block,
        *,
        within: Block | None = None,
        stands: tuple[Stand, ...] = (),
        fault: tuple[type[Block], Fault] | None = None,
        hollow: bool = False,
        pieces: int = 1,
    ) -> None:
        self.m = Module()
        self.pieces = pieces
        self.m._MustUse__silence = True  # one whose claims are only listed is never converted
        self.block = block
        self.claims: dict[str, list[str]] = {}
        self._library = HollowLibrary({each.kind for each in stands}) if hollow else Library()
        if within is not None:
            self._library.module(within)
        self._ports: dict[str, Signal] = {}
        self._inner_ports: dict[str, str] = {}
        self._probes: dict[str, str] = {}
        self._lemmas: list[str] = []
        self._first: list[str] = []
        self.cuts: list[str] = []
        """Names of the cells that state what is cut."""
        self._cut_values: dict[str, str] = {}
        self._statements = 0
        self._fault = fault
        self._stands = stands
        self.started = Signal(reset_less=True)
        self.m.d.sync += self.started.eq(1)
        self.m.submodules.dut = self._library.place(block)
        for name, value, is_input in members(block):
            if is_input:
                assert isinstance(value, Signal)
                self._ports[name] = value
        self.assume(self.started | ResetSignal())

    def drive(self, port: Any, value: Any) -> None:
        """Give an input of the component a value, instead of any."""
        signal = Value.cast(port)
        self._ports = {name: each for name, each in self._ports.items() if each is not signal}
        self.m.d.comb += signal.eq(value)

    def free(self, shape: Any, name: str) -> Signal:
        """A value that may be another one in every cycle."""
        signal = Signal(shape, name=name)
        if len(Value.cast(signal)):  # Yosys has no traces of inputs without bits
            self._ports[name] = Value.cast(signal)
        return signal

    def constant(self, shape: Any, name: str) -> Signal:
        """Any value, the same in all cycles."""
        signal = Signal(shape, name=name)
        if len(Value.cast(signal)):
            self._cell("anyconst", f"{name}_cell", p_WIDTH=len(Value.cast(signal)), o_Y=signal)
        return signal

    def port(self, path: str, shape: Any) -> Signal:
        """A port of a component inside, by its name in the flattened Verilog."""
        return self._inside(path, shape, self._inner_ports)

    def probe(self, path: str, shape: Any) -> Signal:
        """Any signal inside, likewise; lemmas alone may read it. Where they are left out, it has no meaning."""
        return self._inside(path, shape, self._probes)

    def _inside(self, path: str, shape: Any, group: dict[str, str]) -> Signal:
        signal = Signal(shape, name=f"inside_{len(self._inner_ports) + len(self._probes)}")
        width = len(Value.cast(signal))
        self.m.submodules[f"{signal.name}_cell"] = Instance("inside", p_WIDTH=width, o_Y=signal)
        group[signal.name] = path
        return signal

    def assume(self, condition: Any) -> None:
        """Leave out every run in which the condition is ever false."""
        self._cell("assume", f"assumption_{self._statements}", i_A=condition, i_EN=Const(1))

    def claim(self, name: str, then: Any, *, when: Any = 1) -> None:
        """What must hold in every cycle that `when` is true in. Claims of one name are one property."""
        cells = self.claims.setdefault(name, [])
        cell = f"{name}_{len(cells)}" if cells else name
        cells.append(cell)
        when = Value.cast(when).bool() & self.started
        self._assert(f"claim_{cell}", ~when | Value.cast(then).bool())
        self._cell("cover", f"cover_{cell}", i_A=when, i_EN=Const(1))

    def lemma(self, then: Any, *, when: Any = 1, first: bool = False) -> None:
        """What the claims need to be inductive.

        With `first`, and of a harness of several pieces, it is proven in a piece with others like it, and assumed in
        all others of the same cycle too: they need not find out again what follows from the cycle before.
        """
        when = Value.cast(when).bool() & self.started
        name = f"lemma_{len(self._lemmas)}"
        self._lemmas.append(name)
        if first:
            self._first.append(name)
        self._assert(name, ~when | Value.cast(then).bool())

    def _assert(self, name: str, holds: Value) -> None:
        self._cell("assert", name, i_A=holds, i_EN=Const(1))
        if self.pieces > 1:
            if name in self._first:
                self._cell("assume", f"now_{name}", i_A=holds, i_EN=Const(1))
            held = Signal(name=f"held_{name}", init=1, reset_less=True)
            self.m.d.sync += held.eq(holds)
            self._cell("assume", f"before_{name}", i_A=held, i_EN=Const(1))

    def cut(self, path: str, value: Any) -> None:
        """Let a signal inside be a value, which is proven by itself.

        Claims and lemmas are proven of a model in which the value drives the signal: the solver need not find out that
        both are the same. Counterexamples are searched without.
        """
        signal = Signal.like(Value.cast(value), name=f"cut_{len(self.cuts)}_value")
        self.m.d.comb += signal.eq(value)
        inside = self.probe(path, len(signal))
        name = f"cut_{len(self.cuts)}"
        self.cuts.append(name)
        self._cut_values[signal.name] = path
        self._cell("assert", name, i_A=(inside == signal) | ~self.started, i_EN=Const(1))

    def past(self, value: Any, *, init: int = 0) -> Signal:
        """A value one cycle ago; `init` after a reset."""
        value = Value.cast(value)
        signal = Signal(len(value), name=f"past_{self._statements}", init=init)
        self._statements += 1
        self.m.d.sync += signal.eq(value)
        return signal

    def _cell(self, kind: str, name: str, **ports: Any) -> None:
        self._statements += 1
        # Kept, or Yosys would make one of two statements that say the same.
        self.m.submodules[name] = Instance(f"${kind}", a_keep=1, **ports)

    @cached_property
    def files(self) -> dict[str, str]:
        """What Yosys reads: the harness, the Verilog, and what takes the place of components in it."""
        ports: dict[str, Any] = {name: (value, PortDirection.Input) for name, value in self._ports.items()}
        return {"harness.il": _rtlil(self.m, "harness", ports), "dut.v": self._library.verilog(), **self._replaced()}

    def _replaced(self) -> dict[str, str]:
        files = {}
        for name, block in self._library.blocks.items():
            for stand in self._stands:
                if type(block) is stand.kind:
                    files[f"{name}.stand.il"] = _module(stand.make(block), name, block)
            if self._fault and type(block) is self._fault[0]:
                broken = self._broken(name, block, self._fault[1])
                files[f"{name}.fault.il"] = _module(broken, name, block)
        return files

    def _broken(self, name: str, block: Block, fault: Fault) -> Module:
        """The module that takes the name of a sound one, and holds it."""
        m = Module()
        sound = block.signature.create(path=("sound",))
        ports: dict[str, Any] = {}
        for (path, _member, inner), (_, outer, is_input) in zip(
            block.signature.flatten(sound), members(block), strict=True
        ):
            ports[f"{'i' if is_input else 'o'}_{'_'.join(map(str, path))}"] = inner
            m.d.comb += Value.cast(inner).eq(outer) if is_input else outer.eq(Value.cast(inner))
        _, clocked = self._library.module(block)
        signals = {"clk": ClockSignal(), "rst": ResetSignal()}
        m.submodules.sound = Instance(f"{name}_sound", **{f"i_{each}": signals[each] for each in clocked}, **ports)
        m.d.comb += fault(m, sound, block) or []
        return m

    @property
    def covers(self) -> list[str]:
        """Names of the cells that state when claims say something."""
        return [f"cover_{cell}" for cells in self.claims.values() for cell in cells]

    @property
    def assertions(self) -> list[str]:
        """Names of the cells that state claims and lemmas."""
        return [f"claim_{cell}" for cells in self.claims.values() for cell in cells] + self._lemmas

    def questions(self) -> list[list[str]]:
        """Assertions of each question."""
        if self.pieces == 1:
            return [self.assertions]
        rest = [name for name in self.assertions if name not in self._first]
        pieces = self.pieces - bool(self._first)
        # Those that follow each other are often alike, and hard together.
        return [self._first] * bool(self._first) + [rest[k::pieces] for k in range(pieces)]

    def script(self, keep: Iterable[str], before: bool = False) -> list[str]:
        """Yosys commands that build the model from the files, with no other claims, lemmas and covers than `keep`.

        With `before`, all claims and lemmas are assumed of the cycle before, and lemmas that come first of the same one
        unless they are asked for.
        """
        kept = sorted(keep)
        lemmas, cuts = (bool(set(kept) & set(names)) or before for names in (self._lemmas, self.cuts))
        commands = ["read_verilog dut.v"]
        for file in self.files:
            module, _, rest = file.partition(".")
            if rest == "stand.il":
                commands += [f"delete {module}", f"read_rtlil {file}"]
            elif rest == "fault.il":
                commands += [f"rename {module} {module}_sound", f"read_rtlil {file}"]
        commands += ["read_rtlil harness.il", "hierarchy -top harness", "proc -norom", "flatten", "cd harness"]
        # Without lemmas, a component may be another one, with other registers.
        probes = self._probes if lemmas or cuts else {}
        commands += [f"delete {name}_cell" for name in (*self._inner_ports, *self._probes)]
        # The component itself lies one level deeper where it is the one that is broken.
        top = "dut.sound" if self._fault and type(self.block) is self._fault[0] else "dut"
        if lemmas and not cuts:
            commands += [f"connect -nomap -set \\{top}.{path} {name}" for name, path in self._cut_values.items()]
        commands += [
            f"connect -nounset -set {name} \\{top}.{path}" for name, path in (self._inner_ports | probes).items()
        ]
        # `select` fails where nothing is left to prove.
        commands += [
            "select -set stated t:$assert t:$cover",
            f"select -set kept {' '.join(f'c:{name}' for name in kept)}",
        ]
        if self.pieces > 1 and not before:
            commands += ["delete c:before_*"]
        if self.pieces > 1 and self._first and (not before or set(kept) & set(self._first)):
            commands += ["delete c:now_*"]
        commands += ["delete @stated @kept %d", f"select -assert-count {len(kept)} t:$assert t:$cover"]
        return [*commands, "cd ..", "opt_clean"]


def _module(design: Elaboratable, name: str, block: Block) -> str:
    ports: dict[str, Any] = {
        port: (value, PortDirection.Input if is_input else PortDirection.Output)
        for port, value, is_input in members(block)
    }
    return _rtlil(design, name, ports)


def _rtlil(design: Any, name: str, ports: dict[str, Any]) -> str:
    # Amaranth writes the type of an instance as a name of the user's: a cell of Yosys' own has none of the backslash.
    return rtlil.convert(design, name=name, ports=ports, emit_src=False).replace("cell \\$", "cell $")
