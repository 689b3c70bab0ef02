"""Test that the core's benches find wrong wiring between units."""

import re
from functools import cache

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.core.core import Core
from tensordash_sim.verify.unit_run import EmittedUnit, emitted, run_unit

from ...replaced_text import replace_once

CONFIG = CoreConfig.from_toml("", ["core.buffer=8", "core.stream_buffer=4", "core.partial_sums=4"])

pytestmark = pytest.mark.slow


@cache
def core() -> EmittedUnit:
    return emitted(Core(CONFIG))


def failures_of(bench, *replaced, effort=0.4, **options) -> list[str]:
    return run_unit(core(), bench, CONFIG, seed=2, effort=effort, replaced=replaced, options=options)


ERRORS = {
    "load": ("load", "nothing to load"),
    "layout_a": ("layout_a", "layout outside the buffer"),
    "layout_b": ("layout_b", "layout outside the buffer"),
    "multiply": ("multiply", "multiply beyond the stream buffer"),
    "output": ("output", "output outside the buffer"),
    "store": ("store", "nowhere to record"),
}


@pytest.mark.parametrize("unit", ERRORS)
def test_missing_errors_of_a_unit_are_found(unit):
    name, clause = ERRORS[unit]
    instance = "output_unit" if name == "output" else name
    old = f".{name}_error({instance}__command_error)"
    assert failures_of("core_errors", (old, f".{name}_error(4'h0)"), effort=4, clauses=[clause])


ERROR_FAULTS = {
    "its index is what was fetched": (".error_index(sequencer__done)", ".error_index(command_queue__head)"),
    "its code is always the same": (".error(sequencer__error),\n    .error_index", ".error(4'h1),\n    .error_index"),
    "fetching goes on after it": ("registers__halt | sequencer__failed", "registers__halt"),
    "what waits after it is waited for": ("wire quiet = ", "wire quiet = ~multiply_sent & ~output_sent & "),
    "an answer to a write is not looked at": (".axi_bresp(m_axi_bresp)", ".axi_bresp(2'h0)"),
    "an answer to a read is not looked at": (".axi_rresp(read_arbiter__second_rresp)", ".axi_rresp(2'h0)"),
    "an answer to a fetch is not looked at": (".axi_rresp(read_arbiter__first_rresp)", ".axi_rresp(2'h0)"),
    "the core reports that it is busy": (
        ".busy(command_queue__busy & ~sequencer__failed)",
        ".busy(command_queue__busy)",
    ),
}


@pytest.mark.parametrize("name", ERROR_FAULTS)
def test_faults_in_errors_are_found(name):
    assert failures_of("core_errors", ERROR_FAULTS[name])


DATA_READ = "unit_counters__events[7] = m_axi_rvalid & m_axi_rready & m_axi_rid"
PROGRAM_FAULTS = {
    "strobes are all high": ("axi_wstrb = beats_payload_strobe & {16{passes}}", "axi_wstrb = 16'hffff"),
    "every beat is a burst's last": (".axi_rlast(m_axi_rlast)", ".axi_rlast(1'h1)"),
    "beats that are read are not counted": (DATA_READ, "unit_counters__events[7] = 1'h0"),
    "fetches are counted as data": (DATA_READ, "unit_counters__events[7] = m_axi_rvalid & m_axi_rready"),
    "beats that are written are not counted": ("= m_axi_wvalid & m_axi_wready;", "= 1'h0;"),
    "stores are not counted": ("events[6] = sequencer__running[5]", "events[6] = 1'h0"),
}


@pytest.mark.parametrize("name", PROGRAM_FAULTS)
def test_faults_in_programs_are_found(name):
    assert failures_of("core", PROGRAM_FAULTS[name])


@pytest.mark.parametrize("side", ["a", "b"])
def test_missing_wait_for_banks_is_found(side):
    """A layout writes banks of a stream buffer while the multiply unit needs to read them."""
    ready = f".{side}_read_ready(stream_buffer_{side}__read_ready)"
    assert failures_of("core", (ready, f".{side}_read_ready(4'hf)"), effort=6)


TOKENS = [
    ("load", "layout_a"),
    ("load", "layout_b"),
    ("load", "output"),
    ("layout_a", "multiply"),
    ("layout_b", "multiply"),
    ("multiply", "layout_a"),
    ("multiply", "layout_b"),
    ("output", "store"),
]


@pytest.mark.parametrize(("producer", "consumer"), TOKENS, ids=["-".join(pair) for pair in TOKENS])
def test_missing_wait_for_a_token_is_found(producer, consumer):
    """The consumer begins as if it had a token."""
    sequencer = module("sequencer")
    broken = replace_once(sequencer, f"({producer}_to_{consumer} != 5'd0)", "1'h1")
    assert failures_of("core", (sequencer, broken), effort=1)


UNITS = ("command_queue", "sequencer", "load", "layout_a", "layout_b", "multiply", "output_unit", "store", "tile")


def module(name: str) -> str:
    """Return a module's Verilog."""
    match = re.search(rf"^module tensordash_{name}\(.*?^endmodule", core().text, re.DOTALL | re.MULTILINE)
    assert match
    return match[0]


def instance(unit: str) -> str:
    """Return the Verilog of a unit's instance in the core."""
    match = re.search(rf"^  tensordash_\w+ \\?{unit} +\(.*?^  \);", module("core"), re.DOTALL | re.MULTILINE)
    assert match
    return match[0]


@pytest.mark.parametrize("unit", UNITS)
def test_soft_reset_that_misses_a_unit_is_found(unit):
    placed, restarted = instance(unit), re.search(r"wire (\w+) = rst \| registers__restart", core().text)
    assert restarted
    reset = f".rst({restarted[1]})"
    assert reset in placed
    assert failures_of("core", (placed, placed.replace(reset, ".rst(rst)")), effort=2)


def test_unconnected_soft_reset_is_found():
    assert failures_of("core", ("rst | registers__restart", "rst"))


@pytest.mark.parametrize("unit", ["load", "store"])
def test_unit_that_continues_in_a_soft_reset_is_found(unit):
    placed = instance(unit)
    assert failures_of("core", (placed, placed.replace(".halt(registers__halt)", ".halt(1'h0)")), effort=5)


QUEUE_FAULTS = {
    "enable is not looked at": ("_any), .enable(registers__enable),", "_any), .enable(1'h1),"),
    "an end is not told": (".ended(sequencer__ended), .counters", ".ended(1'h0), .counters"),
}


@pytest.mark.parametrize("name", QUEUE_FAULTS)
def test_faults_in_the_queue_are_found(name):
    assert failures_of("core_queue", QUEUE_FAULTS[name], effort=1)
