"""Wiring mutants: a port's bus is dropped, stuck, replaced by or swapped with a neighbour's, or has a stuck bit."""

import copy
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from tensordash_synth.yosys import run_yosys

from .mutants import SELECT, SELECT_BITS, Mutant, Mutants
from .subjects import Subject

__all__ = ["KINDS", "WiringMutant", "WiringMutants"]

KINDS = ("neighbour", "swapped", "dropped", "stuck", "bit stuck")
"""Kinds of wiring mutants. A dropped bus reads as zeros, a stuck bus as ones."""

CLOCK = "clk"
"""Port without mutants: a multiplexer would delay the clock against the data that it samples."""
MAX_DRAWS = 20
"""Attempts to draw a new change of one kind at a place."""

Bits = list[int | str]
Place = tuple[str, str, str]


@dataclass(frozen=True, kw_only=True)
class WiringMutant(Mutant):
    """A mutant of the connection of one port, or of two swapped ports.

    Parameters
    ----------
    cell, port : str
        The instance and its port.
    other : str
        The neighbour, which is the next instance of the same module; empty if the change needs none.
    bit, value : int
        The stuck bit, or -1 for all bits, and the value of the stuck bits.
    """

    cell: str
    port: str
    other: str = ""
    bit: int = -1
    value: int = 0


class WiringMutants(Mutants):
    """Wiring mutants, drawn in turns over the ports of each kind of instance. Each turn has another kind of change.

    Parameters
    ----------
    subject, folder
        As in `Mutants`.
    count, seed : int
        Number of mutants, and seed of the sample. A small component may have fewer.
    """

    def __init__(self, subject: Subject, count: int, seed: int, folder: Path) -> None:
        super().__init__(subject, folder)
        run_yosys([*self._read, "write_json design.json"], folder, self.top)
        self._design = json.loads((folder / "design.json").read_text(encoding="utf-8"))
        for module in self._design["modules"].values():
            _drop_fields(module)
        self._nets = {name: _Nets(self._design["modules"], name) for name in self.modules}
        places = [(name, *place) for name, nets in self._nets.items() for place in nets.places()]
        self.mutants: Sequence[WiringMutant] = list(self._draw(places, count, Random(f"{seed} wiring {subject.name}")))

    def _draw(self, places: list[Place], count: int, random: Random) -> Iterator[WiringMutant]:
        # Kinds that need a neighbour come first because few places have one.
        kinds = {place: [*random.sample(KINDS[:2], 2), *random.sample(KINDS[2:], 3)] for place in places}
        random.shuffle(places)
        seen: set[tuple[Any, ...]] = set()
        number, turn = 0, 0
        while places and number < count:
            for place in list(places):
                if (change := self._change(place, kinds[place], turn, seen, random)) is None:
                    places.remove(place)
                elif number < count:
                    number += 1
                    module, port = place[0], change["port"]
                    line = self._line(module, change["cell"], port)
                    yield WiringMutant(number=number, module=module, title=_title(change), line=line, **change)
            turn += 1

    def _change(
        self, place: Place, kinds: list[str], turn: int, seen: set[tuple[Any, ...]], random: Random
    ) -> dict[str, Any] | None:
        """Draw a new change at a place, preferably of the turn's kind; return None if none is found."""
        module, child, port = place
        nets = self._nets[module]
        for attempt in range(MAX_DRAWS * len(kinds)):
            kind = kinds[(turn + attempt // MAX_DRAWS) % len(kinds)]
            cell = random.choice(nets.instances[child])
            change = nets.change(cell, port, kind, random)
            if change is not None and (key := (module, *change.values())) not in seen:
                seen.add(key)
                return change
        return None

    def _line(self, module: str, cell: str, port: str) -> int:
        """Return the line that connects an instance's port, or the instance's first line if none is found."""
        source = self._design["modules"][module]["cells"][cell]["attributes"]["src"]
        first = int(re.search(r":(\d+)", source)[1])  # type: ignore[index]
        for number, line in enumerate(self.text.splitlines()[first - 1 :], first):
            if f".{port}(" in line:
                return number
            if line.rstrip().endswith(");"):
                break
        return first

    def model(self) -> str:
        """Return Verilog of all mutants; see `Mutants`."""
        text = self._write(self.mutants, chosen=True)
        declared = f"  wire [{SELECT_BITS - 1}:0] {SELECT}"
        assert text.count(f"{declared};\n") == len({each.module for each in self.mutants})
        # Yosys has no global names, so every module except the top reads the top's register by its path.
        head, begin, rest = text.partition(f"module {self.top}(")
        inside, end, rest = rest.partition("endmodule")
        parts = (head, begin, inside.replace(f"{declared};\n", ""), end, rest)
        return self._with_select("".join(parts).replace(f"{declared};\n", f"{declared} = {self.top}.{SELECT};\n"))

    def verilog(self, mutant: Mutant | None) -> str:
        """Return Verilog of one mutant; see `Mutants`."""
        return self._write([mutant] if isinstance(mutant, WiringMutant) else [], chosen=False)

    def _write(self, mutants: Sequence[WiringMutant], *, chosen: bool) -> str:
        design = copy.deepcopy(self._design)
        for name, nets in self._nets.items():
            if rewired := [each for each in mutants if each.module == name]:
                nets.rewire(design["modules"][name], rewired, chosen=chosen)
        (self._folder / "mutant.json").write_text(json.dumps(design), encoding="utf-8")
        run_yosys(["read_json mutant.json", "write_verilog -noattr mutant.v"], self._folder, self.top)
        return (self._folder / "mutant.v").read_text(encoding="utf-8")


def _drop_fields(module: dict[str, Any]) -> None:
    """Delete names of parts of other nets: Yosys would use them for registers that benches set by their own names."""
    nets = module["netnames"]
    covered: set[Any] = set()
    for name in sorted(nets, key=lambda name: -len(nets[name]["bits"])):
        bits = set(nets[name]["bits"])
        if name not in module["ports"] and bits <= covered:
            del nets[name]
        covered |= bits


def _title(change: dict[str, Any]) -> str:
    name = f"{change['cell']}.{change['port']}"
    match change["kind"]:
        case "neighbour":
            return f"{name} connected to the bus of {change['other']}"
        case "swapped":
            return f"{name} swapped with {change['other']}"
        case "bit stuck":
            return f"bit {change['bit']} of {name} stuck at {change['value']}"
    return f"{name} {'dropped' if change['kind'] == 'dropped' else 'stuck at ones'}"


class _Nets:
    """A module's instances and their connections.

    Parameters
    ----------
    modules : dict
        All modules of a design, as in Yosys' JSON.
    name : str
        The module.
    """

    def __init__(self, modules: dict[str, Any], name: str) -> None:
        module = modules[name]
        self.cells = {cell: each for cell, each in module["cells"].items() if each["type"] in modules}
        self.instances: dict[str, list[str]] = defaultdict(list)
        for cell, each in self.cells.items():
            self.instances[each["type"]].append(cell)
        ports = {child: modules[child]["ports"] for child in self.instances}
        self.outputs = {
            (child, port) for child, each in ports.items() for port in each if each[port]["direction"] == "output"
        }
        self.read = {bit for port in module["ports"].values() if port["direction"] == "output" for bit in port["bits"]}
        for each in module["cells"].values():
            inputs = (port for port, way in each["port_directions"].items() if way == "input")
            self.read.update(bit for port in inputs for bit in each["connections"].get(port, []))

    def places(self) -> list[tuple[str, str]]:
        """List every pair of an instantiated module and one of its ports that has an effect in this module."""
        return [
            (child, port)
            for child, cells in sorted(self.instances.items())
            for port in sorted({port for cell in cells for port in self.cells[cell]["connections"]})
            if port != CLOCK and any(self._live(cell, port) for cell in cells)
        ]

    def _bits(self, cell: str, port: str) -> Bits:
        return self.cells[cell]["connections"].get(port, [])

    def _live(self, cell: str, port: str) -> list[int]:
        """Return the bits of a connection that have an effect: all bits of an input, and the read bits of an output."""
        bits, output = self._bits(cell, port), self._output(cell, port)
        return [i for i, bit in enumerate(bits) if not output or (bit in self.read and not isinstance(bit, str))]

    def _output(self, cell: str, port: str) -> bool:
        return (self.cells[cell]["type"], port) in self.outputs

    def change(self, cell: str, port: str, kind: str, random: Random) -> dict[str, Any] | None:
        """Draw a change of a kind at one place, as fields of a `WiringMutant`; return None if it has no effect."""
        bits, live = self._bits(cell, port), self._live(cell, port)
        change = {"kind": kind, "cell": cell, "port": port, "other": "", "bit": -1, "value": 0}
        if not live:
            return None
        if kind in ("neighbour", "swapped"):
            cells = self.instances[self.cells[cell]["type"]]
            other = cells[(cells.index(cell) + 1) % len(cells)]
            return None if self._bits(other, port) == bits else {**change, "other": other}
        if kind == "bit stuck":
            if len(bits) == 1:  # the whole bus
                return None
            bit, value = random.choice(live), random.getrandbits(1)
            return None if bits[bit] == str(value) else {**change, "bit": bit, "value": value}
        value = int(kind == "stuck")
        return None if all(bit == str(value) for bit in bits) else {**change, "value": value}

    def rewire(self, module: dict[str, Any], mutants: Sequence[WiringMutant], *, chosen: bool) -> None:
        """Rewire a module. With `chosen`, the register selects one of the mutants; otherwise there is only one."""
        netlist = _Netlist(module)
        select = netlist.wire(SELECT_BITS, SELECT) if chosen else []
        by_port: dict[tuple[str, str], list[WiringMutant]] = defaultdict(list)
        for mutant in mutants:
            by_port[mutant.cell, mutant.port].append(mutant)
            if mutant.kind == "swapped":
                by_port[mutant.other, mutant.port].append(mutant)
        # An output drives new nets. The mutants' multiplexers connect these to the module's original nets.
        driven = {
            (cell, port): netlist.wire(len(self._bits(cell, port))) if self._output(cell, port) else []
            for cell, port in by_port
        }
        for (cell, port), at_port in by_port.items():
            bits = self._bits(cell, port)
            source = driven[cell, port] or bits
            for mutant in at_port:
                other = mutant.cell if cell == mutant.other else mutant.other
                other_bits = (driven.get((other, port)) or self._bits(other, port)) if other else []
                when: Bits = netlist.equal(select, mutant.number) if chosen else ["1"]
                source = netlist.multiplexer(when, _changed(mutant, source, other_bits), source)
            connections = module["cells"][cell]["connections"]
            if driven[cell, port]:
                connections[port] = driven[cell, port]
                netlist.connect(source, bits)
            else:
                connections[port] = source


def _changed(mutant: WiringMutant, bits: Bits, other_bits: Bits) -> Bits:
    """Return a connection as a mutant changes it."""
    if mutant.other:
        return other_bits
    return [str(mutant.value) if mutant.bit in (-1, i) else bit for i, bit in enumerate(bits)]


class _Netlist:
    """Adds wires and cells to a module in Yosys' JSON format."""

    def __init__(self, module: dict[str, Any]) -> None:
        self._module = module
        all_bits = [net["bits"] for net in module["netnames"].values()]
        all_bits += [bits for cell in module["cells"].values() for bits in cell["connections"].values()]
        self._next = 1 + max((bit for bits in all_bits for bit in bits if isinstance(bit, int)), default=1)

    def wire(self, width: int, name: str = "") -> Bits:
        bits: Bits = list(range(self._next, self._next + width))
        self._next += width
        if name:
            self._module["netnames"][name] = {"hide_name": 0, "bits": bits, "attributes": {}}
        return bits

    def equal(self, bits: Bits, number: int) -> Bits:
        """Compare nets with a number."""
        constant: Bits = [str(number >> i & 1) for i in range(len(bits))]
        return self._cell("$eq", A=bits, B=constant, width=1)

    def multiplexer(self, when: Bits, one: Bits, other: Bits) -> Bits:
        """Select `one` if `when` is true, else `other`."""
        return self._cell("$mux", A=other, B=one, S=when, width=len(one))

    def connect(self, source: Bits, target: Bits) -> None:
        """Drive nets, skipping bits of the target that are constants."""
        pairs = [(one, other) for one, other in zip(source, target, strict=True) if isinstance(other, int)]
        self._cell("$pos", A=[one for one, _ in pairs], into=[other for _, other in pairs], width=len(pairs))

    def _cell(self, kind: str, *, width: int, into: Bits | None = None, **inputs: Bits) -> Bits:
        output = self.wire(width) if into is None else into
        sized = {"A_WIDTH": len(inputs["A"]), "Y_WIDTH": width, "A_SIGNED": 0}
        if kind == "$mux":
            sized = {"WIDTH": width}
        elif "B" in inputs:
            sized |= {"B_WIDTH": len(inputs["B"]), "B_SIGNED": 0}
        self._module["cells"][f"$mutant${len(self._module['cells'])}"] = {
            "hide_name": 1,
            "type": kind,
            "parameters": sized,
            "attributes": {},
            "port_directions": {**dict.fromkeys(inputs, "input"), "Y": "output"},
            "connections": {**inputs, "Y": output},
        }
        return output
