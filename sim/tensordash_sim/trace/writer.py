"""Writer of trace folders."""

import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from types import TracebackType

import tensordash
from tensordash.configuration.parameters import require_int
from tensordash_storage.files import annotate_oserror

from .format import ARRAYS, FORMAT, INDEX, VERSION, TraceError, canonical
from .step_writer import StepWriter

__all__ = ["TraceWriter"]


class TraceWriter:
    """Context manager that writes a trace, step by step.

    The writer adds a step to the trace when the step is complete. An interrupted recording can be read up to its last
    complete step. A recording that fails before its first complete step leaves no files.

    Parameters
    ----------
    path : path
        The trace's folder, which must be new or empty.
    conditions : mapping of str to str
        Notes on the training for readers of the trace: model, data, seed, ...
    values : bool
        Whether to store values besides masks.
    overwrite : bool
        Whether to replace an existing trace at `path`. The writer replaces it when the first step is complete or, if no
        step is, when the recording ends.

    Raises
    ------
    TraceError
        On entry, if `path` must not or cannot be written. On exit, if the trace cannot be marked as complete.
    TypeError
        If a condition is not a string.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from tensordash_sim.lowering import MatrixProduct
    >>> from tensordash_sim.trace import Trace
    >>> linear = MatrixProduct(batch=1, samples=1, in_features=2, out_features=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with TraceWriter(f"{folder}/run.trace", conditions={"model": "mlp"}) as writer:
    ...         with writer.step(0, epoch=0) as step:
    ...             w = step.store(np.array([[[1.0, 0.0], [0.0, 2.0]]]))  # stored once, for two records
    ...             step.record("fc", "AxW", linear, {"A": np.array([[[1.5, -0.0]]]), "W": w})
    ...             step.record("fc", "WxG", linear, {"W": w, "G": np.array([[[True, True]]])})
    ...             step.add_uncaptured("aten::_fused_rnn of layer gru")
    ...     trace = Trace.open(f"{folder}/run.trace")
    ...     [{name: operand.zeros for name, operand in record.operands.items()} for record in trace.records]
    [{'A': 0.5, 'W': 0.5}, {'W': 0.5, 'G': 0.0}]
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        conditions: Mapping[str, str] | None = None,
        values: bool = False,
        overwrite: bool = False,
    ) -> None:
        self.path = Path(path)
        self.conditions = dict(conditions or {})
        for key, condition in self.conditions.items():
            if not isinstance(key, str) or not isinstance(condition, str):
                raise TypeError(f"conditions must be strings, not {key!r}: {condition!r}")
        self.values = values
        self.overwrite = overwrite
        self.arrays = self.path / f"arrays-{secrets.token_hex(4)}"
        self._created = {
            "program": "tensordash",
            "version": tensordash.__version__,
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        self._steps: list[bytes] = []  # Steps are encoded once, because each step rewrites the index.
        self._last_index = -1
        self._stored: set[str] = set()
        self._published = 0
        self._digest = hashlib.sha256(b'{"conditions":' + canonical(self.conditions) + b',"steps":[')
        self._replaces = False
        self._is_open = self._in_step = False

    def __enter__(self) -> "TraceWriter":
        self._replaces = _is_to_be_replaced(self.path, self.overwrite)
        existed = self.path.exists()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self.arrays.mkdir()
            if not self._replaces:
                self._publish(complete=False)
        except OSError as error:
            shutil.rmtree(self.arrays, ignore_errors=True)
            if not existed:
                with suppress(OSError):
                    self.path.rmdir()
            raise TraceError(f"{self.path} cannot be written: {error}") from error
        self._is_open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_open = False
        if kind is None:
            try:
                self._publish(complete=True)
            except OSError as failure:
                steps = f"{self._published} complete step{'s' if self._published != 1 else ''}"
                raise TraceError(f"{self.path} cannot be completed: {failure}; it holds {steps}") from failure
        elif not self._steps:
            shutil.rmtree(self.arrays)
            if not self._replaces:
                (self.path / INDEX).unlink()
                self.path.rmdir()

    @contextmanager
    def step(self, index: int, epoch: int | None = None) -> Iterator["StepWriter"]:
        """Record a step. The trace has it after the block, unless the block raises an exception.

        Parameters
        ----------
        index : int
            Number of the step in the training run, above those of earlier steps.
        epoch : int, optional
            Epoch of the step.

        Raises
        ------
        TypeError, ValueError
            If an argument is wrong.
        RuntimeError
            If the writer is not open, or another step has not ended.
        """
        if not self._is_open or self._in_step:
            raise RuntimeError("a step must be inside the `with` block of its writer, and outside other steps' blocks")
        require_int("index", index, self._last_index + 1)
        if epoch is not None:
            require_int("epoch", epoch, 0)
        step = StepWriter(self.arrays, self._stored, self.values)
        step_count, self._in_step = len(self._steps), True
        try:
            yield step
            self._steps.append(canonical({"index": index, "epoch": epoch, **step.close()}))
            self._publish(complete=False)
        except BaseException:
            if self._published <= step_count:  # Otherwise the index already has the step.
                del self._steps[step_count:]
                step.discard()
            raise
        finally:
            if self._published > step_count:
                self._last_index = index
            self._in_step = False

    def _publish(self, *, complete: bool) -> None:
        """Replace the index atomically, then remove the arrays of an earlier recording."""
        digest = self._digest.copy()
        for number, step in enumerate(self._steps[self._published :], start=self._published):
            digest.update(b"," * (number > 0) + step)
        closed = digest.copy()
        closed.update(b"]}")
        index = {
            "format": FORMAT,
            "version": list(VERSION),
            "created": self._created,
            "complete": complete,
            "conditions": self.conditions,
            "arrays": self.arrays.name,
            "digest": closed.hexdigest(),
        }
        temporary = self.arrays / INDEX
        with annotate_oserror(self.path / INDEX), temporary.open("wb") as file:
            file.write(canonical(index).removesuffix(b"}") + b',"steps":[' + b",".join(self._steps) + b"]}\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.path / INDEX)
        self._digest, self._published = digest, len(self._steps)
        for folder in self.path.iterdir():
            if ARRAYS.fullmatch(folder.name) and folder != self.arrays:
                shutil.rmtree(folder, ignore_errors=True)  # If this fails, the next call tries it again.


def _is_to_be_replaced(path: Path, overwrite: bool) -> bool:
    """Return whether `path` is a trace to replace; raise an error if it exists and is neither a trace nor empty."""
    if not path.exists():
        return False
    if not path.is_dir():
        raise TraceError(f"{path}: a trace must be a folder, but this is a file")
    names = {entry.name for entry in path.iterdir()}
    if not names:
        return False
    if not overwrite:
        raise TraceError(f"{path} exists already; to replace it, pass --overwrite, or overwrite=True in Python")
    if not all(ARRAYS.fullmatch(name) for name in names - {INDEX}) or names == {INDEX}:
        raise TraceError(f"{path} is not a trace and is not replaced: remove it, or choose another path")
    return True
