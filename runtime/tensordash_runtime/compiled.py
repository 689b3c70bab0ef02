"""``torch.compile(model, backend="tensordash")``: the graphs of aot_autograd, run under `offload`. Needs torch."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.registry import register_backend
from torch._functorch.aot_autograd import make_boxed_func

from .device import Device
from .dispatch import offload
from .errors import DeviceError
from .library import default_device
from .run import Run

__all__ = ["tensordash"]


@register_backend
def tensordash(
    graph: torch.fx.GraphModule, inputs: list[torch.Tensor], *, options: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """A backend of ``torch.compile``, registered when this module is imported.

    Parameters
    ----------
    graph, inputs
        As Dynamo gives them.
    options : mapping, optional
        Of ``torch.compile``: "device", a `Device`, by default the one of `set_default_device`; "run", a `Run` of it
        that gets all contractions; "strict", as of `offload`.

    Raises
    ------
    DeviceError
        If there is no device, or an option is not one of these.
    """
    given = dict(options or {})
    device: Device = given.pop("device", None) or default_device()
    run: Run | None = given.pop("run", None)
    strict = bool(given.pop("strict", False))
    if given:
        raise DeviceError(f"options must be device, run and strict, not {', '.join(given)}")

    def compiler(module: torch.fx.GraphModule, _: Any) -> Any:
        def call(*arguments: Any) -> Any:
            with offload(device, run=run, strict=strict):
                return module(*arguments)

        return make_boxed_func(call)

    return aot_autograd(fw_compiler=compiler, bw_compiler=compiler)(graph, inputs)
