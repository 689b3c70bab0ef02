"""Training steps of PyTorch models as program folders. Needs torch."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from tensordash import TileConfig
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.memory_map import PROGRAM_BASE
from tensordash.configuration.preset import load_any_preset

from ..errors import ProgramFolderError
from ..tasks import load_task
from .folder import ProgramFolder, build_folder
from .joint_graph import capture_step
from .planning import plan_step
from .step_graph import HostNode, StepGraph, Use, Value

__all__ = ["compile_step", "compile_task"]

DEFAULT_LOSS_SCALE = 2.0**10
"""Keeps small gradients in the range of fp16."""


def compile_step(
    model: nn.Module,
    loss: Callable[..., Tensor],
    optimizer: torch.optim.Optimizer,
    example: tuple[Tensor, ...],
    *,
    preset: str | CoreConfig = "core",
    loss_scale: float = DEFAULT_LOSS_SCALE,
    base: int = PROGRAM_BASE,
    memory_bytes: int | None = None,
    name: str = "training step",
) -> ProgramFolder:
    """Compile a training step: forward pass, loss, backward pass and the optimizer's update.

    All products run on the core. The host computes what the core does not (docs/program-folder.md).

    Parameters
    ----------
    model : nn.Module
        The model, with float32 parameters and no buffers.
    loss : callable
        Of the model's result and the target: the mean cross entropy.
    optimizer : torch.optim.Optimizer
        SGD, with or without momentum and weight decay; one group of parameters.
    example : tuple of Tensor
        The model's inputs and the target last, of the shapes that every step has. Its zeros choose the row side of each
        product, and its values are the folder's initial ones.
    preset : str or CoreConfig
        The core.
    loss_scale : float
        A power of two that multiplies gradients until the update.
    base, memory_bytes
        As `build_folder` takes them.
    name : str
        The folder's name.

    Raises
    ------
    ProgramFolderError
        If an operation or an optimizer's setting has no counterpart on core or host; it names the operation.
    NoRoomError, ProgramError
        If memory is too small, or the core cannot compute a product.
    """
    config = load_any_preset(preset) if isinstance(preset, str) else preset
    if isinstance(config, TileConfig):
        raise ProgramFolderError(f"preset must be a core's, not the tile {preset}")
    if not loss_scale > 0 or math.frexp(loss_scale)[0] != 0.5:
        raise ProgramFolderError(f"loss_scale must be a power of two, not {loss_scale}")
    graph, gradients = capture_step(model, loss, example, config, loss_scale)
    graph.name = name
    _add_updates(graph, gradients, _settings(optimizer), loss_scale)
    try:
        plan, builder = plan_step(graph, config)
    except ProgramFolderError:
        raise
    except ValueError as error:
        raise ProgramFolderError(str(error)) from error
    return build_folder(plan, builder.initial, base=base, memory_bytes=memory_bytes)


def compile_task(
    name: str,
    config: CoreConfig,
    *,
    seed: int = 0,
    batch: int | None = None,
    momentum: float = 0.0,
    base: int = PROGRAM_BASE,
    memory_bytes: int | None = None,
) -> ProgramFolder:
    """Compile a training step of a built-in network on its first batch.

    Parameters
    ----------
    name : str
        "mlp" or "digits".
    config : CoreConfig
        The core.
    seed, batch
        As `load_task` takes them.
    momentum : float
        Of SGD.
    base, memory_bytes
        As `build_folder` takes them.

    Raises
    ------
    ProgramFolderError, NoRoomError, ProgramError
        As `compile_step` raises them.
    """
    task = load_task(name, seed, batch)
    optimizer = task.optimizer(task.model.parameters())
    optimizer.param_groups[0]["momentum"] = momentum
    example = next(task.order(0))
    places: dict[str, Any] = {"base": base, "memory_bytes": memory_bytes}
    return compile_step(task.model, F.cross_entropy, optimizer, example, preset=config, name=name, **places)


def _settings(optimizer: torch.optim.Optimizer) -> dict[str, float]:
    """Return an optimizer's settings as parameters of `sgd`."""
    if type(optimizer) is not torch.optim.SGD:
        raise ProgramFolderError(f"optimizer must be torch.optim.SGD, not {type(optimizer).__name__}")
    if len(optimizer.param_groups) != 1:
        raise ProgramFolderError(f"optimizer must have one group of parameters, not {len(optimizer.param_groups)}")
    (group,) = optimizer.param_groups
    for setting in ("dampening", "nesterov", "maximize"):
        if group[setting]:
            raise ProgramFolderError(f"optimizer must have {setting} = 0, not {group[setting]}")
    names = {"rate": "lr", "momentum": "momentum", "weight_decay": "weight_decay"}
    return {name: float(np.float32(group[theirs])) for name, theirs in names.items()}


def _add_updates(graph: StepGraph, gradients: dict[str, str], settings: dict[str, float], loss_scale: float) -> None:
    """Add an update of each parameter, and its velocity if there is momentum."""
    for parameter, gradient in gradients.items():
        shape = graph.values[parameter].shape
        operands = {"parameter": Use(value=parameter, shape=shape), "gradient": Use(value=gradient, shape=shape)}
        results = {"parameter": parameter}
        if settings["momentum"]:
            velocity = f"{parameter}.velocity"
            zeros: Any = np.zeros(shape, np.float32)
            graph.values[velocity] = Value(name=velocity, shape=shape, kind="parameter", initial=zeros)
            operands["velocity"] = Use(value=velocity, shape=shape)
            results["velocity"] = velocity
        parameters = {**settings, "gradient_scale": 1 / loss_scale}
        graph.nodes.append(HostNode(function="sgd", operands=operands, results=results, parameters=parameters))
