"""Test that `out_ready` reaches only the output buffer's registers with `registered_ready`.

The tests trace the signal through the emitted Verilog, which Yosys reads and flattens.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tensordash import TileConfig
from tensordash.emission.verilog import emit
from tensordash.streams.axi_stream import AxiStreamTile
from tensordash.tile.output_buffer import OutputBuffer
from tensordash.tile.tile import Tile
from tensordash_synth.yosys import run_yosys

SMALL: dict[str, Any] = {
    "rows": 2,
    "columns": 1,
    "lanes": 2,
    "depth": 2,
    "connectivity": ((0, 0), (1, 0), (1, 1)),
    "format": "int8",
}
TILES = {
    "plain": TileConfig(**SMALL),
    "ring": TileConfig(**SMALL, staging="ring"),
    "one stage": TileConfig(**SMALL, pipeline=1),
    "dense": TileConfig(**SMALL, sparsity="none", out_rows=2),
    "with c": TileConfig(**SMALL, initial=True, counters=False),
    "with c, rounded": TileConfig(**{**SMALL, "format": "fp8_e5m2"}, initial=True, counters="snapshot"),
    "fused with c": TileConfig(**{**SMALL, "format": "bf16", "accumulator": {"fused": 8}}, initial=True),
}
REGISTERS = ("$dff", "$dffe", "$sdff", "$sdffe", "$sdffce")


def reached(top, pin: str, folder: Path) -> tuple[set[str], set[str]]:
    """Return outputs, and registers by their component, that depend on an input in the same cycle."""
    (folder / "tile.v").write_text(emit(top))
    commands = ["read_verilog tile.v", "hierarchy -auto-top", "proc", "flatten", "opt_clean", "write_json tile.json"]
    run_yosys(commands, folder, "tile")
    (module,) = json.loads((folder / "tile.json").read_text())["modules"].values()
    # The last of a wire's names is the deepest one, which is the name of its register.
    by_depth = sorted(module["netnames"].items(), key=lambda item: item[0].count("."))
    names = {bit: name for name, net in by_depth for bit in net["bits"]}
    users: dict[int, list[dict]] = {}
    for cell in module["cells"].values():
        for port, bits in cell["connections"].items():
            if cell["port_directions"][port] == "input":
                for bit in bits:
                    users.setdefault(bit, []).append(cell)
    ports = [(name, set(port["bits"])) for name, port in module["ports"].items() if port["direction"] == "output"]
    registers = set()
    seen, todo = set(module["ports"][pin]["bits"]), list(module["ports"][pin]["bits"])
    while todo:
        bit = todo.pop()
        for cell in users.get(bit, []):
            assert not cell["type"].startswith("$mem"), cell
            for port, bits in cell["connections"].items():
                if cell["port_directions"][port] == "input":
                    continue
                if cell["type"] in REGISTERS:
                    registers.add(names[bits[0]].rpartition(".")[0])
                    continue
                assert not cell["type"].startswith(("$dlatch", "$dff", "$sdff", "$adff")), cell["type"]
                todo += [each for each in bits if each not in seen]
                seen |= set(bits)
    return {name for name, bits in ports if bits & seen}, registers


def buffered(config: TileConfig) -> TileConfig:
    return TileConfig.from_mapping({"tile": {**config.to_mapping()["tile"], "registered_ready": True}})


@pytest.mark.parametrize("name", TILES)
def test_ready_reaches_the_buffer_alone(name, tmp_path):
    outputs, registers = reached(Tile(buffered(TILES[name])), "out_ready", tmp_path)
    assert (outputs, registers) == (set(), {"output_buffer"})


def test_ready_of_the_wrapper_reaches_the_buffer_alone(tmp_path):
    outputs, registers = reached(AxiStreamTile(buffered(TILES["plain"])), "m_axis_tready", tmp_path)
    assert (outputs, registers) == (set(), {"tile.output_buffer"})


def test_ready_without_the_buffer_reaches_the_inputs(tmp_path):
    """Control: the trace finds a path if there is one."""
    outputs, registers = reached(Tile(TILES["plain"]), "out_ready", tmp_path)
    assert outputs == {"a_0_taken", "b_0_taken", "b_1_taken"}
    assert len(registers) > 5


def test_combinational_ready_path_is_found(monkeypatch, tmp_path):
    original = OutputBuffer.elaborate

    def broken(self, platform):
        m = original(self, platform)
        m.d.comb += self.beats.ready.eq(self.out.ready)
        return m

    monkeypatch.setattr(OutputBuffer, "elaborate", broken)
    outputs, _ = reached(Tile(buffered(TILES["plain"])), "out_ready", tmp_path)
    assert "a_0_taken" in outputs
