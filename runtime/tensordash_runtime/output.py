"""What the output unit takes beside sums: a bias for each filter, and a mask of the results."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensordash import TileConfig
from tensordash.configuration.core_config import CoreConfig
from tensordash_sim.core.images import FLOATS, layer_values
from tensordash_sim.core.layer import RESULTS, Layer
from tensordash_sim.emulator import decode
from tensordash_sim.lowering import Geometry, MatrixProduct

from .jobs import Work
from .values import FLOAT32, bits_of, plain, type_of

__all__ = ["output_values"]


def output_values(
    config: CoreConfig | TileConfig, geometry: Geometry, work: Work, bias: Any, mask: Any
) -> dict[str, NDArray]:
    """A bias and a mask as a job has them.

    Parameters
    ----------
    config : CoreConfig or TileConfig
        What they are for.
    geometry : Convolution or MatrixProduct
        The layer.
    work : Work
        The operation.
    bias : array or tensor, (filters,), or None
        Of an operand type or float32. All products of a batch have the same.
    mask : array or tensor, or None
        Of the result's shape and side A's type.

    Returns
    -------
    dict of str to array
        "bias", float32 of (products,) filters, and "mask", bit patterns.

    Raises
    ------
    TypeError, ValueError
        Naming what it is, what is allowed and what was given.
    """
    for name in work.fused:
        if isinstance(config, CoreConfig) and not getattr(config, name):
            raise ValueError(f"{name} must be left out: core.{name} is false")
    tile = config.tile if isinstance(config, CoreConfig) else config
    for name in work.fused:
        tile.require_no_scale(f"for {name}")
    made: dict[str, NDArray] = {}
    if bias is not None:
        made["bias"] = _biases(tile, geometry, work, bias)
    if mask is not None:
        made["mask"] = _mask(tile, geometry, work, mask)
    return made


def _biases(tile: TileConfig, geometry: Geometry, work: Work, bias: Any) -> NDArray[np.float32]:
    if work.operation != "AxW":
        raise ValueError(f"bias must be left out of {work.operation}: only results of AxW have one")
    formats = {FLOATS[fmt.name]: fmt for fmt in (tile.a_format, tile.b_format)}
    kind = type_of("bias", bias)
    if kind not in formats and kind != FLOAT32:
        raise TypeError(f"bias must be {' or '.join((*formats, FLOAT32))}, not {kind}")
    layer: Layer = work.layer
    batch = geometry.batch if isinstance(geometry, MatrixProduct) else 1
    shape = (layer.filters * layer.products // batch,)
    if tuple(bias.shape) != shape:
        raise ValueError(f"bias must have the shape {shape}, not {tuple(bias.shape)}")
    array = plain(bias)
    values = array if kind == FLOAT32 else decode(bits_of(array, formats[kind]), formats[kind])
    return np.tile(values, batch).reshape(layer.whole_shape("bias"))


def _mask(tile: TileConfig, geometry: Geometry, work: Work, mask: Any) -> NDArray:
    if work.fp32:
        raise ValueError("mask must be left out where results are float32")
    fmt, shape = tile.a_format, geometry.shapes[RESULTS[work.operation]]
    if (kind := type_of("mask", mask)) != FLOATS[fmt.name]:
        raise TypeError(f"mask must be {FLOATS[fmt.name]}, not {kind}")
    if tuple(mask.shape) != shape:
        raise ValueError(f"mask must have the shape {shape}, not {tuple(mask.shape)}")
    return np.ascontiguousarray(layer_values(geometry, RESULTS[work.operation], bits_of(plain(mask), fmt)))
