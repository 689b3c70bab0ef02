"""Random operands and biases for programs."""

from random import Random

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.formats import FP32, IntegerFormat
from tensordash.configuration.numerics import Binned

from ...golden.core.tensors import value_type

__all__ = ["empty_groups", "random_biases", "random_masks", "random_values"]

MAX_BIAS_EXPONENT = 70
"""Largest exponent of the random scaling of binned sums' biases, far above and far below the sums."""


def random_values(
    random: Random, config: CoreConfig, shape: tuple[int, ...], zeros: float, *, large: bool = False
) -> NDArray:
    """Draw bit patterns of operands: a share of zeros, the rest finite, including subnormals and negative zeros.

    Magnitudes are below 2, so that sums stay small. With `large`, operands span the format, and some results are
    infinities. In formats with FP32's exponents, most arrays have a narrow range of exponents, so that products of a
    sum overlap. Integers of an array have a common bound.
    """
    fmt = config.tile.a_format
    rng = np.random.default_rng(random.getrandbits(64))
    if isinstance(fmt, IntegerFormat):
        half = 1 << (fmt.width - 1)
        bound = half if large else random.choice((2, 12, half))
        integers = rng.integers(-bound, bound, shape)
        return np.where(rng.random(shape) < zeros, 0, integers).astype(f"i{fmt.width // 8}").view(value_type(fmt.width))
    beyond = (1 << fmt.exponent_bits) - 1 if large else 1 << (fmt.exponent_bits - 1)
    lowest = 0
    if fmt.exponent_bits == FP32.exponent_bits:
        lowest = beyond - random.choice((beyond, 8, 20, 60))
    exponents = rng.integers(lowest, beyond, shape)
    bits = rng.integers(0, 2, shape) << (fmt.width - 1) | exponents << fmt.fraction_bits
    bits |= rng.integers(0, 1 << fmt.fraction_bits, shape)
    return np.where(rng.random(shape) < zeros, 0, bits).astype(value_type(fmt.width))


def random_biases(rng: np.random.Generator, config: CoreConfig, count: int) -> NDArray:
    """Draw biases: FP32, for binned sums with a wide range of exponents, or INT32 of every magnitude."""
    if config.tile.numerics.result == "int32":
        return (rng.integers(-(1 << 31), 1 << 31, count) >> rng.integers(0, 32, count)).astype("<i4")
    bias = rng.standard_normal(count)
    if isinstance(config.tile.numerics.accumulator, Binned):
        bias *= np.exp2(rng.integers(-MAX_BIAS_EXPONENT, MAX_BIAS_EXPONENT, count))
    return bias.astype("<f4")


def empty_groups(random: Random, config: CoreConfig, groups: NDArray) -> None:
    """Set groups of a tensor to zeros of either sign, so that a core drops many of its steps, or none.

    Parameters
    ----------
    random : Random
        Source of all random decisions.
    config : CoreConfig
        The core.
    groups : array of unsigned, (channel groups, position groups, L * L)
        The tensor, which is changed. Channel groups are steps, and position groups streams or parts of them.
    """
    rng = np.random.default_rng(random.getrandbits(64))
    steps, positions, size = groups.shape
    empty = np.zeros((steps, positions), np.bool_)
    for style in random.choice(
        ((), ("groups",), ("groups", "lone"), ("streams", "lone"), ("banks",), ("runs", "lone"))
    ):
        if style == "groups":
            empty |= rng.random(empty.shape) < random.choice((0.3, 0.7, 0.95))
        elif style == "streams":
            empty |= rng.random(positions) < 0.7
        elif style == "banks":
            depth = config.tile.window_depth
            empty |= (np.arange(steps) % depth == rng.integers(depth, size=(positions, 1))).T
        elif style == "runs":
            first = rng.integers(steps, size=(positions, 1))
            empty |= (np.abs(np.arange(steps) - first) < rng.integers(1, 1 + steps)).T
        else:  # A single value keeps a step.
            lone = rng.random(empty.shape) < 0.3
            groups[lone] *= np.arange(size) == rng.integers(size, size=(int(lone.sum()), 1))
    groups[empty] = 0
    _sign_zeros(config, rng, groups)


def _sign_zeros(config: CoreConfig, rng: np.random.Generator, groups: NDArray) -> None:
    """Give zeros of half of the groups a random sign. Integers have one zero."""
    if not isinstance(config.tile.a_format, IntegerFormat):
        is_signed = rng.random(groups.shape) < rng.integers(0, 2, (*groups.shape[:-1], 1)) / 2
        groups[(groups == 0) & is_signed] = 1 << (config.tile.a_format.width - 1)


def random_masks(random: Random, config: CoreConfig, shape: tuple[int, int], zeros: float) -> NDArray:
    """Draw the groups of masks as `random_values` does, but with zeros, of either sign, in most of the groups."""
    masks = random_values(random, config, shape, zeros)
    rng = np.random.default_rng(random.getrandbits(64))
    empty = rng.random(len(masks)) < random.choice((0.3, 0.6, 0.9))
    masks[empty] = 0
    _sign_zeros(config, rng, masks)
    return masks
