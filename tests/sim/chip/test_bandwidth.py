"""Other bandwidths give what a chip with that DRAM gives."""

import pytest

from tensordash import TileConfig
from tensordash_sim.chip import ChipConfig, Machine, at_bandwidth, simulate_operation, sufficient_bandwidth
from tensordash_sim.lowering import Operation

from .conftest import LAYERS, random_masks


def results(rng, chip):
    machine = Machine(TileConfig(), chip)
    return [
        simulate_operation(geometry, operation, random_masks(rng, geometry, operation), machine).to_json()
        for geometry in LAYERS.values()
        for operation in Operation
    ]


@pytest.mark.parametrize("bits", [1, 3, 16, 64, 500])
def test_as_of_another_chip(rng, bits):
    seed = int(rng.integers(1 << 32))

    def all_of(chip):
        return results(type(rng)(type(rng.bit_generator)(seed)), chip)

    here = ChipConfig(tiles=2)
    there = all_of(ChipConfig(tiles=2, dram_channel_bits=bits))
    found = at_bandwidth(all_of(here), 1.6 * bits, here.clock_mhz)
    assert found["cycles"] == sum(result["cycles"] for result in there)
    assert found["dense_cycles"] == sum(result["dense_cycles"] for result in there)
    assert found["speedup"] == found["dense_cycles"] / found["cycles"]


def test_bandwidth_that_suffices(rng):
    operations = results(rng, ChipConfig(tiles=2))
    inside = sum(result["on_chip"] for result in operations)
    gbps = sufficient_bandwidth(operations, 500)
    assert at_bandwidth(operations, 0.97 * gbps, 500)["cycles"] > 1.01 * inside
    assert at_bandwidth(operations, 1.03 * gbps, 500)["cycles"] <= 1.01 * inside
