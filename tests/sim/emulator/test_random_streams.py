"""Test that golden and compiled random bits are equal, and that streams are independent.

A stream is a series of 16-bit draws. `AXES` lists functions whose streams must be independent. The checks must also
find columns that share a stream, and xorshift32 with seeds that differ by a constant.
"""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from tensordash_sim.compiler.rounding import MAX_SEED, multiply_seeds
from tensordash_sim.emulator.random_bits import ROUND_KEYS, draw_beats
from tensordash_sim.golden.random_bits import random_bits

Draws = NDArray[np.uint16]
SEEDS = (0, MAX_SEED, 1, 1 << 31, 0x9E3779B9)
SIGMAS = 4.0
CHI_SQUARE = 44.3  # For 15 degrees of freedom; chance exceeds it with a probability of 1e-4.
SHARES = (0.5, 0.25, 1 / 16)
COUNTS = [10**5, pytest.param(10**6, marks=pytest.mark.slow)]


def draws(seed: int, beats: int, columns: int = 4, first: int = 0) -> Draws:
    """Return the draws of consecutive beats."""
    bits = np.empty((beats, columns), np.uint16)
    draw_beats(seed, first, bits)
    return bits


def first_draws(seeds: NDArray[np.uint32], beats: int = 1) -> Draws:
    """Return the draws of each seed's first beats, one after the other."""
    return np.concatenate([draws(seed, beats) for seed in seeds.tolist()]).reshape(-1)


def by_columns(count: int) -> list[Draws]:
    """Return the streams of the columns of two cipher blocks, over the beats of one multiply."""
    return list(draws(5, count, columns=8).T)


def by_rows(count: int) -> list[Draws]:
    """Return the streams of a column's consecutive beats, over multiplies with consecutive seeds."""
    beats = np.stack([draws(seed, 6)[:, 1] for seed in range(count)])
    return list(beats.T)


def by_raw_seeds(count: int) -> list[Draws]:
    """Return the streams of descriptors' seeds that differ in one bit, at the same beat and columns."""
    seeds = np.arange(count // 4, dtype=np.uint32) * np.uint32(2)
    return [first_draws(seeds ^ np.uint32(bit)) for bit in (0, 1, 1 << 20, 1 << 31)]


def by_seeds(count: int) -> list[Draws]:
    """Return the streams of a user's consecutive seeds, over the multiplies of one operation."""
    return [first_draws(multiply_seeds(seed, 3, count // 4)) for seed in (0, 1, 2, MAX_SEED)]


def by_operations(count: int) -> list[Draws]:
    """Return streams of three operations of seed 0, and of two of seed 1, which must not repeat the next of seed 0."""
    keys = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1))
    return [first_draws(multiply_seeds(*key, count // 4)) for key in keys]


def by_multiplies(count: int) -> list[Draws]:
    """Return the streams of consecutive multiplies, over operations."""
    seeds = np.stack([multiply_seeds(7, operation, 4) for operation in range(count // 128)])
    return [first_draws(each, 32) for each in seeds.T]


AXES = {
    "columns": by_columns,
    "rows": by_rows,
    "raw seeds": by_raw_seeds,
    "seeds": by_seeds,
    "operations": by_operations,
    "multiplies": by_multiplies,
}


def worst_correlation(streams: list[Draws]) -> float:
    """Return the largest correlation of two streams' values or single bits, in standard deviations."""
    worst = 0.0
    for place in (None, 15, 14, 0):
        signals = np.array([stream if place is None else stream >> place & 1 for stream in streams], np.float64)
        found = np.asarray(np.corrcoef(signals))
        worst = max(worst, float(np.abs(found[np.triu_indices(len(streams), 1)]).max()))
    return worst * len(streams[0]) ** 0.5


def worst_chi_square(streams: list[Draws]) -> float:
    """Return the largest chi-square of the 16 outcomes of rounding one remainder in four streams."""
    worst = 0.0
    for start in range(len(streams) - 3):
        for share in SHARES:
            up = [stream >= (1 - share) * 2**16 for stream in streams[start : start + 4]]
            found = np.bincount(sum(each.astype(int) << k for k, each in enumerate(up)), minlength=16)
            ways = np.array([share ** k.bit_count() * (1 - share) ** (4 - k.bit_count()) for k in range(16)])
            expected = ways * len(streams[0])
            worst = max(worst, float(((found - expected) ** 2 / expected).sum()))
    return worst


@pytest.mark.parametrize("seed", SEEDS)
def test_compiled_draws_match_golden(seed):
    for first, columns in ((0, 16), (2**28 - 2, 5), (12345, 1)):
        expected = [random_bits(seed, first + k, columns) for k in range(4)]
        assert draws(seed, 4, columns, first).tolist() == expected


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("axis", AXES)
def test_streams_are_independent(axis, count):
    streams = AXES[axis](count)
    assert worst_correlation(streams) < SIGMAS
    assert worst_chi_square(streams) < CHI_SQUARE


@pytest.mark.parametrize("check", [worst_correlation, worst_chi_square])
def test_the_checks_find_columns_that_share_a_stream(check: Callable[[list[Draws]], float]):
    streams = by_columns(10**4)[:4]
    limit = SIGMAS if check is worst_correlation else CHI_SQUARE
    assert check(streams) < limit
    assert check([*streams[:3], streams[1]]) > limit
    later = [np.concatenate([streams[1][:-1], streams[2][-1:]]), *streams[1:]]
    assert check(later) > limit


def test_the_checks_find_xorshift():
    """With xorshift, the difference of two columns' draws does not depend on the seed."""
    seeds = np.random.default_rng(0).integers(0, 2**32, 10**5, np.uint64).astype(np.uint32)
    streams = []
    for j in range(4):
        states = seeds ^ np.uint32((j + 1) * 0x9E3779B9 & MAX_SEED)
        for shift in (13, -17, 5):
            states = states ^ (states << np.uint32(shift) if shift > 0 else states >> np.uint32(-shift))
        streams.append((states & np.uint32(0xFFFF)).astype(np.uint16))
    assert worst_correlation(streams) > SIGMAS
    assert worst_chi_square(streams) > CHI_SQUARE


def test_beats_are_unique():
    """Over seeds, beats and blocks of columns, no 64 bits repeat: no stream is a shifted copy of another."""
    seeds = np.concatenate([np.arange(500), MAX_SEED - np.arange(500)]).astype(np.uint32)
    words = np.stack([draws(int(seed), 200, columns=8) for seed in seeds]).view("<u8").reshape(-1)
    assert len(np.unique(words)) == len(words)


def test_multiplies_have_different_seeds():
    """Compare all multiplies of one operation, and 2^12 multiplies of small seeds and operations."""
    found = np.concatenate([multiply_seeds(seed, n, 16) for seed in range(16) for n in range(16)])
    assert len(np.unique(found)) == len(found)
    every = multiply_seeds(MAX_SEED, MAX_SEED, 10**5)
    assert len(np.unique(every)) == len(every)


def encrypt(x: NDArray[np.uint32], y: NDArray[np.uint32], rounds: int) -> NDArray[np.uint64]:
    """Encrypt blocks with the first rounds of the cipher."""
    for key in ROUND_KEYS[:rounds]:
        by_1, by_8, by_2 = (x << np.uint32(k) | x >> np.uint32(32 - k) for k in (1, 8, 2))
        x, y = y ^ by_1 & by_8 ^ by_2 ^ key, x
    return x.astype(np.uint64) << np.uint64(32) | y


def worst_flip(rounds: int, side: int) -> float:
    """Return the largest deviation from 1/2 of the rate at which a result's bit flips, in standard deviations.

    Trials are all beats and seeds below `side`; each bit of both words is flipped in turn.
    """
    beats, seeds = (each.reshape(-1).astype(np.uint32) for each in np.indices((side, side)))
    plain, worst = encrypt(beats, seeds, rounds), 0.0
    for bit in range(64):
        flip = np.uint32(1 << bit % 32)
        other = encrypt(beats ^ flip, seeds, rounds) if bit < 32 else encrypt(beats, seeds ^ flip, rounds)
        changed = plain ^ other
        shares = np.array([np.mean(changed >> np.uint64(k) & np.uint64(1)) for k in range(64)])
        trials = side**2 / (2 if 1 << bit % 32 < side else 1)  # A flip in the range counts pairs twice.
        worst = max(worst, float(np.abs(shares - 0.5).max()) * 2 * trials**0.5)
    return worst


@pytest.mark.parametrize("side", [1 << 6, pytest.param(1 << 10, marks=pytest.mark.slow)])
def test_fewer_rounds_still_diffuse(side):
    """Without the last three rounds, a flipped bit still shows in no bit of the result. 11 rounds are too few."""
    assert len(ROUND_KEYS) == 18
    assert worst_flip(15, side) < 5.5  # for 4096 normal numbers, exceeded with a probability of 2e-4
    assert worst_flip(11, side) > 5.5
