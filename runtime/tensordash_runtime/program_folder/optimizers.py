"""Lower PyTorch's optimizers and gradient scalers to host functions of a step graph. Needs torch."""

import math
from typing import Any

import numpy as np
import torch

from ..errors import ProgramFolderError
from .step_graph import LOSS_SCALE, HostNode, LossScale, StepGraph, Use, Value

__all__ = ["add_updates", "loss_scale_of", "require_new"]

OVERFLOW = "loss_scale.overflow"
GOOD_STEPS = "loss_scale.good_steps"
CORRECTIONS = "optimizer.corrections"


def loss_scale_of(scale: "float | torch.amp.GradScaler") -> LossScale:
    """Return a constant loss scale from a number, or a dynamic one from a gradient scaler.

    Raises
    ------
    ProgramFolderError
        If a factor is not a power of two.
    """
    if isinstance(scale, torch.amp.GradScaler):
        if not scale.is_enabled():
            return LossScale(value=1.0)
        loss_scale = LossScale(
            value=scale.get_scale(),
            growth=scale.get_growth_factor(),
            backoff=scale.get_backoff_factor(),
            interval=scale.get_growth_interval(),
        )
    else:
        loss_scale = LossScale(value=scale)
    for name, number in (
        ("loss_scale", loss_scale.value),
        ("growth_factor", loss_scale.growth),
        ("backoff_factor", loss_scale.backoff),
    ):
        if not number > 0 or math.frexp(number)[0] != 0.5:
            raise ProgramFolderError(f"{name} must be a power of two, not {number}")
    return loss_scale


def require_new(optimizer: torch.optim.Optimizer, model: torch.nn.Module) -> None:
    """Require an optimizer of all trained parameters of a model, and of no others, that has made no step.

    Raises
    ------
    ProgramFolderError
        If a parameter is not the model's or not the optimizer's, or the optimizer has state.
    """
    parameters = dict(model.named_parameters())
    listed = [each for group in optimizer.param_groups for each in group["params"]]
    ids, own = {id(each) for each in listed}, {id(each) for each in parameters.values()}
    for k, each in enumerate(listed):
        if id(each) not in own:
            foreign = f"parameter {k} of shape {tuple(each.shape)}"
            raise ProgramFolderError(f"optimizer must have parameters of the model only, not its {foreign}")
    for name, each in parameters.items():
        if each.requires_grad and id(each) not in ids:
            raise ProgramFolderError(f"optimizer must have the parameter {name}, or its requires_grad must be False")
    for name, each in parameters.items():
        if any(value is not None for value in optimizer.state.get(each, {}).values()):
            raise ProgramFolderError(f"optimizer must be new, but it has state of {name}")


def add_updates(
    graph: StepGraph, gradients: dict[str, str], optimizer: torch.optim.Optimizer, scale: LossScale
) -> None:
    """Add updates of each parameter, of the optimizer's state, and of a dynamic loss scale.

    Parameters
    ----------
    graph : StepGraph
        The step, with the value "loss_scale" if the scale is dynamic.
    gradients : dict of str to str
        The gradient of each parameter, by the parameter's name.
    optimizer : torch.optim.Optimizer
        SGD or AdamW.
    scale : LossScale
        Factor of the gradients.

    Raises
    ------
    ProgramFolderError
        If the host does not support the optimizer or one of its settings.
    """
    update = _UPDATES.get(type(optimizer))
    if update is None:
        names = " or ".join(f"torch.optim.{kind.__name__}" for kind in _UPDATES)
        raise ProgramFolderError(f"optimizer must be {names}, not {type(optimizer).__name__}")
    if len(optimizer.param_groups) != 1:
        raise ProgramFolderError(f"optimizer must have one group of parameters, not {len(optimizer.param_groups)}")
    (group,) = optimizer.param_groups
    shared: dict[str, Use] = {}
    if scale.is_dynamic:
        shared = {"scale": Use(value=LOSS_SCALE, shape=(1,)), "overflow": _add_state(graph, OVERFLOW, np.zeros(1))}
        for number, gradient in enumerate(gradients.values()):
            use = Use(value=gradient, shape=graph.values[gradient].shape)
            _add(graph, "find_overflow", {"gradient": use}, {"overflow": shared["overflow"]}, is_first=int(not number))
    update(graph, gradients, group, 1.0 if scale.is_dynamic else 1 / scale.value, shared)
    if scale.is_dynamic:
        good_steps = _add_state(graph, GOOD_STEPS, np.zeros(1), np.int32)
        updated = {"scale": shared["scale"], "good_steps": good_steps}
        parameters = {"growth": scale.growth, "backoff": scale.backoff, "interval": scale.interval}
        _add(graph, "update_scale", {"overflow": shared["overflow"]}, updated, **parameters)


def _add_sgd(
    graph: StepGraph, gradients: dict[str, str], group: dict[str, Any], gradient_scale: float, shared: dict[str, Use]
) -> None:
    _require_off(group, "dampening", "nesterov", "maximize")
    names = {"rate": "lr", "momentum": "momentum", "weight_decay": "weight_decay"}
    settings = {name: _float(group[theirs]) for name, theirs in names.items()}
    for parameter, gradient in gradients.items():
        read, updated = _uses(graph, parameter, gradient)
        if settings["momentum"]:
            shape = graph.values[parameter].shape
            updated["velocity"] = _add_state(graph, f"{parameter}.velocity", np.zeros(shape))
        _add(graph, "sgd", {**read, **shared}, updated, **settings, gradient_scale=gradient_scale)


def _add_adamw(
    graph: StepGraph, gradients: dict[str, str], group: dict[str, Any], gradient_scale: float, shared: dict[str, Use]
) -> None:
    _require_off(group, "amsgrad", "maximize")
    beta1, beta2 = map(float, group["betas"])
    rests = {"beta1_rest": _float(1 - beta1), "beta2": _float(beta2), "beta2_rest": _float(1 - beta2)}
    corrections = _add_state(graph, CORRECTIONS, np.zeros(2))
    overflow = {role: use for role, use in shared.items() if role == "overflow"}
    _add(graph, "update_corrections", overflow, {"corrections": corrections}, beta1=_float(beta1), **rests)
    settings = {
        "rate": _float(group["lr"]),
        "keep": _float(1 - float(group["lr"]) * group["weight_decay"]),
        **rests,
        "epsilon": _float(group["eps"]),
        "gradient_scale": gradient_scale,
    }
    for parameter, gradient in gradients.items():
        read, updated = _uses(graph, parameter, gradient)
        shape = graph.values[parameter].shape
        for moment in ("first", "second"):
            updated[moment] = _add_state(graph, f"{parameter}.{moment}_moment", np.zeros(shape))
        _add(graph, "adamw", {**read, "corrections": corrections, **shared}, updated, **settings)


_UPDATES = {torch.optim.SGD: _add_sgd, torch.optim.AdamW: _add_adamw}


def _require_off(group: dict[str, Any], *settings: str) -> None:
    for setting in settings:
        if group[setting]:
            raise ProgramFolderError(f"optimizer must have {setting} = 0, not {group[setting]}")


def _float(number: Any) -> float:
    return float(np.float32(float(number)))


def _uses(graph: StepGraph, parameter: str, gradient: str) -> tuple[dict[str, Use], dict[str, Use]]:
    """Return the uses that an update reads, and the uses that it updates."""
    shape = graph.values[parameter].shape
    return {"gradient": Use(value=gradient, shape=shape)}, {"parameter": Use(value=parameter, shape=shape)}


def _add_state(graph: StepGraph, name: str, initial: Any, kind: Any = np.float32) -> Use:
    """Add a value that persists between steps."""
    graph.values[name] = Value(name=name, shape=initial.shape, kind="parameter", initial=initial.astype(kind))
    return Use(value=name, shape=initial.shape)


def _add(graph: StepGraph, function: str, read: dict[str, Use], updated: dict[str, Use], **parameters: Any) -> None:
    """Add a host function that reads values and updates others."""
    results = {role: use.value for role, use in updated.items()}
    graph.nodes.append(
        HostNode(function=function, operands={**read, **updated}, results=results, parameters=parameters)
    )
