"""Compile training steps of PyTorch models to program folders. Needs torch."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from tensordash import TileConfig
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.memory_map import PROGRAM_BASE
from tensordash.configuration.preset import load_any_preset
from tensordash_sim.jit import get_num_threads, set_num_threads

from ..errors import ProgramFolderError
from ..tasks import load_task
from .building import require_floating_point
from .folder import ProgramFolder, build_folder
from .joint_graph import capture_step
from .optimizers import add_updates, loss_scale_of, require_new
from .planning import plan_step

__all__ = ["compile_step", "compile_task"]

DEFAULT_LOSS_SCALE = 2.0**10
"""Default loss scale, which keeps small gradients in the range of fp16."""


@contextmanager
def _avoid_overhead() -> Iterator[None]:
    """Pause the garbage collector, and run compiled loops on one thread.

    The collector would traverse the many objects of a schedule again and again. The loops take little time, but their
    idle threads would occupy the processors.
    """
    threads, collects = get_num_threads(), gc.isenabled()
    gc.disable()
    set_num_threads(1)
    try:
        yield
    finally:
        set_num_threads(threads)
        if collects:
            gc.enable()


@_avoid_overhead()
def compile_step(
    model: nn.Module,
    loss: Callable[..., Tensor],
    optimizer: torch.optim.Optimizer,
    example: tuple[Tensor, ...],
    *,
    preset: str | CoreConfig = "core",
    loss_scale: float | torch.amp.GradScaler = DEFAULT_LOSS_SCALE,
    base: int = PROGRAM_BASE,
    memory_bytes: int | None = None,
    name: str = "training step",
) -> ProgramFolder:
    """Compile a training step: forward pass, loss, backward pass and the optimizer's update.

    All products run on the core. The host computes what the core does not (docs/program-folder.md).

    Parameters
    ----------
    model : nn.Module
        The model in training mode, with float32 parameters.
    loss : callable
        The mean cross entropy, as a function of the model's result and the target.
    optimizer : torch.optim.Optimizer
        SGD, with or without momentum and weight decay, or AdamW, with the model's parameters in one group. It must not
        have made a step.
    example : tuple of Tensor
        The model's inputs, then the target, indices of classes, with the shapes of every step. The zeros determine the
        operand on the row side of each product. The values are the folder's initial inputs.
    preset : str or CoreConfig
        The core.
    loss_scale : float or torch.amp.GradScaler
        A power of two that multiplies gradients until the update. A scaler makes it dynamic: a step with a non-finite
        gradient does not change the parameters.
    base, memory_bytes
        See `build_folder`.
    name : str
        The folder's name.

    Raises
    ------
    ProgramFolderError
        If core and host do not support an operation, a target or an optimizer's setting, which the message names.
    NoRoomError, ProgramError
        If memory is too small, or the core cannot compute a product.
    """
    config = load_any_preset(preset) if isinstance(preset, str) else preset
    if isinstance(config, TileConfig):
        raise ProgramFolderError(f"preset must be a core's, not the tile {preset}")
    require_floating_point(config)
    scale = loss_scale_of(loss_scale)
    require_new(optimizer, model)
    graph, gradients = capture_step(model, loss, example, config, scale)
    graph.name = name
    add_updates(graph, gradients, optimizer, scale)
    try:
        plan, builder = plan_step(graph, config)
    except ProgramFolderError:
        raise
    except ValueError as error:
        raise ProgramFolderError(str(error)) from error
    del graph, gradients  # They have the values of all parameters.
    return build_folder(plan, builder.initial, base=base, memory_bytes=memory_bytes, computed=builder.values)


def compile_task(
    name: str,
    config: CoreConfig,
    *,
    seed: int = 0,
    batch: int | None = None,
    optimizer: str = "sgd",
    rate: float | None = None,
    momentum: float = 0.0,
    weight_decay: float | None = None,
    loss_scale: float = DEFAULT_LOSS_SCALE,
    dynamic_loss_scale: bool = False,
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
        See `load_task`.
    optimizer : str
        "sgd" or "adamw".
    rate, weight_decay : float, optional
        Settings of the optimizer. By default, SGD has the task's rate and no decay, and AdamW has PyTorch's defaults.
    momentum : float
        Momentum of SGD.
    loss_scale : float
        Initial loss scale, a power of two.
    dynamic_loss_scale : bool
        Whether the loss scale changes as in a `torch.amp.GradScaler` with PyTorch's defaults.
    base, memory_bytes
        See `build_folder`.

    Raises
    ------
    ProgramFolderError, NoRoomError, ProgramError
        See `compile_step`.
    """
    task = load_task(name, seed, batch)
    settings: dict[str, Any] = {
        key: value for key, value in (("lr", rate), ("weight_decay", weight_decay)) if value is not None
    }
    if optimizer == "sgd":
        torch_optimizer = task.optimizer(task.model.parameters())
        torch_optimizer.param_groups[0].update(momentum=momentum, **settings)
    else:
        torch_optimizer = torch.optim.AdamW(task.model.parameters(), **settings)
    # A gradient scaler on the CPU needs no device, and returns its initial scale before the first step.
    scale = torch.amp.GradScaler("cpu", init_scale=loss_scale) if dynamic_loss_scale else loss_scale
    return compile_step(
        task.model,
        F.cross_entropy,
        torch_optimizer,
        next(task.order(0)),
        preset=config,
        loss_scale=scale,
        base=base,
        memory_bytes=memory_bytes,
        name=name,
    )
