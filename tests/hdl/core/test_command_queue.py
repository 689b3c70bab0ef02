"""Test the emitted Verilog of the command queue and of the arbiter of its shared read port."""

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.core.command_queue import CommandQueue
from tensordash.movers.read_arbiter import ReadArbiter
from tensordash_sim.verify.unit_run import run_unit

CONFIGS = {
    "default": CoreConfig(),
    "narrow": CoreConfig.from_toml("[core]\naxi_bits = 32\nwindow = 4"),
    "wide": CoreConfig.from_toml("[tile]\nlanes = 8\nrows = 8\ncolumns = 8\n[core]\naxi_bits = 512"),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", CONFIGS)
def test_every_descriptor_is_delivered(name):
    assert run_unit(CommandQueue(config=CONFIGS[name]), "command_queue", CONFIGS[name], seed=1) == []


def test_the_bench_passes_with_the_effort_of_mutants():
    config = CONFIGS["default"]
    assert run_unit(CommandQueue(config=config), "command_queue", config, seed=0, effort=0.3) == []


HELD = "(forwarded - done[5:0])"
BROKEN = {
    "the window has more places": (
        f"refuses ? {HELD} < 6'h10 : present & ({HELD} < 6'h10)",
        f"refuses ? {HELD} < 6'h12 : present & ({HELD} < 6'h12)",
    ),
    "the FIFO has more places": ("(requested[5:0] - forwarded) < 6'h20", "(requested[5:0] - forwarded) < 6'h24"),
    "idle while one is fetched": ("requested[5:0] != done[5:0]", "head[5:0] != done[5:0]"),
    "idle while disabled": (
        "busy = unfetched | (requested[5:0] != done[5:0])",
        "busy = unfetched | (enable & (requested[5:0] != done[5:0]))",
    ),
    "busy while disabled": ("busy = unfetched", "busy = (requested != tail)"),
    "head counts one that has not come": ("written[1:0] == 2'd3", "written[1:0] == 2'd2"),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_queue_is_found(name):
    config = CONFIGS["default"]
    assert run_unit(CommandQueue(config=config), "command_queue", config, replaced=[BROKEN[name]])


def arbiter() -> ReadArbiter:
    config = CONFIGS["default"]
    return ReadArbiter(data_bits=config.axi_bits, address_bits=config.address_bits)


def test_both_readers_get_their_data():
    assert run_unit(arbiter(), "read_arbiter", CONFIGS["default"], seed=1) == []


BROKEN_ARBITERS = {
    "the choice changes while an address waits": ("waits <= axi_arvalid", "waits <= 1'd0 & axi_arvalid"),
    "a beat is taken that its reader does not take": ("first_rready & second_rready", "second_rready"),
    "a reader takes a beat that stays": (
        "first_rvalid = axi_rvalid & ~axi_rid & second_rready",
        "first_rvalid = axi_rvalid & ~axi_rid",
    ),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", BROKEN_ARBITERS)
def test_a_broken_arbiter_is_found(name):
    assert run_unit(arbiter(), "read_arbiter", CONFIGS["default"], replaced=[BROKEN_ARBITERS[name]])


def test_a_broken_wide_queue_is_found():
    """The correct queue passes on each part of a word, and drops the word only after its last part."""
    config = CONFIGS["wide"]
    for broken in [("{index, 7'd0}", "{index & 2'd1, 7'd0}"), ("(index == 2'd3)", "(index >= 2'd2)")]:
        assert run_unit(CommandQueue(config=config), "command_queue", config, replaced=[broken])
