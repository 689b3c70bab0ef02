"""Motion: how the windows of a tile move. The control drives it to every scheduler."""

from amaranth.lib.wiring import Out, Signature

from .staging_buffer import refill_layout
from .staging_ring import ring_refill_layout

__all__ = ["MotionSignature"]


class MotionSignature(Signature):
    """Steps that enter and leave the windows in a cycle, as driven by the control.

    Parameters
    ----------
    depth : int
        Steps in a window.
    ring : bool
        Whether the staging buffers are rings.

    Members
    -------
    refill : Out(refill_layout or ring_refill_layout)
        The source of each place of a window.
    eligible_next : Out(depth)
        Steps that may be drawn from in the next cycle, as a thermometer.
    scheduled : Out(1)
        A schedule is made in this cycle, and its selection is consumed.
    oldest : Out(depth)
        Only of a ring: the slot of the oldest step, one-hot.
    """

    def __init__(self, depth: int, ring: bool) -> None:
        super().__init__(
            {
                "refill": Out(ring_refill_layout(depth) if ring else refill_layout(depth)),
                "eligible_next": Out(depth),
                "scheduled": Out(1),
                **({"oldest": Out(depth)} if ring else {}),
            }
        )
