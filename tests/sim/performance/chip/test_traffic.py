"""Compare the traffic of small examples with counts by hand."""

import numpy as np
import pytest

from tensordash import TileConfig
from tensordash_sim.lowering import MatrixProduct, Operation, lower
from tensordash_sim.lowering.groups import grouped
from tensordash_sim.performance.chip import ChipConfig, Machine, Memory, Traffic, simulate_operation
from tensordash_sim.performance.chip.shared import Grid
from tensordash_sim.performance.chip.traffic import Operand, dram_traffic, on_chip_traffic

from .conftest import convolution

SMALL = ChipConfig(memory=Memory(banks=1, bank_kib=1))
LEFT = Operand(size=3000, non_zeros=1000, value_bytes=2)  # 6,000 bytes, 2,375 compressed
RIGHT = Operand(size=2000, non_zeros=2000, value_bytes=2)  # 4,000 bytes, 4,250 compressed
RESULT = Operand(size=100, non_zeros=0, value_bytes=2)


class TestDram:
    def test_zeros_are_a_bit_each(self):
        assert dram_traffic(LEFT, RIGHT, RESULT, ChipConfig()) == 2375 + 4250 + 200

    def test_values_of_a_byte(self):
        one = Operand(size=800, non_zeros=3, value_bytes=1)
        assert dram_traffic(one, one, one, ChipConfig()) == 2 * (100 + 3) + 800

    def test_traffic_if_neither_operand_fits(self):
        """Parts have 1,024 bytes: six of the left operand, four of the right. Loading the left again moves less."""
        assert dram_traffic(LEFT, RIGHT, RESULT, SMALL) == 4250 + 4 * 2375 + 200
        assert dram_traffic(RIGHT, LEFT, RESULT, SMALL) == 4250 + 4 * 2375 + 200

    def test_traffic_if_one_operand_fits(self):
        tiny = Operand(size=512, non_zeros=512, value_bytes=2)
        assert dram_traffic(LEFT, tiny, RESULT, SMALL) == 2375 + 64 + 1024 + 200
        larger = Operand(size=513, non_zeros=513, value_bytes=2)
        assert dram_traffic(LEFT, larger, RESULT, SMALL) == 2 * 2375 + 513 / 8 + 1026 + 200

    def test_sums_stay_on_the_chip(self):
        """Half of the 1,600 bytes of sums stay on the chip at a time, so that one operand is loaded twice."""
        one = Operand(size=400, non_zeros=400, value_bytes=2)  # 850 bytes compressed
        sums = Operand(size=400, non_zeros=0, value_bytes=4)
        assert dram_traffic(one, one, sums, SMALL) == 850 + 850 + 1600
        assert dram_traffic(one, one, sums, SMALL, sums=3) == 850 + 2 * 850 + 1600
        assert dram_traffic(LEFT, RIGHT, sums, SMALL, sums=3) == 4250 + 4 * 2375 + 1600  # RIGHT has four parts anyway.

    def test_batch_elements_have_nothing_in_common(self):
        """Three elements have 2,000 and 1,334 bytes, two parts each. With four elements, the right one fits."""
        assert dram_traffic(LEFT, RIGHT, RESULT, SMALL, elements=3) == 4250 + 2 * 2375 + 200
        assert dram_traffic(LEFT, RIGHT, RESULT, SMALL, elements=4) == 4250 + 2375 + 200


LAYER = convolution(1, (4, 4), (6, 6), (3, 3), (1, 1), (0, 0))  # 4 x 4 windows of nine steps, four filters
VALUES = 4 * 2  # bytes of a block
ONES = {name: np.ones(shape, bool) for name, shape in LAYER.shapes.items()}


def on_chip(chip: ChipConfig, order=None) -> Traffic:
    (product,) = lower(LAYER, Operation.FORWARD, ONES, 4)
    rows = grouped(product.left, 4) if order is None else np.array(order)[None]
    columns = (product.right, grouped(product.right, 4))
    grid = Grid.of(batch=1, row_groups=rows.shape[1], column_groups=1, chip=chip)
    sides = ((product.left, rows), columns)
    return on_chip_traffic(product, *sides, TileConfig(), chip, grid=grid, reordered=order is not None)


def rows_read(layer, scratchpad_kib: int) -> float:
    """Return the bytes of rows that two tiles read in a dense forward pass."""
    masks = {name: np.ones(shape, bool) for name, shape in layer.shapes.items()}
    chip = ChipConfig(tiles=2, memory=Memory(broadcast=1, scratchpad_kib=scratchpad_kib))
    return simulate_operation(layer, Operation.FORWARD, masks, Machine(TileConfig(), chip, "left")).traffic.rows


class TestBanks:
    def test_adjacent_windows_share_reads(self):
        """Four windows in a row read three rows of six positions, not four times nine."""
        traffic = on_chip(ChipConfig())
        assert traffic.rows == 4 * 3 * 6 * VALUES
        assert traffic.columns == 4 * 9 * VALUES
        assert (traffic.sums, traffic.results) == (0, 16 * 4 * 4)
        # Every window passes scratchpads once, the filters once for each of four groups of windows.
        assert traffic.scratchpad == 2 * 16 * 9 * VALUES + 2 * 4 * (4 * 9) * VALUES

    def test_broadcast(self):
        """Each group of windows has one group of filters; the filters have four groups of windows."""
        reads = {broadcast: on_chip(ChipConfig(memory=Memory(broadcast=broadcast))) for broadcast in (1, 3, 4)}
        assert {traffic.rows for traffic in reads.values()} == {4 * 18 * VALUES}
        assert [reads[broadcast].columns for broadcast in (1, 3, 4)] == [times * 36 * VALUES for times in (4, 2, 1)]

    def test_a_group_that_a_scratchpad_holds_is_read_once(self):
        """Each of two tiles uses 16 groups of four filters several times. A group of windows has 288 bytes."""
        layer = convolution(1, (4, 64), (6, 6), (3, 3), (1, 1), (0, 0))
        # Each tile has 256 or 512 bytes for windows.
        assert [rows_read(layer, size) for size in (1, 2)] == [16 * 4 * 18 * VALUES, 2 * 4 * 18 * VALUES]

    def test_a_group_that_fills_a_scratchpad_is_read_once(self):
        """A group of four windows has 512 bytes, the size of its part of a 2 KiB scratchpad."""
        layer = convolution(1, (64, 64), (4, 4), (1, 1), (1, 1), (0, 0))
        assert rows_read(layer, 2) < rows_read(layer, 1)

    def test_windows_far_apart(self):
        """Groups are the corners, the upper and lower edges' middles, the other edges' middles, and the inner four."""
        traffic = on_chip(ChipConfig(), [[0, 3, 12, 15], [1, 2, 13, 14], [4, 7, 8, 11], [5, 6, 9, 10]])
        assert traffic.rows == (4 * 9 + 2 * 12 + 2 * 12 + 16) * VALUES + 16 * 4  # Each window has an index of 4 bytes.
        assert traffic.columns == on_chip(ChipConfig()).columns

    def test_density_order_is_charged(self):
        """Compare with the natural order, which the baseline uses."""
        rng = np.random.default_rng(0)
        masks = ONES | {"A": rng.random((1, 4, 6, 6)) < 0.5}
        natural, density = (
            simulate_operation(
                LAYER, Operation.FORWARD, masks, Machine(TileConfig(), ChipConfig(), row_order=row_order)
            )
            for row_order in ("natural", "density")
        )
        assert natural.traffic.rows == 4 * 18 * VALUES
        assert density.traffic.rows > natural.traffic.rows + 16 * 4
        assert density.energy["sram"] > density.dense_energy["sram"] == natural.dense_energy["sram"]
        assert natural.energy["sram"] == natural.dense_energy["sram"]

    def test_formats_of_both_sides(self):
        """Rows have 8 bits, columns 16."""
        config = TileConfig.from_toml('[tile]\nformat.a = "fp16"\nformat.b = "fp8_e4m3"')
        masks = ONES | {"A": np.arange(144).reshape(1, 4, 6, 6) < 100}
        result = simulate_operation(LAYER, Operation.FORWARD, masks, Machine(config, ChipConfig(), "left"))
        assert (result.traffic.rows, result.traffic.columns) == (4 * 18 * 4, 4 * 9 * 8)
        assert result.traffic.dram == 2 * 144 / 8 + 100 * 1 + 144 * 2 + 64 * 1
        result = simulate_operation(LAYER, Operation.FORWARD, masks, Machine(config, ChipConfig(), "right"))
        assert (result.traffic.rows, result.traffic.columns) == (4 * 9 * 4, 4 * 18 * 8)
        assert result.traffic.dram == 2 * 144 / 8 + 100 * 2 + 144 * 1 + 64 * 1


class TestTransposers:
    """A and W are stored along channels, G along filters. Reductions along other axes need a transposer."""

    def test_transposed_values(self):
        machine = Machine(TileConfig(), ChipConfig())
        moved = {operation: simulate_operation(LAYER, operation, ONES, machine).traffic for operation in Operation}
        assert moved[Operation.FORWARD].transposed == 0
        # Nine blocks of each of four channels' filters; G is not transposed.
        assert moved[Operation.INPUT_GRADIENT].transposed == 4 * 9
        both = moved[Operation.WEIGHT_GRADIENT]
        assert both.transposed == (both.rows + both.columns) / VALUES

    def test_transposers_limit(self):
        slow = Machine(TileConfig(), ChipConfig(dram_channel_bits=1 << 20, memory=Memory(transposers=1)))
        result = simulate_operation(LAYER, Operation.WEIGHT_GRADIENT, ONES, slow)
        assert result.limit == "transposers"
        assert result.cycles == result.transposer_cycles == result.traffic.transposed


class TestSums:
    def test_sums_of_three_samples(self):
        """Each of 144 gradients has three sums. Two of them are added to a value that is read."""
        layer = convolution(3, (4, 4), (6, 6), (3, 3), (1, 1), (0, 0))
        masks = {name: np.ones(shape, bool) for name, shape in layer.shapes.items()}
        result = simulate_operation(layer, Operation.WEIGHT_GRADIENT, masks, Machine(TileConfig(), ChipConfig()))
        assert (result.traffic.results, result.traffic.sums) == (3 * 144 * 4, 2 * 144 * 4)
        # A and G have 17 bits per value, gradients FP32.
        assert result.traffic.dram == (3 * 4 * 36 + 3 * 4 * 16) * 17 / 8 + 144 * 4

    def test_a_matrix_product_adds_up_in_the_tile(self):
        layer = MatrixProduct(batch=2, samples=8, in_features=3, out_features=5)
        masks = {name: np.ones(shape, bool) for name, shape in layer.shapes.items()}
        result = simulate_operation(layer, Operation.WEIGHT_GRADIENT, masks, Machine(TileConfig(), ChipConfig()))
        assert (result.traffic.results, result.traffic.sums) == (2 * 3 * 5 * 4, 0)

    @pytest.mark.parametrize("operation", [Operation.FORWARD, Operation.INPUT_GRADIENT])
    def test_other_operations_have_no_sums(self, operation):
        result = simulate_operation(LAYER, operation, ONES, Machine(TileConfig(), ChipConfig()))
        assert result.traffic.sums == 0


def test_absent_vectors_are_not_moved():
    """Five rows and three columns run on tiles of four by four, so that the second pass has one row."""
    layer = MatrixProduct(batch=1, samples=5, in_features=8, out_features=3)
    masks = {name: np.ones(shape, bool) for name, shape in layer.shapes.items()}
    result = simulate_operation(layer, Operation.FORWARD, masks, Machine(TileConfig(), ChipConfig()))
    assert (result.traffic.rows, result.traffic.columns) == (5 * 16, 3 * 16)
    assert result.traffic.scratchpad == 2 * (5 + 2 * 3) * 16


def test_elements_of_a_batch_are_loaded_apart():
    """Both operands exceed a memory, but one sample's operands fit."""
    layer = convolution(4, (4, 4), (8, 8), (1, 1), (1, 1), (0, 0))  # 512 bytes of A and of G for each sample
    masks = {name: np.ones(shape, bool) for name, shape in layer.shapes.items()}
    result = simulate_operation(layer, Operation.WEIGHT_GRADIENT, masks, Machine(TileConfig(), SMALL))
    assert result.traffic.dram == 2 * 1024 * 17 / 8 + 16 * 4


def test_cycles():
    chip = ChipConfig(memory=Memory(banks=2, access_bytes=8))
    traffic = Traffic(dram=513, rows=160, columns=161, sums=50, results=100)
    assert traffic.bank_cycles(chip) == 11  # 161 bytes at 16 per cycle
    assert (traffic + Traffic(results=11)).bank_cycles(chip) == 11  # 161 of sums and results
    assert (traffic + Traffic(sums=20, results=10)).bank_cycles(chip) == 12
    assert traffic.dram_cycles(chip) == 11  # 51.2 bytes per cycle
    transposers = ChipConfig(memory=Memory(transposers=16))
    assert Traffic(transposed=160).transposer_cycles(transposers) == 10
    assert Traffic(transposed=161).transposer_cycles(transposers) == 11
