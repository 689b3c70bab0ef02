"""Random bits for stochastic rounding: 16 for each column and beat, from a block cipher in counter mode."""

from functools import cache

__all__ = ["random_bits", "simon64"]

ROUNDS = 18
ALL_ROUNDS = 44
COLUMNS_OF_A_BLOCK = 4
BEATS = 1 << 28
WORD = (1 << 32) - 1
KEY = (0x03020100, 0x0B0A0908, 0x13121110, 0x1B1A1918)
Z = "11011011101011000110010111100000010010001010011100110100001111"


def _left(word: int, places: int) -> int:
    """Rotate a word to the left."""
    return (word << places | word >> (32 - places)) & WORD


def _right(word: int, places: int) -> int:
    """Rotate a word to the right."""
    return _left(word, 32 - places)


@cache
def _round_keys() -> tuple[int, ...]:
    keys = list(KEY)
    for i in range(4, ALL_ROUNDS):
        t = _right(keys[i - 1], 3) ^ keys[i - 3]
        keys.append(WORD ^ keys[i - 4] ^ t ^ _right(t, 1) ^ 3 ^ int(Z[i - 4]))
    return tuple(keys)


def simon64(x: int, y: int, rounds: int = ALL_ROUNDS) -> tuple[int, int]:
    """Encrypt two words of 32 bits with SIMON64/128 and the key of its published test vector.

    Parameters
    ----------
    x, y : int
        The plaintext's left and right word.
    rounds : int
        Number of rounds, at most 44.

    Source: Beaulieu et al., "The SIMON and SPECK Families of Lightweight Block Ciphers", 2013 (IACR ePrint 2013/404).

    Examples
    --------
    The published test vector.

    >>> [hex(word) for word in simon64(0x656B696C, 0x20646E75)]
    ['0x44c8fc20', '0xb9dfa07a']
    """
    for key in _round_keys()[:rounds]:
        x, y = y ^ (_left(x, 1) & _left(x, 8)) ^ _left(x, 2) ^ key, x
    return x, y


def random_bits(seed: int, beat: int, columns: int) -> list[int]:
    """Return the 16 random bits of each column in a beat.

    Parameters
    ----------
    seed : int
        32 bits.
    beat : int
        Counted from 0.
    columns : int
        Number of columns, at most 64.

    Source: docs/core.md, "Stochastic rounding".

    Examples
    --------
    >>> [hex(bits) for bits in random_bits(seed=1, beat=0, columns=2)]
    ['0xdaae', '0xb948']
    """
    made: list[int] = []
    for block in range(-(-columns // COLUMNS_OF_A_BLOCK)):
        x, y = simon64(block * BEATS + beat % BEATS, seed, ROUNDS)
        made += [(x << 32 | y) >> 16 * k & 0xFFFF for k in range(COLUMNS_OF_A_BLOCK)]
    return made[:columns]
