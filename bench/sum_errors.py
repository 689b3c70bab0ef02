"""Compare the errors of binned sums, sequential FP32 sums and a GPU's fused sums, on bf16 operands of training steps.

    python bench/sum_errors.py [--steps 20] [--models digits gpt lstm]

Each network first trains some steps in PyTorch's bf16. The bench then sums the products of the next step in each way,
and exactly. The error of a product is the root mean square of its errors, divided by the root mean square of its exact
results, in units of 2^-24. The table has the mean over the products of each operation. Its last column is the largest
ratio of a product's error in binned sums to its error in sequential sums: above 1, binned sums are worse.
"""

from collections import defaultdict
from dataclasses import replace
from statistics import mean
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from common import argument_parser, core_preset
from tensordash.configuration.formats import FORMATS, FloatFormat
from tensordash_runtime import Device, offload
from tensordash_runtime.jobs import DeviceResult
from tensordash_runtime.operands import Operand
from tensordash_runtime.products import Product
from tensordash_runtime.tasks import TASKS, load_task
from tensordash_sim.compiler.images import layer_values
from tensordash_sim.compiler.layer import OPERANDS, Layer
from tensordash_sim.emulator import decode
from tensordash_sim.emulator.contraction import Sides, all_sums

PRESET = "core-bf16"
FUSED = "hopper"
BF16 = FORMATS["bf16"]
UNIT = 2.0**-24


class Recorded(NamedTuple):
    """A product of a training step."""

    layer: Layer
    operation: str
    operands: dict[str, NDArray]


class Sequential(Sides):
    """Sequential sums of products in FP32."""

    def sums(self, placed: NDArray, other: NDArray, bias: NDArray | None = None) -> NDArray[np.uint32]:
        """Return sums, as `Sides.sums`."""
        a, b = decode(placed, BF16), decode(other, BF16)
        total = np.zeros((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-2]), np.float32)
        for k in range(a.shape[-1]):
            total += a[..., :, None, k] * b[..., None, :, k]
        return total.view(np.uint32)


class Exact(Sides):
    """Sums in float64, rounded to FP32. With `rest`, the rounding errors: both together have 48 bits."""

    rest = False

    def sums(self, placed: NDArray, other: NDArray, bias: NDArray | None = None) -> NDArray[np.uint32]:
        """Return sums, as `Sides.sums`."""
        exact = decode(placed, BF16).astype(np.float64) @ decode(other, BF16).astype(np.float64).mT
        rounded = exact.astype(np.float32)
        return np.ascontiguousarray((exact - rounded).astype(np.float32) if self.rest else rounded).view(np.uint32)


class Rest(Exact):
    """Rounding errors of `Exact`."""

    rest = True


def record_products(name: str, steps: int) -> list[Recorded]:
    """Train a network for some steps, and return the products of the next step."""
    task = load_task(name)
    optimizer, batches, found = task.optimizer(task.model.parameters()), task.order(0), []

    def record(product: Product, done: DeviceResult) -> None:
        values = {}
        for each in OPERANDS[product.operation]:
            operand = Operand(each, product.operands[each])
            assert isinstance(BF16, FloatFormat)
            bits = operand.rounded(BF16, operand.exponent(BF16, 0, "auto")).values
            values[each] = np.ascontiguousarray(layer_values(product.geometry, each, bits))
        found.append(Recorded(Layer.of(product.geometry), product.operation, values))

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = task.loss(task.model, next(batches))
        loss.backward()
        optimizer.step()

    for _ in range(steps):
        step()
    with Device(PRESET) as device, offload(device, model=task.model, strict=True, count=False, watcher=record):
        step()
    return found


def errors(product: Recorded) -> NDArray[np.float64]:
    """Return the relative errors of binned, sequential and fused sums; NaN if all results are zero."""
    tile = core_preset(PRESET).tile
    fused = replace(tile, accumulator=FUSED)
    ways = Exact(tile, True), Rest(tile, True), Sides(tile, True), Sequential(tile, True), Sides(fused, True)
    sums = [all_sums(way, *product).view(np.float32).astype(np.float64) for way in ways]
    exact = sums[0] + sums[1]
    size = np.sqrt(np.mean(np.square(exact)))
    if not size:
        return np.full(3, np.nan)
    return np.array([np.sqrt(np.mean(np.square(each - exact))) for each in sums[2:]]) / size / UNIT


def main(models: list[str], steps: int) -> None:
    """Print the table."""
    print(f"| after {steps} steps | operation | products | binned | FP32 in sequence | {FUSED} | largest ratio |")
    print("|---|---|---|---|---|---|---|")
    for name in models:
        by_operation = defaultdict(list)
        for product in record_products(name, steps):
            by_operation[product.operation].append(errors(product))
        for operation, every in by_operation.items():
            found = [each for each in every if np.isfinite(each).all()]
            means = " | ".join(f"{mean(each[k] for each in found):.2f}" for k in range(3))
            worst = max(each[0] / each[1] if each[1] else float(each[0] > 0) for each in found)
            print(f"| {name} | {operation} | {len(found)} | {means} | {worst:.2f} |", flush=True)


if __name__ == "__main__":
    parser = argument_parser(__doc__)
    parser.add_argument("--steps", type=int, default=20, help="training steps before the one that is measured")
    parser.add_argument("--models", nargs="+", choices=sorted(TASKS), default=["digits", "gpt", "lstm"])
    options = parser.parse_args()
    main(options.models, options.steps)
