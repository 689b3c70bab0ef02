"""Test the rules of AXI: each can apply, and the two sides do not contradict each other."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from amaranth.hdl import Module
from amaranth.sim import Simulator

from tensordash_axi import Axi4Rules, AxiLiteRules, Statements, to_verilog
from tensordash_formal.solver import Query, Solver

CHECKERS = {
    "axi4": lambda: Axi4Rules(data_bits=32, address_bits=16, id_bits=1, reads=2, writes=2, addresses=2, within=4),
    "lite": lambda: AxiLiteRules(address_bits=12, limit=3, within=4),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKERS)
def test_each_rule_applies_in_a_legal_run(name, tmp_path):
    """In the emitted Verilog with free signals, the assumptions leave a run in which each rule applies."""
    text = to_verilog(CHECKERS[name](), ())
    rules = [rule.name for rule in CHECKERS[name]().rules]
    covers = "\n".join(
        f"cover_{rule}: cover property ({'' if rule.endswith('_reset') else '!rst && '}applies__{rule});"
        for rule in rules
    )
    body = text.rindex("endmodule")
    design = text[:body] + f"always @(posedge clk) begin\n{covers}\nend\n" + text[body:]
    script = ("read_verilog -formal dut.v", "prep -flatten -top axi_rules", "chformal -assert -remove")
    query = Query(mode="cover", depth=7, script=script, files={"dut.v": design})
    assert Solver(tmp_path).solve(query).status == "pass"


def test_assertions_fail_for_a_free_bus(tmp_path):
    design = to_verilog(CHECKERS["lite"](), ("slave",))
    script = ("read_verilog -formal dut.v", "prep -flatten -top axi_rules")
    query = Query(mode="bmc", depth=4, script=script, files={"dut.v": design})
    assert Solver(tmp_path).solve(query).status == "fail"


def test_the_page_has_every_rule():
    page = (Path(__file__).parents[2] / "docs" / "axi.md").read_text(encoding="utf-8")
    full, lite = (
        [(rule.name, rule.side, rule.section, rule.text) for rule in CHECKERS[name]().rules]
        for name in ("axi4", "lite")
    )
    rules = [rule for row in page.splitlines() if row.startswith("| `") and row.count("|") == 5 for rule in _rules(row)]
    assert sorted(rules) == sorted([*full, *(rule for rule in lite if rule not in full)])
    unchanged = re.findall(r"`(_\w+)`", page.split("## AXI4-Lite\n")[1].partition("|")[0])
    assert [rule for rule in full if rule in lite] == [rule for rule in full if rule[0].endswith(tuple(unchanged))]


def _rules(row):
    """Return the rules of a row of the page: x in their text stands for the channel that begins each name."""
    names, side, section, text = (cell.strip() for cell in row.strip("|").split("|"))
    found = [(name, name.partition("_")[0].upper()) for name in re.findall(r"`(\w+)`", names)]
    return [(name, side, section, re.sub(r"\bx(?=[A-Z]|\b)", channel, text)) for name, channel in found]


def test_the_package_does_not_import_tensordash():
    code = "import sys, tensordash_axi; print([name for name in sys.modules if name.startswith('tensordash')])"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert all(name.startswith("tensordash_axi") for name in eval(output))


def _violations(checker, cycles):
    """Run the checker and list violated rules by cycle. Unnamed signals are 0."""
    broken = []

    async def bench(ctx):
        for number, signals in enumerate(cycles):
            for name in checker.bus.signature.members:
                if name.endswith(("valid", "ready", "last", "addr", "len", "id")):
                    ctx.set(getattr(checker.bus, name), 0)
            for name, value in signals.items():
                ctx.set(getattr(checker.bus, name), value)
            broken.extend(
                (number, rule.name) for rule in checker.rules if not ctx.get(getattr(checker.holds, rule.name))
            )
            await ctx.tick()

    m = Module()
    m.submodules.checker = checker
    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return broken


def ar(**more):
    return {"arvalid": 1, "arready": 1, **more}


def aw(**more):
    return {"awvalid": 1, "awready": 1, **more}


def w(**more):
    return {"wvalid": 1, "wready": 1, **more}


def r(**more):
    return {"rvalid": 1, "rready": 1, **more}


def b(**more):
    return {"bvalid": 1, "bready": 1, **more}


# The bus is 4 bytes wide and allows 2 reads of an ID. The first cycle is idle.
RUNS = {
    "a read of two beats": ([{}, ar(arlen=1), r(), r(rlast=1)], []),
    "IDs may overtake each other": ([{}, ar(arid=0), ar(arid=1), r(rid=1, rlast=1), r(rid=0, rlast=1)], []),
    "RLAST too early": ([{}, ar(arlen=1), r(rlast=1)], [(2, "r_last")]),
    "no RLAST": ([{}, ar(), r()], [(2, "r_last")]),
    "another ID's answer": ([{}, ar(arid=0), r(rid=1, rlast=1)], [(2, "r_requested")]),
    "an answer in the cycle of its request": ([{}, ar() | r(rlast=1)], [(1, "r_requested")]),
    "EXOKAY to a normal read": ([{}, ar(), r(rresp=1, rlast=1)], [(2, "r_exokay")]),
    "EXOKAY to an exclusive read": ([{}, ar(arlock=1), r(rresp=1, rlast=1)], []),
    "data before their address": ([{}, w(), w(wlast=1), aw(awlen=1), b()], []),
    "data before a shorter address": ([{}, w(), w(wlast=1), aw()], [(3, "aw_length")]),
    "address and data in one cycle": ([{}, aw() | w(wlast=1), b()], []),
    "WLAST too early": ([{}, aw(awlen=1), w(wlast=1)], [(2, "w_last")]),
    "a response before the last data": ([{}, aw(awlen=1), w(), b()], [(3, "b_requested")]),
    "two responses": ([{}, aw(), w(wlast=1), b(), b()], [(4, "b_requested")]),
    "responses of IDs may overtake": ([{}, aw(awid=0), aw(awid=1), w(wlast=1), w(wlast=1), b(bid=1), b(bid=0)], []),
    "valid after reset": ([{"arvalid": 1}], [(0, "ar_reset")]),
    "VALID taken back": ([{}, {"arvalid": 1}, {}], [(2, "ar_stays")]),
    "ARADDR changes": ([{}, {"arvalid": 1}, {"arvalid": 1, "araddr": 4}], [(2, "ar_stable")]),
    "a burst up to the edge of 4 KiB": ([{}, ar(araddr=0xFF8, arlen=1), r(), r(rlast=1)], []),
    "a burst across 4 KiB": ([{}, ar(araddr=0xFF8, arlen=2)], [(1, "ar_page")]),
    "an unaligned burst up to the edge": ([{}, ar(araddr=0xFFB, arlen=1), r(), r(rlast=1)], []),
    "a burst of no type": ([{}, ar(arburst=3)], [(1, "ar_burst_type")]),
    "beats wider than the bus": ([{}, ar(arsize=3)], [(1, "ar_size")]),
    "WRAP of three beats": ([{}, ar(arburst=2, arlen=2)], [(1, "ar_wrap_length")]),
    "WRAP that is not aligned": ([{}, ar(arburst=2, arlen=1, araddr=2)], [(1, "ar_wrap_aligned")]),
    "FIXED of 17 beats": ([{}, ar(arburst=0, arlen=16)], [(1, "ar_fixed_length")]),
    "exclusive of three beats": ([{}, ar(arlock=1, arlen=2)], [(1, "ar_exclusive_size")]),
    "exclusive, not aligned": ([{}, ar(arlock=1, arlen=1, araddr=4)], [(1, "ar_exclusive_aligned")]),
    "allocation of what is not modifiable": ([{}, ar(arcache=4)], [(1, "ar_cache")]),
    "a narrow beat in its lane": ([{}, aw(awsize=0, awaddr=2) | w(wstrb=4, wlast=1), b()], []),
    "a narrow beat in the next lane": ([{}, aw(awsize=0, awaddr=2) | w(wstrb=8, wlast=1)], [(1, "w_strobes")]),
    "the second narrow beat": ([{}, aw(awsize=1, awlen=1) | w(wstrb=3), w(wstrb=3, wlast=1)], [(2, "w_strobes")]),
    "an unaligned first beat": ([{}, aw(awaddr=1) | w(wstrb=15, wlast=1)], [(1, "w_strobes")]),
    "an unaligned burst": ([{}, aw(awaddr=1, awlen=1) | w(wstrb=14), w(wstrb=15, wlast=1), b()], []),
    "FIXED stays in its lanes": (
        [{}, aw(awburst=0, awsize=1, awlen=1) | w(wstrb=3), w(wstrb=12, wlast=1)],
        [(2, "w_strobes")],
    ),
    "WRAP comes back": ([{}, aw(awburst=2, awsize=0, awlen=1, awaddr=3) | w(wstrb=8), w(wstrb=4, wlast=1), b()], []),
    "more reads than are counted": ([{}, ar(), ar(), ar()], [(3, "ar_limit")]),
    "no answer for too long": ([{}, ar(), {}, {}, {}, {}], [(5, "r_within")]),
}


@pytest.mark.parametrize("name", RUNS)
def test_violations_in_handwritten_runs(name):
    cycles, expected = RUNS[name]
    assert _violations(CHECKERS["axi4"](), cycles) == expected


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Axi4Rules(data_bits=24), "data_bits must be a power of two, not 24"),
        (lambda: Axi4Rules(data_bits=32, id_bits=5), "id_bits must be an integer from 0 to 4, not 5"),
        (lambda: Axi4Rules(data_bits=32, reads=0), "reads must be an integer from 1 to 255, not 0"),
        (lambda: AxiLiteRules(data_bits=16), "data_bits must be 32 or 64, not 16"),
        (lambda: AxiLiteRules(limit=0), "limit must be an integer from 1 to 255, not 0"),
        (lambda: Statements(AxiLiteRules(), ("host",)), "asserted must be some of master, slave, limit, not 'host'"),
    ],
)
def test_a_wrong_parameter_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_wrong_type_is_named():
    with pytest.raises(TypeError, match="reads must be an integer from 1 to 255, not '3'"):
        Axi4Rules(data_bits=32, reads="3")
