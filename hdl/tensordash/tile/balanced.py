"""Balanced trees of operators."""

from functools import reduce

__all__ = ["reduce_balanced"]


def reduce_balanced(operator, values):
    """Combine values in a balanced tree of operators. A chain of 512 would exceed Python's recursion limit."""
    values = list(values)
    while len(values) > 1:
        values = [reduce(operator, values[i : i + 2]) for i in range(0, len(values), 2)]
    return values[0]
