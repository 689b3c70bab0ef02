"""Run the products of a block of PyTorch code on a device, and list those that cannot run there."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from tensordash_sim.trace.capture import functions, operators, phases, threads
from tensordash_sim.trace.capture.call import Call
from tensordash_sim.trace.capture.flow import tensors_in
from tensordash_sim.trace.capture.names import Names
from tensordash_sim.trace.capture.roles import Roles
from tensordash_sim.trace.capture.steps import Steps

from .device import Device
from .errors import NoRoomError, OffloadError
from .jobs import DeviceResult
from .macs import count_macs
from .products import HANDLERS, Product, UnfitError
from .records import Contracted, Missed
from .rounding_summary import require_rounding
from .run import Run

__all__ = ["Watcher", "offload"]

Watcher = Callable[[Product, DeviceResult], object]


@contextmanager
def offload(
    device: Device,
    *,
    model: torch.nn.Module | None = None,
    strict: bool = False,
    flush_limit: float = 0.0,
    watcher: Watcher | None = None,
    run: Run | None = None,
    count: bool = True,
) -> Iterator[Run]:
    """Run the products of a `with` block on a device, with the model and the training loop unchanged.

    Convolutions, matrix products and their gradients run on the device. Attention and recurrent layers run there,
    too, as the products that they consist of. PyTorch computes biases and all other operations. The run lists the
    products that do not run on the device, including products of other threads without an `offload` block.

    Parameters
    ----------
    device : Device
        A device of this thread.
    model : torch.nn.Module, optional
        The model whose modules' paths name the layers. By default names begin with the class of the outermost module.
    strict : bool
        Whether to raise an error if a product does not run on the device. The thread of the product raises the error;
        if that is another thread, the end of the block raises it, too. It is also an error if rounding to the device's
        format loses values of a float32 operand.
    flush_limit : float
        With `strict`: maximum share of an operand's non-zero values that rounding may make zero, 0 to 1.
    watcher : callable, optional
        Called with each product and the device's result.
    run : Run, optional
        A run of this device to continue; by default a new one.
    count : bool
        Whether to count cycles and speedups. If false, steps take less time. Results have the same bits.

    Yields
    ------
    Run
        Every contraction, and every product that did not run on the device.

    Raises
    ------
    DeviceError
        If the device is closed, or belongs to another thread.
    OffloadError
        With `strict`, if a product does not run on the device. The subclass `RoundingError`, if rounding loses values.
    ValueError
        If `flush_limit` is not from 0 to 1.

    Examples
    --------
    >>> model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    >>> with Device("core") as device, offload(device, model=model) as run:
    ...     model(torch.ones(3, 8)).sum().backward()
    >>> [(each.layer, each.operation) for each in run.contractions]
    [('0', 'AxW'), ('2', 'AxW'), ('2', 'WxG'), ('2', 'AxG'), ('0', 'AxG')]
    """
    if not 0 <= flush_limit <= 1:
        raise ValueError(f"flush_limit must be from 0 to 1, not {flush_limit!r}")
    limit = flush_limit if strict else None
    with _offload(device, model, limit, watcher, run, lists_threads=True, count=count) as run:
        yield run


@contextmanager
def offload_graph(device: Device, run: Run | None, *, strict: bool, flush_limit: float, count: bool) -> Iterator[Run]:
    """Run a compiled graph as `offload` does, but ignore other threads, which do not run the graph."""
    limit = flush_limit if strict else None
    with _offload(device, None, limit, None, run, lists_threads=False, count=count) as run:
        yield run


@contextmanager
def _offload(
    device: Device,
    model: torch.nn.Module | None,
    flush_limit: float | None,
    watcher: Watcher | None,
    run: Run | None,
    *,
    lists_threads: bool,
    count: bool,
) -> Iterator[Run]:
    device.require_usable()
    run = Run(device) if run is None else run
    mode = _OffloadMode(device, run, _Names(model), flush_limit, watcher, count=count)
    steps = Steps(mode.end_step)
    with ExitStack() as stack:
        # Dynamo does not compile under a dispatch mode, and without this would not retry functions after the block.
        stack.enter_context(torch.compiler.set_stance("force_eager"))
        stack.enter_context(sdpa_kernel(SDPBackend.MATH))  # This splits attention into its two products.
        stack.callback(torch._C._set_mkldnn_enabled, torch._C._get_mkldnn_enabled())
        torch._C._set_mkldnn_enabled(False)  # This splits recurrent layers into products.
        stack.callback(torch.backends.mha.set_fastpath_enabled, torch.backends.mha.get_fastpath_enabled())
        torch.backends.mha.set_fastpath_enabled(False)
        functions.watch()
        stack.callback(functions.unwatch)
        steps.begin()
        stack.callback(steps.end)
        mode.names.begin()
        stack.callback(mode.names.end)
        if lists_threads:
            thread_watcher = threads.ThreadWatcher(HANDLERS, mode.list_other_thread)
            threads.watch(thread_watcher)
            stack.callback(threads.unwatch, thread_watcher)
        stack.enter_context(mode)
        yield run
    if flush_limit is not None and mode.missed_by_threads:
        raise OffloadError(str(mode.missed_by_threads[0]))


class _Names(Names):
    """Names of layers; products outside of all modules are named by their shapes."""

    def layer(self, kind: str, operand: torch.Tensor | None = None) -> str:
        if self.place or operand is None or self.parameter(operand) is not None:
            return super().layer(kind, operand)
        return f"{kind} {'x'.join(map(str, operand.shape))}"


class _OffloadMode(TorchDispatchMode):
    """Dispatch mode that receives every operation of this thread and of its backward passes."""

    def __init__(
        self,
        device: Device,
        run: Run,
        names: Names,
        flush_limit: float | None,
        watcher: Watcher | None,
        *,
        count: bool,
    ) -> None:
        super().__init__()
        self.names, self.roles = names, Roles()
        self.missed_by_threads: list[Missed] = []
        self._device, self._run, self._watcher, self._count = device, run, watcher, count
        self._flush_limit = flush_limit  # None: not strict
        self._process, self._thread = os.getpid(), threading.get_ident()
        self._lock = threading.Lock()
        self._listed = 0  # number of operations of this thread in the run, contracted or missed
        self._kinds: dict[Any, str] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation: products on the device, others in PyTorch."""
        keywords = kwargs or {}
        if func not in self._kinds:
            self._kinds[func] = operators.name_of(func, HANDLERS)
        name = self._kinds[func]
        if not name or os.getpid() != self._process or any(issubclass(each, FakeTensor) for each in types):
            return func(*args, **keywords)
        if threading.get_ident() != self._thread:  # Autograd or a fork of TorchScript passed this mode to the thread.
            with threads.excluded():
                result = func(*args, **keywords)
                if name not in operators.COPIES:
                    self.list_other_thread(Call(func, args, keywords, result, name=name))
            return result
        if name in operators.COPIES:
            result = func(*args, **keywords)
            if isinstance(args[0], torch.Tensor) and args[0].layout is torch.strided:
                self.names.alias(args[0], result)
            return result
        if name not in HANDLERS and func._can_decompose():  # under torch.inference_mode
            with self:
                result = func.decompose(*args, **keywords)
            if result is not NotImplemented:
                return result
        return self._multiply(Call(func, args, keywords, None, name=name))

    def _multiply(self, call: Call) -> Any:
        number, enabled = torch.autograd._get_sequence_nr() - 1, torch.is_grad_enabled()
        if any(tensor.numel() == 0 for tensor in call.tensors):
            return call.func(*call.args, **call.kwargs)
        with torch.no_grad():
            phases.place(call, self.roles, number, enabled=enabled)
            result, reason = None, ""
            try:
                if call.name not in HANDLERS:
                    raise UnfitError("no program for this operation")
                if (unfit := call.unfit) is not None:
                    raise UnfitError(f"tensors are {unfit}")
                result = HANDLERS[call.name](self, call)
            except UnfitError as error:
                reason = str(error)
        if reason:
            return self._run_in_pytorch(call, reason)
        if result is None:
            return call.func(*call.args, **call.kwargs)
        target = call.kwargs.get("out", call.args[0] if call.func._schema.name.endswith("_") else None)
        return result if target is None else target.copy_(result)

    def _run_in_pytorch(self, call: Call, reason: str) -> Any:
        """Run an operation in PyTorch, and list it, unless the products that it consists of are listed."""
        listed_before = self._listed
        if call.name in HANDLERS:
            call.result = call.func(*call.args, **call.kwargs)
        else:
            with self:
                call.result = call.func.redispatch(_keys_below(call), *call.args, **call.kwargs)
        if listed_before == self._listed:
            self._miss(self.names.place, call.name, reason, count_macs(call))
        return call.result

    def contract(self, product: Product, *, fp32: bool) -> torch.Tensor | None:
        """Run a product on the device. If it does not run, list it and return None."""
        try:
            done = product.run_on(self._device, fp32=fp32, count=self._count)
        except (TypeError, ValueError, NoRoomError) as error:
            self._miss(product.layer, product.label, str(error), product.geometry.macs)
            return None
        if self._watcher is not None:
            self._watcher(product, done)
        self._listed += 1
        self._run.contractions.append(
            Contracted(step=self._run.steps, layer=product.layer, operation=product.label, executed=done.executed)
        )
        if self._flush_limit is not None:
            require_rounding(product.layer, product.label, done.executed, self._flush_limit)
        result: torch.Tensor = done.result
        return result

    def end_step(self, optimizer: Any) -> None:
        """Begin a new step, and forget the tensors of the last step."""
        self._run.steps += 1
        self.roles = Roles()
        self.names.end()
        self.names.begin()

    def list_other_thread(self, call: Call) -> None:
        """List an operation that another thread has run."""
        if any(tensor.is_meta for tensor in call.tensors) or any(tensor.numel() == 0 for tensor in call.tensors):
            return
        with self._lock:
            self._miss(
                self.names.place, call.name, "a thread other than the device's", count_macs(call), on_this_thread=False
            )

    def _miss(self, layer: str, operation: str, reason: str, macs: int | None, *, on_this_thread: bool = True) -> None:
        missed = Missed(step=self._run.steps, layer=layer, operation=operation, reason=reason, macs=macs)
        self._run.missed.append(missed)
        if on_this_thread:
            self._listed += 1
        else:
            self.missed_by_threads.append(missed)
        if self._flush_limit is not None:
            raise OffloadError(str(missed))


def _keys_below(call: Call) -> torch._C.DispatchKeySet:
    """Return the keys on which an operation dispatches below dispatch modes."""
    keys = torch._C.DispatchKeySet.from_raw_repr(0)
    for tensor in tensors_in((*call.args, *call.kwargs.values())):
        keys = keys | torch._C._dispatch_keys(tensor)
    return keys & torch._C._dispatch_keyset_full_after(torch._C.DispatchKey.Python)
