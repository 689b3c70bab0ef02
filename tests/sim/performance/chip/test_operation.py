"""Compare operations on the chip with a recomputation from reference streams and the golden scheduler."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from tensordash import TileConfig
from tensordash_sim.lowering import MatrixProduct, Operation, Vectors, lower
from tensordash_sim.lowering.groups import grouped
from tensordash_sim.performance.chip import (
    ChipConfig,
    Machine,
    Memory,
    OperationResult,
    Power,
    passes,
    simulate_operation,
    traffic,
)
from tensordash_sim.performance.chip.spread import Spread

from .conftest import LAYERS, convolution, random_masks
from .operation_reference import FAST_MEMORY, check_shares, expected, random_machine, run_all_passes


@pytest.mark.parametrize("sparsity", ["rows", "both", "none"])
@pytest.mark.parametrize("operation", Operation)
@pytest.mark.parametrize("layer", LAYERS)
def test_operation_matches_recomputation(layer: str, operation: Operation, sparsity: str, rng: np.random.Generator):
    geometry = LAYERS[layer]
    masks, machine = random_masks(rng, geometry, operation), random_machine(rng, sparsity)
    print(machine)
    want = expected(geometry, operation, masks, machine)
    total, spread, dense = run_all_passes(geometry, operation, masks, machine, want.scheduled)
    assert total.passes == want.passes
    assert (total.work, total.options, total.waits) == tuple(want.slots[name] for name in ("work", "options", "waits"))
    assert (total.no_row, total.no_column) == (want.slots["rows"], want.slots["columns"])
    assert (spread.cycles, spread.busy) == (max(want.ends), sum(want.ends))
    assert (dense.cycles, dense.busy) == (max(want.dense_ends), sum(want.dense_ends))
    assert (total.cycles + total.stalls, total.dense) == (sum(want.ends), sum(want.dense_ends))

    result = simulate_operation(geometry, operation, masks, machine)
    assert result.scheduled == want.scheduled
    assert (result.compute, result.dense_compute) == (max(want.ends), max(want.dense_ends))
    assert result.compute <= result.dense_compute
    assert result.macs == geometry.macs
    assert result.zeros == pytest.approx(1 - masks[want.scheduled].mean())
    assert result.padding_share == pytest.approx((want.positions - want.inside) / want.positions)
    effectual = want.inside if sparsity == "none" else want.slots["work"]
    assert result.ideal_speedup == pytest.approx(want.inside / effectual)
    check_shares(result)
    tile_slots = machine.config.multipliers
    slots = result.cycles * machine.chip.tiles * tile_slots
    # test_shared.py tests waits of tiles with shared reads.
    reads = result.idle["reads"] * slots
    tail = (result.shared * machine.chip.tiles - sum(want.ends)) * tile_slots - reads
    memory = (result.cycles - result.shared) * machine.chip.tiles * tile_slots
    shares = dict.fromkeys(result.idle, 0.0) | want.slots | {"tail": tail, "memory": memory, "reads": reads}
    for cause, share in result.idle.items():
        assert share == pytest.approx(shares[cause] / slots), cause
    assert result.on_chip == max(result.shared, result.bank_cycles, result.transposer_cycles)
    assert result.cycles == max(result.on_chip, result.dram_cycles)
    if sparsity == "both":
        assert (result.shared, result.dense_shared) == (result.compute, result.dense_compute)
    if sparsity == "none":
        assert result.compute_speedup == 1


@pytest.mark.parametrize("sparsity", ["rows", "both", "none"])
def test_results_do_not_depend_on_blocks(sparsity: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch):
    """The chip has one tile, since with both sides sparse the order of passes depends on the blocks."""
    machine = Machine(TileConfig(sparsity=sparsity), ChipConfig(tiles=1), row_order="density")
    masks = random_masks(rng, LAYERS["3x3"], Operation.FORWARD)
    whole = simulate_operation(LAYERS["3x3"], Operation.FORWARD, masks, machine)
    monkeypatch.setattr(passes, "BLOCK_WORDS", 150)
    monkeypatch.setattr(traffic, "BLOCK_NUMBERS", 9)
    assert simulate_operation(LAYERS["3x3"], Operation.FORWARD, masks, machine) == whole


class TestOrder:
    def vectors(self, rng: np.random.Generator) -> Vectors:
        masks = random_masks(rng, LAYERS["groups"], Operation.FORWARD)
        return lower(LAYERS["groups"], Operation.FORWARD, masks, 4)[0].left

    def test_natural_order(self, rng):
        vectors = self.vectors(rng)
        groups = grouped(vectors, 4)
        assert (vectors.batch, vectors.count) == (2, 20)  # 2 samples of 2 x 5 windows
        assert groups.reshape(2, -1).tolist() == [list(range(20)), list(range(20, 40))]
        assert grouped(vectors, 3)[1, -1].tolist() == [38, 39, -1]

    def test_density_order_is_a_permutation(self, rng):
        vectors = self.vectors(rng)
        groups = grouped(vectors, 3, "density")
        assert groups.shape == (2, 7, 3)
        for element, numbers in enumerate(groups.reshape(2, -1)):
            assert numbers[-1] == -1
            assert sorted(numbers[:-1]) == list(range(element * 20, element * 20 + 20))
            non_zeros = np.bitwise_count(vectors.words(numbers[:-1])).sum(axis=1)
            assert (np.diff(non_zeros.astype(int)) >= 0).all()
            assert non_zeros[0] < non_zeros[-1]
        assert groups.tolist() != grouped(vectors, 3).tolist()

    def test_density_order_is_faster(self, rng):
        """Numbers of zeros differ between rows."""
        layer = MatrixProduct(batch=1, samples=64, in_features=256, out_features=8)
        masks = {"A": rng.random((1, 64, 256)) < rng.random((1, 64, 1)), "W": np.ones((1, 8, 256), bool)}
        results = [
            simulate_operation(
                layer, Operation.FORWARD, masks, Machine(TileConfig(), ChipConfig(tiles=1), "left", row_order)
            )
            for row_order in ("natural", "density")
        ]
        natural, density = results
        assert natural.dense_compute == density.dense_compute
        assert natural.ideal_speedup == density.ideal_speedup
        assert natural.utilisation * natural.cycles == pytest.approx(density.utilisation * density.cycles)
        assert density.compute < 0.9 * natural.compute
        assert density.idle["waits"] < natural.idle["waits"]


class TestSpread:
    @pytest.mark.parametrize("tiles", [1, 2, 3, 4, 7, 64])
    def test_each_piece_goes_to_the_first_free_tile(self, tiles, rng):
        spread, ends = Spread(tiles), [0] * tiles
        for _ in range(5):
            durations, repeats = rng.integers(0, 50, rng.integers(1, 40)), int(rng.integers(1, 4))
            spread.deal(durations, repeats)
            for duration in np.repeat(durations, repeats).tolist():
                ends[ends.index(min(ends))] += duration
            assert (spread.cycles, spread.busy) == (max(ends), sum(ends))


@pytest.mark.parametrize("out_rows", [1, 2, 4])
def test_short_streams_wait_for_their_results_to_leave(out_rows):
    """Two steps of zeros take one cycle, but four rows of results leave at `out_rows` per cycle."""
    layer = MatrixProduct(batch=1, samples=4, in_features=8, out_features=40)
    masks = {"A": np.zeros((1, 4, 8), bool), "W": np.ones((1, 40, 8), bool)}
    machine = Machine(TileConfig(out_rows=out_rows), ChipConfig(tiles=1, memory=FAST_MEMORY))
    result = simulate_operation(layer, Operation.FORWARD, masks, machine)
    beats = 4 // out_rows
    assert (result.compute, result.dense_compute) == (10 * beats, 10 * max(beats, 2))
    assert result.ideal_speedup is None
    assert (result.utilisation, result.zeros) == (0, 1)
    check_shares(result)
    assert result.idle["stalls"] == pytest.approx(10 * (beats - 1) / result.cycles)


def test_a_held_back_row_may_be_faster_than_alone():
    """Idle slots stay correct, though thousands of passes include such rows."""
    rng = np.random.default_rng(0)
    layer = MatrixProduct(batch=2000, samples=4, in_features=24, out_features=1)
    masks = {"A": rng.random((2000, 4, 24)) < 0.4, "W": np.ones((2000, 1, 24), bool)}
    scheduler = passes.Scheduler(TileConfig())
    words = lower(layer, Operation.FORWARD, masks, 4)[0].left.words(np.arange(8000)).reshape(2000, 4, 6)
    alone = scheduler.schedule(words.reshape(-1, 1, 6)).cycles.reshape(2000, 4)
    own = np.minimum(alone, scheduler.schedule(words).cycles[:, None])
    assert (own < alone).any()
    chip = ChipConfig(tiles=1, memory=FAST_MEMORY, dram_channels=1 << 20)
    result = simulate_operation(layer, Operation.FORWARD, masks, Machine(TileConfig(), chip, "left"))
    slots = result.compute * 4 * 4 * 4
    assert result.idle["options"] == pytest.approx((own.sum() * 4 - np.count_nonzero(masks["A"])) / slots)
    check_shares(result)


def test_strided_phases_count_by_their_multiplications():
    """Inputs 0, 2 and 4 are multiplied by taps 0, 2 and 4, inputs 1 and 3 by taps 1 and 3."""
    layer = convolution(1, (4, 4), (5,), (5,), (2,), (2,))
    masks = {"W": np.ones((4, 4, 5), bool), "G": np.ones((1, 4, 3), bool)}
    masks["W"][:, :, ::2] = False
    result = simulate_operation(layer, Operation.INPUT_GRADIENT, masks, Machine(TileConfig(), ChipConfig(), "left"))
    assert result.ideal_speedup == (3 * 3 + 2 * 2) / (2 * 2)
    assert result.padding_share == 0
    assert result.zeros == 0.6


def test_nothing_to_multiply():
    """The only window is in the padding."""
    layer = convolution(1, (2, 2), (1,), (1,), (3,), (1,))
    masks = {name: np.ones(shape, bool) for name, shape in layer.shapes.items()}
    result = simulate_operation(layer, Operation.INPUT_GRADIENT, masks, Machine(TileConfig(), ChipConfig()))
    assert (result.macs, result.compute, result.compute_speedup, result.ideal_speedup) == (0, 0, None, None)
    assert (result.limit, result.speedup, result.idle["memory"]) == ("dram", 1, 1)
    dropping = Machine(TileConfig(), ChipConfig(), drop_steps=True)
    assert simulate_operation(layer, Operation.INPUT_GRADIENT, masks, dropping).dropped_on_chip == 0
    forward = simulate_operation(layer, Operation.FORWARD, masks, Machine(TileConfig(), ChipConfig(), "left"))
    assert (forward.macs, forward.padding_share, forward.ideal_speedup) == (0, 1, None)


def test_left_operand_is_scheduled_at_equal_sparsity():
    layer = MatrixProduct(batch=1, samples=4, in_features=8, out_features=6)
    masks = {name: np.ones(shape, bool) for name, shape in layer.shapes.items()}
    machine = Machine(TileConfig(), ChipConfig())
    assert simulate_operation(layer, Operation.FORWARD, masks, machine).scheduled == "A"
    masks["W"][0, 0, 0] = False
    assert simulate_operation(layer, Operation.FORWARD, masks, machine).scheduled == "W"


class TestMemory:
    LAYER = MatrixProduct(batch=1, samples=16, in_features=64, out_features=16)

    def result(self, chip: ChipConfig, sparsity: str = "rows") -> OperationResult:
        masks = {"A": np.zeros((1, 16, 64), bool), "W": np.ones((1, 16, 64), bool)}
        machine = Machine(TileConfig(sparsity=sparsity), chip)
        return simulate_operation(self.LAYER, Operation.FORWARD, masks, machine)

    def test_limits(self):
        """Each tile has four passes. Each takes a cycle per four of its 16 steps of zeros."""
        fast = ChipConfig(tiles=4, memory=FAST_MEMORY, dram_channels=1 << 20)
        compute = self.result(fast)
        assert (compute.limit, compute.compute, compute.cycles, compute.dense_cycles) == ("compute", 16, 16, 64)
        assert compute.speedup == compute.compute_speedup == 4
        banks = self.result(ChipConfig(tiles=4, memory=Memory(banks=1, access_bytes=128), dram_channels=1 << 20))
        # Each side has 16 vectors of 128 bytes. Rows are read once, columns once for each pair of tiles.
        assert (banks.limit, banks.bank_cycles, banks.cycles, banks.dense_cycles) == ("banks", 32, 32, 64)
        assert banks.speedup == 2
        dram = self.result(ChipConfig(tiles=4, memory=FAST_MEMORY, dram_channels=1, clock_mhz=400))
        # DRAM moves two bitmaps of 128 bytes, W's 2,048 and the result's 512 bytes at 16 bytes per cycle.
        assert (dram.limit, dram.dram_cycles, dram.cycles) == ("dram", 176, 176)
        assert dram.dense_cycles == 176
        assert dram.speedup == 1
        assert dram.idle["memory"] == pytest.approx(160 / 176)

    def test_energy(self):
        """Four tiles are busy for 64 (dense) and 16 cycles of 2 ns, and wait for DRAM until cycle 55."""
        power = Power(cores=100, transposers=0, schedulers=5, a_muxes=6, staging=7, dense_idle=0.1, sparse_idle=0.5)
        result = self.result(ChipConfig(tiles=4, clock_mhz=500, power=power))
        assert result.dense_energy["core"] == pytest.approx(64 * 2e-9 * 4 * 0.1 * 1e6)
        assert result.energy["core"] == pytest.approx(16 * 2e-9 * 4 * 0.118 * 1e6)
        assert (result.dense_cycles, result.cycles, result.dram_cycles) == (64, 55, 55)
        assert result.dense_energy["idle"] == 0
        assert result.energy["idle"] == pytest.approx((55 - 16) * 2e-9 * 4 * 0.059 * 1e6)
        assert result.energy["dram"] == result.dense_energy["dram"] == pytest.approx(2816 * 8 * 8e-6)
        # A is read once, W by each pair of tiles. In each of 16 passes, eight vectors pass scratchpads.
        reads, writes, scratchpad = 3 * 2048 / 8, 1024 / 8, 2 * 16 * 8 * 128 / 8
        assert result.energy["sram"] == pytest.approx((reads * 30 + writes * 21.7 + scratchpad * 10) * 1e-6)
        assert result.energy["sram"] == result.dense_energy["sram"]
        dense = self.result(ChipConfig(tiles=4, clock_mhz=500, power=power), "none")
        assert dense.energy == dense.dense_energy == result.dense_energy

    @pytest.mark.parametrize(
        ("idle", "gain"),
        [
            (0.0, 256 * 100 / (64 * 118)),  # As in the paper, waiting tiles draw no power.
            (0.1, (256 + 0.1 * 448) * 100 / ((64 + 0.1 * 640) * 118)),
            (1.0, 100 / 118),  # Clocks never stop: both take the same time, TensorDash more power.
        ],
    )
    def test_waiting_dominates(self, idle: float, gain: float):
        """At 6.4 GB/s both take 176 cycles of four tiles, 704. The baseline is busy in 256, TensorDash in 64."""
        power = Power(cores=100, transposers=0, schedulers=5, a_muxes=6, staging=7, dense_idle=idle, sparse_idle=idle)
        chip = ChipConfig(tiles=4, memory=FAST_MEMORY, dram_channels=1, clock_mhz=400, power=power)
        result = self.result(chip)
        assert (result.dense_busy, result.busy, result.dense_cycles, result.cycles) == (256, 64, 176, 176)
        dense, sparse = (of["core"] + of["idle"] for of in (result.dense_energy, result.energy))
        assert dense / sparse == pytest.approx(gain)

    def test_tiles_without_a_pass_wait(self):
        """Each of 16 passes is on one of 64 tiles."""
        power = Power(cores=100, transposers=0, dense_idle=0.5)
        result = self.result(ChipConfig(tiles=64, clock_mhz=500, memory=FAST_MEMORY, dram_channels=64, power=power))
        assert (result.dense_cycles, result.dense_busy) == (16, 16 * 16)
        assert result.dense_energy["core"] == pytest.approx(16 * 16 * 2e-9 * 0.1 * 1e6)
        assert result.dense_energy["idle"] == pytest.approx(48 * 16 * 2e-9 * 0.05 * 1e6)


@pytest.mark.parametrize(("name", "value"), [("side", "top"), ("row_order", "random"), ("join_samples", "no")])
def test_wrong_machines_are_named(name: str, value: str):
    wrong: dict[str, Any] = {name: value}
    with pytest.raises(ValueError, match=f"{name} must be one of .*, not '{value}'"):
        Machine(TileConfig(), ChipConfig(), **wrong)


def test_different_machines_have_different_mappings():
    machine = Machine(TileConfig(), ChipConfig())
    others = [
        Machine(TileConfig(depth=3, connectivity=((0, 0), (1, 0))), ChipConfig()),
        Machine(TileConfig(), ChipConfig(tiles=255)),
        Machine(TileConfig(), ChipConfig(memory=Memory(broadcast=4))),
        Machine(TileConfig(), ChipConfig(), side="left"),
        Machine(TileConfig(), ChipConfig(), side="faster"),
        Machine(TileConfig(), ChipConfig(), row_order="density"),
        Machine(TileConfig(), ChipConfig(), join_samples="always"),
    ]
    assert all(other.to_mapping() != machine.to_mapping() for other in others)


def test_the_faster_side(rng: np.random.Generator):
    """W has fewer zeros, but its rows do not wait for each other."""
    layer = MatrixProduct(batch=1, samples=64, in_features=256, out_features=64)
    masks = {"A": np.zeros((1, 64, 256), bool), "W": np.tile([True, False], (1, 64, 128))}
    masks["A"][0, ::4] = True  # One row of each tile has no zeros.
    machine = Machine(TileConfig(), ChipConfig(tiles=4, memory=FAST_MEMORY))
    found = {
        side: simulate_operation(layer, Operation.FORWARD, masks, dataclasses.replace(machine, side=side))
        for side in ("sparser", "left", "right", "faster")
    }
    assert found["sparser"] == found["left"]
    assert found["faster"] == found["right"]
    assert (found["left"].compute_speedup, found["right"].compute_speedup) == (1, 2)
    masks["A"][0, ::4] = False
    masks["A"][:] = masks["W"]
    assert (
        simulate_operation(layer, Operation.FORWARD, masks, dataclasses.replace(machine, side="faster")).scheduled
        == "A"
    )
