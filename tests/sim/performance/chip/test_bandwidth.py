"""Compare results at another bandwidth with a chip that has that DRAM."""

from dataclasses import replace

import pytest

from tensordash import TileConfig
from tensordash_sim.lowering import Operation
from tensordash_sim.performance.chip import (
    BANDWIDTHS,
    ChipConfig,
    Energy,
    Machine,
    Power,
    at_bandwidth,
    energy_at_bandwidth,
    simulate_operation,
    sufficient_bandwidth,
)

from .conftest import LAYERS, random_masks


def results(rng, chip):
    machine = Machine(TileConfig(), chip)
    return [
        simulate_operation(geometry, operation, random_masks(rng, geometry, operation), machine).to_json()
        for geometry in LAYERS.values()
        for operation in Operation
    ]


@pytest.mark.parametrize("bits", [1, 3, 16, 64, 500])
def test_results_match_a_chip_with_that_bandwidth(rng, bits):
    seed = int(rng.integers(1 << 32))

    def all_of(chip):
        return results(type(rng)(type(rng.bit_generator)(seed)), chip)

    here = ChipConfig(tiles=2)
    expected = all_of(ChipConfig(tiles=2, dram_channel_bits=bits))
    found = at_bandwidth(all_of(here), 1.6 * bits, here.clock_mhz)
    assert found["cycles"] == sum(result["cycles"] for result in expected)
    assert found["dense_cycles"] == sum(result["dense_cycles"] for result in expected)
    assert found["speedup"] == found["dense_cycles"] / found["cycles"]
    energies = energy_at_bandwidth(all_of(here), 1.6 * bits, Machine(TileConfig(), here))
    for name in ("dense_energy", "energy"):
        assert energies[name] == pytest.approx(sum(sum(result[name].values()) for result in expected))
    assert energies["energy_ratio"] == energies["dense_energy"] / energies["energy"]


def test_slow_memory_reduces_the_energy_saved(rng):
    """For logic alone, slower DRAM saves less energy, down to the power ratio of idle tiles."""
    free = Energy(dram_pj_per_bit=0, bank_read_pj=0, bank_write_pj=0, scratchpad_pj=0)
    machine = Machine(TileConfig(), ChipConfig(tiles=2, energy=free))
    operations, power = results(rng, machine.chip), machine.chip.power
    gains = [energy_at_bandwidth(operations, gbps, machine)["energy_ratio"] for gbps in (1e6, *BANDWIDTHS[::-1], 1e-6)]
    assert gains == sorted(gains, reverse=True)
    assert gains[0] > 1.2
    assert gains[-1] == pytest.approx(power.waiting(skips=False) / power.waiting(skips=True), rel=1e-4)
    assert gains[-1] < 1
    paper = replace(machine, chip=replace(machine.chip, power=Power(dense_idle=0, sparse_idle=0)))
    same = {energy_at_bandwidth(operations, gbps, paper)["energy_ratio"] for gbps in (1e6, *BANDWIDTHS, 1e-6)}
    assert len(same) == 1


def test_bandwidth_that_suffices(rng):
    operations = results(rng, ChipConfig(tiles=2))
    inside = sum(result["on_chip"] for result in operations)
    gbps = sufficient_bandwidth(operations, 500)
    assert at_bandwidth(operations, 0.97 * gbps, 500)["cycles"] > 1.01 * inside
    assert at_bandwidth(operations, 1.03 * gbps, 500)["cycles"] <= 1.01 * inside
