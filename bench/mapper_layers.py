"""Random layers with operands, for `bench/mapper.py` and its test."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import torch

from tensordash.configuration.core_config import CoreConfig
from tensordash_sim.compiler.layer import OPERANDS, RESULTS, Layer
from tensordash_sim.lowering import Convolution, MatrixProduct
from tensordash_sim.lowering.geometry import Geometry

__all__ = ["KINDS", "RandomLayer", "random_operation"]

MIN_MACS = 50_000
MAX_MACS = 1_500_000
DEPTHWISE_SHARE = 10
"""Factor of the MACs of other layers that take the same time: a depthwise convolution reduces over one channel."""
TYPES = {"fp16": torch.float16, "fp8_e4m3": torch.float8_e4m3fn, "fp8_e5m2": torch.float8_e5m2}


@dataclass(frozen=True, kw_only=True)
class RandomLayer:
    """An operation of a random layer.

    Parameters
    ----------
    kind : str
        A key of `KINDS`.
    geometry : Convolution or MatrixProduct
        The layer.
    operation : str
        "AxW", "WxG" or "AxG".
    operands : mapping of str to tensor
        Both operands.
    zeros : mapping of str to float
        Share of zeros in each operand.
    options : mapping
        `fp32`, `relu`, `bias` and `mask` of `Device.contract`.
    """

    kind: str
    geometry: Geometry
    operation: str
    operands: Mapping[str, torch.Tensor]
    zeros: Mapping[str, float]
    options: Mapping[str, Any]

    def __str__(self) -> str:
        zeros = ", ".join(f"{share:.0%} of {name}" for name, share in self.zeros.items())
        return f"{self.kind} {self.operation}, zeros {zeros}, {self.geometry}"


def _size(random: Random, low: int, high: int) -> int:
    """Draw a size whose logarithm is evenly distributed."""
    return round(low * (high / low) ** random.random())


def _product(random: Random) -> Geometry:
    sizes = [_size(random, 1, high) for high in (400, 600, 400)]
    return MatrixProduct(batch=1, samples=sizes[0], in_features=sizes[1], out_features=sizes[2])


def _short(random: Random) -> Geometry:
    samples, features, channels = _size(random, 16, 400), _size(random, 1, 40), _size(random, 16, 400)
    return MatrixProduct(batch=1, samples=samples, in_features=features, out_features=channels)


def _batch(random: Random) -> Geometry:
    sizes = [_size(random, 4, 100) for _ in range(3)]
    return MatrixProduct(batch=random.randint(2, 16), samples=sizes[0], in_features=sizes[1], out_features=sizes[2])


def _convolution(random: Random, groups: int, channels: int, filters: int) -> Geometry:
    size, kernel = _size(random, 4, 32), random.choice([1, 3, 3, 5])
    return Convolution(
        batch=random.choice([1, 1, 2, 4]),
        in_channels=channels * groups,
        out_channels=filters * groups,
        groups=groups,
        size=(size, size),
        kernel=(kernel, kernel),
        stride=(random.choice([1, 1, 2]),) * 2,
        padding=(kernel // 2,) * 2,
        dilation=(1, 1),
    )


def _dense(random: Random) -> Geometry:
    return _convolution(random, 1, _size(random, 3, 100), _size(random, 4, 100))


def _grouped(random: Random) -> Geometry:
    return _convolution(random, random.choice([2, 3, 4, 8]), _size(random, 2, 32), _size(random, 2, 32))


def _depthwise(random: Random) -> Geometry:
    return _convolution(random, _size(random, 4, 48), 1, random.choice([1, 1, 1, 2]))


def _irregular(random: Random) -> Geometry:
    groups = random.choice([1, 1, 2, 3])
    return Convolution(
        batch=random.choice([1, 1, 2, 4]),
        in_channels=random.randint(1, 80) * groups,
        out_channels=random.randint(1, 80) * groups,
        groups=groups,
        size=(_size(random, 4, 32), random.randint(1, 40)),
        kernel=(random.randint(1, 5), random.randint(1, 5)),
        stride=(random.randint(1, 3), random.randint(1, 4)),
        padding=(random.randint(0, 2), random.randint(0, 3)),
        dilation=(random.randint(1, 2), random.randint(1, 2)),
    )


KINDS: dict[str, Callable[[Random], Geometry]] = {
    "product": _product,
    "short product": _short,
    "batch": _batch,
    "convolution": _dense,
    "grouped convolution": _grouped,
    "depthwise convolution": _depthwise,
    "irregular convolution": _irregular,
}
"""Functions that draw a layer, by kind. An irregular convolution has different sizes in each axis."""


def _geometry(random: Random, kind: str, scale: float) -> Geometry:
    share = scale / (DEPTHWISE_SHARE if kind == "depthwise convolution" else 1)
    while True:
        try:
            geometry = KINDS[kind](random)
            Layer.of(geometry)
        except ValueError:
            continue  # The kernel is larger than the padded image.
        if MIN_MACS * share <= geometry.macs <= MAX_MACS * share:
            return geometry


def _zeros(random: Random) -> float:
    """Draw a share of zeros: none, up to 99%, or most of them."""
    return random.choice([0.0, 0.0, 0.99 * random.random(), 0.99 * random.random(), 0.9 + 0.09 * random.random()])


def random_operation(seed: int, config: CoreConfig, scale: float = 1.0) -> RandomLayer:
    """Draw an operation.

    Parameters
    ----------
    seed : int
        Seed of all choices.
    config : CoreConfig
        Core that determines the operands' formats.
    scale : float
        Factor of the allowed number of MACs.
    """
    random, generator = Random(seed), torch.Generator().manual_seed(seed)
    kind = random.choice(list(KINDS))
    geometry = _geometry(random, kind, scale)
    operation = random.choice(list(OPERANDS))
    pair = OPERANDS[operation]
    row, column = TYPES[config.tile.b_format.name], TYPES[config.tile.a_format.name]
    rows = random.choice(pair)
    zeros = {name: _zeros(random) for name in pair}

    def values(name: str, share: float) -> torch.Tensor:
        drawn = torch.randn(geometry.shapes[name], generator=generator)
        return torch.where(torch.rand(drawn.shape, generator=generator) < share, 0.0, drawn)

    operands = {name: values(name, zeros[name]).to(row if name == rows else column) for name in pair}
    options: dict[str, Any] = {"fp32": random.random() < 0.3, "relu": random.random() < 0.3}
    if operation == "AxW" and random.random() < 0.3:
        layer = Layer.of(geometry)
        batch = geometry.batch if isinstance(geometry, MatrixProduct) else 1
        options["bias"] = torch.randn(layer.filters * layer.products // batch, generator=generator)
    if not options["fp32"] and random.random() < 0.2:
        options["mask"] = values(RESULTS[operation], 0.5).to(column)
    return RandomLayer(
        kind=kind, geometry=geometry, operation=operation, operands=operands, zeros=zeros, options=options
    )
