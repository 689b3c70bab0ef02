"""Compute convolutions by their definition, in plain Python integers, one product after the other."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import torch

__all__ = ["Case", "Results", "by_definition"]


@dataclass(frozen=True)
class Case:
    """Settings of a convolution, with one entry for each dimension."""

    transposed: bool
    size: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    output_padding: tuple[int, ...]
    groups: int

    @property
    def result_size(self) -> tuple[int, ...]:
        """Return the result's size by the formula in PyTorch's documentation."""
        sizes = []
        for size, k, s, p, d, extra in zip(
            self.size, self.kernel, self.stride, self.padding, self.dilation, self.output_padding, strict=True
        ):
            if self.transposed:
                sizes.append((size - 1) * s - 2 * p + d * (k - 1) + extra + 1)
            else:
                sizes.append((size + 2 * p - d * (k - 1) - 1) // s + 1)
        return tuple(sizes)

    def multiplications(self) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
        """Yield the positions of the input, the kernel and the result of each product."""
        for x in product(*map(range, self.size)):
            for k in product(*map(range, self.kernel)):
                if self.transposed:
                    y = [
                        i * s - p + tap * d
                        for i, tap, s, p, d in zip(x, k, self.stride, self.padding, self.dilation, strict=True)
                    ]
                    if all(0 <= place < size for place, size in zip(y, self.result_size, strict=True)):
                        yield x, k, tuple(y)
                    continue
                reached = [i + p - tap * d for i, tap, p, d in zip(x, k, self.padding, self.dilation, strict=True)]
                if all(
                    place >= 0 and place % s == 0 and place // s < size
                    for place, s, size in zip(reached, self.stride, self.result_size, strict=True)
                ):
                    yield x, k, tuple(place // s for place, s in zip(reached, self.stride, strict=True))


class Results(NamedTuple):
    """A convolution's result, its gradients, and its multiplications."""

    case: Case
    y: torch.Tensor
    dx: torch.Tensor
    dw: torch.Tensor
    macs: int


def by_definition(case: Case, x: torch.Tensor, w: torch.Tensor, grad: torch.Tensor) -> Results:
    """Compute a convolution of integers by its definition, one product after the other."""
    values = {"x": _table(x), "w": _table(w), "g": _table(grad)}
    sums: dict[str, dict[tuple[int, ...], int]] = {"y": {}, "dx": {}, "dw": {}}
    inputs, outputs = x.shape[1] // case.groups, grad.shape[1] // case.groups
    macs = 0
    for x_place, k_place, y_place in case.multiplications():
        for n, group, i, o in product(range(x.shape[0]), range(case.groups), range(inputs), range(outputs)):
            at_x = n, group * inputs + i, *x_place
            at_y = n, group * outputs + o, *y_place
            at_w = (at_x[1], o, *k_place) if case.transposed else (at_y[1], i, *k_place)
            for name, place, term in (
                ("y", at_y, values["x"][at_x] * values["w"][at_w]),
                ("dx", at_x, values["g"][at_y] * values["w"][at_w]),
                ("dw", at_w, values["g"][at_y] * values["x"][at_x]),
            ):
                sums[name][place] = sums[name].get(place, 0) + term
            macs += 1
    y, dx, dw = (_tensor(sums[name], like.shape) for name, like in (("y", grad), ("dx", x), ("dw", w)))
    return Results(case, y, dx, dw, macs)


def _table(tensor: torch.Tensor) -> dict[tuple[int, ...], Any]:
    flat = tensor.flatten().int().tolist()
    return dict(zip(product(*map(range, tensor.shape)), flat, strict=True))


def _tensor(sums: dict[tuple[int, ...], int], shape: torch.Size) -> torch.Tensor:
    return torch.tensor([sums.get(place, 0) for place in product(*map(range, shape))]).reshape(shape)
