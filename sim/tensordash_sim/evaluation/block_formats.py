"""Number formats whose values share scales: MXFP8, MXFP6, MXFP4 and NVFP4, and 8-bit ones with a scale for a tensor.

No tile has them; they are here for the zeros that they make. Rounding is written from the formats' definitions, in
float64, and compared with ml_dtypes by the tests.

Source
------
OCP Microscaling Formats (MX) Specification 1.0, sections 5 and 6. NVFP4: "Pretraining Large Language Models with NVFP4"
(NVIDIA 2025, arXiv:2509.25149), appendix on quantisation.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["BLOCK_FORMATS", "ELEMENTS", "BlockFormat", "Element", "hadamard", "quantise", "rounded"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Element:
    """What a value is, once it is scaled.

    Attributes
    ----------
    fraction_bits : int
        Behind the leading bit.
    least_exponent : int
        Of normal numbers; below it the distance of neighbours stays.
    largest : float
        Magnitude; larger ones become it.
    """

    fraction_bits: int
    least_exponent: int
    largest: float

    @property
    def most_exponent(self) -> int:
        """Of the largest magnitude."""
        return int(np.floor(np.log2(self.largest)))


ELEMENTS = {
    "e4m3": Element(3, -6, 448.0),
    "e5m2": Element(2, -14, 57344.0),
    "e2m3": Element(3, 0, 7.5),
    "e3m2": Element(2, -2, 28.0),
    "e2m1": Element(1, 0, 6.0),
    "int8": Element(6, 6, 127.0),  # one distance throughout: 1
}
"""The OCP's 8-bit floats, MX's 6- and 4-bit ones, and integers."""
_E4M3 = ELEMENTS["e4m3"]


@dataclass(frozen=True)
class BlockFormat:
    """Elements and their scales.

    Attributes
    ----------
    element : Element
        Of each value.
    block : int or None
        Values that share a scale; None: those of the tensor.
    scale : str
        "floor": the power of two below the largest magnitude, by that below the element's largest (the OCP's rule;
        magnitudes above the element's largest become it). "even": the same of the largest magnitude rounded to the
        element's fraction. "fit": the largest power of two that leaves all in range. "nvfp4": E4M3, of which the
        largest stands for the tensor's largest magnitude, by one FP32 number for the tensor.
    """

    element: Element
    block: int | None
    scale: str


BLOCK_FORMATS = {
    "int8": BlockFormat(ELEMENTS["int8"], None, "fit"),
    "fp8_e4m3": BlockFormat(ELEMENTS["e4m3"], None, "fit"),
    "fp8_e5m2": BlockFormat(ELEMENTS["e5m2"], None, "fit"),
    "mxfp8_e4m3": BlockFormat(ELEMENTS["e4m3"], 32, "floor"),
    "mxfp8_e5m2": BlockFormat(ELEMENTS["e5m2"], 32, "floor"),
    "mxfp6_e2m3": BlockFormat(ELEMENTS["e2m3"], 32, "floor"),
    "mxfp6_e3m2": BlockFormat(ELEMENTS["e3m2"], 32, "floor"),
    "mxfp4": BlockFormat(ELEMENTS["e2m1"], 32, "floor"),
    "mxfp4 even": BlockFormat(ELEMENTS["e2m1"], 32, "even"),
    "nvfp4": BlockFormat(ELEMENTS["e2m1"], 16, "nvfp4"),
}
"""By name, the widest first."""


def rounded(values: Floats, element: Element) -> Floats:
    """Round each value to the nearest one of a format, ties to even; values above the largest become the largest.

    Parameters
    ----------
    values : array of float64, any shape
        Scaled already; finite.
    element : Element
        The format.

    Examples
    --------
    >>> rounded(np.array([0.25, 0.26, 0.75, 2.5, 5.0, -7.0]), ELEMENTS["e2m1"]).tolist()
    [0.0, 0.5, 1.0, 2.0, 4.0, -6.0]
    """
    exponents = np.maximum(np.frexp(values)[1] - 1, element.least_exponent)
    distances = np.ldexp(1.0, exponents - element.fraction_bits)
    nearest: Floats = np.clip(np.rint(values / distances) * distances, -element.largest, element.largest)
    return nearest


def quantise(values: NDArray, fmt: BlockFormat, axis: int) -> Floats:
    """Round values to a format, and return them as numbers.

    Parameters
    ----------
    values : array of float, any shape
        Finite.
    fmt : BlockFormat
        The format.
    axis : int
        Along which blocks run, from its beginning; the last one may be shorter.

    Returns
    -------
    array of float64, the same shape
        Zero exactly where the element or its scale is.

    Examples
    --------
    Where 16 values share a scale, those after them have another one.

    >>> row = np.array([[2688.0, 112.0] + 14 * [0.0] + [1344.0, 112.0] + 14 * [0.0]])
    >>> quantise(row, BLOCK_FORMATS["nvfp4"], axis=1)[0, [0, 1, 16, 17]].tolist()  # times 448 and 224
    [2688.0, 0.0, 1344.0, 112.0]
    >>> quantise(row, BLOCK_FORMATS["mxfp4"], axis=1)[0, [0, 1, 16, 17]].tolist()  # times 512
    [3072.0, 0.0, 1536.0, 0.0]
    """
    last = np.moveaxis(np.asarray(values, np.float64), axis, -1)
    size = fmt.block
    padded = last if size is None else np.pad(last, [(0, 0)] * (last.ndim - 1) + [(0, -last.shape[-1] % size)])
    blocks = padded.reshape(-1, size or last.size)
    scales = _scales(np.abs(blocks).max(axis=1, initial=0.0), fmt)[:, np.newaxis]
    scaled = np.divide(blocks, scales, out=np.zeros_like(blocks), where=scales != 0)
    found = rounded(scaled, fmt.element) * scales
    found = found.reshape((*last.shape[:-1], -1))[..., : last.shape[-1]]
    return np.moveaxis(found, -1, axis)


def _scales(largest: Floats, fmt: BlockFormat) -> Floats:
    """Return the scales of blocks with these largest magnitudes."""
    element = fmt.element
    if fmt.scale == "nvfp4":
        top = float(largest.max(initial=0.0))
        if not top:
            return np.zeros_like(largest)
        of_tensor = float(np.float32(top / (_E4M3.largest * element.largest)))
        return rounded(largest / element.largest / of_tensor, _E4M3) * of_tensor
    if fmt.scale == "fit":
        exponents = -np.floor(np.log2(element.largest / np.where(largest, largest, 1.0)))
    else:
        magnitudes = largest
        if fmt.scale == "even":
            magnitudes = rounded(largest, Element(element.fraction_bits, -1022, np.inf))
        exponents = np.frexp(magnitudes)[1] - 1.0 - element.most_exponent
    scales: Floats = np.exp2(np.clip(exponents, -127, 127)) * (largest != 0)  # as E8M0 has them
    return scales


def hadamard(values: NDArray, size: int, axis: int, seed: int) -> Floats:
    """Return a random Hadamard transform: signs, then each block times an orthogonal matrix of 1 and -1 over its root.

    Both operands of a product, transformed along its reduction with the same signs, give the same product.

    Parameters
    ----------
    values : array of float, any shape
        Values.
    size : int
        Of a block, a power of two. What is left after the last whole block stays as it is.
    axis : int
        Along which blocks run.
    seed : int
        Of the signs, one for each place of a block.

    Source
    ------
    Ashkboos et al. 2024, arXiv:2404.00456 (QuaRot); arXiv:2509.25149 for its use while training.

    Examples
    --------
    >>> left, right = np.eye(1, 4), np.array([[3.0, 1.0, 2.0, 0.0]])
    >>> mixed = hadamard(left, 4, axis=1, seed=0)
    >>> np.abs(mixed).tolist(), float((mixed @ hadamard(right, 4, axis=1, seed=0).T)[0, 0])
    ([[0.5, 0.5, 0.5, 0.5]], 3.0)
    """
    matrix = np.ones((1, 1))
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    matrix = matrix * np.random.default_rng(seed).choice([-1.0, 1.0], size)[:, np.newaxis] / size**0.5
    last = np.moveaxis(np.asarray(values, np.float64), axis, -1).copy()
    whole = last.shape[-1] // size * size
    last[..., :whole] = (last[..., :whole].reshape(-1, size) @ matrix).reshape(*last.shape[:-1], whole)
    return np.moveaxis(last, -1, axis)
