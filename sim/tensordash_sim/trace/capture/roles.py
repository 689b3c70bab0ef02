"""Roles of products: the forward products of a step, and the gradients that backward products compute."""

from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from ...lowering import MatrixProduct, Operation
from .identity import Storages

__all__ = ["Entry", "Gradient", "Roles", "geometry_of"]


@dataclass
class Entry:
    """A forward product.

    Attributes
    ----------
    layer : str
        Name of the layer.
    geometry : MatrixProduct or None
        Geometry of a matrix product. Other products do not need it: their backward operations identify the gradient.
    keys : dict of str to key
        Keys of the operands, by name.
    needs : frozenset of Operation
        The gradients that autograd is going to compute.
    first : Operation
        The gradient that autograd computes first.
    parts : tuple of str
        Names of the products inside a fused operation.
    last : tuple of int and Operation, optional
        Backward pass and operation of the last gradient found.
    gradient : key, optional
        Key of G, once a gradient was found.
    """

    layer: str
    geometry: MatrixProduct | None = None
    keys: dict[str, Hashable] = field(default_factory=dict)
    needs: frozenset[Operation] = frozenset()
    first: Operation = Operation.INPUT_GRADIENT
    parts: tuple[str, ...] = ()
    last: tuple[int, Operation] | None = None
    gradient: Hashable = None


class Gradient(NamedTuple):
    """A product of the backward pass: its forward product, the gradient that it computes, and its operands."""

    entry: Entry
    operation: Operation
    operands: dict[str, torch.Tensor]


def geometry_of(a: torch.Tensor, w: torch.Tensor) -> MatrixProduct:
    """Return the geometry of ``A[b, n, c]`` and ``W[b, f, c]``."""
    return MatrixProduct(batch=a.shape[0], samples=a.shape[1], in_features=a.shape[2], out_features=w.shape[1])


class Roles:
    """The forward products of one step.

    Autograd numbers its nodes in the forward pass, and the backward pass executes nodes with the same numbers. The
    number of the executing node identifies the forward product. The operands identify the gradient: one shares memory
    with A or W or, if it was recomputed or copied, has its shape.
    """

    def __init__(self) -> None:
        self._storages = Storages()
        self._by_number: dict[int, list[Entry]] = {}
        self._seen: dict[str, set[Hashable]] = {"A": set(), "W": set()}
        self._repeated: Counter[tuple[int, int]] = Counter()

    def add(self, entry: Entry, number: int | None, operands: dict[str, torch.Tensor]) -> None:
        """Add a forward product, with the number of its node, and its operands."""
        entry.keys = {name: self._storages.key(tensor) for name, tensor in operands.items()}
        for name, key in entry.keys.items():
            self._seen[name].add(key)
        if number is not None:
            self._by_number.setdefault(number, []).append(entry)

    def entries(self, number: int) -> list[Entry]:
        """Return the forward products of a node. A user-defined function has all products of its forward pass."""
        return self._by_number.get(number, [])

    def repeated(self, number: int, task: int) -> Entry | None:
        """Return a node's next forward product that a backward pass recomputes; it recomputes them in order."""
        entries, place = self.entries(number), self._repeated[number, task]
        self._repeated[number, task] += 1
        return entries[place] if place < len(entries) else None

    def gradient(self, x: torch.Tensor, y: torch.Tensor, number: int, task: int) -> Gradient | None:
        """Return the gradient that a node of the backward pass computes as the product of `x` (b, p, q), `y` (b, q, r).

        Return None if no gradient fits, or several fit equally well.
        """
        best, chosen = -1, list[Gradient]()
        for entry in self.entries(number):
            for operation, operands in _readings(entry.geometry, x, y):
                score = self._score(entry, operation, operands)
                if score >= best:
                    chosen = [] if score > best else chosen
                    best = score
                    chosen.append(Gradient(entry, operation, operands))
        if len(chosen) > 1:
            chosen = _needed(chosen, task, known=best > 1)
        if len(chosen) != 1:
            return None
        (found,) = chosen
        found.entry.last = task, found.operation
        found.entry.gradient = self._storages.key(found.operands["G"])
        return found

    def _score(self, entry: Entry, operation: Operation, operands: dict[str, torch.Tensor]) -> int:
        """Rate the certainty that operands have the roles of a reading, from 0 to 3."""
        name = _shared_operand(operation)
        key, gradient = self._storages.key(operands[name]), self._storages.key(operands["G"])
        if key == entry.keys.get(name) or gradient == entry.gradient:
            return 3
        if gradient in entry.keys.values():
            return 0
        return 2 if key in self._seen[name] else 1


def _shared_operand(operation: Operation) -> str:
    """Return the operand that a gradient shares with the forward product."""
    return "W" if operation is Operation.INPUT_GRADIENT else "A"


def _readings(
    geometry: MatrixProduct | None, x: torch.Tensor, y: torch.Tensor
) -> Iterator[tuple[Operation, dict[str, torch.Tensor]]]:
    """Yield the gradients that ``x @ y`` may be by its shapes: either factor may be G, and the result transposed."""
    if geometry is None:
        return
    for operation in (Operation.INPUT_GRADIENT, Operation.WEIGHT_GRADIENT):
        shared = _shared_operand(operation)
        # dA[n, c] = G[n, f] W[f, c] and dW[f, c] = G'[f, n] A[n, c]
        plain = {shared: y, "G": x if operation is Operation.INPUT_GRADIENT else x.mT}
        # dA'[c, n] = W'[c, f] G'[f, n] and dW'[c, f] = A'[c, n] G[n, f]
        turned = {shared: x.mT, "G": y.mT if operation is Operation.INPUT_GRADIENT else y}
        for operands in (plain, turned):
            if all(tuple(tensor.shape) == geometry.shapes[name] for name, tensor in operands.items()):
                yield operation, operands


def _needed(readings: list[Gradient], task: int, *, known: bool) -> list[Gradient]:
    """Return those of equally certain roles whose gradient autograd needs.

    If a known operand is both A and W, as in ``x @ x.T``, the order of the gradients decides.
    """
    needed = [reading for reading in readings if reading.operation in reading.entry.needs]
    if known and len({reading.operation for reading in needed}) > 1:
        entry = needed[0].entry
        second = entry.last == (task, entry.first)
        needed = [reading for reading in needed if (reading.operation is entry.first) is not second]
    return needed
