"""One training step of a small ReLU network on scikit-learn's digits, as operands of its three operations."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tensordash import TileConfig
from tensordash.formats import FloatFormat, Format

from .golden import encode, to_float

__all__ = ["Product", "as_streams", "non_zeros", "quantized", "share_of_zeros", "training_step"]

LAYERS = (64, 64, 32, 10)
BATCH = 32


@dataclass(frozen=True, kw_only=True)
class Product:
    """A matrix product of a training step: ``result[i, j] = sum_k scheduled[i, k] * other[j, k]``.

    Parameters
    ----------
    operation : str
        AxW, WxG or AxG.
    scheduled : array of float32, (I, K)
        The sparser operand, for side B.
    other : array of float32, (J, K)
        The other one, for side A.
    scheduled_name, other_name : str
        Which tensor each is.
    """

    operation: str
    scheduled: NDArray[np.float32]
    other: NDArray[np.float32]
    scheduled_name: str
    other_name: str


def training_step(seed: int = 0) -> list[Product]:
    """Train a 64-64-32-10 ReLU network one step on 32 digits; return the products of its 64 x 32 layer.

    The loss is scaled by 1024 so that gradients stay in range when they are rounded to fp16, as mixed-precision
    training does. Operands are what the network really multiplies: activations behind a ReLU, gradients in front of
    one.

    Parameters
    ----------
    seed : int
        Of the initial weights and the choice of digits.

    Returns
    -------
    list of Product
        AxW, WxG and AxG.

    Source: paper, section II, Eqs. 1-3, and Table II (fully connected layer).

    Examples
    --------
    >>> [(product.operation, product.scheduled.shape, product.other.shape) for product in training_step()]
    [('AxW', (32, 64), (32, 64)), ('WxG', (32, 32), (64, 32)), ('AxG', (64, 32), (32, 32))]
    """
    from sklearn.datasets import load_digits

    random = np.random.default_rng(seed)
    digits = load_digits()
    chosen = random.choice(len(digits.target), BATCH, replace=False)
    images, labels = digits.data[chosen] / 16.0, digits.target[chosen]
    weights = [random.normal(0, np.sqrt(2 / fan_in), (fan_out, fan_in)) for fan_in, fan_out in pairwise(LAYERS)]

    activations = [images]
    for index, weight in enumerate(weights):
        sums = activations[-1] @ weight.T
        activations.append(sums if index == len(weights) - 1 else np.maximum(sums, 0))
    exponentials = np.exp(activations[-1] - activations[-1].max(axis=1, keepdims=True))
    gradient = exponentials / exponentials.sum(axis=1, keepdims=True)
    gradient[np.arange(BATCH), labels] -= 1
    gradient *= 1024 / BATCH
    gradient = (gradient @ weights[2]) * (activations[2] > 0)  # of the loss by the sums of the middle layer

    a, w, g = (values.astype(np.float32) for values in (activations[1], weights[1], gradient))
    return [
        _product("AxW", a, w, "A", "W"),
        _product("WxG", g, w.T, "G", "W"),
        _product("AxG", g.T, a.T, "G", "A"),
    ]


def _product(operation: str, left: NDArray, right: NDArray, left_name: str, right_name: str) -> Product:
    """The sparser of the two is scheduled."""
    if np.count_nonzero(right) * left.size < np.count_nonzero(left) * right.size:
        left, right, left_name, right_name = right, left, right_name, left_name
    return Product(operation=operation, scheduled=left, other=right, scheduled_name=left_name, other_name=right_name)


def quantized(values: NDArray[np.float32], fmt: Format) -> NDArray:
    """Values as bit patterns of a format, each rounded to nearest, ties to even.

    For the 8-bit formats, whose range is small, they are first scaled by a power of two: the largest one that leaves
    all of them in range.

    Parameters
    ----------
    values : array of float, any shape
        Finite.
    fmt : Format
        The format.

    Returns
    -------
    array of unsigned int, the same shape

    Examples
    --------
    >>> from tensordash.formats import FORMATS
    >>> values = np.array([0.5, -0.0, 0.03125, -3.0], np.float32)
    >>> [hex(bits) for bits in quantized(values, FORMATS["fp16"])]
    ['0x3800', '0x8000', '0x2800', '0xc200']
    >>> [hex(bits) for bits in quantized(values, FORMATS["int8"])]  # scaled by 32: 16, 0, 1, -96
    ['0x10', '0x0', '0x1', '0xa0']
    """
    scaled = values.astype(np.float64)
    top = to_float(fmt.largest, fmt) if isinstance(fmt, FloatFormat) else 2.0 ** (fmt.width - 1) - 1
    if fmt.width == 8 and scaled.any():
        scaled *= 2.0 ** np.floor(np.log2(top / np.abs(scaled).max()))
    return encode(scaled if isinstance(fmt, FloatFormat) else np.rint(scaled).astype(np.int64), fmt)


def non_zeros(bits: NDArray, fmt: Format) -> NDArray[np.bool_]:
    """Which bit patterns of a format are not zero; there are two zeros where there is a sign."""
    magnitudes = bits & (1 << (fmt.width - 1)) - 1 if isinstance(fmt, FloatFormat) else bits
    return magnitudes != 0


def share_of_zeros(bits: NDArray, fmt: Format) -> float:
    """Share of zeros, of both signs where there are two, among bit patterns of a format."""
    return 1 - float(np.mean(non_zeros(bits, fmt)))


def as_streams(product: Product, config: TileConfig) -> tuple[NDArray, NDArray]:
    """Round a product to a tile's formats and cut it into its streams, one for every block of rows x columns results.

    Parameters
    ----------
    product : Product
        With I, J and K that are multiples of the tile's rows, columns and lanes.
    config : TileConfig
        The tile.

    Returns
    -------
    a : array of unsigned int, (blocks, columns, T, lanes)
    b : array of unsigned int, (blocks, rows, T, lanes)
        Bit patterns (see `quantized`); blocks in row-major order.

    Raises
    ------
    ValueError
        If the shapes do not divide.
    """
    (rows, depth), (columns, _) = product.scheduled.shape, product.other.shape
    for name, size, unit in (("I", rows, config.rows), ("J", columns, config.columns), ("K", depth, config.lanes)):
        if size % unit:
            raise ValueError(f"{name} must be a multiple of {unit}, not {size}")
    steps = depth // config.lanes
    b = quantized(product.scheduled, config.b_format)
    a = quantized(product.other, config.a_format)
    b = b.reshape(rows // config.rows, 1, config.rows, steps, config.lanes)
    a = a.reshape(1, columns // config.columns, config.columns, steps, config.lanes)
    blocks = (rows // config.rows, columns // config.columns)
    b = np.broadcast_to(b, (*blocks, *b.shape[2:])).reshape(-1, *b.shape[2:])
    a = np.broadcast_to(a, (*blocks, *a.shape[2:])).reshape(-1, *a.shape[2:])
    return a, b
