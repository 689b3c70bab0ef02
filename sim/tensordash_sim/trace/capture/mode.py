"""Intercepts the ATen operations of a training step, and records the products among them."""

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
    """Intercepts every operation of this thread, and of the backward passes that it starts.

    Of a product it decides what it is a part of:

    - the forward pass: outside of a backward pass, with gradients enabled, or in the forward pass of a function of the
      user's that was called so. Recorded.
    - the backward pass. Recorded, if its role is known.
    - a forward pass that is computed anew in the backward pass (checkpointing). Not recorded a second time.
    - none of training: under `torch.no_grad`. Noted.

    Parameters
    ----------
    names : Names
        Of the layers.
    failed : callable
        Called with what went wrong while something was recorded.

    Attributes
    ----------
    watcher : ThreadWatcher
        Notes what other threads multiply during a step that is recorded, while someone watches with it.
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
        self._lock = threading.RLock()  # every device has a thread of its own in the backward pass
        self._schemas: dict[Any, str] = {}
        self._writes: dict[Any, list[tuple[int, str]]] = {}
        self._kinds: dict[Any, tuple[str, Callable[[Any, Call], None] | None] | None] = {}

    def begin(self, sink: Sink) -> None:
        """Record into a sink, from here to `end`."""
        self.roles = Roles()
        self.flow = FlowRecorder()
        self.names.begin()
        functions.watch()
        self.sink = sink

    def end(self) -> None:
        """Record no more, and let go of all that was kept of the step."""
        if self.sink is not None:
            functions.unwatch()
            self.names.end()
            self.roles = Roles()
            self.flow = FlowRecorder()
            self.sink = None

    def updated(self, optimizer: torch.optim.Optimizer) -> None:
        """Take note of what an optimizer has done."""
        self._follow(self.flow.update, optimizer)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation, and look at it."""
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
            self._failed(error)  # which raises
        except Exception as error:  # training goes on, whatever cannot be recorded
            self.note(f"{name} ({type(error).__name__}: {error})")

    def _record(self, name: str, handler: Callable[[Any, Call], None] | None, call: Call) -> None:
        if call.phase == "none":
            self.note(f"{name} under torch.no_grad")
        elif any(tensor.numel() == 0 for tensor in call.tensors):
            pass  # nothing is multiplied
        elif handler is None or (why := call.unfit) is not None:
            self.uncaptured(call, "" if handler is None else f" ({why})")
        else:
            handler(self, call)

    def note(self, what: str) -> None:
        """Name something that is not captured."""
        assert self.sink is not None
        self.sink.note(what)

    def _elsewhere(self, call: Call) -> None:
        """Name a product of a thread in which this mode is not active."""
        with self._lock:
            if self.sink is not None:
                self.sink.note(f"{call.name}{self._place} in another thread")

    @property
    def _place(self) -> str:
        return f" of layer {self.names.place}" if self.names.place else ""

    def uncaptured(self, call: Call, why: str = "") -> None:
        """Name an operation that is not captured, with its layer or its node of the backward pass."""
        if call.phase == "repeated":
            return  # it was named when it came first
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
    """Return which arguments of an operation it writes to: their places and names."""
    arguments = getattr(getattr(func, "_schema", None), "arguments", ())
    written = [(place, each.name, each.alias_info) for place, each in enumerate(arguments)]
    return [(place, name) for place, name, alias in written if alias is not None and alias.is_write]
