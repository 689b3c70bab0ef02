"""Test that the Verilog of preset `core` accesses no address outside of its bounds."""

from collections import Counter
from random import Random

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash_sim.compiler.program import Program
from tensordash_sim.golden.core.golden_core import Outcome
from tensordash_sim.verify.core_library import verilog_of
from tensordash_sim.verify.programs.illegal_bounds import ADDRESSES
from tensordash_sim.verify.programs.illegal_programs import illegal_program
from tensordash_sim.verify.soak.core_bench import Bench
from tensordash_sim.verify.soak.core_coverage import CoreCoverage
from tensordash_sim.verify.soak.core_draw import SIZE
from tensordash_sim.verify.verilated_core import VerilatedCore

RING, SEED = 0x2000, 11
END = [7]


@pytest.fixture(scope="module")
def config() -> CoreConfig:
    preset = load_any_preset("core")
    assert isinstance(preset, CoreConfig)
    return preset


@pytest.fixture
def core(config):
    with VerilatedCore(config, SIZE, patience=3000) as verilated:
        yield verilated


def test_errors_match_golden_for_every_clause(config, core):
    bench = Bench(core, verilog_of(config), CoreCoverage(config), Random(SEED), iter(()))
    found: Counter[str] = Counter()
    for index in range(2 * len(ADDRESSES)):
        name = list(ADDRESSES)[index % len(ADDRESSES)]
        bench.pace((0, 40 * (index % 3)), 0.2 * (index % 2))
        found[bench.check(illegal_program(bench.random, config, name)).error] += 1
    assert found == Counter({"bounds": 16, "field": 2}), f"seed {SEED}"


def program(memory: int) -> list[int]:
    """Return a program that stores a group, loads, and ends."""
    result = Program()
    result.add("store", memory=memory, signal=["load"])
    result.add("load", wait=["store"], memory=memory, address=1)
    result.add("end")
    return result.descriptors


@pytest.mark.parametrize(("memory", "error"), [(0x3FE0, ""), (0x4000, "bounds"), (0x1FE0, "bounds"), (0x2200, "")])
def test_bounds_are_inclusive_and_hold_through_soft_resets(core, memory, error):
    core.restrict(RING, 0x3FFF)
    before = core.memory.copy()
    for _ in range(2):  # Each run starts with a soft reset.
        outcome = core.run(program(memory), RING).outcome
        assert outcome == (Outcome(done=0, error=error) if error else Outcome(done=3, ends=1))
    assert (core.read("bounds_base"), core.read("bounds_limit")) == (RING, 0x3FFF)
    if error:
        changed = {int(each) // 4096 for each in (core.memory != before).nonzero()[0]}
        assert changed == {RING // 4096}, "pages other than the ring's changed"


def test_without_bounds_every_address_is_allowed(core, config):
    top = (1 << config.address_bits) - 1
    assert core.read("bounds_base") == core.read("bounds_base_high") == 0
    assert core.read("bounds_limit") | core.read("bounds_limit_high") << 32 == top
    # Memory reports the error, since no memory has this address.
    assert core.run(program(top - 31), RING).outcome.error == "write"


def test_a_ring_that_does_not_fit_the_bus_is_not_fetched(core, config):
    core.put(END, RING)
    core.reset()
    core.begin(RING | 1 << config.address_bits, 1)
    assert core.wait(5000)
    assert core.outcome() == Outcome(done=0, error="bounds")


def test_a_base_that_does_not_fit_allows_nothing(core, config):
    core.restrict(1 << config.address_bits)
    assert core.run(END, RING).outcome.error == "bounds"
    core.restrict()
    assert core.run(END, RING).outcome == Outcome(done=1, ends=1)
    core.restrict(0, (1 << 64) - 1)
    assert core.run(END, RING).outcome == Outcome(done=1, ends=1)


def test_bounds_must_be_multiples_of_pages(core):
    with pytest.raises(ValueError, match="multiples of 4096, not 0x20 and 0x4000"):
        core.restrict(32, 0x3FFF)
