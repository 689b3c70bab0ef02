"""Sink of captured operands: converts tensors to masks or values of a trace's step."""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from fnmatch import fnmatchcase

import numpy as np
import torch
from numpy.typing import NDArray

from ...lowering import Geometry, Operation
from ..flow import Flow
from ..format import DTYPES, Operand
from ..step_writer import StepWriter
from .identity import Storages, has_storage

__all__ = ["Sink"]

_PATTERNS = {torch.bfloat16: torch.int16, torch.float8_e4m3fn: torch.uint8, torch.float8_e5m2: torch.uint8}
"""Types that NumPy lacks, and the integer types of their bit patterns."""


class Sink:
    """Writes the products of one step to a trace.

    Parameters
    ----------
    open_step : callable
        Returns the step of the trace. The sink calls it before the first write.
    values : bool
        Whether to store values besides masks.
    layers : sequence of str, optional
        Patterns. The sink records only layers whose name matches one of them.
    """

    def __init__(
        self, open_step: Callable[[], StepWriter], *, values: bool, layers: Sequence[str] | None = None
    ) -> None:
        self._open_step = open_step
        self._values = values
        self._layers = layers
        self._step: StepWriter | None = None
        self._storages = Storages()
        self._stored: dict[Hashable, Operand] = {}
        self._notes: Counter[str] = Counter()
        self.passed_over: set[str] = set()
        """Layers that match no pattern."""
        self._records = 0
        self._products: list[tuple[int, Mapping[str, torch.Tensor]]] = []

    @property
    def empty(self) -> bool:
        """Whether the step has no records and no notes."""
        return self._step is None and not self._notes

    def wants(self, layer: str) -> bool:
        """Return whether a layer is to be recorded."""
        wanted = self._layers is None or any(fnmatchcase(layer, pattern) for pattern in self._layers)
        if not wanted:
            self.passed_over.add(layer)
        return wanted

    def put(self, layer: str, operation: Operation, geometry: Geometry, operands: Mapping[str, torch.Tensor]) -> None:
        """Record an operation of a layer whose name matches; operands are in the geometry's shapes."""
        if not self.wants(layer):
            return
        if self._step is None:
            self._step = self._open_step()
        chosen = {name: self._store(operands[name]) for name in (operation.left, operation.right)}
        self._step.record(layer, operation, geometry, chosen)
        self._products.append((self._records, {name: operands[name] for name in chosen}))
        self._records += 1

    def products(self) -> list[tuple[int, Mapping[str, torch.Tensor]]]:
        """Return the index and operands of each record since the last call."""
        products, self._products = self._products, []
        return products

    def note(self, what: str) -> None:
        """Note something that is not captured."""
        self._notes[what] += 1

    def written(self, tensor: torch.Tensor) -> None:
        """Note that an operation has written to a tensor, so that its stored values are out of date."""
        if has_storage(tensor):
            self._storages.written(tensor)

    def close(self, flow: Flow | None) -> None:
        """Write the notes, and the flow if it is known and no layer was left out."""
        if self._step is not None and flow is not None and not self.passed_over:
            self._step.add_flow(flow)
        if self._notes and self._step is None:
            self._step = self._open_step()
        for what, times in self._notes.items():
            assert self._step is not None
            self._step.add_uncaptured(what if times == 1 else f"{what} ({times} times)")

    def _store(self, tensor: torch.Tensor) -> Operand:
        """Store an operand. An operand of several products is converted once."""
        assert self._step is not None
        key = self._storages.exact_key(tensor)
        if key in self._stored:
            return self._stored[key]
        dtype = str(tensor.dtype).removeprefix("torch.")
        known = dtype in DTYPES and dtype != "bool"
        array = _values_of(tensor) if self._values and known else _mask_of(tensor)
        operand = self._step.store(array, dtype if known else None)
        self._stored[key] = operand
        return operand


def _mask_of(tensor: torch.Tensor) -> NDArray[np.bool_]:
    return (tensor != 0).contiguous().cpu().numpy()


def _values_of(tensor: torch.Tensor) -> NDArray:
    values = tensor.detach().contiguous().cpu()
    if (patterns := _PATTERNS.get(values.dtype)) is None:
        return values.numpy()
    array = values.view(patterns).numpy()
    return array.view(f"u{array.itemsize}")
