"""A trace's index and its errors. docs/trace.md defines the format."""

import hashlib
import json
import math
import re
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from tensordash import TensorDashError

__all__ = [
    "ARRAYS",
    "DTYPES",
    "FORMAT",
    "INDEX",
    "VERSION",
    "DType",
    "Operand",
    "TraceError",
    "canonical",
    "content_digest",
    "entry",
]

FORMAT = "tensordash-trace"
VERSION = (1, 2)
"""Major: readers refuse other major versions. Minor: readers ignore keys that a newer minor version adds."""

INDEX = "index.json"
ARRAYS = re.compile(r"arrays-[0-9a-f]{8}")
"""Name of the folder with the arrays of one recording."""

_DIGEST = re.compile(r"[0-9a-f]{64}")


class TraceError(TensorDashError):
    """Raised if a trace cannot be read or written; the message names the trace and, if known, record and operand."""


class DType(NamedTuple):
    """Storage of a type's values.

    Parameters
    ----------
    stored : NumPy dtype
        Type in the trace. For types that NumPy lacks, an unsigned integer of their bit patterns.
    signed_zero : bool
        Whether the type has a -0, so that the sign bit does not make a value a non-zero.
    """

    stored: DTypeLike
    signed_zero: bool


DTYPES = {
    "bool": DType(np.bool_, signed_zero=False),
    "float16": DType(np.float16, signed_zero=True),
    "float32": DType(np.float32, signed_zero=True),
    "float64": DType(np.float64, signed_zero=True),
    "bfloat16": DType(np.uint16, signed_zero=True),
    "float8_e4m3fn": DType(np.uint8, signed_zero=True),
    "float8_e5m2": DType(np.uint8, signed_zero=True),
    "int8": DType(np.int8, signed_zero=False),
    "int16": DType(np.int16, signed_zero=False),
    "int32": DType(np.int32, signed_zero=False),
}
"""Types of operands, by their names in PyTorch and ml_dtypes. bool: only the mask was recorded, without a type."""


@dataclass(frozen=True, kw_only=True)
class Operand:
    """An operand's description in the index.

    Parameters
    ----------
    shape : tuple of int
        Extents, each at least 1.
    dtype : str
        Type of the original values, one of `DTYPES`.
    nonzeros : int
        Number of values that are not zero. -0 counts as a zero, NaN as a non-zero.
    mask : str
        SHA-256 of the packed mask. The mask is stored under this digest.
    values : str or None
        SHA-256 of the values' bytes, if they are stored.
    """

    shape: tuple[int, ...]
    dtype: str
    nonzeros: int
    mask: str
    values: str | None = None

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def zeros(self) -> float:
        """Share of zeros.

        >>> Operand(shape=(2, 4), dtype="float16", nonzeros=6, mask="0" * 64).zeros
        0.25
        """
        return 1 - self.nonzeros / self.size

    def to_json(self) -> dict[str, Any]:
        """Return the object in the index; `values` only if they are stored."""
        document = {"shape": list(self.shape), "dtype": self.dtype, "nonzeros": self.nonzeros, "mask": self.mask}
        return document if self.values is None else {**document, "values": self.values}

    @classmethod
    def from_json(cls, document: Mapping[str, Any], where: str) -> "Operand":
        """Read and check an object that `to_json` returned; unknown keys are ignored.

        Parameters
        ----------
        document : mapping
            The object in the index.
        where : str
            Prefix of error messages.

        Raises
        ------
        TraceError
            If a key is missing or wrong. The message has the key and what is allowed.
        """
        shape = entry(document, "shape", list, where)
        if not all(type(extent) is int and extent > 0 for extent in shape):
            raise TraceError(f"{where}: shape must be a list of integers from 1 up, not {reprlib.repr(shape)}")
        dtype = entry(document, "dtype", str, where)
        if dtype not in DTYPES:
            raise TraceError(f"{where}: dtype must be one of {', '.join(DTYPES)}, not {reprlib.repr(dtype)}")
        nonzeros, size = entry(document, "nonzeros", int, where), math.prod(shape)
        if not 0 <= nonzeros <= size:
            raise TraceError(f"{where}: nonzeros must be from 0 to {size}, not {nonzeros}")
        digests = {
            name: entry(document, name, str, where) for name in ("mask", "values") if name in {"mask", *document}
        }
        for name, digest in digests.items():
            if not _DIGEST.fullmatch(digest):
                raise TraceError(f"{where}: {name} must be a SHA-256 in hexadecimal, not {reprlib.repr(digest)}")
        return cls(shape=tuple(shape), dtype=dtype, nonzeros=nonzeros, **digests)


_KINDS = {str: "a string", int: "an integer", bool: "true or false", list: "a list", dict: "an object"}


def entry(document: Any, key: str, kind: type, where: str) -> Any:
    """Return a value of an object in the index after checking its type.

    Parameters
    ----------
    document : Any
        The object.
    key : str
        Key of the value.
    kind : type
        Required type of the value: str, int, bool, list or dict.
    where : str
        Prefix of error messages.

    Raises
    ------
    TraceError
        If `document` is not an object, lacks the key, or has a value of another type.

    Examples
    --------
    >>> entry({"epoch": 3}, "epoch", int, "run.trace")
    3
    >>> entry({"epoch": True}, "epoch", int, "run.trace")
    Traceback (most recent call last):
    tensordash_sim.trace.format.TraceError: run.trace: epoch must be an integer, not True
    """
    if not isinstance(document, dict):
        raise TraceError(f"{where}: must be an object, not {reprlib.repr(document)}")
    if key not in document:
        raise TraceError(f"{where}: lacks the key {key}")
    if type(document[key]) is not kind:
        raise TraceError(f"{where}: {key} must be {_KINDS[kind]}, not {reprlib.repr(document[key])}")
    return document[key]


def canonical(document: Any) -> bytes:
    """Return a document as canonical JSON: ASCII, keys sorted, no spaces.

    >>> canonical({"b": [1, 2], "a": "\\u00e9"})
    b'{"a":"\\\\u00e9","b":[1,2]}'
    """
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def content_digest(conditions: Any, steps: Any) -> str:
    """Return the SHA-256 of a trace's content, as canonical JSON.

    Parameters
    ----------
    conditions, steps : Any
        The entries of the index. They cover the arrays, because the steps hold the arrays' digests.
    """
    return hashlib.sha256(canonical({"conditions": conditions, "steps": steps})).hexdigest()
