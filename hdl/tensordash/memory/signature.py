"""Ports of the buffer."""

from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In, Out, Signature

__all__ = ["BufferReadSignature", "BufferWriteSignature", "PairReadSignature"]


class BufferReadSignature(Signature):
    """A read of one position in each bank, as whoever reads sees it.

    Parameters
    ----------
    lanes : int
        Banks, and values of a position.
    width : int
        Bits of a value.
    address_bits : int
        Of a group's address.

    Members
    -------
    valid : Out(1)
        A read is asked for. It stays as it is until it is taken.
    enable : Out(lanes)
        Which banks.
    address : Out(address_bits, lanes)
        The group in each bank; of banks that are not enabled any.
    ready : In(1)
        It is taken in this cycle, as a whole.
    data : In(lanes * width, lanes)
        What each enabled bank holds there, in the cycle after it was taken, and only then.

    Source: docs/core.md, "Memories".
    """

    def __init__(self, *, lanes: int, width: int, address_bits: int) -> None:
        super().__init__(
            {
                "valid": Out(1),
                "enable": Out(lanes),
                "address": Out(ArrayLayout(address_bits, lanes)),
                "ready": In(1),
                "data": In(ArrayLayout(lanes * width, lanes)),
            }
        )


class PairReadSignature(Signature):
    """A read of one position in each half of each bank, as whoever reads sees it.

    Half h of bank k has place 2 * k + h. A group is in half 0 if the number of ones in its address is even, and in half
    1 if it is odd.

    Parameters
    ----------
    lanes, width, address_bits
        As of `BufferReadSignature`.

    Members
    -------
    valid, ready
        As of `BufferReadSignature`.
    enable : Out(2 * lanes)
        Which halves of banks.
    address : Out(address_bits - 1, 2 * lanes)
        The group in each half without the lowest bit of its address; undefined in halves that are not enabled.
    data : In(lanes * width, 2 * lanes)
        What each enabled half holds there, in the cycle after the read was taken, and only then.

    Source: docs/core.md, "Memories".
    """

    def __init__(self, *, lanes: int, width: int, address_bits: int) -> None:
        super().__init__(
            {
                "valid": Out(1),
                "enable": Out(2 * lanes),
                "address": Out(ArrayLayout(address_bits - 1, 2 * lanes)),
                "ready": In(1),
                "data": In(ArrayLayout(lanes * width, 2 * lanes)),
            }
        )


class BufferWriteSignature(Signature):
    """A write of one position in each bank, as whoever writes sees it.

    Parameters
    ----------
    lanes, width, address_bits
        As of `BufferReadSignature`.

    Members
    -------
    valid : Out(1)
        A write is asked for. It stays as it is until it is taken.
    enable : Out(lanes)
        Which banks.
    address : Out(address_bits, lanes)
        The group in each bank.
    data : Out(lanes * width, lanes)
        A position's values for each bank, channel 0 in the lowest bits.
    ready : In(1)
        It is taken in this cycle, as a whole; reads that are taken in later cycles see it.

    Source: docs/core.md, "Memories".
    """

    def __init__(self, *, lanes: int, width: int, address_bits: int) -> None:
        super().__init__(
            {
                "valid": Out(1),
                "enable": Out(lanes),
                "address": Out(ArrayLayout(address_bits, lanes)),
                "data": Out(ArrayLayout(lanes * width, lanes)),
                "ready": In(1),
            }
        )
