"""Compare the firmware's single-precision arithmetic with NumPy bit by bit."""

import subprocess
from ctypes import CDLL, c_uint32, c_void_p
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import tensordash

from ...replaced_text import replace_once

SOURCE = Path(tensordash.__file__).parent / "emission/soc/firmware/float.c"
ARRAYS = """
void compute(const uint32_t *a, const uint32_t *b, uint32_t *results, uint32_t count) {
  for (uint32_t k = 0; k < count; k++) {
    results[3 * k] = __addsf3(a[k], b[k]);
    results[3 * k + 1] = __subsf3(a[k], b[k]);
    results[3 * k + 2] = __mulsf3(a[k], b[k]);
  }
}
"""
COUNT = 3_000_000
SPECIAL = [0, 1 << 31, 1, 0x7FFFFF, 0x800000, 0x3F800000, 0xBF800000, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00001]

Bits = NDArray[np.uint32]


def library(folder: Path, text: str) -> CDLL:
    (folder / "float.c").write_text(text + ARRAYS)
    command = ["gcc", "-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "float.c", "-o", "float.so"]
    subprocess.run(command, cwd=folder, check=True)
    return CDLL(str(folder / "float.so"))


def operands(seed: int) -> Bits:
    """Return bit patterns: random, subnormal, near 1, with few or many bits set, and special."""
    random = np.random.default_rng(seed)
    bits = random.integers(0, 1 << 32, COUNT, np.uint32)
    exponents = random.integers(96, 160, COUNT, np.uint32) << np.uint32(23)
    kinds = [
        bits,
        bits & np.uint32(0x81FFFFFF),
        (bits & np.uint32(0x807FFFFF)) | exponents,
        (bits & np.uint32(0x80600003)) | exponents,
        (bits & np.uint32(0x80000003)) | exponents | np.uint32(0x7FFFF8),
        random.choice(np.array(SPECIAL, np.uint32), COUNT),
    ]
    return np.choose(random.integers(0, len(kinds), COUNT), kinds).astype(np.uint32)


def differences(compiled: CDLL) -> int:
    a, b = operands(0), operands(1)
    near = np.arange(COUNT) % 8 == 0  # Differences of neighbours lose most of their bits.
    b[near] = (a[near] ^ np.uint32(1 << 31)) + (b[near] & np.uint32(7))
    found = np.zeros((COUNT, 3), np.uint32)
    pointers = (c_void_p(each.ctypes.data) for each in (a, b, found))
    compiled.compute(*pointers, c_uint32(COUNT))
    x, y = a.view(np.float32), b.view(np.float32)
    with np.errstate(all="ignore"):
        results = np.stack([x + y, x - y, x * y], axis=1)
    expected = np.where(np.isnan(results), np.uint32(0x7FC00000), results.view(np.uint32))
    return int((found != expected).sum())


def test_sums_differences_and_products(tmp_path: Path) -> None:
    assert differences(library(tmp_path, SOURCE.read_text())) == 0


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("(small << distance) != all", "(small << distance) > all"),
        ("if (exponent == 255u) {\n        return", "if (exponent == 256u) {\n        return"),
        ("significand |= rest != 0u;", ""),
        ("exponent - 1u >= 252u", "exponent - 1u >= 254u"),
        ("if (shift > 31u)", "if (shift > 23u)"),
        ("exponent > 1u", "exponent > 0u"),
    ],
)
def test_differences_are_found(right: str, wrong: str, tmp_path: Path) -> None:
    assert differences(library(tmp_path, replace_once(SOURCE.read_text(), right, wrong)))
