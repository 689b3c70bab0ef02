"""Test the depth of the path from `available` to `taken`, as in docs/integration.md."""

import re
from functools import cache
from pathlib import Path

from tensordash import load_preset
from tensordash.emission.verilog import emit
from tensordash.tile.tile import Tile
from tensordash_synth.liberty import load_liberty
from tensordash_synth.mapping import map_for_area

DOCUMENT = Path(__file__).parents[2] / "docs" / "integration.md"
STATEFUL = ("DFF", "SDFF", "CLKGATE", "DLH", "DLL")


def gates_between(netlist: str, source: str, target: str) -> int:
    """Return the most cells in a row from an input to an output of a module without adders."""
    drivers = {left: [right] for left, right in re.findall(r"^  assign (\S+) = (\S+);", netlist, re.M)}
    wires = set(drivers)
    for kind, body in re.findall(r"^  (\w+) \S+ \(\n(.*?)\n  \);", netlist, re.M | re.S):
        pins = dict(re.findall(r"\.(\w+)\(\s*(.*?)\s*\)(?:,|$)", body, re.M))
        for pin in ("Z", "ZN"):
            if pin in pins and not kind.startswith(STATEFUL):
                drivers[pins[pin]] = [net for name, net in pins.items() if name not in ("Z", "ZN")]

    @cache
    def depth(net: str) -> int:
        if net.partition("[")[0] == source:
            return 0
        depths = [depth(each) for each in drivers.get(net, [])]
        return max((number + (net not in wires) for number in depths if number >= 0), default=-1)

    return max(depth(net) for net in drivers if net.partition("[")[0] == target)


def test_delay_from_available_to_taken(tmp_path):
    control = Tile(load_preset("paper")).control
    (tmp_path / "control.v").write_text(emit(control))
    (tmp_path / "work").mkdir()
    read = [f"read_verilog {tmp_path / 'control.v'}"]
    mapped = map_for_area(read, "tensordash_control", load_liberty(), 2.0, tmp_path / "work", thorough=False)
    assert mapped.delay_ns < 1.0  # half of 2 ns, which the constraints leave
    text = DOCUMENT.read_text()
    documented = {source: int(n) for source, n in re.findall(r"^\| `(available|rst)` to `taken` \| (\d+)", text, re.M)}
    (documented["frozen"],) = map(
        int, re.findall(r"^\| `out_ready` to `taken` \|.* (\d+) in the control \|", text, re.M)
    )
    assert {source: gates_between(mapped.netlist, source, "taken") for source in documented} == documented
