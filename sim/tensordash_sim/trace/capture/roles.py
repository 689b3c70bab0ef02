"""Which role a product has: the forward products of a step, and which of them a product of the backward pass is of."""

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
        Its name.
    geometry : MatrixProduct or None
        Of a matrix product; other products tell the roles of their gradients themselves.
    keys : dict of str to key
        Its operands, by name.
    needs : frozenset of Operation
        The gradients that autograd is going to compute.
    first : Operation
        The one of them that it computes first.
    parts : tuple of str
        Names of the products that it consists of, if it is a fused one.
    last : tuple of int and Operation, optional
        The backward pass and the gradient that were seen last.
    gradient : key, optional
        G, once it was seen.
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
    """What a product of the backward pass is."""

    entry: Entry
    operation: Operation
    operands: dict[str, torch.Tensor]


def geometry_of(a: torch.Tensor, w: torch.Tensor) -> MatrixProduct:
    """Return the geometry of ``A[b, n, c]`` and ``W[b, f, c]``."""
    return MatrixProduct(batch=a.shape[0], samples=a.shape[1], in_features=a.shape[2], out_features=w.shape[1])


class Roles:
    """The forward products of one step.

    Autograd numbers its nodes, and the node that is at work in the backward pass has the number that it was given in
    the forward pass: that finds the forward product. Its operands tell which gradient it is, by being the same memory;
    or if they are not, because they were computed anew or kept elsewhere, by their shapes.
    """

    def __init__(self) -> None:
        self._storages = Storages()
        self._by_number: dict[int, list[Entry]] = {}
        self._seen: dict[str, set[Hashable]] = {"A": set(), "W": set()}
        self._repeated: Counter[tuple[int, int]] = Counter()

    def add(self, entry: Entry, number: int | None, operands: dict[str, torch.Tensor]) -> None:
        """Take a forward product, with the number of its node, and its operands."""
        entry.keys = {name: self._storages.key(tensor) for name, tensor in operands.items()}
        for name, key in entry.keys.items():
            self._seen[name].add(key)
        if number is not None:
            self._by_number.setdefault(number, []).append(entry)

    def entries(self, number: int) -> list[Entry]:
        """Those of a node; of one that is a function of the user's, those of its whole forward pass."""
        return self._by_number.get(number, [])

    def repeated(self, number: int, task: int) -> Entry | None:
        """Return the next of a node's, for a backward pass that computes them anew in order."""
        entries, place = self.entries(number), self._repeated[number, task]
        self._repeated[number, task] += 1
        return entries[place] if place < len(entries) else None

    def gradient(self, x: torch.Tensor, y: torch.Tensor, number: int, task: int) -> Gradient | None:
        """Return the role of the product of `x` (b, p, q) and `y` (b, q, r) by a node of the backward pass.

        None if there is no such forward product, or more than one gradient that it may be.
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
        """Rate how certain it is that operands have the roles of a reading."""
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
    """Every way to take ``x @ y`` for a gradient that shapes allow: either is G, and the result may be transposed."""
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
    """Return, of equally certain roles, those whose gradient is needed.

    Where a known operand is both A and W, as in ``x @ x.T``, the order decides.
    """
    needed = [reading for reading in readings if reading.operation in reading.entry.needs]
    if known and len({reading.operation for reading in needed}) > 1:
        entry = needed[0].entry
        second = entry.last == (task, entry.first)
        needed = [reading for reading in needed if (reading.operation is entry.first) is not second]
    return needed
