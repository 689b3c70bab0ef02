"""Drop empty steps in a simple way."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["deal"]


def deal(mask: NDArray[np.bool_], depth: int) -> NDArray[np.bool_]:
    """Deal the steps of a stream, bool (rows, T, lanes), to lists by bank, and read them line by line."""
    banks: list[list[NDArray[np.bool_]]] = [[] for _ in range(depth)]
    for step in range(mask.shape[1]):
        if mask[:, step].any():
            banks[step % depth].append(mask[:, step])
    empty = np.zeros_like(mask[:, 0])
    lines = max(map(len, banks))
    steps = [bank[line] if line < len(bank) else empty for line in range(lines) for bank in banks]
    while len(steps) > 1 and not steps[-1].any():
        steps.pop()
    return np.stack(steps or [empty], axis=1)
