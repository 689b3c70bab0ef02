"""Random bits for stochastic rounding: 16 for each column, from a block cipher in counter mode."""

from collections.abc import Sequence

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.parameters import require_int

__all__ = ["RANDOM_BITS", "RandomBits"]

RANDOM_BITS = 16
SEED_BITS = 32
WORD_BITS = 32
BEAT_BITS = 28
ROUNDS = 18
ROUNDS_PER_STAGE = 8  # as many as fit into 2 ns in 45 nm; the last rounds share a cycle with the reader's logic
COLUMNS_PER_BLOCK = 2 * WORD_BITS // RANDOM_BITS
MAX_COLUMNS = COLUMNS_PER_BLOCK << (WORD_BITS - BEAT_BITS)
KEY = (0x03020100, 0x0B0A0908, 0x13121110, 0x1B1A1918)
Z3 = 0b11011011101011000110010111100000010010001010011100110100001111
Z3_BITS = 62


class RandomBits(Block):
    """Encrypts the block's number, the beat's number and the seed with 18 rounds of SIMON64/128.

    Timing: `ready` is low in the two cycles after `start` or a reset. When it is high, `bits` are valid, and `step`
    replaces them by the bits of the next beat. One beat per cycle.

    Parameters
    ----------
    columns : int
        Columns, 1 to 64.

    Members
    -------
    seed : In(32), start : In(1)
        Restart at beat 0 with this seed. A reset restarts with seed 0.
    step : In(1)
        Advance to the next beat. Only while `ready`.
    ready : Out(1)
        `bits` are valid.
    bits : Out(16 x columns)
        The bits of this beat.

    Raises
    ------
    ValueError
        If `columns` is out of range.

    Source: docs/core.md, "Stochastic rounding"; Beaulieu et al., "The SIMON and SPECK Families of Lightweight Block
    Ciphers", 2013 (IACR ePrint 2013/404).
    """

    def __init__(self, *, columns: int) -> None:
        self.columns = require_int("columns", columns, 1, MAX_COLUMNS)
        super().__init__(
            {
                "seed": In(SEED_BITS),
                "start": In(1),
                "step": In(1),
                "ready": Out(1),
                "bits": Out(RANDOM_BITS).array(columns),
            }
        )

    def elaborate(self, platform):
        """Build registers of the seed and the beat, and of each block after 8 and after 16 rounds."""
        m = Module()
        seed = Signal(SEED_BITS, name="current_seed")
        beat = Signal(BEAT_BITS)
        filling = Signal(2, init=0b11)
        advance = Signal()
        m.d.comb += [self.ready.eq(~filling.any()), advance.eq(filling.any() | self.step)]
        with m.If(self.start):
            m.d.sync += [seed.eq(self.seed), beat.eq(0), filling.eq(0b11)]
        with m.Elif(advance):
            m.d.sync += [beat.eq(beat + 1), filling.eq(filling >> 1)]
        keys, stage = _round_keys(), ROUNDS_PER_STAGE
        blocks = []
        for k in range(-(-self.columns // COLUMNS_PER_BLOCK)):
            first, second = (Signal(2 * WORD_BITS, name=f"{name}_{k}", reset_less=True) for name in ("first", "second"))
            plain = Cat(seed, beat, Const(k, WORD_BITS - BEAT_BITS))
            with m.If(advance):
                m.d.sync += [
                    first.eq(_encrypt(m, plain, keys[:stage], f"first_{k}_round")),
                    second.eq(_encrypt(m, first, keys[stage : 2 * stage], f"second_{k}_round")),
                ]
            blocks.append(_encrypt(m, second, keys[2 * stage :], f"last_{k}_round"))
        drawn = Cat(blocks)
        m.d.comb += [self.bits[column].eq(drawn.word_select(column, RANDOM_BITS)) for column in range(self.columns)]
        return m


def _encrypt(m: Module, block: Value, keys: Sequence[int], name: str) -> Value:
    """Apply rounds of SIMON64 to a block, whose left word is the upper one."""
    right, left = block[:WORD_BITS], block[WORD_BITS:]
    for k, key in enumerate(keys):
        result = Signal(WORD_BITS, name=f"{name}_{k}")
        mixed = (left.rotate_left(1) & left.rotate_left(8)) ^ left.rotate_left(2)
        m.d.comb += result.eq(right ^ mixed ^ key)
        left, right = result, left
    return Cat(right, left)


def _round_keys() -> list[int]:
    """Return the round keys of SIMON64/128."""
    mask = (1 << WORD_BITS) - 1
    keys = list(KEY)
    for k in range(len(KEY), ROUNDS):
        mixed = (keys[k - 1] >> 3 | keys[k - 1] << (WORD_BITS - 3)) & mask ^ keys[k - 3]
        mixed ^= (mixed >> 1 | mixed << (WORD_BITS - 1)) & mask
        constant = 3 ^ Z3 >> (Z3_BITS - 1 - (k - len(KEY)) % Z3_BITS) & 1
        keys.append(~keys[k - 4] & mask ^ mixed ^ constant)
    return keys
