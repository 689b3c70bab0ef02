"""``torch.compile(model, backend="tensordash")``: the graphs of aot_autograd, run under `offload`. Needs torch."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.registry import register_backend
from torch._functorch.aot_autograd import default_partition, make_boxed_func

from tensordash.configuration.core_config import CoreConfig

from .device import Device
from .dispatch import offload_graph
from .errors import DeviceError
from .fusing import fuse
from .library import default_device
from .run import Run

__all__ = ["tensordash"]


@register_backend
def tensordash(
    graph: torch.fx.GraphModule, inputs: list[torch.Tensor], *, options: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """Compile a graph for ``torch.compile(backend="tensordash")``. Importing this module registers the backend.

    Parameters
    ----------
    graph, inputs
        Arguments from Dynamo.
    options : mapping, optional
        Options of ``torch.compile``. "device" is a `Device`, by default the device of `set_default_device`. "run" is
        the `Run` that records all contractions. "strict", "flush_limit" and "count" are as in `offload`. "fuse" lets
        the core's output unit compute biases, ReLU and its mask where possible (default: true).

    Raises
    ------
    DeviceError
        If there is no device, or an option is not one of these.
    """
    settings = dict(options or {})
    device: Device = settings.pop("device", None) or default_device()
    run: Run | None = settings.pop("run", None)
    strict = bool(settings.pop("strict", False))
    flush_limit = float(settings.pop("flush_limit", 0.0))
    count = bool(settings.pop("count", True))
    is_fusing = bool(settings.pop("fuse", True))
    if settings:
        raise DeviceError(
            f"options must be device, run, strict, flush_limit, count and fuse, not {', '.join(settings)}"
        )
    config = device.config

    def fused(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
        if is_fusing and isinstance(config, CoreConfig):
            fuse(module, config)
        return module

    def compiler(module: torch.fx.GraphModule, _: Any) -> Any:
        def call(*arguments: Any) -> Any:
            with offload_graph(device, run, strict=strict, flush_limit=flush_limit, count=count):
                return module(*arguments)

        return make_boxed_func(call)

    def forward_only(module: torch.fx.GraphModule, inputs: Any) -> Any:
        return compiler(fused(module), inputs)

    def partition(module: torch.fx.GraphModule, *inputs: Any, **settings: Any) -> Any:
        # The joint graph still has the ReLU by which `fuse` recognizes a mask.
        return default_partition(fused(module), *inputs, **settings)

    compilers = {"fw_compiler": compiler, "bw_compiler": compiler, "inference_compiler": forward_only}
    return aot_autograd(**compilers, partition_fn=partition)(graph, inputs)
