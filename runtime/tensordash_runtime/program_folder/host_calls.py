"""Host calls: what the host computes between programs, defined bit by bit.

A host call decodes its tensors to single precision, computes in single precision in the order that its function states,
and rounds once, to nearest even, when it writes a tensor. No operation is contracted to a fused multiply-add.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from numpy.typing import NDArray

from .plan import HostCall
from .tensors import StepTensor

__all__ = ["FUNCTIONS", "Function", "compute_host_call"]

Arrays = dict[str, NDArray]
"""Float32 or int32 values by role."""


class Function(NamedTuple):
    """A function that the host can compute.

    Attributes
    ----------
    read, written : tuple of str
        Roles of its tensors; one that is in both is updated.
    compute : callable
        Takes values by role, and parameters; returns values by role.
    """

    read: tuple[str, ...]
    written: tuple[str, ...]
    compute: Callable[[Arrays, Mapping[str, Any]], Arrays]


def _convert(values: Arrays, parameters: Mapping[str, Any]) -> Arrays:
    return {"result": values["x"]}


FUNCTIONS: dict[str, Function] = {
    "convert": Function(("x",), ("result",), _convert),
}
"""By name."""


def compute_host_call(
    call: HostCall, tensors: Mapping[str, StepTensor], values: Mapping[str, NDArray]
) -> dict[str, NDArray]:
    """Compute a host call.

    Parameters
    ----------
    call : HostCall
        The call.
    tensors : mapping of str to StepTensor
        By name.
    values : mapping of str to array of unsigned
        Bit patterns of the tensors that it reads.

    Returns
    -------
    dict of str to array of unsigned
        Bit patterns of the tensors that it writes, by name.
    """
    function = FUNCTIONS[call.function]
    names = call.tensors
    read = {role: tensors[names[role]].numbers(values[names[role]]) for role in call.reads}
    made = function.compute(read, call.parameters)
    return {
        names[role]: tensors[names[role]].bits(made[role].reshape(tensors[names[role]].shape)) for role in call.writes
    }
