"""Test that a core that skips passes has the bits of a core that skips none, and that its cycles are expected."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tensordash_runtime import Device
from tensordash_sim.compiler.layer import OPERANDS, RESULTS
from tensordash_sim.lowering.geometry import Convolution, Geometry, MatrixProduct
from tensordash_sim.verify.simulators import simulator_names

from .test_fusing import inputs, seeded, step

PRESET = "core-skip"
needs_verilator = pytest.mark.skipif("verilator" not in simulator_names(), reason="Verilator is not installed")
PRODUCT = MatrixProduct(batch=1, samples=90, in_features=70, out_features=64)
IMAGES = Convolution(
    batch=2,
    in_channels=12,
    out_channels=20,
    size=(9, 13),
    kernel=(3, 3),
    stride=(1, 1),
    padding=(1, 1),
    dilation=(1, 1),
    groups=1,
)


def tensors_of(geometry: Geometry, operation: str, share: float) -> dict[str, Any]:
    """Return operands, and a mask of which a share of the channels and of the rows remains."""
    rng = np.random.default_rng(0)
    draw = {name: rng.standard_normal(geometry.shapes[name]).astype(np.float16) for name in OPERANDS[operation]}
    draw["G"] = np.where(rng.random(draw["G"].shape) < 0.5, draw["G"], np.float16(0)) if "G" in draw else draw["A"]
    mask = rng.standard_normal(geometry.shapes[RESULTS[operation]])
    for axis in range(mask.ndim):
        mask = mask * (rng.random([size if k == axis else 1 for k, size in enumerate(mask.shape)]) < share)
    return {"operands": {name: draw[name] for name in OPERANDS[operation]}, "mask": mask.astype(np.float16)}


@pytest.mark.parametrize("operation", OPERANDS)
@pytest.mark.parametrize("geometry", [PRODUCT, IMAGES], ids=["product", "images"])
def test_golden_core_has_the_emulators_bits(geometry: Geometry, operation: str) -> None:
    tensors = tensors_of(geometry, operation, 0.5)
    with Device(PRESET) as emulator, Device(PRESET, "golden", memory_bytes=1 << 20) as golden:
        expected, done = (
            each.contract(geometry, operation, tensors["operands"], mask=tensors["mask"]) for each in (emulator, golden)
        )
    assert np.array_equal(done.result, expected.result)


@pytest.mark.parametrize("operation", OPERANDS)
@pytest.mark.parametrize("geometry", [PRODUCT, IMAGES], ids=["product", "images"])
def test_expected_cycles_leave_out_skipped_passes(geometry: Geometry, operation: str) -> None:
    """An emptier mask takes fewer cycles, but only on a core that skips passes, and only once its values are known."""
    cycles = {}
    for preset in (PRESET, "core"):
        for share in (0.4, 1.0):
            tensors = tensors_of(geometry, operation, share)
            with Device(preset) as device:
                done = device.contract(geometry, operation, tensors["operands"], mask=tensors["mask"])
                assert device.expectations is not None
                cycles[preset, share] = device.expectations.cycles_of(done.executed)
    assert cycles[PRESET, 0.4] < 0.9 * cycles[PRESET, 1.0]
    assert cycles["core", 0.4] == cycles["core", 1.0]


@needs_verilator
@pytest.mark.parametrize("share", [0.4, 1.0])
def test_verilog_has_the_emulators_bits_and_the_expected_cycles(share: float) -> None:
    with Device(PRESET) as emulator, Device(PRESET, "verilator", quick=True) as verilog:
        for geometry in (PRODUCT, IMAGES):
            for operation in OPERANDS:
                tensors = tensors_of(geometry, operation, share)
                expected, done = (
                    each.contract(geometry, operation, tensors["operands"], mask=tensors["mask"])
                    for each in (emulator, verilog)
                )
                assert np.array_equal(done.result, expected.result)
                assert emulator.expectations is not None
                cycles = emulator.expectations.cycles_of(expected.executed)
                assert cycles == pytest.approx(done.executed.cycles, rel=0.1)


@needs_verilator
def test_verilog_skips_masked_blocks_of_weights() -> None:
    """The gradient of weights that are masked in blocks takes fewer cycles, if whole blocks are masked."""
    rng, cycles = np.random.default_rng(0), {}
    operands = {name: rng.standard_normal(PRODUCT.shapes[name]).astype(np.float16) for name in OPERANDS["AxG"]}
    blocks = np.kron(rng.random((16, 18)) < 0.125, np.ones((4, 4)))[None, :, :70]
    masks = {"none": np.ones_like(blocks), "blocks": blocks, "single": np.tile(np.eye(4), (16, 18))[None, :, :70]}
    with Device(PRESET) as emulator, Device(PRESET, "verilator", quick=True) as verilog:
        for name, mask in masks.items():
            expected, done = (
                each.contract(PRODUCT, "AxG", operands, mask=mask.astype(np.float16)) for each in (emulator, verilog)
            )
            assert np.array_equal(done.result, expected.result)
            assert not np.asarray(done.result)[mask == 0].any()
            assert done.executed.cycles is not None
            cycles[name] = done.executed.cycles
    assert cycles["blocks"] < 0.5 * cycles["none"]
    assert cycles["single"] == pytest.approx(cycles["none"], rel=0.05)


def test_training_step_has_pytorchs_bits() -> None:
    """The gradient of ReLU is the mask of the gradient of its input."""
    model = seeded(lambda: nn.Conv2d(3, 8, 3, padding=1), nn.ReLU, lambda: nn.Conv2d(8, 5, 3))
    x = inputs(2, 3, 6, 9)
    with Device(PRESET, "golden", memory_bytes=1 << 20) as device:
        expected, _ = step(model, x, device, fuse=False)
        results, run = step(model, x, device)
    assert all(map(torch.equal, results, expected))
    assert [each.operation for each in run.contractions if "mask" in each.fused] == ["WxG"]
