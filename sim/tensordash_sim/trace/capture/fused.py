"""Operands inside fused operations, recomputed from the arguments: attention, and LSTM layers of oneDNN."""

from typing import Any, NamedTuple

import torch

__all__ = ["LSTM", "Attention", "attention", "attention_gradients", "lstm"]


class Attention(NamedTuple):
    """Operands of the two products of attention, each with batch and heads in one dimension.

    In ``S = Q K'``, A is `q`, W is `k` and G is `ds`. In ``O = P V``, A is `p`, W is `vt` and G is `do`. If K and V
    have fewer heads than Q, the queries that share a head are samples of one product.
    """

    q: torch.Tensor
    k: torch.Tensor
    p: torch.Tensor
    vt: torch.Tensor
    scale: float


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, mask: torch.Tensor | None, scale: float | None
) -> Attention:
    """Return the operands of scaled dot-product attention. `q`, `k`, `v` are (batch, heads, tokens, features)."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    compute_type = torch.promote_types(q.dtype, torch.float32)  # The fused operations compute in this type.
    grouped = q.unflatten(1, (k.shape[1], -1))
    scores = torch.matmul(grouped.to(compute_type), k[:, :, None].to(compute_type).mT) * scale
    if causal:
        allowed = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
        scores.masked_fill_(~allowed, -torch.inf)
    if mask is not None:
        mask = mask.expand(*q.shape[:3], k.shape[2]).unflatten(1, (k.shape[1], -1))
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    p = torch.softmax(scores, -1).nan_to_num(0.0)  # A completely masked row is NaN, which becomes zero.
    return Attention(
        q=_by_key_head(grouped),
        k=k.flatten(0, 1),
        p=_by_key_head(p).to(q.dtype),
        vt=v.flatten(0, 1).mT,
        scale=scale,
    )


def attention_gradients(forward: Attention, grad: torch.Tensor, out: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the gradients of the loss by the results of the two products: S before scaling, and O.

    Parameters
    ----------
    forward : Attention
        Operands of the forward pass.
    grad, out : torch.Tensor, (batch, heads, tokens, features)
        Gradient of the operation's result, and the result.
    """
    batch, heads = grad.shape[0], forward.k.shape[0] // grad.shape[0]
    do, o = (_by_key_head(tensor.reshape(batch, heads, -1, *tensor.shape[2:])) for tensor in (grad, out))
    compute_type = torch.promote_types(do.dtype, torch.float32)
    dp = torch.bmm(do.to(compute_type), forward.vt.to(compute_type))
    row_sums = (do.to(compute_type) * o.to(compute_type)).sum(-1, keepdim=True)
    ds = forward.p.to(compute_type) * (dp - row_sums) * forward.scale
    return ds.to(forward.q.dtype), do


def _by_key_head(tensor: torch.Tensor) -> torch.Tensor:
    """Reshape (batch, key heads, query heads per key head, tokens, ...) for one product per batch item and key head.

    The result is (batch * key heads, query heads per key head * tokens, ...).
    """
    return tensor.flatten(2, 3).flatten(0, 1)


class LSTM(NamedTuple):
    """Operands of one layer and direction of an LSTM that are not arguments of the operation.

    Attributes
    ----------
    h : torch.Tensor, (steps, batch, hidden)
        Hidden state before each time step, indexed by input time.
    dz : torch.Tensor, (steps, batch, 4 * hidden)
        Gradient of the gates' pre-activations; empty if there are no gradients.
    order : range
        Input times in execution order.
    """

    h: torch.Tensor
    dz: torch.Tensor
    order: range


def lstm(args: dict[str, Any], output: torch.Tensor, gradients: tuple[torch.Tensor | None, ...] | None) -> LSTM:
    """Return the operands of ``aten::mkldnn_rnn_layer``.

    Parameters
    ----------
    args : dict
        `input`, `w_ih`, `w_hh`, `bias`, `hx`, `cx` and `reverse`.
    output : torch.Tensor, (steps, batch, hidden)
        The operation's first result.
    gradients : tuple of three torch.Tensor or None, optional
        Gradients of the three results. If they are passed, the function computes `dz`.
    """
    steps = output.shape[0]
    order = range(steps - 1, -1, -1) if args["reverse"] else range(steps)
    initial_h = args["hx"].reshape(1, *output.shape[1:]).to(output.dtype)
    h = torch.cat([output[1:], initial_h] if args["reverse"] else [initial_h, output[:-1]])
    if gradients is None:
        return LSTM(h, h.new_empty(0), order)
    w_hh = args["w_hh"].float()
    z = args["input"].float() @ args["w_ih"].float().mT + h.float() @ w_hh.mT + args["bias"].float()
    i, f, g, o = z.chunk(4, -1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    c_before, c_after, c = torch.empty_like(i), torch.empty_like(i), args["cx"].reshape(i.shape[1:]).float()
    for t in order:
        c_before[t] = c
        c = c_after[t] = f[t] * c + i[t] * g[t]
    grad_output, grad_h, grad_c = gradients
    dz = torch.empty_like(z)
    dh = torch.zeros_like(c) if grad_h is None else grad_h.reshape(c.shape).float()
    dc = torch.zeros_like(c) if grad_c is None else grad_c.reshape(c.shape).float()
    for t in reversed(order):
        if grad_output is not None:
            dh = dh + grad_output[t]
        tanh = c_after[t].tanh()
        dc = dc + dh * o[t] * (1 - tanh * tanh)
        gates = (
            dc * g[t] * i[t] * (1 - i[t]),
            dc * c_before[t] * f[t] * (1 - f[t]),
            dc * i[t] * (1 - g[t] * g[t]),
            dh * tanh * o[t] * (1 - o[t]),
        )
        dz[t] = torch.cat(gates, -1)
        dh, dc = dz[t] @ w_hh, dc * f[t]
    return LSTM(h, dz.to(output.dtype), order)
