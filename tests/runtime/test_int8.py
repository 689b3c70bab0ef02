"""Test a core in int8: inference, quantised float32 tensors, and straight-through training."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from tensordash_runtime import Device, offload
from tensordash_runtime.errors import ProgramFolderError
from tensordash_runtime.program_folder.compiling import compile_task
from tensordash_runtime.tasks import load_task
from tensordash_sim.lowering import Convolution, Geometry, MatrixProduct

IMAGES = 64
LAYER = MatrixProduct(batch=1, samples=4, in_features=8, out_features=4)


def power_of(values: NDArray) -> int:
    """Return the largest p with ``max |values| * 2**p <= 127``, by trying all of them."""
    largest = float(np.abs(values.astype(np.float64)).max())
    return max(p for p in range(-200, 200) if largest * 2.0**p <= 127) if largest else 0


def quantise(values: NDArray, power: int) -> NDArray[np.int64]:
    return np.clip(np.rint(np.ldexp(values.astype(np.float64), power)), -128, 127).astype(np.int64)


def round_to_int8(sums: NDArray[np.int64], scale: int) -> NDArray[np.int64]:
    """Return sums times a power of two as int8, rounded to nearest even and saturated."""
    return np.clip(np.rint(np.ldexp(sums.astype(np.float64), scale)), -128, 127).astype(np.int64)


def convolve(a: NDArray[np.int64], w: NDArray[np.int64], padding: int) -> NDArray[np.int64]:
    padded = np.pad(a, [(0, 0), (0, 0), (padding, padding), (padding, padding)])
    windows = sliding_window_view(padded, w.shape[2:], axis=(2, 3))
    return np.einsum("ncyxij,fcij->nfyx", windows, w)


class IntegerCnn:
    """The digits CNN in integers: weights, biases, and powers of two between its layers."""

    def __init__(self, model: Any, images: NDArray) -> None:
        named = {name: each.detach().numpy() for name, each in model.named_parameters()}
        self.weights, self.biases, self.scales = {}, {}, {}
        with torch.no_grad():
            first = model.conv1(torch.from_numpy(images)).relu()
            second = model.conv2(first).relu()
            third = model.fc1(torch.nn.functional.max_pool2d(second, 2).flatten(1)).relu()
        reached = {"conv1": first, "conv2": second, "fc1": third}
        self.input_power = power = power_of(images)
        for name in ("conv1", "conv2", "fc1", "fc2"):
            weight = named[f"{name}.weight"]
            power += power_of(weight)
            self.weights[name] = quantise(weight, power_of(weight))
            self.biases[name] = np.rint(np.ldexp(named[f"{name}.bias"].astype(np.float64), power)).astype(np.int64)
            if name in reached:
                self.scales[name] = power_of(reached[name].numpy()) - power
                power += self.scales[name]

    def scores(self, images: NDArray, layer: Callable[[str, NDArray], NDArray]) -> NDArray:
        """Return scores; `layer` computes the layer with a name."""
        first = layer("conv1", quantise(images, self.input_power))
        second = layer("conv2", first)
        samples, channels, size, _ = second.shape
        half = size // 2
        pooled = second[:, :, : 2 * half, : 2 * half].reshape(samples, channels, half, 2, half, 2).max((3, 5))
        return layer("fc2", layer("fc1", pooled.reshape(samples, -1)))

    def in_numpy(self, name: str, a: NDArray) -> NDArray:
        w, bias = self.weights[name], self.biases[name]
        sums = a @ w.T + bias if w.ndim == 2 else convolve(a, w, name == "conv1") + bias[:, None, None]
        return round_to_int8(np.maximum(sums, 0), self.scales[name]) if name in self.scales else sums

    def run_layer(self, device: Device, name: str, a: NDArray) -> NDArray:
        w = self.weights[name]
        tensors = {"A": a.astype(np.int8), "W": w.astype(np.int8)}
        geometry: Geometry
        if w.ndim == 2:
            geometry = MatrixProduct(batch=1, samples=len(a), in_features=w.shape[1], out_features=len(w))
            tensors = {role: each[None] for role, each in tensors.items()}
        else:
            geometry = Convolution(
                batch=len(a),
                in_channels=w.shape[1],
                out_channels=len(w),
                size=a.shape[2:],
                kernel=w.shape[2:],
                stride=(1, 1),
                padding=(int(name == "conv1"),) * 2,
                dilation=(1, 1),
                groups=1,
            )
        bias = self.biases[name].astype(np.int32)
        settings = {"relu": True, "scale": self.scales[name]} if name in self.scales else {"fp32": True}
        result = device.contract(geometry, "AxW", tensors, bias=bias, count=False, **settings).result
        assert result.dtype == (np.int8 if name in self.scales else np.int32)
        return (result[0] if w.ndim == 2 else result).astype(np.int64)


@pytest.mark.parametrize("backend", ["emulator", "golden", pytest.param("verilator", marks=pytest.mark.slow)])
def test_inference_of_the_digits_cnn(backend):
    """Every layer's integers equal NumPy's, and accuracy is close to float32's."""
    task = load_task("digits", 0, 64)
    optimizer = task.optimizer(task.model.parameters())
    for batch in (each for epoch in range(8) for each in task.order(epoch)):
        optimizer.zero_grad()
        task.loss(task.model, batch).backward()
        optimizer.step()
    images, labels = (each.numpy() for each in next(load_task("digits", 0, IMAGES).order(99)))
    if backend != "emulator":
        images, labels = images[:2], labels[:2]
    network = IntegerCnn(task.model, images)
    expected = network.scores(images, network.in_numpy)
    with Device("core-int8", backend) as device:
        found = network.scores(images, lambda name, a: network.run_layer(device, name, a))
    np.testing.assert_array_equal(found, expected)
    if backend == "emulator":
        with torch.no_grad():
            plain = task.model(torch.from_numpy(images)).numpy()
        right, plain_right = (int((each.argmax(1) == labels).sum()) for each in (found, plain))
        assert plain_right > 0.8 * IMAGES
        assert right >= plain_right - 3


@pytest.mark.parametrize("seed", range(4))
def test_float32(seed):
    """Operands are scaled by powers of two and rounded. The bias is added after the sum is scaled back."""
    rng = np.random.default_rng(seed)
    sizes = 10.0 ** rng.integers(-6, 6, 2)
    a, w = ((rng.standard_normal((4, 8)) * size).astype(np.float32) for size in sizes)
    bias = rng.standard_normal(4).astype(np.float32)
    powers = [power_of(each) for each in (a, w)]
    sums = quantise(a, powers[0]) @ quantise(w, powers[1]).T
    expected = np.maximum(np.ldexp(sums.astype(np.float64), -sum(powers)).astype(np.float32) + bias, 0)
    with Device("core-int8") as device:
        done = device.contract(LAYER, "AxW", {"A": a[None], "W": w[None]}, bias=bias, relu=True)
    np.testing.assert_array_equal(done.result[0], expected)
    assert done.executed.saturated == 0
    assert [done.executed.operands[name].exponent for name in "AW"] == powers


def test_saturated_values_are_counted():
    a, w = np.full((1, 4, 8), 200.0, np.float32), np.full((1, 4, 8), 0.25, np.float32)
    a[0, 0, 0], w[0, 0, 0] = np.inf, 3.0
    with Device("core-int8", scaling="none") as device:
        done = device.contract(LAYER, "AxW", {"A": a, "W": w})
    assert (done.executed.operands["A"].saturated, done.executed.operands["W"].flushed) == (31, 31)
    assert done.result[0, 0, 0] == np.inf
    assert done.result[0, 1, 0] == 127 * 3


@pytest.mark.parametrize("backend", ["golden", pytest.param("verilator", marks=pytest.mark.slow)])
def test_straight_through_training_step(backend):
    """After a step, gradients and weights have the bits of the emulator."""
    results = []
    for name in ("emulator", backend):
        task = load_task("digits", 0, 2)
        with (
            Device("core-int8", name) as device,
            offload(device, model=task.model, strict=True, flush_limit=1.0) as run,
        ):
            loss = task.loss(task.model, next(task.order(0)))
            loss.backward()
            task.optimizer(task.model.parameters()).step()
        assert len(run.contractions) == 11
        results.append([loss.detach(), *(each for p in task.model.parameters() for each in (p.detach(), p.grad))])
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one.numpy().view(np.uint32), other.numpy().view(np.uint32))
    assert all(bool(each.any()) for each in results[0])


ONES = {"A": np.ones((1, 4, 8), np.int8), "W": np.ones((1, 4, 8), np.int8)}
FLOATS = {name: each.astype(np.float32) for name, each in ONES.items()}


@pytest.mark.parametrize(
    ("operands", "settings", "kind", "message"),
    [
        (ONES, {"bias": np.ones(4, np.float32)}, TypeError, "bias must be int32, not float32"),
        (FLOATS, {"bias": np.ones(4, np.int32)}, TypeError, "bias must be float32, not int32"),
        (ONES, {"scale": -129}, ValueError, "scale must be an integer from -128 to 127, not -129"),
        (ONES, {"scale": 1, "fp32": True}, ValueError, "scale must be 0 for results of 32 bits, not 1"),
        (FLOATS, {"scale": 1}, ValueError, "scale must be 0 for results of 32 bits, not 1"),
        (
            {name: each.astype(np.float16) for name, each in ONES.items()},
            {},
            TypeError,
            "operands must both be float32, or int8 and int8, not A float16 and W float16",
        ),
    ],
)
def test_invalid_operands(operands, settings, kind, message):
    with Device("core-int8") as device, pytest.raises(kind, match=message):
        device.contract(LAYER, "AxW", operands, **settings)


def test_no_program_folders():
    with Device("core-int8") as device, pytest.raises(ProgramFolderError, match="floating-point operands .* not int8"):
        compile_task("mlp", device.config)
