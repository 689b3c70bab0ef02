"""Reader of trace folders."""

import json
import reprlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..lowering import Geometry, Operation, geometry_from_json
from .arrays import load_mask, load_values, mask_name, values_name
from .flow import Flow
from .format import ARRAYS, FORMAT, INDEX, VERSION, Operand, TraceError, content_digest, entry

__all__ = ["Record", "Step", "Trace"]


@dataclass(frozen=True, kw_only=True)
class Record:
    """One operation of one layer.

    Parameters
    ----------
    step : int
        Index of its step.
    layer : str
        Name of the layer. A layer that a step uses several times has one record of each operation per use.
    operation : Operation
        AxW, WxG or AxG.
    geometry : Geometry
        Shapes of the layer.
    operands : mapping of str to Operand
        The operation's two operands by name: A, W or G.
    trace, arrays : Path
        Folder of the trace, and the folder of its arrays.
    """

    step: int
    layer: str
    operation: Operation
    geometry: Geometry
    operands: Mapping[str, Operand]
    trace: Path = field(repr=False)
    arrays: Path = field(repr=False)

    @property
    def sparser(self) -> str:
        """Name of the operand with more zeros; a tile skips its zeros. In a tie, the left one."""
        return max((self.operation.left, self.operation.right), key=lambda name: self.operands[name].zeros)

    def mask(self, name: str) -> NDArray[np.bool_]:
        """Load an operand's mask, true where the operand is not zero, and verify its checksum.

        Parameters
        ----------
        name : str
            One of the record's operands: A, W or G.

        Returns
        -------
        array of bool
            In the shape that the geometry gives the operand.

        Raises
        ------
        TraceError
            If the mask is missing or damaged.
        ValueError
            If the operation has no such operand.
        """
        return load_mask(self.arrays, self._operand(name), self._where(name))

    def values(self, name: str) -> NDArray:
        """Load an operand's values, and verify their checksum.

        Parameters
        ----------
        name : str
            One of the record's operands: A, W or G.

        Returns
        -------
        array
            In the shape that the geometry gives the operand, in its type. Types that NumPy lacks are bit patterns, as
            in `DTYPES`.

        Raises
        ------
        TraceError
            If the values are not stored, missing or damaged.
        ValueError
            If the operation has no such operand.
        """
        return load_values(self.arrays, self._operand(name), self._where(name))

    def _operand(self, name: str) -> Operand:
        if name not in self.operands:
            raise ValueError(f"operand of {self.operation} must be one of {', '.join(self.operands)}, not {name!r}")
        return self.operands[name]

    def _where(self, name: str) -> str:
        return f"{_where(self.trace, self.step, self.layer, self.operation)}, operand {name}"


@dataclass(frozen=True, kw_only=True)
class Step:
    """One training step.

    Parameters
    ----------
    index : int
        Number of the step in the training run.
    epoch : int or None
        Epoch of the step.
    records : tuple of Record
        Records in the order of recording.
    uncaptured : tuple of str
        Descriptions of operations that could not be recorded.
    flow : Flow or None
        Data flow of the step. None if it is unknown, as in traces before version 1.1.
    """

    index: int
    epoch: int | None
    records: tuple[Record, ...]
    uncaptured: tuple[str, ...]
    flow: Flow | None = None


@dataclass(frozen=True, kw_only=True)
class Trace:
    """A trace. `open` reads its index; `Record.mask` and `Record.values` read arrays on demand.

    Parameters
    ----------
    path : Path
        Folder of the trace.
    version : tuple of int
        Version of the format: major, minor.
    created : dict of str to str
        Time of the recording, program and its version.
    complete : bool
        Whether the recording ended. If not, it was interrupted after the last step, or is in progress.
    conditions : dict of str to str
        Notes on the training: PyTorch version, model, and what the caller of `record` added.
    steps : tuple of Step
        Steps in ascending order of index.
    digest : str
        SHA-256 of the content: conditions, steps and arrays. Equal contents have equal digests.

    Examples
    --------
    >>> import tempfile
    >>> from tensordash_sim.lowering import MatrixProduct
    >>> from tensordash_sim.trace import TraceWriter
    >>> linear = MatrixProduct(batch=1, samples=2, in_features=3, out_features=4)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with TraceWriter(f"{folder}/run.trace") as writer, writer.step(0) as step:
    ...         step.record("fc", "AxW", linear, {"A": np.eye(2, 3)[np.newaxis], "W": np.ones((1, 4, 3))})
    ...     trace = Trace.open(f"{folder}/run.trace")
    ...     [(record.layer, str(record.operation), record.mask("A").tolist()) for record in trace.records]
    [('fc', 'AxW', [[[True, False, False], [False, True, False]]])]
    """

    path: Path
    version: tuple[int, int]
    created: Mapping[str, str]
    complete: bool
    conditions: Mapping[str, str]
    steps: tuple[Step, ...]
    digest: str

    @property
    def records(self) -> Iterator[Record]:
        """The records of all steps, in order."""
        return (record for step in self.steps for record in step.records)

    def check(self) -> int:
        """Read all arrays of the records, and verify their checksums; return the number of arrays.

        Raises
        ------
        TraceError
            If an array is missing or damaged. The message names the first one.
        """
        sound: set[tuple[str, int, int | str]] = set()
        for record in self.records:
            for name, operand in record.operands.items():
                # Two records of one mask may differ in `nonzeros`, so `nonzeros` is part of the key.
                if (mask := (mask_name(operand), operand.size, operand.nonzeros)) not in sound:
                    record.mask(name)
                    sound.add(mask)
                if operand.values and (values := (values_name(operand), operand.size, operand.mask)) not in sound:
                    record.values(name)
                    sound.add(values)
        return len({name for name, *_ in sound})

    @classmethod
    def open(cls, path: str | PathLike[str]) -> "Trace":
        """Read a trace's index and check it completely, without reading arrays.

        Parameters
        ----------
        path : path
            The trace's folder.

        Raises
        ------
        TraceError
            If `path` is not a trace, has another major version, or its index is wrong. The message has the place and
            what is allowed.
        """
        path = Path(path)
        if not path.is_dir():
            raise TraceError(f"{path}: a trace must be a folder{'' if path.exists() else ', but this does not exist'}")
        try:
            text = (path / INDEX).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise TraceError(f"{path}: not a trace: it has no {INDEX}") from None
        except (OSError, UnicodeDecodeError) as error:
            raise TraceError(f"{path}: cannot read {INDEX}: {error}") from None
        try:
            index = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise TraceError(f"{path}: {INDEX} is not valid JSON: {error}") from None
        return cls._from_index(path, index)

    @classmethod
    def _from_index(cls, path: Path, index: Any) -> "Trace":
        where = f"{path}: {INDEX}"
        if (name := entry(index, "format", str, where)) != FORMAT:
            raise TraceError(f"{where}: format must be {FORMAT}, not {reprlib.repr(name)}")
        version = entry(index, "version", list, where)
        if len(version) != 2 or not all(type(number) is int and number >= 0 for number in version):
            raise TraceError(f"{where}: version must be two integers, major and minor, not {reprlib.repr(version)}")
        if version[0] != VERSION[0]:
            raise TraceError(
                f"{path}: a trace of format version {version[0]}.{version[1]}; this program reads {VERSION[0]}.x"
            )
        arrays = entry(index, "arrays", str, where)
        if not ARRAYS.fullmatch(arrays):
            raise TraceError(f"{where}: arrays must be arrays- and 8 hexadecimal digits, not {reprlib.repr(arrays)}")
        conditions, steps = entry(index, "conditions", dict, where), entry(index, "steps", list, where)
        trace = cls(
            path=path,
            version=(version[0], version[1]),
            created=_strings(entry(index, "created", dict, where), f"{where}: created"),
            complete=entry(index, "complete", bool, where),
            conditions=_strings(conditions, f"{where}: conditions"),
            steps=tuple(_step(path, arrays, step, f"{where}: steps[{i}]") for i, step in enumerate(steps)),
            digest=content_digest(conditions, steps),
        )
        if any(former.index >= step.index for former, step in zip(trace.steps, trace.steps[1:], strict=False)):
            indices = reprlib.repr([step.index for step in trace.steps])
            raise TraceError(f"{where}: steps must be in ascending order of index, not {indices}")
        if entry(index, "digest", str, where) != trace.digest:
            raise TraceError(f"{where}: damaged or edited: digest must be {trace.digest}, not {index['digest']!r}")
        return trace


def _where(trace: Path, step: int, layer: str, operation: str) -> str:
    return f"{trace}: step {step}, layer {layer}, {operation}"


def _strings(document: dict[str, Any], where: str) -> dict[str, str]:
    return {key: entry(document, key, str, where) for key in document}


def _step(path: Path, arrays: str, document: Any, where: str) -> Step:
    index = entry(document, "index", int, where)
    if index < 0:
        raise TraceError(f"{where}: index must be at least 0, not {index}")
    epoch = None if document.get("epoch") is None else entry(document, "epoch", int, where)
    uncaptured = entry(document, "uncaptured", list, where)
    if not all(isinstance(what, str) for what in uncaptured):
        raise TraceError(f"{where}: uncaptured must be a list of strings, not {reprlib.repr(uncaptured)}")
    found = entry(document, "records", list, where)
    records = enumerate(found)
    flow = None if "flow" not in document else Flow.from_json(document["flow"], len(found), f"{where}: flow")
    return Step(
        index=index,
        epoch=epoch,
        records=tuple(_record(path, arrays, index, record, f"{where}: records[{i}]") for i, record in records),
        uncaptured=tuple(uncaptured),
        flow=flow,
    )


def _record(path: Path, arrays: str, step: int, document: Any, where: str) -> Record:
    layer = entry(document, "layer", str, where)
    name = entry(document, "operation", str, f"{where} (layer {layer})")
    try:
        operation = Operation(name)
    except ValueError:
        allowed = ", ".join(Operation)
        raise TraceError(
            f"{where} (layer {layer}): operation must be one of {allowed}, not {reprlib.repr(name)}"
        ) from None
    where = _where(path, step, layer, operation)
    try:
        geometry = geometry_from_json(entry(document, "geometry", dict, where))
    except (TypeError, ValueError) as error:
        raise TraceError(f"{where}: geometry: {error}") from None
    found = entry(document, "operands", dict, where)
    operands = {}
    for side in (operation.left, operation.right):
        operands[side] = Operand.from_json(entry(found, side, dict, f"{where}: operands"), f"{where}, operand {side}")
        if (shape := operands[side].shape) != (expected := geometry.shapes[side]):
            raise TraceError(f"{where}, operand {side}: shape must be {expected}, as the geometry has it, not {shape}")
    return Record(
        step=step,
        layer=layer,
        operation=operation,
        geometry=geometry,
        operands=operands,
        trace=path,
        arrays=path / arrays,
    )
