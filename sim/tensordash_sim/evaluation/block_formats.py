"""Formats whose values share scales: MXFP8, MXFP6, MXFP4, NVFP4, and 8-bit formats with one scale per tensor.

The evaluation uses them to count the zeros that rounding makes. Rounding follows the formats' definitions, in float64.
Tests compare it with ml_dtypes.

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
    """Format of a scaled value.

    Attributes
    ----------
    fraction_bits : int
        Bits after the leading bit.
    least_exponent : int
        Smallest exponent of normal numbers. Smaller numbers have the spacing of this exponent.
    largest : float
        Largest magnitude. Larger values saturate.
    """

    fraction_bits: int
    least_exponent: int
    largest: float

    @property
    def most_exponent(self) -> int:
        """Exponent of the largest magnitude."""
        return int(np.floor(np.log2(self.largest)))


ELEMENTS = {
    "e4m3": Element(3, -6, 448.0),
    "e5m2": Element(2, -14, 57344.0),
    "e2m3": Element(3, 0, 7.5),
    "e3m2": Element(2, -2, 28.0),
    "e2m1": Element(1, 0, 6.0),
    "int8": Element(6, 6, 127.0),  # The spacing is 1 everywhere.
}
"""The OCP's 8-bit floats, the 6- and 4-bit floats of MX, and integers."""
_E4M3 = ELEMENTS["e4m3"]


@dataclass(frozen=True)
class BlockFormat:
    """A format with shared scales.

    Attributes
    ----------
    element : Element
        Format of each scaled value.
    block : int or None
        Number of values that share a scale. None: all values of the tensor share one.
    scale : str
        Rule for the scale. "floor" is the OCP's rule: 2^(e - f), with e the exponent of the block's largest magnitude
        and f the exponent of the element's largest; scaled values above the element's largest saturate. "even": the
        same after rounding the largest magnitude to the element's fraction. "fit": the power of two that uses most of
        the element's range without saturation. "nvfp4": an E4M3 scale per block, times one FP32 scale per tensor. The
        tensor's largest magnitude gets the largest E4M3 scale.
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
"""Formats by name, widest first."""


def rounded(values: Floats, element: Element) -> Floats:
    """Round each value to the nearest value of a format, ties to even. Values above the largest saturate.

    Parameters
    ----------
    values : array of float64, any shape
        Scaled values, all finite.
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
        Values, all finite.
    fmt : BlockFormat
        The format.
    axis : int
        Axis along which blocks run. The last block may be shorter.

    Returns
    -------
    array of float64, the same shape
        Rounded values. A value is zero if its element or its scale is zero.

    Examples
    --------
    NVFP4 has a scale for each 16 values, and MXFP4 for each 32.

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
    scales: Floats = np.exp2(np.clip(exponents, -127, 127)) * (largest != 0)  # The range of E8M0.
    return scales


def hadamard(values: NDArray, size: int, axis: int, seed: int) -> Floats:
    """Return a random Hadamard transform: random signs, then each block times an orthogonal Hadamard matrix.

    Transforming both operands along the reduction with the same signs does not change their product.

    Parameters
    ----------
    values : array of float, any shape
        Values.
    size : int
        Size of a block, a power of two. Values after the last complete block are not transformed.
    axis : int
        Axis along which blocks run.
    seed : int
        Seed of the signs, one for each position in a block.

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
