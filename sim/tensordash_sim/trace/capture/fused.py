"""Operands of fused operations, computed again from what goes into them: attention, and LSTM layers of oneDNN."""

from typing import Any, NamedTuple

import torch

__all__ = ["LSTM", "Attention", "attention", "attention_gradients", "lstm"]


class Attention(NamedTuple):
    """Operands of the two products of attention, each with its batch and heads in one dimension.

    ``S = Q K'`` is a product of A = `q` and W = `k`, its G is `ds`; ``O = P V`` one of A = `p` and W = `vt`, its G is
    `do`. With fewer heads in K and V, the queries that share one are samples of the same product.
    """

    q: torch.Tensor
    k: torch.Tensor
    p: torch.Tensor
    vt: torch.Tensor
    scale: float


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, mask: torch.Tensor | None, scale: float | None
) -> Attention:
    """Operands of scaled dot-product attention, from its arguments, shaped (batch, heads, places, features)."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    wide = torch.promote_types(q.dtype, torch.float32)  # as the fused operations do
    grouped = q.unflatten(1, (k.shape[1], -1))
    scores = torch.matmul(grouped.to(wide), k[:, :, None].to(wide).mT) * scale
    if causal:
        allowed = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
        scores.masked_fill_(~allowed, -torch.inf)
    if mask is not None:
        mask = mask.expand(*q.shape[:3], k.shape[2]).unflatten(1, (k.shape[1], -1))
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    p = torch.softmax(scores, -1).nan_to_num(0.0)  # rows that are masked whole are zero
    return Attention(
        q=_by_key_head(grouped),
        k=k.flatten(0, 1),
        p=_by_key_head(p).to(q.dtype),
        vt=v.flatten(0, 1).mT,
        scale=scale,
    )


def attention_gradients(forward: Attention, grad: torch.Tensor, out: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradients by the results of the two products, S without its scale and O.

    Parameters
    ----------
    forward : Attention
        What was multiplied.
    grad, out : torch.Tensor, (batch, heads, places, features)
        Gradient by the whole operation's result, and the result.
    """
    batch, heads = grad.shape[0], forward.k.shape[0] // grad.shape[0]
    do, o = (_by_key_head(tensor.reshape(batch, heads, -1, *tensor.shape[2:])) for tensor in (grad, out))
    wide = torch.promote_types(do.dtype, torch.float32)
    dp = torch.bmm(do.to(wide), forward.vt.to(wide))
    ds = forward.p.to(wide) * (dp - (do.to(wide) * o.to(wide)).sum(-1, keepdim=True)) * forward.scale
    return ds.to(forward.q.dtype), do


def _by_key_head(tensor: torch.Tensor) -> torch.Tensor:
    """(batch, key heads, queries' heads of each, places, ...) as (batch * key heads, heads of each * places, ...)."""
    return tensor.flatten(2, 3).flatten(0, 1)


class LSTM(NamedTuple):
    """Operands of one layer and direction of an LSTM, all but `h` and `dz` as they are given.

    Attributes
    ----------
    h : torch.Tensor, (steps, batch, hidden)
        The state that goes into each step, by the times of the input.
    dz : torch.Tensor, (steps, batch, 4 * hidden)
        Gradient by the gates' sums of products; empty if there are no gradients.
    order : range
        The times in the order of the steps.
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
        Its first result.
    gradients : tuple of three torch.Tensor or None, optional
        Those by the results, if the ones by the gates are wanted.
    """
    steps = output.shape[0]
    order = range(steps - 1, -1, -1) if args["reverse"] else range(steps)
    first = args["hx"].reshape(1, *output.shape[1:]).to(output.dtype)
    h = torch.cat([output[1:], first] if args["reverse"] else [first, output[:-1]])
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
