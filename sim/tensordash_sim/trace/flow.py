"""Data flow of a training step: the operations that read and write each tensor, products and all others."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .format import TraceError, entry

__all__ = ["PHASES", "Flow", "FlowTensor", "Update", "Work"]

PHASES = ("forward", "backward")


@dataclass(frozen=True, kw_only=True)
class FlowTensor:
    """A tensor between two writes.

    An in-place write makes a new tensor. A copy in another type is the same tensor.

    Attributes
    ----------
    shape : tuple of int
        Shape of the largest view that was recorded.
    dtype : str
        PyTorch's name of the type.
    """

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, kw_only=True)
class Work:
    """An operation of a training step.

    Attributes
    ----------
    name : str
        The operation, for example ``aten::relu``.
    phase : str
        One of `PHASES`.
    reads, writes : tuple of int
        Indices into `Flow.tensors`. A view counts as the tensor that it is a part of.
    products : tuple of (int, dict)
        The operation's records. Each item has the record's index in the step, and the tensor of each operand by the
        operand's name. Operands that exist only inside a fused operation are left out.
    """

    name: str
    phase: str
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    products: tuple[tuple[int, Mapping[str, int]], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Update:
    """An optimizer's update of a parameter.

    Attributes
    ----------
    parameter : int
        Index of the parameter in `Flow.tensors`.
    gradient : int or None
        Index of its gradient, if that was recorded.
    states : int
        Number of optimizer states of the parameter's size.
    """

    parameter: int
    gradient: int | None
    states: int


@dataclass(frozen=True, kw_only=True)
class Flow:
    """Data flow of a training step.

    Attributes
    ----------
    tensors : tuple of FlowTensor
        All tensors. Tensors that no operation writes exist before the step: parameters and the batch.
    work : tuple of Work
        Operations in execution order.
    updates : tuple of Update
        Updates of parameters; empty if no optimizer was recorded.

    Examples
    --------
    >>> x = FlowTensor(shape=(2, 3), dtype="float32")
    >>> relu = Work(name="aten::relu", phase="forward", reads=(0,), writes=(1,))
    >>> flow = Flow(tensors=(x, x), work=(relu,))
    >>> Flow.from_json(flow.to_json(), 0, "step 0") == flow
    True
    """

    tensors: tuple[FlowTensor, ...]
    work: tuple[Work, ...]
    updates: tuple[Update, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        """Return the object in the index."""
        work = []
        for each in self.work:
            document: dict[str, Any] = {"name": each.name, "phase": each.phase}
            document |= {"reads": list(each.reads), "writes": list(each.writes)}
            if each.products:
                document["products"] = [{"record": record, **operands} for record, operands in each.products]
            work.append(document)
        return {
            "tensors": [{"shape": list(each.shape), "dtype": each.dtype} for each in self.tensors],
            "work": work,
            "updates": [vars(each) for each in self.updates],
        }

    @classmethod
    def from_json(cls, document: Any, records: int, where: str) -> "Flow":
        """Read and check an object that `to_json` returned; unknown keys are ignored.

        Parameters
        ----------
        document : Any
            The object in the index.
        records : int
            Number of records in the step.
        where : str
            Prefix of error messages.

        Raises
        ------
        TraceError
            If an entry is wrong. The message has its place and what is allowed.
        """
        tensors = []
        for place, each in enumerate(entry(document, "tensors", list, where)):
            at = f"{where}: tensors[{place}]"
            shape = tuple(_numbers(entry(each, "shape", list, at), None, f"{at}: shape"))
            tensors.append(FlowTensor(shape=shape, dtype=entry(each, "dtype", str, at)))
        work, written = [], set[int]()
        for place, each in enumerate(entry(document, "work", list, where)):
            at = f"{where}: work[{place}]"
            phase = entry(each, "phase", str, at)
            if phase not in PHASES:
                raise TraceError(f"{at}: phase must be one of {', '.join(PHASES)}, not {phase!r}")
            reads, writes = (
                tuple(_numbers(entry(each, key, list, at), len(tensors), f"{at}: {key}")) for key in ("reads", "writes")
            )
            for tensor in writes:
                if tensor in written:
                    raise TraceError(f"{at}: tensor {tensor} must be written once")
                written.add(tensor)
            products = _products(each, records, len(tensors), at)
            work.append(
                Work(name=entry(each, "name", str, at), phase=phase, reads=reads, writes=writes, products=products)
            )
        updates = []
        for place, each in enumerate(entry(document, "updates", list, where)):
            at = f"{where}: updates[{place}]"
            known = [entry(each, "parameter", int, at)]
            gradient = None if each.get("gradient") is None else entry(each, "gradient", int, at)
            _numbers([*known, *([] if gradient is None else [gradient])], len(tensors), at)
            (states,) = _numbers([entry(each, "states", int, at)], None, f"{at}: states")
            updates.append(Update(parameter=known[0], gradient=gradient, states=states))
        return cls(tensors=tuple(tensors), work=tuple(work), updates=tuple(updates))


def _products(
    document: Mapping[str, Any], records: int, tensors: int, where: str
) -> tuple[tuple[int, Mapping[str, int]], ...]:
    if "products" not in document:
        return ()
    found = []
    for place, each in enumerate(entry(document, "products", list, where)):
        at = f"{where}: products[{place}]"
        (record,) = _numbers([entry(each, "record", int, at)], records, f"{at}: record")
        operands = {name: entry(each, name, int, at) for name in ("A", "W", "G") if name in each}
        _numbers(list(operands.values()), tensors, at)
        found.append((record, operands))
    return tuple(found)


def _numbers(numbers: list[Any], below: int | None, where: str) -> list[int]:
    for number in numbers:
        if type(number) is not int or number < 0 or (below is not None and number >= below):
            most = "" if below is None else f" and below {below}"
            raise TraceError(f"{where}: must be integers from 0 up{most}, not {number!r}")
    return numbers
