"""Normalisation: shifts a number's leading one to the top, for the components that round."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

__all__ = ["normalize"]


def normalize(m: Module, bits: Signal, fill, limit: Signal | None = None, *, wanted: int | None = None):
    """Shift the leading one of `bits` to the top, and shift in `fill`. Return the top, the shift and the rest.

    Each stage drops the bits that later stages cannot move among the wanted ones.

    With `fill` = 1, `bits` are a magnitude with an endless string of ones after it. All zeros become `fill` at the top;
    the shift is then at least the width.

    Parameters
    ----------
    m : Module
        The module to build in.
    bits : Signal
        The number.
    fill : 1-bit value
        The bit that is shifted in.
    limit : Signal, optional
        Maximum shift, whatever is at the top.
    wanted : int, optional
        Bits of the result. By default all.

    Returns
    -------
    normal : Signal of `wanted` bits
    shift : value
        The distance.
    rest_any, rest_all : 1-bit values
        Whether any and whether all of the bits below are ones.
    """
    wanted = len(bits) if wanted is None else wanted
    shift: list = []
    rest_any: Value = Const(0)
    rest_all: Value = Const(1)
    stages = len(bits).bit_length()
    # Whether more of the limit is left than all later stages together can use.
    plenty = Const(1) if limit is None else limit[stages:].any()
    for stage in reversed(range(stages)):
        reach, width = 1 << stage, len(bits)
        allowed = plenty if limit is None else plenty | limit[stage : stage + 1].any()
        # Later stages move by less than `reach` in total. If this stage moves, the bits that it drops are `fill`.
        lost = max(0, width - (wanted + reach - 1))
        move, moved = Signal(name=f"move_{stage}"), Signal(width - lost, name=f"normal_{stage}")
        shifted = Cat(fill.replicate(reach), bits[: width - reach])
        m.d.comb += [
            move.eq(~bits[width - reach :].any() & allowed),
            moved.eq(Mux(move, shifted[lost:], bits[lost:])),
        ]
        if lost:
            rest_any = rest_any | Mux(move, fill, bits[:lost].any())
            rest_all = rest_all & Mux(move, fill, bits[:lost].all())
        if limit is not None:
            plenty = plenty | (limit[stage : stage + 1].any() & ~move)
        shift.insert(0, move)
        bits = moved
    return bits, Cat(shift), rest_any, rest_all
