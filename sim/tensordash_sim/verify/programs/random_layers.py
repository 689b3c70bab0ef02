"""Random layers with their operands, which use all features of a core's programs of layers."""

from dataclasses import dataclass
from math import prod
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.formats import IntegerFormat

from ...compiler.images import TensorImage, side_formats
from ...compiler.iteration_space import IterationSpace
from ...compiler.layer import OPERANDS, RESULTS, Layer
from ...compiler.problem import Problem
from ...golden import encode
from ...golden.core.memory import Memory

__all__ = ["LayerWork", "random_layer", "random_work"]


@dataclass(frozen=True, kw_only=True)
class LayerWork:
    """An operation of a layer with its operands.

    Parameters
    ----------
    layer, operation, rows, fp32, relu
        See `Problem`.
    turned : bool
        Whether results are turned, if possible.
    values : dict of str to array
        Bit patterns of both operands, and optionally "bias" and "mask", in the layout of `TensorImage`.
    """

    layer: Layer
    operation: str
    rows: str
    fp32: bool
    relu: bool
    turned: bool = False
    values: dict[str, NDArray]

    def image(self, config: CoreConfig, memory: Memory) -> TensorImage:
        """Return the image of operands and results in memory."""
        turned = self.space(config).problem.turned
        how: dict[str, Any] = {"rows": self.rows, "fp32": self.fp32, "turned": turned}
        return TensorImage(config, memory, self.layer, self.operation, self.values, **how)

    def space(self, config: CoreConfig) -> IterationSpace:
        """Return the operation's iteration space on a core."""
        problem = Problem(
            layer=self.layer,
            operation=self.operation,
            rows=self.rows,
            fp32=self.fp32,
            relu=self.relu,
            bias="bias" in self.values,
            mask="mask" in self.values,
        )
        space = IterationSpace(problem=problem, core=config)
        return space.with_turned_results() if self.turned else space


def random_layer(random: Random, macs: tuple[int, int]) -> Layer:
    """Draw a convolution or a batch of matrix products.

    Parameters
    ----------
    random : Random
        Source of all random decisions.
    macs : (int, int)
        Least and most multiplications of the layer, including those with padding.
    """
    least, most = macs
    size = max(4, round(most ** (1 / 3)))
    while True:
        sizes = [random.choice([1, random.randint(1, size // 4), random.randint(1, size)]) for _ in range(2)]
        fields: dict[str, Any] = {"channels": sizes[0], "filters": sizes[1], "products": random.choice([1, 1, 2, 3])}
        if random.random() < 0.35:
            fields |= {"samples": 1, "size": (1, random.randint(1, 4 * size))}
        else:
            fields["samples"] = random.randint(1, 3)
            for name, choice in (
                ("size", lambda: random.choice([1, random.randint(1, size // 2), random.randint(1, size)])),
                ("kernel", lambda: random.choice([1, 3, random.randint(1, 7)])),
                ("stride", lambda: random.choice([1, random.randint(1, 4)])),
                ("padding", lambda: random.randint(0, 3)),
                ("dilation", lambda: random.randint(1, 2)),
            ):
                fields[name] = choice(), choice()
        try:
            layer = Layer(**fields)
        except ValueError:
            continue  # The kernel is larger than the padded input.
        if least <= prod(layer.shape("G")) * layer.channels * prod(layer.kernel) * layer.products <= most:
            return layer


def random_work(random: Random, config: CoreConfig, macs: tuple[int, int] = (1, 300_000)) -> LayerWork:
    """Draw an operation of a random layer, with operands in a core's formats, some of them zeros.

    Parameters
    ----------
    random, macs
        See `random_layer`.
    config : CoreConfig
        The core.

    Examples
    --------
    >>> work = random_work(Random(3), CoreConfig())
    >>> set(OPERANDS[work.operation]) <= set(work.values)
    True
    """
    layer = random_layer(random, macs)
    operation = random.choice(list(OPERANDS))
    rows = random.choice(OPERANDS[operation])
    rng = np.random.default_rng(random.getrandbits(32))
    values: dict[str, NDArray] = {}
    for name, fmt in side_formats(config, operation, rows).items():
        drawn = rng.standard_normal(layer.whole_shape(name))
        if isinstance(fmt, IntegerFormat):
            drawn = np.rint(8 * drawn).astype(np.int64)
        values[name] = encode(np.where(rng.random(drawn.shape) < random.choice([0.0, 0.3, 0.6, 0.9]), 0, drawn), fmt)
    if operation == "AxW" and random.random() < 0.4:
        bias = rng.standard_normal(layer.whole_shape("bias"))
        is_integer = config.tile.numerics.result == "int32"
        values["bias"] = np.rint(100 * bias).astype(np.int32) if is_integer else bias.astype(np.float32)
    fp32, relu = random.random() < 0.3, random.random() < 0.3
    turned = fp32 and random.random() < 0.5
    if not fp32 and random.random() < 0.5:  # zeros of both signs, and random bits
        bits = config.value_bits
        mask = rng.integers(0, 1 << bits, layer.whole_shape(RESULTS[operation])).astype(f"u{bits // 8}")
        values["mask"] = np.where(rng.random(mask.shape) < 0.5, mask & 1 << (bits - 1), mask)
    return LayerWork(layer=layer, operation=operation, rows=rows, fp32=fp32, relu=relu, turned=turned, values=values)
