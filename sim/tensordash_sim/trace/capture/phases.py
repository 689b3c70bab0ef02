"""What part of training an operation is: the forward pass, the backward pass, or one that is computed anew in it."""

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
    """Find what a call is a part of, and what it repeats.

    Parameters
    ----------
    call : Call
        Gets its `phase`, `number`, `task`, `node` and `repeats`.
    roles : Roles
        Of the step so far.
    number : int
        Of the node that autograd has made last.
    enabled : bool
        Whether gradients are.

    Returns
    -------
    str
        What is to be noted about it, if something is.
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
    """Return which function of PyTorch's checkpointing computes anew, if one does.

    "backward" does so for the node at work, "unpack_hook" for any that needs what was not kept.
    """
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == _CHECKPOINT and frame.f_code.co_name in ("backward", "unpack_hook"):
            return str(frame.f_code.co_name)
        frame = frame.f_back
    return None
