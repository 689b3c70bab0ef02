"""Matrix products on the tile model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensordash.configuration.config import TileConfig
from tensordash.configuration.formats import FP32, INT32, Format, IntegerFormat

from .encoding import encode
from .ports import Beat, Counters
from .producer import Producer
from .tile import Tile

__all__ = ["MatmulResult", "checked_operands", "matmul", "run_streams"]


@dataclass(frozen=True)
class MatmulResult:
    """Results, counters and flags of a tile.

    Parameters
    ----------
    c_bits : array of uint32, (rows, columns), or (batch, rows, columns) if the operands had a batch axis
        FP32 or INT32 bits of the results.
    cycles, steps, effectual : array of int64, (batch,)
        For each stream, scheduling cycles, dense steps and positions consumed (docs/tile.md, "Counters"). Without a
        batch axis there is one stream.
    row_wait : array of int64, (batch, rows)
        For each stream and row, the steps for which the row waited for other rows.
    counters : Counters
        The tile's counters at the end, over all streams.
    elapsed : int
        Clock cycles from reset until the last result has left.
    protocol_error, non_finite, overflow, result_non_finite : bool
        The tile's flags at the end.
    result : "fp32" or "int32"
        Format of the results.
    """

    c_bits: NDArray[np.uint32]
    cycles: NDArray[np.int64]
    steps: NDArray[np.int64]
    effectual: NDArray[np.int64]
    row_wait: NDArray[np.int64]
    counters: Counters
    elapsed: int
    protocol_error: bool
    non_finite: bool
    overflow: bool
    result_non_finite: bool
    result: Literal["fp32", "int32"] = "fp32"

    @property
    def c(self) -> NDArray[np.float32] | NDArray[np.int32]:
        """The results as float32 or, for integer formats, int32."""
        return self.c_bits.view(np.int32) if self.result == "int32" else self.c_bits.view(np.float32)


def matmul(a: ArrayLike, b: ArrayLike, config: TileConfig, c: ArrayLike | None = None) -> MatmulResult:
    """Multiply on the bit-accurate and cycle-accurate tile: ``result.c[r, k] = c[r, k] + sum(a[k] * b[r])``.

    Producers never stall and the output is always ready. The streams of a batch follow each other without a gap.

    Parameters
    ----------
    a : array, (columns, T, lanes) or (batch, columns, T, lanes)
    b : array, (rows, T, lanes) or (batch, rows, T, lanes)
        Bit patterns (unsigned integers) or floats, which are rounded to the format (nearest, ties to even). For int8:
        bit patterns or signed integers. The tile skips zeros of side B. A tile with scales takes only bit patterns,
        lanes + 1 for each step: the values, then the step's scale (`block_scales.scaled_steps`).
    config : TileConfig
        The tile.
    c : array, (rows, columns) or (batch, rows, columns), optional
        The addend; required if the tile has a C input, and not allowed otherwise. FP32 bit patterns (unsigned integers)
        or floats, which are rounded to FP32. For int8: INT32 bit patterns or signed integers.

    Returns
    -------
    MatmulResult

    Raises
    ------
    TypeError, ValueError
        If an operand has the wrong type, shape or values, or C is missing or not allowed.

    Examples
    --------
    Two dot products of eight values, five of them zero. This tile takes one cycle, the baseline two.

    >>> import numpy as np
    >>> config = TileConfig(rows=1, columns=2)
    >>> b = np.array([[[0.0, 2.0, 0.0, 3.0], [0.5, 0.0, 0.0, 0.0]]])
    >>> a = np.array([[[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]], [[9.0, 1.0, 9.0, -1.0], [4.0, 9.0, 9.0, 9.0]]])
    >>> result = matmul(a, b, config)
    >>> result.c
    array([[5.5, 1. ]], dtype=float32)
    >>> result.cycles, matmul(a, b, config.baseline).cycles
    (array([1]), array([2]))
    """
    operands = tuple(one for one in checked_operands(a, b, config, c) if one is not None)
    if operands[0].ndim == 3:
        result = run_streams([operands], config)
        return replace(result, c_bits=result.c_bits[0])
    return run_streams(list(zip(*operands, strict=True)), config)


def checked_operands(
    a: ArrayLike, b: ArrayLike, config: TileConfig, c: ArrayLike | None = None
) -> tuple[NDArray, NDArray, NDArray | None]:
    """Check operands as `matmul` does and return them as bit patterns; same parameters and errors."""
    if not isinstance(config, TileConfig):
        raise TypeError(f"config must be a TileConfig, not {config!r}")
    a_bits = _side("a", a, config.a_format, config)
    b_bits = _side("b", b, config.b_format, config)
    _check_shape("a", a_bits, f"columns={config.columns}", config.columns, config)
    _check_shape("b", b_bits, f"rows={config.rows}", config.rows, config)
    if a_bits.ndim != b_bits.ndim:
        raise ValueError(f"b must have as many axes as a ({a_bits.ndim}), not {b_bits.ndim}")
    if a_bits.shape[-2] != b_bits.shape[-2]:
        raise ValueError(f"b must have as many steps as a ({a_bits.shape[-2]}), not {b_bits.shape[-2]}")
    if a_bits.ndim == 4 and len(a_bits) != len(b_bits):
        raise ValueError(f"b must have as many streams as a ({len(a_bits)}), not {len(b_bits)}")
    return a_bits, b_bits, _checked_initial(c, config, a_bits.shape[:-3])


def run_streams(streams: Sequence[tuple[NDArray, ...]], config: TileConfig) -> MatmulResult:
    """Run streams one after the other, as `matmul` does, but each with its own T.

    Parameters
    ----------
    streams : sequence of (a, b) or, with a C input, (a, b, c)
        Bit patterns, arrays of unsigned int: a (columns, T, lanes), b (rows, T, lanes), c (rows, columns). With
        scales, a and b have lanes + 1 values for each step, as for `matmul`.
    config : TileConfig
        The tile.

    Returns
    -------
    MatmulResult
        With a batch axis.

    Raises
    ------
    ValueError
        If a stream's T is 0 or differs between a and b, if a shape is wrong, or if C is missing or not allowed.
    """
    for index, (a, b, *c) in enumerate(streams):
        if len(c) != config.initial:
            wanted = "a, b and c" if config.initial else "a and b"
            raise ValueError(f"stream {index} must be {wanted}, not {2 + len(c)} arrays")
        if not a.shape[1] == b.shape[1] >= 1:
            raise ValueError(f"stream {index} must have T >= 1 steps on both sides, not {a.shape[1]} and {b.shape[1]}")
    tile = Tile(config)
    a_ports = [Producer([stream[0][column].tolist() for stream in streams]) for column in range(config.columns)]
    b_ports = [Producer([stream[1][row].tolist() for stream in streams]) for row in range(config.rows)]
    c_beats = [beat for stream in streams for beat in _beats(stream[2], config)] if config.initial else []
    c_taken = 0
    per_stream = np.zeros((len(streams), 3 + config.rows), dtype=np.int64)
    ended = elapsed = 0
    results: list[tuple[int, ...]] = []
    while len(results) < len(streams) * config.rows:
        offers = [[port.offer(config.window_depth) for port in side] for side in (a_ports, b_ports)]
        c_offer = c_beats[c_taken] if c_taken < len(c_beats) else None
        outputs = tile.cycle(offers[0], offers[1], out_ready=True, c=c_offer)
        elapsed += 1
        c_taken += outputs.c_ready
        for port in a_ports + b_ports:
            port.take(outputs.taken)
        if outputs.schedule is not None:
            made = outputs.schedule
            per_stream[ended] += (1, made.advance, made.consumed, *made.row_wait)
            ended += made.last
        if outputs.out is not None:
            results += outputs.out.values
    return MatmulResult(
        c_bits=np.array(results, dtype=np.uint32).reshape(len(streams), config.rows, config.columns),
        cycles=per_stream[:, 0],
        steps=per_stream[:, 1],
        effectual=per_stream[:, 2],
        row_wait=per_stream[:, 3:],
        counters=tile.counters,
        elapsed=elapsed,
        protocol_error=tile.protocol_error,
        non_finite=tile.non_finite,
        overflow=tile.overflow,
        result_non_finite=tile.result_non_finite,
        result=config.numerics.result,
    )


def _beats(c: NDArray, config: TileConfig) -> list[Beat]:
    """Split a block of C into beats of the C port."""
    rows = [tuple(row) for row in c.tolist()]
    height = config.out_rows
    starts = range(0, config.rows, height)
    return [Beat(tuple(rows[start : start + height]), last=start + height == config.rows) for start in starts]


def _side(name: str, values: ArrayLike, fmt: Format, config: TileConfig) -> NDArray:
    """Return the values of a side as bit patterns, followed by their scales, if any."""
    scale, array = config.numerics.scale, np.asarray(values)
    if scale is None:
        return _bit_patterns(name, array, fmt)
    if not np.issubdtype(array.dtype, np.unsignedinteger):
        raise TypeError(
            f"{name} must be an array of {fmt.name} bit patterns (unsigned integers) with {scale.name} scales after "
            f"them, not of {array.dtype}"
        )
    if array.ndim and array.shape[-1] == config.step_values:  # else its shape is wrong
        _bit_patterns(name, array[..., :-1], fmt)
        if array.size and array[..., -1].max() >= 1 << scale.width:
            raise ValueError(f"{name} must hold {scale.name} scales below 2**{scale.width}, not {array[..., -1].max()}")
    return array


def _bit_patterns(name: str, values: ArrayLike, fmt: Format) -> NDArray:
    array = np.asarray(values)
    kind, numbers = (np.signedinteger, "signed integers") if isinstance(fmt, IntegerFormat) else (np.floating, "floats")
    if np.issubdtype(array.dtype, kind):
        try:
            return encode(array, fmt)
        except ValueError as error:
            raise ValueError(str(error).replace("values", name, 1)) from None
    if not np.issubdtype(array.dtype, np.unsignedinteger):
        raise TypeError(
            f"{name} must be an array of {fmt.name} bit patterns (unsigned integers) or of {numbers}, "
            f"not of {array.dtype}"
        )
    if array.size and array.max() >= 1 << fmt.width:
        raise ValueError(f"{name} must hold {fmt.name} bit patterns below 2**{fmt.width}, not {array.max()}")
    return array


def _check_shape(name: str, array: NDArray, ports: str, count: int, config: TileConfig) -> None:
    values = config.step_values
    if array.ndim not in (3, 4) or array.shape[-3] != count or array.shape[-1] != values:
        named = f"lanes={config.lanes}" if values == config.lanes else f"lanes={config.lanes} and a scale: {values}"
        raise ValueError(
            f"{name} must have shape ({ports}, T, {named}) or (batch, {count}, T, {values}), not {array.shape}"
        )
    if array.size == 0:
        raise ValueError(f"{name} must have at least one step and one stream, not shape {array.shape}")


def _checked_initial(c: ArrayLike | None, config: TileConfig, batch: tuple[int, ...]) -> NDArray | None:
    if not config.initial:
        if c is not None:
            raise ValueError("c must be left out, since the tile has no C input (initial = false)")
        return None
    if c is None:
        raise ValueError("c must be given, since the tile has a C input (initial = true)")
    bits = _bit_patterns("c", c, INT32 if config.numerics.result == "int32" else FP32)
    shape = (*batch, config.rows, config.columns)
    if bits.shape != shape:
        named = ", ".join([*(f"batch={size}" for size in batch), f"rows={config.rows}", f"columns={config.columns}"])
        raise ValueError(f"c must have shape ({named}), not {bits.shape}")
    return bits
