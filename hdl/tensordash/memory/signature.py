"""Ports of the buffer."""

from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In, Out, Signature

__all__ = ["BufferReadSignature", "BufferWriteSignature", "PairReadSignature"]


class BufferReadSignature(Signature):
    """A read of one position in each bank, with the reader's directions.

    Parameters
    ----------
    lanes : int
        Banks, and values of a position.
    width : int
        Bits of a value.
    address_bits : int
        Bits of a group's address.

    Members
    -------
    valid : Out(1)
        A read is requested. It must not change until it is taken, or until the reader's descriptor is done.
    enable : Out(lanes)
        Banks to read.
    address : Out(address_bits, lanes)
        The group in each bank. Undefined for banks that are not enabled.
    ready : In(1)
        The read is taken in this cycle, in all banks.
    data : In(lanes * width, lanes)
        Data of each enabled bank, in the cycle after the read was taken, and only then.

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
    """A read of one position in each half of each bank, with the reader's directions.

    Half h of bank k has index 2 * k + h. A group is in half 0 if the number of ones in its address is even, and in half
    1 if it is odd.

    Parameters
    ----------
    lanes, width, address_bits
        As in `BufferReadSignature`.

    Members
    -------
    valid, ready
        As in `BufferReadSignature`.
    enable : Out(2 * lanes)
        Halves of banks to read.
    address : Out(address_bits - 1, 2 * lanes)
        The group in each half, without the lowest bit of its address. Undefined for halves that are not enabled.
    data : In(lanes * width, 2 * lanes)
        Data of each enabled half, in the cycle after the read was taken, and only then.

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
    """A write of one position in each bank, with the writer's directions.

    Parameters
    ----------
    lanes, width, address_bits
        As in `BufferReadSignature`.

    Members
    -------
    valid : Out(1)
        A write is requested. It must not change until it is taken.
    enable : Out(lanes)
        Banks to write.
    address : Out(address_bits, lanes)
        The group in each bank.
    data : Out(lanes * width, lanes)
        A position's values for each bank, channel 0 in the lowest bits.
    ready : In(1)
        The write is taken in this cycle, in all banks. Reads taken in later cycles return its data.

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
