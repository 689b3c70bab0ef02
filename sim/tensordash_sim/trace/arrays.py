"""Arrays of a trace: packed masks and values. Each is stored once, under the digest of its bytes."""

import hashlib
import math
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from tensordash.extras import require
from tensordash_storage.files import annotate_oserror

from .format import DTYPES, Operand, TraceError

__all__ = [
    "count_ones",
    "digest_of",
    "load_mask",
    "load_values",
    "mask_name",
    "pack",
    "store",
    "typed",
    "values_name",
]

CHUNK_BYTES = 1 << 20


def typed(array: ArrayLike, dtype: str | None = None) -> tuple[NDArray, str]:
    """Return an array in its stored type, and the name of the type of its values.

    Parameters
    ----------
    array : array of bool, of a type of `DTYPES`, or of its bit patterns
        A mask or values, not empty. Bit patterns are unsigned integers; they need `dtype`.
    dtype : str, optional
        Type of the values, one of `DTYPES`. For a mask, the type of the values it was made from.

    Raises
    ------
    TypeError, ValueError
        If the array is of another type, or empty.

    Examples
    --------
    >>> typed([[1.0, 0.0]])[1], typed(np.zeros(3, np.uint16), "bfloat16")[1], typed([True, False], "float16")[1]
    ('float64', 'bfloat16', 'float16')
    >>> typed(np.zeros(3, np.uint16))
    Traceback (most recent call last):
    TypeError: an operand must be a mask (bool) or of bool, float16, float32, float64, bfloat16, float8_e4m3fn, \
float8_e5m2, int8, int16, int32, not of uint16; bit patterns need dtype
    """
    array = np.asarray(array)
    if dtype is not None and dtype not in DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, not {dtype!r}")
    if array.size == 0:
        raise ValueError(f"an operand must not be empty, but its shape is {array.shape}")
    if array.dtype == np.bool_:
        return array, dtype or "bool"
    found = array.dtype.name
    if dtype is None and found not in DTYPES:
        raise TypeError(
            f"an operand must be a mask (bool) or of {', '.join(DTYPES)}, not of {found}; bit patterns need dtype"
        )
    name = dtype or found
    stored = np.dtype(DTYPES[name].stored)
    if found not in (name, stored.name):
        raise TypeError(f"an operand of {name} must be an array of {stored.name} or bool, not of {found}")
    if found == stored.name:
        return array.astype(stored, copy=False), name  # This changes at most the byte order.
    return array.view(stored), name  # ml_dtypes


def pack(array: NDArray, dtype: str) -> NDArray[np.uint8]:
    """Pack the mask of an array: 1 bit per value, set where the value is not zero.

    Bits are in C order. The first value is in bit 0 of byte 0. The last byte is padded with 0. Besides the result, the
    function needs memory for one chunk.

    Parameters
    ----------
    array : array, any shape
        An array that `typed` returned.
    dtype : str
        Type name that `typed` returned.

    Returns
    -------
    array of uint8, (ceil(size / 8),)

    Examples
    --------
    >>> [f"{byte:08b}" for byte in pack(np.array([1.0, 0.0, -0.0, np.nan, 0, 0, 0, 0, 0, 2.0]), "float64")]
    ['00001001', '00000010']
    """
    flat = array.reshape(-1) if array.flags.c_contiguous else array.flat
    packed = np.empty(-(-array.size // 8), np.uint8)
    for start in range(0, array.size, 8 * CHUNK_BYTES):
        part = flat[start : start + 8 * CHUNK_BYTES]
        if part.dtype != np.bool_:
            if DTYPES[dtype].signed_zero:
                part = part.view(f"u{part.itemsize}") << 1  # The shift drops the sign.
            part = part != 0
        bits = np.packbits(part, bitorder="little")
        packed[start // 8 : start // 8 + len(bits)] = bits
    return packed


def count_ones(packed: NDArray[np.uint8]) -> int:
    """Return the number of ones in a packed mask."""
    return int(np.bitwise_count(packed).sum(dtype=np.int64))


def digest_of(array: NDArray) -> str:
    """Return the SHA-256 of an array's bytes, little endian, in C order."""
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return hashlib.sha256(little.data).hexdigest()


def mask_name(operand: Operand) -> str:
    """Return the name of the array that stores an operand's mask."""
    return f"mask-{operand.mask}"


def values_name(operand: Operand) -> str:
    """Return the name of the array that stores an operand's values."""
    return f"{operand.dtype}-{operand.values}"


def store(path: Path, array: NDArray) -> None:
    """Write an array, flattened in C order, as a Zarr array.

    Parameters
    ----------
    path : Path
        Folder of the Zarr array. An existing array is replaced.
    array : array, any shape
        The array.
    """
    require("recording", "zarr")
    import zarr
    from zarr.codecs import Crc32cCodec, ZstdCodec

    flat = array.reshape(-1)
    with annotate_oserror(path):
        target = zarr.create_array(
            path,
            shape=flat.shape,
            chunks=(min(flat.size, CHUNK_BYTES // flat.itemsize),),
            dtype=flat.dtype,
            zarr_format=3,
            compressors=[ZstdCodec(), Crc32cCodec()],
            config={"write_empty_chunks": True},  # A missing chunk then always means lost data.
            overwrite=True,
        )
        target[:] = flat


def load_mask(folder: Path, operand: Operand, where: str) -> NDArray[np.bool_]:
    """Load an operand's mask and verify its checksum.

    Parameters
    ----------
    folder : Path
        Folder of the arrays.
    operand : Operand
        The operand.
    where : str
        Prefix of error messages.

    Returns
    -------
    array of bool, operand.shape

    Raises
    ------
    TraceError
        If the mask is missing or damaged, or `operand.nonzeros` contradicts it.
    """
    packed = _load(folder / mask_name(operand), np.uint8, -(-operand.size // 8), operand.mask, f"{where}: mask")
    if (nonzeros := count_ones(packed)) != operand.nonzeros:
        raise TraceError(f"{where}: nonzeros must be {nonzeros}, as in the mask, not {operand.nonzeros}")
    bits = np.unpackbits(packed, count=operand.size, bitorder="little")
    return bits.view(np.bool_).reshape(operand.shape)


def load_values(folder: Path, operand: Operand, where: str) -> NDArray:
    """Load an operand's values; verify their checksum and that their mask is the operand's.

    Parameters
    ----------
    folder, operand, where
        As for `load_mask`.

    Returns
    -------
    array, operand.shape
        In the stored type: bit patterns for bfloat16 and the 8-bit floats.

    Raises
    ------
    TraceError
        If the values are not stored, missing or damaged.
    """
    if operand.values is None:
        raise TraceError(f"{where}: values are not stored; the trace must be recorded with values")
    stored = DTYPES[operand.dtype].stored
    values = _load(folder / values_name(operand), stored, operand.size, operand.values, f"{where}: values")
    if digest_of(pack(values, operand.dtype)) != operand.mask:
        raise TraceError(f"{where}: values do not have the mask that is recorded with them")
    return values.reshape(operand.shape)


def _load(path: Path, dtype: DTypeLike, size: int, digest: str, where: str) -> NDArray:
    if not path.is_dir():
        raise TraceError(f"{where}: the array {path.name} is missing")
    require("reading a trace", "zarr")
    import zarr

    try:
        array = zarr.open_array(path, mode="r")
        found = f"{array.dtype}{list(array.shape)}"
        missing = math.prod(array.cdata_shape) - array.nchunks_initialized
        data = np.asarray(array[:]) if array.shape == (size,) and not missing else None
    except Exception as error:  # Zarr and its codecs raise exceptions of many types for damaged files.
        raise TraceError(f"{where}: the array {path.name} is damaged: {type(error).__name__}: {error}") from error
    expected = f"{np.dtype(dtype)}[{size}]"
    if found != expected:
        raise TraceError(f"{where}: the array {path.name} must be {expected}, not {found}")
    if data is None:
        raise TraceError(f"{where}: the array {path.name} is damaged: {missing} of its chunks missing")
    if digest_of(data) != digest:
        raise TraceError(f"{where}: the array {path.name} is damaged: its checksum differs")
    return data
