"""Dispatch mode that records the products among the ATen operations of a training step."""

import os
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ...lowering import Operation
from ..flow import PHASES
from ..format import TraceError
from . import functions, operators, phases
from .call import Call
from .flow import FlowRecorder, tensors_in
from .handlers import HANDLERS
from .names import Names
from .roles import Roles
from .sink import Sink
from .threads import ThreadWatcher

__all__ = ["Capture"]


class Capture(TorchDispatchMode):
    """Intercepts every operation of this thread and of the backward passes that it starts.

    It assigns each product to a phase:

    - Forward pass: with gradients enabled, outside a backward pass; or in the forward pass of a user-defined autograd
      function that was called with gradients enabled. Recorded.
    - Backward pass. Recorded if its role is known.
    - Forward pass that the backward pass recomputes (checkpointing). Not recorded a second time.
    - No part of training: under `torch.no_grad`. Noted as not captured.

    Parameters
    ----------
    names : Names
        Names of the layers.
    failed : callable
        Called with the exception if recording fails.

    Attributes
    ----------
    watcher : ThreadWatcher
        Notes products of other threads during a recorded step, while it is passed to `threads.watch`.
    """

    def __init__(self, names: Names, failed: Callable[[BaseException], None]) -> None:
        super().__init__()
        self.names = names
        self.roles = Roles()
        self.sink: Sink | None = None
        self.flow = FlowRecorder()
        self._failed = failed
        self._process = os.getpid()
        self.watcher = ThreadWatcher(HANDLERS, self._elsewhere)
        self._lock = threading.RLock()  # In the backward pass, every device has a thread of its own.
        self._schemas: dict[Any, str] = {}
        self._writes: dict[Any, list[tuple[int, str]]] = {}
        self._kinds: dict[Any, tuple[str, Callable[[Any, Call], None] | None] | None] = {}

    def begin(self, sink: Sink) -> None:
        """Start recording into a sink."""
        self.roles = Roles()
        self.flow = FlowRecorder()
        self.names.begin()
        functions.watch()
        self.sink = sink

    def end(self) -> None:
        """Stop recording, and release the step's state."""
        if self.sink is not None:
            functions.unwatch()
            self.names.end()
            self.roles = Roles()
            self.flow = FlowRecorder()
            self.sink = None

    def updated(self, optimizer: torch.optim.Optimizer) -> None:
        """Add an optimizer's updates to the data flow."""
        self._follow(self.flow.update, optimizer)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation, and record it."""
        result = func(*args, **(kwargs or {}))
        if self.sink is None:
            return result
        if func not in self._kinds:
            name = operators.name_of(func, HANDLERS)
            self._kinds[func] = (name, HANDLERS.get(name)) if name else None
            self._writes[func] = _writes_of(func)
            self._schemas[func] = str(getattr(getattr(func, "_schema", None), "name", func))
        written: list[torch.Tensor] = []
        for place, name in self._writes[func]:
            written += tensors_in([args[place] if place < len(args) else (kwargs or {}).get(name)])
        sink = self.sink
        for tensor in written:
            sink.written(tensor)
        if os.getpid() != self._process:
            return result
        with self._lock:
            phase = self._phase()
            reads = self._follow(self.flow.take, args, kwargs or {}) if phase in PHASES else None
            if (kind := self._kinds[func]) is not None:
                self._look_at(*kind, Call(func, args, kwargs or {}, result))
            recorded = sink.products()
            if reads is not None:
                self._follow(self.flow.add, self._schemas[func], phase, reads, written, args, result, recorded)
        return result

    def _phase(self) -> str:
        """Return the phase that an operation belongs to in the flow."""
        enabled = torch.is_grad_enabled()
        if torch._C._current_graph_task_id() != -1:
            if enabled:
                self.flow.unsupported_reason = (
                    self.flow.unsupported_reason or "a backward pass with gradients of its own, as of checkpoints"
                )
            return "backward"
        return "forward" if enabled or functions.under_way() is not None else "none"

    def _follow(self, note: Callable[..., Any], *args: Any) -> Any:
        """Let the flow record an event; training continues even if the flow becomes unknown."""
        if self.flow.unsupported_reason:
            return None
        try:
            return note(*args)
        except Exception as error:
            self.flow.unsupported_reason = f"{type(error).__name__}: {error}"
            return None

    def _look_at(self, name: str, handler: Callable[[Any, Call], None] | None, call: Call) -> None:
        number = torch.autograd._get_sequence_nr() - 1
        enabled = torch.is_grad_enabled()
        try:
            with torch.no_grad():
                if name in operators.COPIES:
                    if call.unfit is None:
                        self.names.alias(call.args[0], call.result)
                else:
                    call.name = name
                    if noted := phases.place(call, self.roles, number, enabled=enabled):
                        self.note(noted)
                    self._record(name, handler, call)
        except (OSError, TraceError) as error:
            self._failed(error)  # This raises an exception.
        except Exception as error:  # Training continues if an operation cannot be recorded.
            self.note(f"{name} ({type(error).__name__}: {error})")

    def _record(self, name: str, handler: Callable[[Any, Call], None] | None, call: Call) -> None:
        if call.phase == "none":
            self.note(f"{name} under torch.no_grad")
        elif any(tensor.numel() == 0 for tensor in call.tensors):
            pass  # Nothing is multiplied.
        elif handler is None or (why := call.unfit) is not None:
            self.uncaptured(call, "" if handler is None else f" ({why})")
        else:
            handler(self, call)

    def note(self, what: str) -> None:
        """Note something that is not captured."""
        assert self.sink is not None
        self.sink.note(what)

    def _elsewhere(self, call: Call) -> None:
        """Note a product of a thread in which this mode is not active."""
        with self._lock:
            if self.sink is not None:
                self.sink.note(f"{call.name}{self._place} in another thread")

    @property
    def _place(self) -> str:
        return f" of layer {self.names.place}" if self.names.place else ""

    def uncaptured(self, call: Call, why: str = "") -> None:
        """Note an operation that is not captured, with its layer or its node of the backward pass."""
        if call.phase == "repeated":
            return  # The forward pass has noted it.
        entry = next(iter(self.roles.entries(call.number)), None) if call.number is not None else None
        if call.phase == "backward":
            place = f" in {call.node}" + (f" of layer {entry.layer}" if entry is not None else "")
        else:
            place = self._place
        self.note(f"{call.name}{place}{why}")

    def put(self, layer: str, operation: Operation, geometry: Any, operands: dict[str, torch.Tensor]) -> None:
        assert self.sink is not None
        self.sink.put(layer, operation, geometry, operands)

    def wants(self, layer: str) -> bool:
        """Return whether a layer is to be recorded."""
        assert self.sink is not None
        return self.sink.wants(layer)


def _writes_of(func: Any) -> list[tuple[int, str]]:
    """Return the positions and names of the arguments that an operation writes to."""
    arguments = getattr(getattr(func, "_schema", None), "arguments", ())
    written = [(place, each.name, each.alias_info) for place, each in enumerate(arguments)]
    return [(place, name) for place, name, alias in written if alias is not None and alias.is_write]
