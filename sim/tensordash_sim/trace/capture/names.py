"""Names of layers: paths of the running modules, or of the multiplied parameters."""

import threading
import weakref
from collections import Counter
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from .identity import Storages, has_storage

__all__ = ["Names"]


class Names:
    """Names products by the module and parameter that they belong to.

    The name of a product with a parameter ``weight`` is the module's path, and with another parameter the parameter's
    path. Without a parameter it is the module's path, the kind of product, and a number that restarts in each call of
    the module.

    Parameters
    ----------
    model : torch.nn.Module, optional
        Model whose modules' paths are the names. Paths of other modules, or of all without a model, begin with the
        class of the outermost module that was called: ``Net.conv1``, and ``Net_2.conv1`` in another `Net`.
    """

    def __init__(self, model: torch.nn.Module | None = None) -> None:
        self._paths: dict[int, tuple[weakref.ref[torch.nn.Module], str]] = {}
        self._roots: list[weakref.ref[torch.nn.Module]] = []
        self._used: Counter[str] = Counter()
        self._local = threading.local()
        self._handles: list[Any] = []
        if model is not None:
            self._add_root(model, "")
        self._clear()

    def begin(self) -> None:
        """Start to track the modules that run."""
        self._clear()
        self._paths = {number: known for number, known in self._paths.items() if known[0]() is not None}
        for root in list(self._roots):
            if (module := root()) is not None:
                self._add_parameters(module)
            else:
                self._roots.remove(root)
        self._handles = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        ]

    def end(self) -> None:
        """Stop tracking modules."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._clear()

    def alias(self, source: torch.Tensor, copy: torch.Tensor) -> None:
        """Register a tensor's copy in another type. A copy of a parameter has the parameter's path."""
        if source is not copy and (name := self.parameter(source)) is not None:
            self._parameters[self._storages.number(copy)] = [(int(copy.storage_offset()), copy.numel(), name)]

    def parameter(self, tensor: torch.Tensor) -> str | None:
        """Return the path of the parameter that a tensor is a part of."""
        for offset, size, name in self._parameters.get(self._storages.number(tensor), ()):
            if offset <= tensor.storage_offset() < offset + size:
                return name
        return None

    def layer(self, kind: str, operand: torch.Tensor | None = None) -> str:
        """Return the name of a product.

        Parameters
        ----------
        kind : str
            Kind of product, which names a product without a parameter.
        operand : torch.Tensor, optional
            The operand that may be a parameter.
        """
        stack = self._stack
        if operand is not None and stack and self.parameter(operand) is None:
            self._add_own(stack[-1][0])  # It may be new, or its data replaced.
        if operand is not None and (path := self.parameter(operand)) is not None:
            if stack and (attribute := self._attribute(stack[-1][0], operand)) is not None:
                path = f"{self._path(stack[-1][0])}.{attribute}"  # Parameters may have several paths.
            return path.removesuffix(".weight")
        calls = stack[-1][1] if stack else self._calls
        calls[kind] += 1
        name = f"{kind}{calls[kind] - 1}"
        return f"{self._path(stack[-1][0])}/{name}" if stack else name

    @property
    def place(self) -> str:
        """Path of the module that runs; empty outside of modules."""
        return self._path(self._stack[-1][0]) if self._stack else ""

    @property
    def _stack(self) -> list[tuple[torch.nn.Module, Counter[str]]]:
        if not hasattr(self._local, "stack"):
            self._local.stack = []
        return self._local.stack

    def _clear(self) -> None:
        self._storages = Storages()
        self._parameters: dict[int, list[tuple[int, int, str]]] = {}
        self._calls: Counter[str] = Counter()
        self._local = threading.local()

    def _enter(self, module: torch.nn.Module, inputs: Any) -> None:
        if not self._stack and self._known(module) is None:
            self._add_root(module, self._unused(type(module).__name__))
        self._stack.append((module, Counter()))

    def _leave(self, module: torch.nn.Module, inputs: Any, output: Any) -> None:
        stack = self._stack
        while stack and stack.pop()[0] is not module:  # A module that an exception left may be above it.
            pass

    def _known(self, module: torch.nn.Module) -> str | None:
        reference, path = self._paths.get(id(module), (None, None))
        return path if reference is not None and reference() is module else None

    def _path(self, module: torch.nn.Module) -> str:
        """Return the path of a module that runs; it may have been created within another one."""
        if (path := self._known(module)) is None:
            modules = [entered for entered, _ in self._stack]
            above = modules[: modules.index(module)] if module in modules else []
            parent = f"{self._path(above[-1])}." if above else ""
            path = self._unused(parent + type(module).__name__)
            self._paths[id(module)] = weakref.ref(module), path
        return path

    def _unused(self, name: str) -> str:
        self._used[name] += 1
        return name if self._used[name] == 1 else f"{name}_{self._used[name]}"

    def _add_root(self, module: torch.nn.Module, path: str) -> None:
        self._roots.append(weakref.ref(module))
        for name, part in module.named_modules():
            if self._known(part) is None:
                full = ".".join(filter(None, (path, name))) or type(module).__name__
                self._paths[id(part)] = weakref.ref(part), full
        if path:  # Otherwise `begin` adds them.
            self._add_parameters(module)

    def _add_parameters(self, module: torch.nn.Module) -> None:
        for part in module.modules():
            self._add_own(part)

    def _add_own(self, module: torch.nn.Module) -> None:
        for name, tensor in _owned(module):
            if self.parameter(tensor) is None:
                place = int(tensor.storage_offset()), tensor.numel(), f"{self._path(module)}.{name}"
                self._parameters.setdefault(self._storages.number(tensor), []).append(place)

    def _attribute(self, module: torch.nn.Module, operand: torch.Tensor) -> str | None:
        """Return a module's name for the parameter that a tensor is a part of, or a copy of in another type."""
        path = self.parameter(operand)
        return next((name for name, tensor in _owned(module) if self.parameter(tensor) == path), None)


def _owned(module: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    """Return a module's own parameters, except those without storage."""
    return [
        (name, tensor)
        for name, tensor in module._parameters.items()
        if tensor is not None and has_storage(tensor) and tensor.numel()
    ]
