"""The C store: step 6 of docs/tile.md."""

from tensordash.configuration.config import TileConfig
from tensordash.configuration.formats import FP32

from .accumulators import starts_from_c
from .numbers import is_finite
from .ports import Beat

__all__ = ["InitialStore"]

Rows = tuple[tuple[int, ...], ...]


class InitialStore:
    """FIFO of C beats that wait for the streams to which they are added.

    Parameters
    ----------
    config : TileConfig
        The tile, which has a C input.

    Attributes
    ----------
    beats : list of tuple of tuple of int, (beats, out_rows, columns)
        Bit patterns, the oldest beat first.
    blocks : int
        Complete blocks of C with which no stream has started yet.

    Examples
    --------
    >>> store = InitialStore(TileConfig(rows=2, columns=1, initial=True))
    >>> store.push(Beat(((0x3F800000,),), last=False)), store.blocks
    ((False, False), 0)
    >>> store.push(Beat(((0x40000000,),), last=True)), store.blocks
    ((False, False), 1)
    >>> store.pop_beat()
    ((1065353216,),)
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        self.block_beats = config.rows // config.out_rows
        # A block leaves at the start of its stream. If C is added last, it leaves at the end of the stream, when the
        # next block may have arrived.
        self.capacity = self.block_beats if starts_from_c(config) else 2 * self.block_beats
        self.reset()

    def reset(self) -> None:
        self.beats: list[Rows] = []
        self.blocks = 0
        self._entered = 0  # beats of the incomplete block

    @property
    def ready(self) -> bool:
        """Whether a beat can enter."""
        return len(self.beats) < self.capacity

    def check(self, beat: Beat) -> None:
        """Raise ValueError for a beat of the wrong shape."""
        height, columns = self.config.out_rows, self.config.columns
        if len(beat.values) != height or any(len(row) != columns for row in beat.values):
            raise ValueError(f"c must be a beat of out_rows={height} rows of columns={columns} values, not {beat}")

    def push(self, beat: Beat) -> tuple[bool, bool]:
        """Store a beat.

        Returns
        -------
        protocol_error, non_finite : bool
            Whether `last` does not match the end of a block; whether the beat holds an infinity or NaN.
        """
        self.beats.append(beat.values)
        self._entered += 1
        complete = self._entered == self.block_beats
        if complete:
            self._entered = 0
            self.blocks += 1
        non_finite = self.config.numerics.result == "fp32" and not all(
            is_finite(bits, FP32) for row in beat.values for bits in row
        )
        return beat.last != complete, non_finite

    def start(self) -> None:
        """Start a stream with the oldest block of C."""
        self.blocks -= 1

    def pop_beat(self) -> Rows:
        """Remove and return the oldest beat."""
        return self.beats.pop(0)

    def pop_block(self) -> Rows:
        """Remove and return the oldest block, (rows, columns)."""
        block = tuple(row for beat in self.beats[: self.block_beats] for row in beat)
        del self.beats[: self.block_beats]
        return block
