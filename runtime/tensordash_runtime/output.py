"""Operations on sums: a bias per filter, ReLU, a mask, and division by the operands' powers of two."""

import math
from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensordash import TileConfig
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.formats import FP32, FloatFormat
from tensordash.configuration.numerics import Exact, Fused
from tensordash_sim.compiler.images import TENSOR_TYPES, layer_values
from tensordash_sim.compiler.layer import RESULTS, Layer
from tensordash_sim.compiler.problem import Problem
from tensordash_sim.emulator import decode, result_bits
from tensordash_sim.lowering import Geometry, MatrixProduct

from .values import FLOAT32, INT32, bits_of, plain, type_of

__all__ = ["finish_results", "fit_bias", "output_values", "scale_integers"]

INT32_BITS = 32
MAX_BIAS_BITS = 126
"""Exponent of the bound on biases that the core adds, in units of an exact sum's least bit, or 1 for binned sums."""


def output_values(
    config: CoreConfig | TileConfig, geometry: Geometry, problem: Problem, bias: Any, mask: Any, kinds: Collection[str]
) -> dict[str, NDArray]:
    """Return the bias and the mask of a job, as bit patterns or numbers in the layer's shapes.

    Parameters
    ----------
    config : CoreConfig or TileConfig
        The device's configuration.
    geometry : Convolution or MatrixProduct
        The layer.
    problem : Problem
        The operation.
    bias : array or tensor, (filters,), or None
        Bias of all products of a batch, in an operand type or float32; in int32 for int8 operands.
    mask : array or tensor, or None
        Mask of the result's shape and side A's type.
    kinds : collection of str
        Types of the operands.

    Returns
    -------
    dict of str to array
        "bias", float32 or int32 of (products,) filters, and "mask", bit patterns.

    Raises
    ------
    TypeError, ValueError
        If the device, the operation or the results' type excludes an argument, or its type or shape does not fit.
    """
    for name in problem.fused:
        if isinstance(config, CoreConfig) and not getattr(config, name):
            raise ValueError(f"{name} must be left out: core.{name} is false")
    tile = config.tile if isinstance(config, CoreConfig) else config
    for name in problem.fused:
        tile.require_no_scale(f"for {name}")
    if bias is not None and isinstance(tile.numerics.accumulator, Fused):
        raise ValueError("bias must be left out for a fused accumulator: it is added to an exact or binned sum")
    values: dict[str, NDArray] = {}
    if bias is not None:
        values["bias"] = _biases(tile, geometry, problem, bias, kinds)
    if mask is not None:
        values["mask"] = _mask(tile, geometry, problem, mask)
    return values


def fit_bias(tile: TileConfig, bias: NDArray[np.float32], power: int) -> NDArray | None:
    """Return a bias times ``2**power``, for sums of scaled operands; None if sums cannot hold it exactly.

    Parameters
    ----------
    tile : TileConfig
        The tile.
    bias : array of float32
        The bias.
    power : int
        Sum of the exponents of both operands' scaling.

    Returns
    -------
    array of float32, or of int32 for integer sums
    """
    if tile.numerics.result == "int32":
        return _integer_bias(bias, power)
    a, b, accumulator = tile.a_format, tile.b_format, tile.numerics.accumulator
    assert isinstance(a, FloatFormat)
    assert isinstance(b, FloatFormat)
    assert not isinstance(accumulator, Fused)
    unit = a.least_exponent + b.least_exponent
    bits = (a.largest_units * b.largest_units).bit_length()
    if isinstance(accumulator, Exact):
        limit = min(bits + accumulator.headroom_bits - 1, MAX_BIAS_BITS) + unit
    else:  # The bias must be below the largest product.
        limit = min(bits - 1 + unit, MAX_BIAS_BITS)
    exact = np.ldexp(bias.astype(np.float64), power)
    units = np.ldexp(exact, -unit)
    with np.errstate(over="ignore"):
        scaled = exact.astype(np.float32)
    is_exact = (scaled == exact) & (np.abs(exact) < math.ldexp(1.0, limit)) & (units == np.rint(units))
    return scaled if bool((is_exact | ~np.isfinite(bias)).all()) else None


def _integer_bias(bias: NDArray[np.float32], power: int) -> NDArray[np.int32] | None:
    exact = np.ldexp(bias.astype(np.float64), power)
    is_exact = np.isfinite(exact) & (exact == np.rint(exact)) & (np.abs(exact) < 1 << (INT32_BITS - 1))
    return exact.astype(np.int32) if bool(is_exact.all()) else None


def scale_integers(bits: NDArray, power: int) -> NDArray[np.uint32]:
    """Return INT32 results times ``2**power``, rounded to FP32, as FP32 bits."""
    with np.errstate(over="ignore"):
        return np.ldexp(bits.view(np.int32).astype(np.float64), power).astype(np.float32).view(np.uint32)


def finish_results(bits: NDArray, power: int, bias: NDArray[np.float32] | None, *, relu: bool) -> NDArray:
    """Return FP32 results times ``2**power``, plus a bias, each rounded to nearest, and ReLU.

    Parameters
    ----------
    bits : array of unsigned
        The device's results in the layer's shape. Results in other formats than FP32 need no further operation.
    power : int
        Exponent; 0 if the device scaled the results.
    bias : array of float32, optional
        Bias in the layer's shape, unless the device added it.
    relu : bool
        Whether to apply ReLU here.
    """
    if power:
        bits = result_bits(bits, FP32, scale=power)
    if bias is not None:
        with np.errstate(invalid="ignore", over="ignore"):
            bits = (bits.view(np.float32) + bias.reshape(*bias.shape, 1, 1)[..., None, :, :, :]).view(np.uint32)
    return result_bits(bits, FP32, relu=relu) if bias is not None or relu else bits


def _biases(tile: TileConfig, geometry: Geometry, problem: Problem, bias: Any, kinds: Collection[str]) -> NDArray:
    if problem.operation != "AxW":
        raise ValueError(f"bias must be left out of {problem.operation}: only results of AxW have one")
    formats = {TENSOR_TYPES[fmt.name]: fmt for fmt in (tile.a_format, tile.b_format)}
    allowed: tuple[str, ...] = (*formats, FLOAT32)
    if tile.numerics.result == "int32":
        allowed = (FLOAT32 if FLOAT32 in kinds else INT32,)
    kind = type_of("bias", bias)
    if kind not in allowed:
        raise TypeError(f"bias must be {' or '.join(allowed)}, not {kind}")
    layer: Layer = problem.layer
    batch = geometry.batch if isinstance(geometry, MatrixProduct) else 1
    shape = (layer.filters * layer.products // batch,)
    if tuple(bias.shape) != shape:
        raise ValueError(f"bias must have the shape {shape}, not {tuple(bias.shape)}")
    array = plain(bias)
    if kind == INT32:
        return np.tile(array.view(np.int32), batch).reshape(layer.whole_shape("bias"))
    values = array if kind == FLOAT32 else decode(bits_of(array, formats[kind]), formats[kind])
    return np.tile(values, batch).reshape(layer.whole_shape("bias"))


def _mask(tile: TileConfig, geometry: Geometry, problem: Problem, mask: Any) -> NDArray:
    if problem.fp32:
        raise ValueError("mask must be left out where results are float32")
    fmt, shape = tile.a_format, geometry.shapes[RESULTS[problem.operation]]
    if (kind := type_of("mask", mask)) != TENSOR_TYPES[fmt.name]:
        raise TypeError(f"mask must be {TENSOR_TYPES[fmt.name]}, not {kind}")
    if tuple(mask.shape) != shape:
        raise ValueError(f"mask must have the shape {shape}, not {tuple(mask.shape)}")
    return np.ascontiguousarray(layer_values(geometry, RESULTS[problem.operation], bits_of(plain(mask), fmt)))
