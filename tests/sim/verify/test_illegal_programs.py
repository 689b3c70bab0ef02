"""Test that each clause of illegal programs gives its error in the golden core."""

from random import Random

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash.configuration.registers import ERRORS
from tensordash_sim.golden.core.golden_core import GoldenCore
from tensordash_sim.verify.programs.illegal_programs import CLAUSES, illegal_program
from tensordash_sim.verify.programs.random_programs import random_program

SMALL = ["core.buffer=16", "core.stream_buffer=4", "core.partial_sums=4"]
CONFIG = CoreConfig.from_toml("", [*SMALL, "core.nvfp4=true", "core.skip_masked=true"])
DROPPING = load_any_preset("core-drop", [*SMALL, "core.nvfp4=true", "core.axi_bits=128"])
BARE = CoreConfig.from_toml(
    "", [*SMALL, *(f"core.{name}=false" for name in ("bias", "scale", "relu", "mask", "stochastic", "compression"))]
)


def outcome(case, config):
    golden = GoldenCore(config, case.memory)
    for place, bits in enumerate(case.descriptors):
        golden.memory.write(case.base + 64 * place, bits.to_bytes(64, "little"))
    golden.bounds = case.bounds or golden.bounds
    return golden.run_queue(case.base, len(case.descriptors))


def test_every_error_has_a_clause():
    assert {clause.error for clause in CLAUSES.values()} == set(ERRORS) - {"none"}


@pytest.mark.parametrize("name", CLAUSES)
@pytest.mark.parametrize("config", [CONFIG, DROPPING], ids=["skipping", "dropping"])
def test_each_clause_gives_its_error(name, config):
    config = BARE if name == "switched off" else config
    indices = set()
    for seed in range(8):
        case = illegal_program(Random(seed), config, name)
        found = outcome(case, config)
        assert found.error == CLAUSES[name].error, (seed, found)
        assert found.done == found.index
        indices.add(found.index / (len(case.descriptors) - 1))
    assert len(indices) > 1 or name == "end with tokens"


@pytest.mark.parametrize("config", [CONFIG, DROPPING], ids=["skipping", "dropping"])
def test_first_of_two_errors_is_reported(config):
    for seed in range(20):
        names = Random(seed).sample(sorted(set(CLAUSES) - {"switched off"}), 2)
        found = outcome(illegal_program(Random(seed), config, names[0], second=names[1]), config)
        assert found.error in {CLAUSES[name].error for name in names}, (seed, names, found)


def test_clause_that_a_core_cannot_violate():
    with pytest.raises(ValueError, match="no program of this core can be illegal by switched off"):
        illegal_program(Random(0), CONFIG, "switched off")


@pytest.mark.parametrize("regions", [1, 2, 4, 8])
@pytest.mark.parametrize("edges", [False, True])
def test_random_programs_are_legal(regions, edges):
    config = CoreConfig.from_toml("", [*SMALL, f"core.regions={regions}", "core.nvfp4=true", "core.skip_masked=true"])
    for seed in range(10):
        case = random_program(Random(seed), config, edges=edges)
        assert not GoldenCore(config, case.memory).run(case.program.descriptors).error, seed
