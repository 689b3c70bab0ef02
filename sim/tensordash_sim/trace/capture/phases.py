"""Phase of an operation: forward pass, backward pass, or a forward pass that the backward pass recomputes."""

import sys
from typing import Any

import torch
import torch.utils.checkpoint

from . import functions
from .call import Call
from .roles import Roles

__all__ = ["place"]

_CHECKPOINT = torch.utils.checkpoint.__file__


def place(call: Call, roles: Roles, number: int, *, enabled: bool) -> str:
    """Set the phase of a call, and the forward product that it repeats.

    Parameters
    ----------
    call : Call
        The call. The function sets its `phase`, `number`, `task`, `node` and `repeats`.
    roles : Roles
        Forward products of the step so far.
    number : int
        Number of the last node that autograd has created.
    enabled : bool
        Whether gradients are enabled.

    Returns
    -------
    str
        A note for the trace; empty if there is none.
    """
    call.task = torch._C._current_graph_task_id()
    node = torch._C._current_autograd_node()
    call.node = "" if node is None else node.name()
    function = functions.under_way()
    if not enabled and function is not None:
        number, enabled = function, True
    if call.task == -1:
        call.phase = "forward" if enabled else "none"
        call.number = number if function is not None or call.requires_grad else None
        return ""
    call.phase, noted = "backward", ""
    call.number = node._sequence_nr() if node is not None else None
    checkpoint = _checkpoint() if enabled else None
    own = isinstance(node, torch._C._FunctionBase)
    if checkpoint is not None:
        call.phase = "repeated"
    elif enabled and own:
        call.phase = "repeated"
        noted = f"{call.name} in {call.node}, taken for a forward pass that is repeated"
    if call.phase == "repeated":
        if own and checkpoint != "unpack_hook" and call.number is not None:
            call.repeats = roles.repeated(call.number, call.task)
        call.number = number
    return noted


def _checkpoint() -> str | None:
    """Return the function of PyTorch's checkpointing that is recomputing a forward pass, if any.

    "backward" recomputes the forward pass of the executing node. "unpack_hook" recomputes it for any node that needs
    values that were not saved.
    """
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == _CHECKPOINT and frame.f_code.co_name in ("backward", "unpack_hook"):
            return str(frame.f_code.co_name)
        frame = frame.f_back
    return None
