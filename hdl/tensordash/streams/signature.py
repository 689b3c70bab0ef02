"""AXI4-Stream as a port type."""

from amaranth.lib.wiring import In, Out, Signature

__all__ = ["AxiStreamSignature"]


class AxiStreamSignature(Signature):
    """An AXI4-Stream, with the transmitter's directions.

    Parameters
    ----------
    bits : int
        Bits of a beat, in whole bytes.
    keep : bool
        Whether beats can be partial.

    Members
    -------
    tdata : Out(bits)
    tkeep : Out(bits // 8)
        Only with `keep`: which bytes are data.
    tlast : Out(1)
        The beat ends its packet.
    tvalid : Out(1)
        A beat is offered. It does not change until it is taken.
    tready : In(1)
        A beat that is offered is taken.

    Source: AMBA AXI4-Stream Protocol, section 2.
    """

    def __init__(self, bits: int, *, keep: bool) -> None:
        super().__init__(
            {
                "tdata": Out(bits),
                **({"tkeep": Out(bits // 8)} if keep else {}),
                "tlast": Out(1),
                "tvalid": Out(1),
                "tready": In(1),
            }
        )
