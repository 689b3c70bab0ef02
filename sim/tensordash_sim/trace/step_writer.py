"""Writer of one step's records."""

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
    """Writer of the records of one step. `TraceWriter.step` creates it.

    Parameters
    ----------
    arrays : Path
        Folder of the arrays.
    stored : set of str
        Names of the arrays in the folder. The writer adds those it stores.
    values : bool
        Whether to store values besides masks.
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
        """Store an operand that several records share. `record` stores the operand of a single record itself.

        An array that this step or an earlier one has stored is not stored a second time.

        Parameters
        ----------
        array : array of bool, of a type of `DTYPES`, or of its bit patterns
            A mask, or values. -0 counts as a zero. Bit patterns need `dtype`.
        dtype : str, optional
            Type of the values, one of `DTYPES`. For a mask, the type of the values it was made from.

        Returns
        -------
        Operand
            Reference to pass to `record`.

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
            The operation's two operands by name (A, W, G), in the shapes that the geometry gives them: arrays that
            `store` accepts without `dtype`, or its results.

        Raises
        ------
        TypeError, ValueError
            If an argument is wrong. The message has layer, operation, operand and what is allowed.
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
        """Add a description of an operation that could not be recorded."""
        self._require_open()
        if not isinstance(what, str):
            raise TypeError(f"what could not be recorded must be a string, not {what!r}")
        self._uncaptured.append(what)

    def add_flow(self, flow: Flow) -> None:
        """Set the step's data flow, after all of its records.

        Raises
        ------
        TraceError
            If the flow has unknown records, or is inconsistent.
        """
        self._require_open()
        document = flow.to_json()
        Flow.from_json(document, len(self._records), "flow")  # This checks the flow.
        self._flow = document

    def close(self) -> dict[str, Any]:
        """End the step; return its entry for the index, without the keys `index` and `epoch`."""
        self._closed = True
        document = {"uncaptured": self._uncaptured, "records": self._records}
        return document if self._flow is None else {**document, "flow": self._flow}

    def discard(self) -> None:
        """End the step, and remove the arrays that it has added."""
        self._closed = True
        for name in self._new:
            shutil.rmtree(self._arrays / name, ignore_errors=True)
            self._stored.discard(name)

    def _require_open(self) -> None:
        if self._closed:
            raise RuntimeError("the step has ended: record its operations inside its `with` block")

    def _is_stored(self, operand: Operand) -> bool:
        names = {mask_name(operand)} if operand.values is None else {mask_name(operand), values_name(operand)}
        return names <= self._stored

    def _store(self, name: str, array: NDArray) -> None:
        if name not in self._stored:
            self._new.append(name)
            store(self._arrays / name, array)
            self._stored.add(name)
