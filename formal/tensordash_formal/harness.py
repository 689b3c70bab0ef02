"""Harness: a component's emitted Verilog with assumptions about its inputs and claims about its outputs."""

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

__all__ = ["Fault", "FreeOutputs", "Harness", "Stub"]

Fault = Callable[[Module, Any, Any], Any]
"""A function that breaks a component at its ports.

Its arguments are the wrapper's module, the sound component and the wrapper's interface. The wrapper connects the
interface to the sound component. Assignments of the fault override these connections.
"""


@dataclass(frozen=True)
class Stub:
    """An abstraction that replaces every instance of a kind of component. It has the component's ports."""

    kind: type[Block]
    make: Callable[[Block], Elaboratable]


class FreeOutputs(Elaboratable):
    """A stub whose outputs are unconstrained in every cycle."""

    def __init__(self, block: Block) -> None:
        self.block = block

    def elaborate(self, platform: Any) -> Module:
        """Drive every output with a free value."""
        m = Module()
        for name, value, is_input in members(self.block):
            if not is_input:
                m.submodules[f"free_{name}"] = Instance("$anyseq", p_WIDTH=len(value), o_Y=value)
        m.d.sync += Signal(name="clocked").eq(1)  # without a register, the module would have no clock and reset ports
        return m


class BlackBoxLibrary(Library):
    """A library that emits black boxes (modules without a body) for components of some kinds.

    Parameters
    ----------
    kinds : set of type of Block
        The kinds to emit without a body.
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
    """Assumptions, claims and lemmas about a component, with its emitted Verilog.

    Every claim has the form "whenever `when`, then `then`". Its cover is a run in which `when` is true. Claims refer to
    ports and to the state that docs/tile.md defines. Lemmas make claims inductive, and the solver proves them together
    with the claims. Only lemmas may refer to registers inside the component.

    Reset is active in the first cycle, and may be active in any later cycle.

    Parameters
    ----------
    block : Block
        The component. Its inputs are free in every cycle unless the harness drives them.
    enclosing : Block, optional
        A component that contains `block`. The harness emits its Verilog, so the proof reads the file that users get.
    stubs : tuple of Stub
        Stubs that replace components below `block`.
    fault : tuple of (type of Block, Fault), optional
        A fault, applied to every component of that type.
    black_box : bool
        Emit black boxes for stubbed components, and nothing below them. This omits most of a core.
    partitions : int
        Number of queries over which claims and lemmas are distributed. Each query assumes all claims and lemmas in the
        previous cycle. This is sound because no claim can be the first to fail.

    Attributes
    ----------
    m : Module
        Module for ghost state: registers that only claims, lemmas and assumptions read.
    """

    def __init__(
        self,
        block: Block,
        *,
        enclosing: Block | None = None,
        stubs: tuple[Stub, ...] = (),
        fault: tuple[type[Block], Fault] | None = None,
        black_box: bool = False,
        partitions: int = 1,
    ) -> None:
        self.m = Module()
        self.partitions = partitions
        self.m._MustUse__silence = True  # a caller may list the claims only, and never convert the module
        self.block = block
        self.claims: dict[str, list[str]] = {}
        self._library = BlackBoxLibrary({each.kind for each in stubs}) if black_box else Library()
        if enclosing is not None:
            self._library.module(enclosing)
        self._ports: dict[str, Signal] = {}
        self._inner_ports: dict[str, str] = {}
        self._probes: dict[str, str] = {}
        self._lemmas: list[str] = []
        self.cuts: list[str] = []
        """Names of the cells that assert the values of cut signals."""
        self._cut_values: dict[str, str] = {}
        self._statements = 0
        self._fault = fault
        self._stubs = stubs
        self.started = Signal(reset_less=True)
        self.m.d.sync += self.started.eq(1)
        self.m.submodules.dut = self._library.place(block)
        for name, value, is_input in members(block):
            if is_input:
                assert isinstance(value, Signal)
                self._ports[name] = value
        self.assume(self.started | ResetSignal())

    def drive(self, port: Any, value: Any) -> None:
        """Drive an input of the component, which is free otherwise."""
        signal = Value.cast(port)
        self._ports = {name: each for name, each in self._ports.items() if each is not signal}
        self.m.d.comb += signal.eq(value)

    def free(self, shape: Any, name: str) -> Signal:
        """Create an unconstrained value that may change in every cycle."""
        signal = Signal(shape, name=name)
        if len(Value.cast(signal)):  # Yosys writes no traces of zero-width inputs
            self._ports[name] = Value.cast(signal)
        return signal

    def constant(self, shape: Any, name: str) -> Signal:
        """Create an unconstrained value that is the same in all cycles."""
        signal = Signal(shape, name=name)
        if len(Value.cast(signal)):
            self._cell("anyconst", f"{name}_cell", p_WIDTH=len(Value.cast(signal)), o_Y=signal)
        return signal

    def port(self, path: str, shape: Any) -> Signal:
        """Read a port of an inner component, by its name in the flattened Verilog."""
        return self._inside(path, shape, self._inner_ports)

    def probe(self, path: str, shape: Any) -> Signal:
        """Read any inner signal, by its name in the flattened Verilog. Only lemmas may read it.

        Queries without lemmas leave it undriven.
        """
        return self._inside(path, shape, self._probes)

    def _inside(self, path: str, shape: Any, group: dict[str, str]) -> Signal:
        signal = Signal(shape, name=f"inside_{len(self._inner_ports) + len(self._probes)}")
        width = len(Value.cast(signal))
        self.m.submodules[f"{signal.name}_cell"] = Instance("inside", p_WIDTH=width, o_Y=signal)
        group[signal.name] = path
        return signal

    def assume(self, condition: Any) -> None:
        """Assume a condition in every cycle."""
        self._cell("assume", f"assumption_{self._statements}", i_A=condition, i_EN=Const(1))

    def claim(self, name: str, then: Any, *, when: Any = 1) -> None:
        """Claim that `then` holds in every cycle in which `when` is true. Claims with one name form one property."""
        cells = self.claims.setdefault(name, [])
        cell = f"{name}_{len(cells)}" if cells else name
        cells.append(cell)
        when = Value.cast(when).bool() & self.started
        self._assert(f"claim_{cell}", ~when | Value.cast(then).bool())
        self._cell("cover", f"cover_{cell}", i_A=when, i_EN=Const(1))

    def lemma(self, then: Any, *, when: Any = 1) -> None:
        """State a lemma: `then` holds in every cycle in which `when` is true."""
        when = Value.cast(when).bool() & self.started
        name = f"lemma_{len(self._lemmas)}"
        self._lemmas.append(name)
        self._assert(name, ~when | Value.cast(then).bool())

    def _assert(self, name: str, holds: Value) -> None:
        self._cell("assert", name, i_A=holds, i_EN=Const(1))
        if self.partitions > 1:
            held = Signal(name=f"held_{name}", init=1, reset_less=True)
            self.m.d.sync += held.eq(holds)
            self._cell("assume", f"before_{name}", i_A=held, i_EN=Const(1))

    def cut(self, path: str, value: Any) -> None:
        """Cut an inner signal: replace its driver by an equal value, and prove the equality separately.

        Claims and lemmas are proven on a model in which the value drives the signal, so the solver need not show there
        that both are equal. Queries for counterexamples keep the original driver.
        """
        signal = Signal.like(Value.cast(value), name=f"cut_{len(self.cuts)}_value")
        self.m.d.comb += signal.eq(value)
        inside = self.probe(path, len(signal))
        name = f"cut_{len(self.cuts)}"
        self.cuts.append(name)
        self._cut_values[signal.name] = path
        self._cell("assert", name, i_A=(inside == signal) | ~self.started, i_EN=Const(1))

    def past(self, value: Any, *, init: int = 0) -> Signal:
        """Delay a value by one cycle; it is `init` after a reset."""
        value = Value.cast(value)
        signal = Signal(len(value), name=f"past_{self._statements}", init=init)
        self._statements += 1
        self.m.d.sync += signal.eq(value)
        return signal

    def _cell(self, kind: str, name: str, **ports: Any) -> None:
        self._statements += 1
        # Without `keep`, Yosys merges equal statements.
        self.m.submodules[name] = Instance(f"${kind}", a_keep=1, **ports)

    @cached_property
    def files(self) -> dict[str, str]:
        """Input files of Yosys, by name: the harness, the Verilog, stubs and faulty wrappers."""
        ports: dict[str, Any] = {name: (value, PortDirection.Input) for name, value in self._ports.items()}
        return {
            "harness.il": _rtlil(self.m, "harness", ports),
            "dut.v": self._library.verilog(),
            **self._replacements(),
        }

    def _replacements(self) -> dict[str, str]:
        files = {}
        for name, block in self._library.blocks.items():
            for stub in self._stubs:
                if type(block) is stub.kind:
                    files[f"{name}.stub.il"] = _module(stub.make(block), name, block)
            if self._fault and type(block) is self._fault[0]:
                wrapper = self._faulty_wrapper(name, block, self._fault[1])
                files[f"{name}.fault.il"] = _module(wrapper, name, block)
        return files

    def _faulty_wrapper(self, name: str, block: Block, fault: Fault) -> Module:
        """Build the wrapper that replaces a sound module under its name and contains it."""
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
        """Names of the cover cells of all claims."""
        return [f"cover_{cell}" for cells in self.claims.values() for cell in cells]

    @property
    def assertions(self) -> list[str]:
        """Names of the assert cells of all claims and lemmas."""
        return [f"claim_{cell}" for cells in self.claims.values() for cell in cells] + self._lemmas

    def assertion_groups(self) -> list[list[str]]:
        """Distribute the assertions over the partitions. Each group is one query."""
        # Consecutive assertions are often similar, and similar ones are hard to prove together.
        return [self.assertions[k :: self.partitions] for k in range(self.partitions)]

    def script(self, keep: Iterable[str], assume_past: bool = False) -> list[str]:
        """List the Yosys commands that build the model with only the claims, lemmas and covers in `keep`.

        With `assume_past`, the model assumes all claims and lemmas in the previous cycle.
        """
        names = sorted(keep)
        lemmas, cuts = (bool(set(names) & set(group)) or assume_past for group in (self._lemmas, self.cuts))
        commands = ["read_verilog dut.v"]
        for file in self.files:
            module, _, rest = file.partition(".")
            if rest == "stub.il":
                commands += [f"delete {module}", f"read_rtlil {file}"]
            elif rest == "fault.il":
                commands += [f"rename {module} {module}_sound", f"read_rtlil {file}"]
        commands += ["read_rtlil harness.il", "hierarchy -top harness", "proc -norom", "flatten", "cd harness"]
        # A query without lemmas may read a faulty component, which lacks the probed registers.
        probes = self._probes if lemmas or cuts else {}
        commands += [f"delete {name}_cell" for name in (*self._inner_ports, *self._probes)]
        # A faulty wrapper around the component adds a level of hierarchy.
        top = "dut.sound" if self._fault and type(self.block) is self._fault[0] else "dut"
        if lemmas and not cuts:
            commands += [f"connect -nomap -set \\{top}.{path} {name}" for name, path in self._cut_values.items()]
        commands += [
            f"connect -nounset -set {name} \\{top}.{path}" for name, path in (self._inner_ports | probes).items()
        ]
        # The last `select` fails unless exactly the chosen statements are left.
        commands += [
            "select -set statements t:$assert t:$cover",
            f"select -set keep {' '.join(f'c:{name}' for name in names)}",
        ]
        if self.partitions > 1 and not assume_past:
            commands += ["delete c:before_*"]
        commands += ["delete @statements @keep %d", f"select -assert-count {len(names)} t:$assert t:$cover"]
        return [*commands, "cd ..", "opt_clean"]


def _module(design: Elaboratable, name: str, block: Block) -> str:
    ports: dict[str, Any] = {
        port: (value, PortDirection.Input if is_input else PortDirection.Output)
        for port, value, is_input in members(block)
    }
    return _rtlil(design, name, ports)


def _rtlil(design: Any, name: str, ports: dict[str, Any]) -> str:
    # Amaranth escapes the type of an instance with a backslash, which Yosys' own cells do not have.
    return rtlil.convert(design, name=name, ports=ports, emit_src=False).replace("cell \\$", "cell $")
