"""Netlists for placement: hundreds of gates that read each other at random, with registers and ports."""

from pathlib import Path
from random import Random

from tensordash_synth.gates import GateNetlist, read_netlist
from tensordash_synth.lef import Lef
from tensordash_synth.liberty import Liberty
from tensordash_synth.pins import cell_sites, pin_table
from tensordash_synth.placement import Placed, floorplan, place

GATES = {"NAND2_X1": ("A1", "A2"), "NOR2_X1": ("A1", "A2"), "XOR2_X1": ("A", "B"), "AND2_X2": ("A1", "A2")}
OUTPUTS = {"NAND2_X1": "ZN", "NOR2_X1": "ZN", "XOR2_X1": "Z", "AND2_X2": "ZN"}


def random_verilog(gates: int, registers: int = 8, ports: int = 6, fanout: int = 0, seed: int = 0) -> str:
    """Return Verilog of a module `top`: gates that mostly read recent gates, the last ones registered.

    `fanout` further registers read its first input.
    """
    random = Random(seed)
    nets = [f"x[{i}]" for i in range(ports)] + [f"q[{i}]" for i in range(registers)]
    lines = []
    for i in range(gates):
        kind = random.choice(sorted(GATES))
        sources = [random.choice(nets[-24:] if random.random() < 0.9 else nets) for _ in range(2)]
        pins = [f".{pin}({net})" for pin, net in zip(GATES[kind], sources, strict=True)]
        lines.append(f"  {kind} u{i} ({', '.join(pins)}, .{OUTPUTS[kind]}(w[{i}]));")
        nets.append(f"w[{i}]")
    lines += [f"  DFF_X1 r{i} (.D({random.choice(nets[-60:])}), .CK(clk), .Q(q[{i}]));" for i in range(registers)]
    lines += [f"  DFF_X1 f{i} (.D(x[0]), .CK(clk), .Q(p[{i}]));" for i in range(fanout)]
    head = ["module top(clk, x, y, p);", "  input clk;", f"  input [{ports - 1}:0] x;"]
    head += [f"  output [{registers - 1}:0] y;", f"  output [{max(fanout, 1) - 1}:0] p;"]
    head += [f"  wire [{registers - 1}:0] q;", f"  wire [{gates - 1}:0] w;", "  assign y = q;"]
    head += [] if fanout else ["  assign p = 1'b0;"]
    return "\n".join([*head, *lines, "endmodule", ""])


def random_netlist(library: Liberty, folder: Path, **shape: int) -> GateNetlist:
    """Map `random_verilog`; `folder` must be empty."""
    return read_netlist(random_verilog(240, **shape), "top", library, folder)


def placed_netlist(gates: GateNetlist, library: Liberty, lef: Lef, folder: Path) -> Placed:
    """Return a netlist placed at a density of 0.8."""
    widths = cell_sites(gates, lef)
    return place(pin_table(gates, library, lef), widths, floorplan(lef, sum(widths), 0.8), folder)
