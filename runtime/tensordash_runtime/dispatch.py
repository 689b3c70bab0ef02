"""Offloading: what a block of PyTorch multiplies runs on a device, and what does not is listed."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from tensordash_sim.trace.capture import functions, operators, phases
from tensordash_sim.trace.capture.call import Call
from tensordash_sim.trace.capture.names import Names
from tensordash_sim.trace.capture.roles import Roles
from tensordash_sim.trace.capture.steps import Steps

from .device import Device
from .errors import NoRoomError, OffloadError
from .jobs import Done
from .products import HANDLERS, Product, UnfitError
from .records import Contracted, Missed
from .run import Run

__all__ = ["Watcher", "offload"]

Watcher = Callable[[Product, Done], object]


@contextmanager
def offload(
    device: Device,
    *,
    model: torch.nn.Module | None = None,
    strict: bool = False,
    watcher: Watcher | None = None,
    run: Run | None = None,
) -> Iterator[Run]:
    """Run what a `with` block multiplies on a device: any model and training loop, unchanged.

    Convolutions, matrix products and their gradients run there, attention and recurrent layers as the products that
    they consist of; all else, and biases, in PyTorch. What multiplies and does not run on the device is listed.

    Parameters
    ----------
    device : Device
        Of this thread.
    model : torch.nn.Module, optional
        Whose modules' paths name the layers. By default they begin with the class of the outermost module.
    strict : bool
        Whether it is an error if something that multiplies does not run on the device.
    watcher : callable, optional
        Gets each product and what the device made of it.
    run : Run, optional
        One of this device that goes on; by default a new one.

    Yields
    ------
    Run
        Every contraction, and what did not run.

    Raises
    ------
    DeviceError
        If the device is closed, or of another thread.
    OffloadError
        With `strict`.

    Examples
    --------
    >>> model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    >>> with Device("core") as device, offload(device, model=model) as run:
    ...     model(torch.ones(3, 8)).sum().backward()
    >>> [(each.layer, each.operation) for each in run.contractions]
    [('0', 'AxW'), ('2', 'AxW'), ('2', 'WxG'), ('2', 'AxG'), ('0', 'AxG')]
    """
    device.require_usable()
    run = Run(device) if run is None else run
    mode = _Mode(device, run, _Names(model), strict, watcher)
    steps = Steps(mode.end_step)
    with ExitStack() as stack:
        # Dynamo does not compile under a mode, and would never again compile what it meets here.
        stack.enter_context(torch.compiler.set_stance("force_eager"))
        stack.enter_context(sdpa_kernel(SDPBackend.MATH))  # attention as its two products
        stack.callback(torch._C._set_mkldnn_enabled, torch._C._get_mkldnn_enabled())
        torch._C._set_mkldnn_enabled(False)  # recurrent layers, likewise
        stack.callback(torch.backends.mha.set_fastpath_enabled, torch.backends.mha.get_fastpath_enabled())
        torch.backends.mha.set_fastpath_enabled(False)
        functions.watch()
        stack.callback(functions.unwatch)
        steps.begin()
        stack.callback(steps.end)
        mode.names.begin(mode.unseen)
        stack.callback(mode.names.end)
        stack.enter_context(mode)
        yield run


class _Names(Names):
    """Products outside of all modules are named by their shapes."""

    def layer(self, kind: str, operand: torch.Tensor | None = None) -> str:
        if self.place or operand is None or self.parameter(operand) is not None:
            return super().layer(kind, operand)
        return f"{kind} {'x'.join(map(str, operand.shape))}"


class _Mode(TorchDispatchMode):
    """Sees every operation of this thread, and of the backward passes that it starts."""

    def __init__(self, device: Device, run: Run, names: Names, strict: bool, watcher: Watcher | None) -> None:
        super().__init__()
        self.names, self.roles = names, Roles()
        self._device, self._run, self._strict, self._watcher = device, run, strict, watcher
        self._process = os.getpid()
        self._kinds: dict[Any, str] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation, on the device if it multiplies."""
        given = kwargs or {}
        if func not in self._kinds:
            self._kinds[func] = operators.name_of(func, HANDLERS)
        name = self._kinds[func]
        if not name or os.getpid() != self._process or any(issubclass(each, FakeTensor) for each in types):
            return func(*args, **given)
        if name in operators.COPIES:
            result = func(*args, **given)
            if isinstance(args[0], torch.Tensor) and args[0].layout is torch.strided:
                self.names.alias(args[0], result)
            return result
        if name not in HANDLERS and func._can_decompose():  # under torch.inference_mode
            with self:
                made = func.decompose(*args, **given)
            if made is not NotImplemented:
                return made
        return self._multiply(Call(func, args, given, None, name=name))

    def _multiply(self, call: Call) -> Any:
        number, enabled = torch.autograd._get_sequence_nr() - 1, torch.is_grad_enabled()
        if any(tensor.numel() == 0 for tensor in call.tensors):
            return call.func(*call.args, **call.kwargs)
        with torch.no_grad():
            phases.place(call, self.roles, number, enabled=enabled)
            made, missed = None, False
            try:
                if call.name not in HANDLERS:
                    raise UnfitError("no program for it")
                if (why := call.unfit) is not None:
                    raise UnfitError(f"tensors are {why}")
                made = HANDLERS[call.name](self, call)
            except UnfitError as error:
                missed = True
                self._miss(self.names.place, call.name, str(error), None)
        if made is None or missed:
            return call.func(*call.args, **call.kwargs)
        target = call.kwargs.get("out", call.args[0] if call.func._schema.name.endswith("_") else None)
        return made if target is None else target.copy_(made)

    def contract(self, product: Product, *, fp32: bool) -> torch.Tensor | None:
        """Run a product on the device, or list it."""
        try:
            done = product.run_on(self._device, fp32=fp32)
        except (TypeError, ValueError, NoRoomError) as error:
            self._miss(product.layer, product.label, str(error), product.geometry.macs)
            return None
        if self._watcher is not None:
            self._watcher(product, done)
        self._run.contractions.append(
            Contracted(step=self._run.steps, layer=product.layer, operation=product.label, executed=done.executed)
        )
        result: torch.Tensor = done.result
        return result

    def end_step(self, optimizer: Any) -> None:
        """Begin a new step: its products have nothing to do with those of the one before."""
        self._run.steps += 1
        self.roles = Roles()
        self.names.end()
        self.names.begin(self.unseen)

    def unseen(self, path: str) -> None:
        """List a module that runs in another thread, where no mode sees it."""
        self._miss(path, "all operations", "another thread than the device's", None)

    def _miss(self, layer: str, operation: str, reason: str, macs: int | None) -> None:
        missed = Missed(step=self._run.steps, layer=layer, operation=operation, reason=reason, macs=macs)
        self._run.missed.append(missed)
        if self._strict:
            raise OffloadError(str(missed))
