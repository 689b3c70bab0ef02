"""Writes the records of one step."""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike, NDArray

from ..lowering import Geometry, Operation
from .arrays import count_ones, digest_of, mask_name, pack, store, typed, values_name
from .flow import Flow
from .format import Operand

__all__ = ["StepWriter"]


class StepWriter:
    """Takes the records of one step; `TraceWriter.step` makes it.

    Parameters
    ----------
    arrays : Path
        Folder of the arrays.
    stored : set of str
        The arrays that are there; it grows.
    values : bool
        Whether values are stored.
    """

    def __init__(self, arrays: Path, stored: set[str], values: bool) -> None:
        self._arrays = arrays
        self._stored = stored
        self._values = values
        self._new: list[str] = []
        self._records: list[dict[str, Any]] = []
        self._uncaptured: list[str] = []
        self._flow: dict[str, Any] | None = None
        self._closed = False

    def store(self, array: ArrayLike, dtype: str | None = None) -> Operand:
        """Store an operand ahead of the records that it is in; `record` does the same for one that only it needs.

        What is stored already, in this step or one before, is not stored again.

        Parameters
        ----------
        array : array of bool, of a type of `DTYPES`, or of its bit patterns
            A mask, or values, whose zeros, of either sign, are masked out. Bit patterns need `dtype`.
        dtype : str, optional
            Type of the values, one of `DTYPES`; of a mask: of the values that it was made from.

        Returns
        -------
        Operand
            For `record`.

        Raises
        ------
        TypeError, ValueError
            If the array is of another type, or empty.
        """
        self._require_open()
        values, dtype = typed(array, dtype)
        packed = pack(values, dtype)
        operand = Operand(shape=values.shape, dtype=dtype, nonzeros=count_ones(packed), mask=digest_of(packed))
        self._store(mask_name(operand), packed)
        if self._values and values.dtype != bool:
            operand = replace(operand, values=digest_of(values))
            self._store(values_name(operand), values)
        return operand

    def record(
        self,
        layer: str,
        operation: str,
        geometry: Geometry,
        operands: Mapping[str, ArrayLike | Operand],
    ) -> None:
        """Record one operation of one layer.

        Parameters
        ----------
        layer : str
            Name of the layer.
        operation : str
            AxW, WxG or AxG.
        geometry : Geometry
            The layer's shapes.
        operands : mapping of str to array or Operand
            The operation's two, by name (A, W, G), in the shapes that the geometry gives them: arrays as `store` takes
            them without `dtype`, or what it returned.

        Raises
        ------
        TypeError, ValueError
            If an argument is wrong; with layer, operation and operand, and what is allowed.
        """
        self._require_open()
        if not isinstance(layer, str):
            raise TypeError(f"layer must be a string, not {layer!r}")
        operation = Operation(operation)
        where, names = f"layer {layer}, {operation}", (operation.left, operation.right)
        if set(operands) != set(names):
            raise ValueError(f"{where}: operands must be {' and '.join(names)}, not {', '.join(operands)}")
        references = {}
        for name in names:
            operand = operands[name]
            try:
                references[name] = operand if isinstance(operand, Operand) else self.store(operand)
            except (TypeError, ValueError) as error:
                kind = TypeError if isinstance(error, TypeError) else ValueError
                raise kind(f"{where}, operand {name}: {error}") from None
            if references[name].shape != geometry.shapes[name]:
                raise ValueError(
                    f"{where}, operand {name}: shape must be {geometry.shapes[name]}, as the geometry has it, "
                    f"not {references[name].shape}"
                )
            if not self._is_stored(references[name]):
                raise ValueError(f"{where}, operand {name}: not stored in this trace")
        self._records.append(
            {
                "layer": layer,
                "operation": str(operation),
                "geometry": geometry.to_json(),
                "operands": {name: reference.to_json() for name, reference in references.items()},
            }
        )

    def add_uncaptured(self, what: str) -> None:
        """Note something of this step that could not be recorded."""
        self._require_open()
        if not isinstance(what, str):
            raise TypeError(f"what could not be recorded must be a string, not {what!r}")
        self._uncaptured.append(what)

    def add_flow(self, flow: Flow) -> None:
        """Say what becomes of the step's tensors, once all records are there.

        Raises
        ------
        TraceError
            If it names records that are not there, or contradicts itself.
        """
        self._require_open()
        document = flow.to_json()
        Flow.from_json(document, len(self._records), "flow")  # which checks it
        self._flow = document

    def close(self) -> dict[str, Any]:
        """Take no more; return the step's entry for the index, without its index and epoch."""
        self._closed = True
        document = {"uncaptured": self._uncaptured, "records": self._records}
        return document if self._flow is None else {**document, "flow": self._flow}

    def discard(self) -> None:
        """Take no more, and remove the arrays that this step has added."""
        self._closed = True
        for name in self._new:
            shutil.rmtree(self._arrays / name, ignore_errors=True)
            self._stored.discard(name)

    def _require_open(self) -> None:
        if self._closed:
            raise RuntimeError("the step is at its end: what belongs to it must be recorded inside of its `with` block")

    def _is_stored(self, operand: Operand) -> bool:
        names = {mask_name(operand)} if operand.values is None else {mask_name(operand), values_name(operand)}
        return names <= self._stored

    def _store(self, name: str, array: NDArray) -> None:
        if name not in self._stored:
            self._new.append(name)
            store(self._arrays / name, array)
            self._stored.add(name)
