"""Test that a core that drops steps has the bits of a core that drops none, and that its cycles are expected."""

from typing import Any

import numpy as np
import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash_runtime import Device
from tensordash_runtime.counting import count_cycles
from tensordash_runtime.traced_products import expect_product
from tensordash_sim.compiler.layer import OPERANDS
from tensordash_sim.cycles import count
from tensordash_sim.lowering.geometry import Geometry, MatrixProduct
from tensordash_sim.trace import Record, Trace, example_trace

from .test_skipped_passes import IMAGES, needs_verilator

PRESET = "core-drop"
PRODUCT = MatrixProduct(batch=1, samples=48, in_features=70, out_features=64)
GEOMETRIES = pytest.mark.parametrize("geometry", [PRODUCT, IMAGES], ids=["product", "images"])


def core(*, drops: bool) -> CoreConfig:
    config = load_any_preset(PRESET, [f"core.drop_steps={str(drops).lower()}"])
    assert isinstance(config, CoreConfig)
    return config


def operands_of(geometry: Geometry, operation: str, share: float) -> dict[str, Any]:
    """Return operands of which the first has a share of other values than zero, the rest are zeros of either sign."""
    rng, first = np.random.default_rng(0), OPERANDS[operation][0]
    drawn = {name: rng.standard_normal(geometry.shapes[name]).astype(np.float16) for name in OPERANDS[operation]}
    drawn[first] *= rng.random(drawn[first].shape) < share
    return drawn


@pytest.mark.parametrize("operation", OPERANDS)
@GEOMETRIES
def test_golden_core_has_the_emulators_bits(geometry: Geometry, operation: str) -> None:
    operands = operands_of(geometry, operation, 0.03)
    with Device(PRESET) as emulator, Device(PRESET, "golden", memory_bytes=1 << 20) as golden:
        expected, done = (each.contract(geometry, operation, operands) for each in (emulator, golden))
    assert np.array_equal(done.result, expected.result)


@pytest.mark.parametrize("operation", OPERANDS)
@GEOMETRIES
def test_expected_cycles_leave_out_dropped_steps(geometry: Geometry, operation: str) -> None:
    """Dropped steps take no cycles. Padding drops steps even of operands without a zero."""
    cycles: dict[tuple[bool, float], int] = {}
    speedups: dict[tuple[bool, float], float] = {}
    for share in (0.01, 1.0):
        for drops in (True, False):
            with Device(core(drops=drops)) as device:
                row_side = OPERANDS[operation][0]
                done = device.contract(geometry, operation, operands_of(geometry, operation, share), row_side=row_side)
                assert device.expectations is not None
                cycles[drops, share] = device.expectations.cycles_of(done.executed)
                speedups[drops, share] = done.executed.speedup
    assert cycles[True, 0.01] <= cycles[False, 0.01]
    assert cycles[True, 1.0] <= 1.02 * cycles[False, 1.0]  # Layouts pair fewer groups.
    assert speedups[True, 1.0] >= speedups[False, 1.0]
    assert speedups[True, 1.0] == speedups[False, 1.0] or geometry is IMAGES
    assert speedups[False, 0.01] <= 4 < speedups[True, 0.01]


@needs_verilator
@pytest.mark.parametrize("share", [0.02, 0.2, 1.0])
def test_verilog_has_the_emulators_bits_and_the_expected_cycles(share: float) -> None:
    with Device(PRESET) as emulator, Device(PRESET, "verilator", quick=True) as verilog:
        for geometry in (PRODUCT, IMAGES):
            for operation in OPERANDS:
                operands = operands_of(geometry, operation, share)
                expected, done = (each.contract(geometry, operation, operands) for each in (emulator, verilog))
                assert np.array_equal(done.result, expected.result)
                assert emulator.expectations is not None
                cycles = emulator.expectations.cycles_of(expected.executed)
                assert cycles == pytest.approx(done.executed.cycles, rel=0.1)


def test_tile_cycles_are_counted_without_dropped_steps() -> None:
    config, rng = core(drops=True), np.random.default_rng(0)
    layer = MatrixProduct(batch=1, samples=12, in_features=64, out_features=3)
    masks = {name: rng.random(layer.shapes[name]) < share for name, share in (("A", 0.03), ("W", 0.9))}
    streams = list(masks["A"][0].reshape(-1, 4, 16, 4))
    dropped, plain = (count(streams, config.tile, drop_steps=drops) for drops in (True, False))
    assert count_cycles(layer, "AxW", masks, "A", core(drops=False)).speedup == plain.speedup
    found = count_cycles(layer, "AxW", masks, "A", config)
    assert found.dense == dropped.steps
    assert plain.speedup < found.speedup <= dropped.speedup
    assert count_cycles(layer, "AxW", masks, "A", config.baseline).speedup == 1


def test_products_of_a_trace_take_fewer_cycles() -> None:
    records: list[Record] = [each for each in Trace.open(example_trace()).records if str(each.operation) == "WxG"]
    cycles = {drops: [expect_product(core(drops=drops), each).cycles for each in records] for drops in (True, False)}
    assert sum(cycles[True]) < sum(cycles[False])
