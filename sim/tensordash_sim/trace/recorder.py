"""Recorder of traces from PyTorch."""

import threading
import warnings
from collections.abc import Collection, Mapping, Sequence
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tensordash.configuration.parameters import require_int
from tensordash.extras import require

from .format import TraceError
from .step_writer import StepWriter
from .writer import TraceWriter

if TYPE_CHECKING:
    import torch

__all__ = ["Recorder", "record"]


class Recorder:
    """A recording in progress. `record` creates it and documents its parameters.

    Attributes
    ----------
    epoch : int or None
        The current epoch, if the caller sets it.
    recorded : int
        Steps in the trace so far.
    index : int
        Number of the current step.
    finished : bool
        Whether all requested steps are in the trace. Training then continues unrecorded.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        model: "torch.nn.Module | None" = None,
        values: bool = False,
        steps: int | Collection[int] | None = None,
        every: int = 1,
        epochs: Collection[int] | None = None,
        layers: str | Sequence[str] | None = None,
        optimizers: "Collection[torch.optim.Optimizer] | None" = None,
        conditions: Mapping[str, str] | None = None,
        overwrite: bool = False,
    ) -> None:
        require_int("every", every, 1)
        if isinstance(steps, int):
            require_int("steps", steps, 1)
        elif steps is not None and not all(isinstance(step, int) and step >= 0 for step in steps):
            raise ValueError(f"steps must be a number of steps, or their indices from 0 up, not {steps!r}")
        require("recording", "torch", "zarr")
        self._model = model
        self._steps = steps
        self._every = every
        self._epochs = epochs
        self._layers = [layers] if isinstance(layers, str) else layers
        self._optimizers = optimizers
        import torch

        environment = {"torch": torch.__version__} | ({} if model is None else {"model": type(model).__name__})
        self._writer = TraceWriter(
            path, conditions=environment | dict(conditions or {}), values=values, overwrite=overwrite
        )
        self._epoch: int | None = None
        self._stepped = False
        self._step: Any = None
        self._failure: TraceError | None = None
        self.recorded = self.index = 0
        self.finished = False

    def __enter__(self) -> "Recorder":
        from .capture import Capture, threads
        from .capture.names import Names
        from .capture.steps import Steps

        self._capture = Capture(Names(self._model), self._fail)
        self._writer.__enter__()
        self._thread = threading.get_ident()
        self._pushed = False
        self._depth = _depth()
        self._passed_over: set[str] = set()
        self._watch = Steps(self._after_optimizer)
        self._watch.begin()
        self._choose()
        threads.watch(self._capture.watcher)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        from .capture import threads

        threads.unwatch(self._capture.watcher)
        self._watch.end()
        sink = self._capture.sink
        try:
            if kind is None and self._failure is None and not self._stepped and sink is not None and not sink.empty:
                self._end_step()  # Without an optimizer everything is one step.
        finally:
            self._discard(error)
            self._stop(last=True)
            failure = error if error is not None else self._failure
            if failure is None and not self.recorded:
                failure = TraceError("nothing was recorded")  # An old trace stays, a new one is removed.
            self._writer.__exit__(None if failure is None else type(failure), failure, traceback)
        if kind is None and self._failure is not None:
            raise self._failure  # The recorded code has caught it and continued.
        if kind is None and not self.recorded:
            warnings.warn(f"{self.path}: nothing was recorded: {self.shortage}", stacklevel=2)

    @property
    def epoch(self) -> int | None:
        """The current epoch."""
        return self._epoch

    @epoch.setter
    def epoch(self, epoch: int | None) -> None:
        if epoch is not None:
            require_int("epoch", epoch, 0)
        self._epoch = epoch
        sink = self._capture.sink
        if sink is None or sink.empty:
            self._choose()

    def step(self) -> None:
        """End a step. Use it with ``optimizers=()``, where no optimizer ends steps."""
        if not self.finished and self._failure is None:
            self._stepped = True
            self._end_step()
            self.index += 1
            self._choose()

    def _after_optimizer(self, optimizer: Any) -> None:
        if self._capture.sink is not None:
            self._capture.updated(optimizer)
        if self._optimizers is None or any(optimizer is counted for counted in self._optimizers):
            self.step()

    def _choose(self) -> None:
        """Start or stop recording, as the current step requires."""
        if self.finished or self._failure is not None:
            return
        wanted = self.index % self._every == 0 and (self._epochs is None or self._epoch in self._epochs)
        if self._steps is not None and not isinstance(self._steps, int):
            wanted = wanted and self.index in self._steps
        if wanted:
            self._start()
        else:
            self._stop()

    def _start(self) -> None:
        from .capture.sink import Sink

        if self._capture.sink is not None:
            return
        sink = Sink(self._open_step, values=self._writer.values, layers=self._layers)
        if not self._pushed and _depth() <= self._depth and threading.get_ident() == self._thread:
            self._pushed_on = _depth()  # Lower, if an earlier mode has ended.
            self._capture.__enter__()
            self._pushed = True
        if not self._pushed:
            sink.note("all of the step: it began inside of another TorchDispatchMode, or in another thread")
        self._capture.begin(sink)

    def _stop(self, *, last: bool = False) -> None:
        """Stop recording. Leave the dispatch mode if it is the innermost; others may have been entered since."""
        if self._capture.sink is not None:
            self._passed_over |= self._capture.sink.passed_over
        self._capture.end()
        innermost = self._pushed and _depth() == self._pushed_on + 1 and threading.get_ident() == self._thread
        if self._pushed and (innermost or last):
            self._capture.__exit__(None, None, None)
            self._pushed = False

    def _open_step(self) -> StepWriter:
        self._step = self._writer.step(self.index, self._epoch)
        return self._step.__enter__()

    def _end_step(self) -> None:
        sink = self._capture.sink
        if sink is None:
            return
        try:
            sink.close(self._capture.flow.close())
            if self._step is not None:
                step, self._step = self._step, None
                step.__exit__(None, None, None)
                self.recorded += 1
        except Exception as error:
            self._fail(error)
        chosen = self._steps
        if isinstance(chosen, int):
            self.finished = self.recorded >= chosen
        elif chosen is not None:
            self.finished = self.index >= max(chosen, default=0)
        self._stop()

    def _fail(self, error: BaseException) -> None:
        """Fail. Steps that are complete stay."""
        self._discard(error)
        self._capture.end()
        what = f"{type(error).__name__}: {error}" if not isinstance(error, OSError) else str(error)
        steps = f"{self.recorded} complete step{'s' if self.recorded != 1 else ''}"
        self._failure = TraceError(f"{self.path}: recording failed in step {self.index}: {what}; it holds {steps}")
        raise self._failure from error

    def _discard(self, error: BaseException | None) -> None:
        """Remove an incomplete step."""
        if self._step is not None:
            step, self._step = self._step, None
            cause = error if error is not None else TraceError("a step that is not complete")
            try:
                step.__exit__(type(cause), cause, cause.__traceback__)  # It raises `cause`.
            except BaseException as raised:
                if raised is not cause:
                    raise

    @property
    def path(self) -> Path:
        return self._writer.path

    @property
    def shortage(self) -> str:
        """The reason why nothing was recorded, if nothing was."""
        if self._passed_over:
            seen = ", ".join(sorted(self._passed_over))
            return f"layers must match one of {seen}, not only {', '.join(self._layers or ())}"
        return "no requested step has a product"


def _depth() -> int:
    import torch

    return torch._C._len_torch_dispatch_stack()


def record(
    path: str | PathLike[str],
    *,
    model: "torch.nn.Module | None" = None,
    values: bool = False,
    steps: int | Collection[int] | None = None,
    every: int = 1,
    epochs: Collection[int] | None = None,
    layers: str | Sequence[str] | None = None,
    optimizers: "Collection[torch.optim.Optimizer] | None" = None,
    conditions: Mapping[str, str] | None = None,
    overwrite: bool = False,
) -> Recorder:
    """Record a trace of the training in a `with` block. The model needs no changes. Needs PyTorch.

    A step ends when an optimizer has stepped. Without an optimizer, the block is one step. docs/trace.md lists the
    captured operations, and how the recorder finds their roles.

    Parameters
    ----------
    path : path
        The trace's folder, which must be new or empty.
    model : torch.nn.Module, optional
        Model whose modules' paths name the layers. By default names begin with the class of the outermost module.
    values : bool
        Whether to store values besides masks.
    steps : int or collection of int, optional
        Number of steps to record, or the indices of the steps to record, counted from 0. By default all.
    every : int
        Record only steps whose index is a multiple of this.
    epochs : collection of int, optional
        Record only while the recorder's ``epoch`` is one of these.
    layers : str or sequence of str, optional
        Record only layers whose name matches one of these patterns (``*``, ``?``, ``[...]``).
    optimizers : collection of torch.optim.Optimizer, optional
        Optimizers that end a step, by default all. With an empty collection, the recorder's ``step()`` ends it.
    conditions : mapping of str to str, optional
        Notes on the training for readers of the trace, such as data and seed. The recorder adds the version of PyTorch
        and the class of `model`.
    overwrite : bool
        Whether to replace an existing trace at `path`.

    Returns
    -------
    Recorder
        A context manager.

    Raises
    ------
    TraceError
        If PyTorch is not installed, `path` must not be written, or writing fails. The steps recorded before the failure
        can be read.
    TypeError, ValueError
        If an argument is wrong.

    Examples
    --------
    >>> import tempfile
    >>> import torch
    >>> from tensordash_sim.trace import Trace
    >>> model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with record(f"{folder}/run.trace", model=model):
    ...         model(torch.ones(3, 8)).sum().backward()
    ...     [(record.layer, str(record.operation)) for record in Trace.open(f"{folder}/run.trace").records]
    [('0', 'AxW'), ('2', 'AxW'), ('2', 'WxG'), ('2', 'AxG'), ('0', 'AxG')]
    """
    return Recorder(
        path,
        model=model,
        values=values,
        steps=steps,
        every=every,
        epochs=epochs,
        layers=layers,
        optimizers=optimizers,
        conditions=conditions,
        overwrite=overwrite,
    )
