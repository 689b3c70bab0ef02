"""Sort the channels between two layers by activity, so that zeros come in whole steps and in whole passes."""

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

__all__ = ["sort_channels"]

Layer = nn.Linear | nn.Conv1d | nn.Conv2d


@torch.no_grad()
def sort_channels(first: Layer, second: Layer, activations: Tensor, optimizer: Optimizer | None = None) -> Tensor:
    """Sort the channels between two layers, those with the most values other than zero first.

    Cores with `core.drop_steps` drop steps of neighbouring channels that are all zero, and cores with
    `core.skip_masked` skip passes in the same way. Sorted channels make such steps and passes more frequent. Exact and
    binned sums do not depend on the order of products, so the network's results on a core keep their bits. Only an
    element-wise function may lie between both layers: not a norm, which has parameters of these channels.

    Parameters
    ----------
    first : Linear, Conv1d or Conv2d
        The layer whose results are the channels: rows of the weights, and the bias.
    second : Linear, Conv1d or Conv2d
        The layer that reduces over the channels: columns of the weights. Convolutions need `groups` 1.
    activations : Tensor
        Recent inputs of the second layer.
    optimizer : Optimizer, optional
        The optimizer, whose state of these parameters is sorted as well.

    Returns
    -------
    Tensor
        The former place of each channel, int64.

    Raises
    ------
    ValueError
        If the layers do not fit together, a convolution has groups, or the activations have other channels.
    """
    for name, layer in (("first", first), ("second", second)):
        if not isinstance(layer, Layer):
            raise ValueError(f"{name} must be a Linear, Conv1d or Conv2d layer, not {type(layer).__name__}")
        if getattr(layer, "groups", 1) != 1:
            raise ValueError(f"{name} must have groups=1, not {layer.groups}")
    channels = len(first.weight)
    if second.weight.shape[1] != channels:
        raise ValueError(f"second must take the {channels} channels of first, not {second.weight.shape[1]}")
    axis = activations.dim() - (1 if isinstance(second, nn.Linear) else second.weight.dim() - 1)
    if not 0 <= axis < activations.dim() or activations.shape[axis] != channels:
        raise ValueError(f"activations must have {channels} channels, not the shape {tuple(activations.shape)}")
    counts = (activations != 0).movedim(axis, 0).flatten(1).sum(1)
    order = torch.argsort(counts, descending=True, stable=True).to(first.weight.device)
    for parameter, where in ((first.weight, 0), (first.bias, 0), (second.weight, 1)):
        if parameter is None:
            continue
        states = optimizer.state.get(parameter, {}).values() if optimizer is not None else ()
        for tensor in (parameter, parameter.grad, *states):
            if isinstance(tensor, Tensor) and tensor.shape == parameter.shape:
                tensor.copy_(tensor.index_select(where, order))
    return order
