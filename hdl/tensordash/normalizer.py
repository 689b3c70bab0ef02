"""Normalisation: shifting a number's first one to the top, inside the components that round."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal

__all__ = ["normalize"]


def normalize(m: Module, bits: Signal, fill, limit: Signal | None = None):
    """Shift the first one of `bits` to the top, `fill` behind; return the result and the shift.

    With `fill` = 1, `bits` stand for a magnitude with an endless string of ones behind it. All zeros come out as
    `fill` at the top: the shift is then the width at least.

    Parameters
    ----------
    m : Module
        Where the logic goes.
    bits : Signal
        The number.
    fill : 1-bit value
        What moves in at the bottom.
    limit : Signal, optional
        The shift stops here at the latest, whatever is at the top.

    Returns
    -------
    normal : Signal, as wide as `bits`
    shift : value
        How far it moved.
    """
    width = len(bits)
    shift: list = []
    stages = width.bit_length()
    # Whether more of the limit is left than all stages to come could use up.
    plenty = Const(1) if limit is None else limit[stages:].any()
    for stage in reversed(range(stages)):
        reach = 1 << stage
        allowed = plenty if limit is None else plenty | limit[stage : stage + 1].any()
        move, moved = Signal(name=f"move_{stage}"), Signal(width, name=f"normal_{stage}")
        m.d.comb += [
            move.eq(~bits[width - reach :].any() & allowed),
            moved.eq(Mux(move, Cat(fill.replicate(reach), bits[: width - reach]), bits)),
        ]
        if limit is not None:
            plenty = plenty | (limit[stage : stage + 1].any() & ~move)
        shift.insert(0, move)
        bits = moved
    return bits, Cat(shift)
