"""A producer of streams for one port of a tile."""

from collections.abc import Sequence

from .ports import Offer

__all__ = ["Producer"]


class Producer:
    """Offers streams one after the other, in each cycle steps of only one stream.

    Parameters
    ----------
    streams : sequence of sequence of sequence of int, (streams, T, lanes)
        Bit patterns; T may differ between streams.

    Examples
    --------
    >>> producer = Producer([[[1], [2], [3]], [[4]]])
    >>> producer.offer(2)
    Offer(steps=[[1], [2]], available=2, last=False)
    >>> producer.take(2)
    >>> producer.offer(2)
    Offer(steps=[[3]], available=1, last=True)
    >>> producer.take(1)
    >>> producer.offer(2)
    Offer(steps=[[4]], available=1, last=True)
    """

    def __init__(self, streams: Sequence[Sequence[Sequence[int]]]) -> None:
        self._streams = streams
        self._stream = 0
        self._step = 0

    @property
    def done(self) -> bool:
        """Whether all steps were taken."""
        return self._stream == len(self._streams)

    def offer(self, most: int) -> Offer:
        """Offer up to `most` of the stream's next steps."""
        if self.done:
            return Offer()
        stream = self._streams[self._stream]
        steps = stream[self._step : self._step + most]
        return Offer(steps, len(steps), last=len(steps) > 0 and self._step + len(steps) == len(stream))

    def take(self, count: int) -> None:
        """Remove the first `count` steps offered."""
        if count == 0:
            return
        self._step += count
        if self._step == len(self._streams[self._stream]):
            self._stream, self._step = self._stream + 1, 0
