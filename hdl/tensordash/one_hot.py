"""Choosing by one-hot signals."""

from functools import reduce
from operator import or_

__all__ = ["one_hot_mux"]


def one_hot_mux(choices, sources):
    """The source that is chosen, as an AND-OR: about half of what nested muxes need. Of a single one, that one."""
    if len(sources) == 1:
        return sources[0]
    return reduce(
        or_, (source & chosen.replicate(len(source)) for source, chosen in zip(sources, choices, strict=True))
    )
