"""Plans: the products and host calls of a step in order, and the tensors that they share."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from tensordash.configuration.core_config import CoreConfig
from tensordash_sim.compiler.layer import Layer
from tensordash_sim.compiler.problem import Problem
from tensordash_sim.lowering import Geometry, geometry_from_json

from .tensors import StepTensor

__all__ = ["Call", "HostCall", "Plan", "Product"]


@dataclass(frozen=True, kw_only=True)
class Product:
    """One operation of a layer on the core.

    Parameters
    ----------
    name : str
        The layer and the operation.
    geometry : Convolution or MatrixProduct
        The layer.
    operation, rows, fp32, relu, turned
        See `Problem`.
    tensors : mapping of str to str
        Names of its tensors: both operands, "result", and optionally "bias" and "mask".
    speedup : float
        Speedup of the tile over the dense one, counted from the example's zeros.
    """

    name: str
    geometry: Geometry
    operation: str
    rows: str
    fp32: bool
    tensors: Mapping[str, str]
    relu: bool = False
    turned: bool = False
    speedup: float = 2.0

    @property
    def problem(self) -> Problem:
        """The product as input of the compiler."""
        return Problem(
            layer=Layer.of(self.geometry),
            operation=self.operation,
            rows=self.rows,
            fp32=self.fp32,
            relu=self.relu,
            bias="bias" in self.tensors,
            mask="mask" in self.tensors,
            turned=self.turned,
            speedup=self.speedup,
        )

    @property
    def read(self) -> list[str]:
        """Names of the tensors that it reads."""
        return [tensor for role, tensor in self.tensors.items() if role != "result"]

    @property
    def written(self) -> list[str]:
        """Names of the tensors that it writes."""
        return [self.tensors["result"]]

    def to_json(self) -> dict[str, Any]:
        names = ("name", "operation", "rows", "fp32", "relu", "turned", "speedup")
        return {name: getattr(self, name) for name in names} | {
            "geometry": self.geometry.to_json(),
            "tensors": dict(self.tensors),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Product":
        """Build from the result of `to_json`."""
        return cls(**{**document, "geometry": geometry_from_json(document["geometry"])})


@dataclass(frozen=True, kw_only=True)
class HostCall:
    """A function that the host computes between two programs.

    Parameters
    ----------
    function : str
        One of `host_calls.FUNCTIONS`.
    tensors : mapping of str to str
        Names of its tensors by role.
    reads, writes : tuple of str
        Roles of the tensors that it reads and writes; it updates a tensor in both.
    parameters : mapping of str to number
        Its constants.
    """

    function: str
    tensors: Mapping[str, str]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def read(self) -> list[str]:
        """Names of the tensors that it reads."""
        return [self.tensors[role] for role in self.reads]

    @property
    def written(self) -> list[str]:
        """Names of the tensors that it writes."""
        return [self.tensors[role] for role in self.writes]

    def to_json(self) -> dict[str, Any]:
        return {
            "function": self.function,
            "tensors": dict(self.tensors),
            "reads": list(self.reads),
            "writes": list(self.writes),
            "parameters": dict(self.parameters),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "HostCall":
        """Build from the result of `to_json`."""
        roles = {name: tuple(document[name]) for name in ("reads", "writes")}
        return cls(**{**document, **roles})


Call = Product | HostCall


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A step's tensors, and its calls in order.

    Parameters
    ----------
    name : str
        Name of the step.
    config : CoreConfig
        The core.
    tensors : mapping of str to StepTensor
        Tensors by name.
    calls : tuple of Product or HostCall
        Calls in order. Successive products form one program.
    inputs : tuple of str
        Tensors that the user sets before each run.
    outputs : tuple of str
        Tensors with the step's results for the user.
    """

    name: str
    config: CoreConfig
    tensors: Mapping[str, StepTensor]
    calls: tuple[Call, ...]
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()

    @property
    def stages(self) -> Iterator[list[Product] | HostCall]:
        """Yield programs, as lists of products, and host calls, in order."""
        for is_product, calls in groupby(self.calls, key=lambda call: isinstance(call, Product)):
            if is_product:
                yield [call for call in calls if isinstance(call, Product)]
            else:
                yield from (call for call in calls if isinstance(call, HostCall))

    @property
    def written(self) -> dict[str, str]:
        """The call that last writes each tensor, as "products.K" or "host_calls.K"; unwritten tensors are omitted."""
        writers: dict[str, str] = {}
        counts = {"products": 0, "host_calls": 0}
        for call in self.calls:
            kind = "products" if isinstance(call, Product) else "host_calls"
            writers |= dict.fromkeys(call.written, f"{kind}.{counts[kind]}")
            counts[kind] += 1
        return writers

    @property
    def initial(self) -> list[str]:
        """Names of the inputs, and of the tensors that a call reads before any call writes them."""
        written: set[str] = set()
        found: dict[str, None] = {}
        for call in self.calls:
            found |= dict.fromkeys(name for name in call.read if name not in written)
            written.update(call.written)
        return [*dict.fromkeys((*self.inputs, *found))]
