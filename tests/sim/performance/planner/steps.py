"""Small steps for tests of plans."""

from itertools import pairwise

from tensordash_sim.lowering import Geometry, MatrixProduct, Operation
from tensordash_sim.performance.planner import Budget, Graph, GraphWriter

__all__ = ["BATCH", "WIDTHS", "budget", "perceptron"]

BATCH, WIDTHS = 256, (96, 160, 64, 32)


def cycles(geometry: Geometry, operation: Operation, _: str) -> tuple[int, int]:
    return geometry.macs // 1000 + len(operation), 0


def perceptron(density: float = 1.0) -> Graph:
    """Return a step of linear layers with ReLU and momentum; one layer has a shortcut."""
    step = GraphWriter({"samples": BATCH}, cycles, gradient_density=density)
    x = step.add_input("x", BATCH * WIDTHS[0], axes={"samples"})
    for number, (inputs, outputs) in enumerate(pairwise(WIDTHS), start=1):
        layer = MatrixProduct(batch=1, samples=BATCH, in_features=inputs, out_features=outputs)
        y = step.product(f"fc{number}", layer, x, axis="samples", density=1.0)
        relu = step.element_wise(
            f"relu{number}", [y], axis="samples", density=density, mask_bytes=1 / 8, gradient_density=density
        )
        x = step.add("beside", relu, y, axis="samples") if number == 2 else relu
    return step.finish(x, axis="samples")


def budget(kib: float, bytes_per_cycle: float = 16.0) -> Budget:
    """Return a budget that reserves an eighth for early loads."""
    return Budget(capacity=kib * 1024, prefetch=kib * 128, dram_bytes_per_cycle=bytes_per_cycle, elements_per_cycle=64)
