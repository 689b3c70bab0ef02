"""Builder of plans, which adds products and host calls and computes each on an example."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.formats import FORMATS
from tensordash_sim.compiler.layer import OPERANDS, RESULTS
from tensordash_sim.golden.quantization import non_zeros
from tensordash_sim.lowering import Convolution, Geometry

from ..counting import count_cycles
from ..errors import ProgramFolderError
from ..programs import space_of
from ..sides import choose_rows, fixed_rows
from .execution import compute_product
from .host_calls import FUNCTIONS, compute_host_call
from .plan import Call, HostCall, Plan, Product
from .tensors import StepTensor, groups_of

__all__ = ["PlanBuilder", "require_floating_point"]

SPEEDUP_LEVELS = 16
"""Counted speedups are rounded to multiples of 1 divided by this number."""


def require_floating_point(config: CoreConfig) -> None:
    """Raise ProgramFolderError if a core computes on integers, for which host calls have no conversions."""
    if config.tile.numerics.result == "int32":
        raise ProgramFolderError(
            f"preset must have floating-point operands in a program folder, not {config.tile.a_format.name}"
        )


class PlanBuilder:
    """Builder of a step's plan, with the values of each tensor in an example.

    Parameters
    ----------
    config : CoreConfig
        The core.

    Attributes
    ----------
    values : dict of str to array of unsigned
        Bit patterns of each tensor after the calls so far.
    initial : dict of str to array of unsigned
        Bit patterns of tensors with values before the step.
    """

    def __init__(self, config: CoreConfig) -> None:
        self.config = config
        self.tensors: dict[str, StepTensor] = {}
        self.values: dict[str, NDArray] = {}
        self.initial: dict[str, NDArray] = {}
        self._calls: list[Call] = []

    def rule(self, operation: str) -> str | None:
        """Return the operand on the row side by the runtime's rule if the sides' formats differ, else None."""
        tile = self.config.tile
        return None if tile.a_format == tile.b_format else fixed_rows(tile, operation)

    def operand_format(self, operation: str, role: str, rows: str | None = None) -> str:
        """Return the format of an operand or of the mask: side B's for the operand on the row side, else side A's."""
        tile = self.config.tile
        return (tile.b_format if role == (rows or self.rule(operation)) else tile.a_format).name

    def add_tensor(self, tensor: StepTensor, numbers: Any = None) -> str:
        """Add a tensor, with float32 or int32 values if it has values before the step; return its name."""
        if tensor.name in self.tensors:
            raise ValueError(f"names of tensors must differ, but there are two of {tensor.name}")
        self.tensors[tensor.name] = tensor
        if numbers is not None:
            self.values[tensor.name] = tensor.bits(np.asarray(numbers).reshape(tensor.shape))
            self.initial[tensor.name] = self.values[tensor.name]
        return tensor.name

    def add_product(
        self,
        name: str,
        geometry: Geometry,
        operation: str,
        tensors: Mapping[str, str],
        result: str,
        *,
        fp32: bool = False,
        relu: bool = False,
        rows: str | None = None,
    ) -> str:
        """Add a product, and compute it; return the name of its result.

        Parameters
        ----------
        name : str
            The layer and the operation.
        geometry, operation, fp32, relu
            See `Product`.
        tensors : mapping of str to str
            Names of the tensors that it reads.
        result : str
            Name of the new tensor.
        rows : str, optional
            The operand on the row side; by default the rule's, or the one for which the tile takes fewer cycles.
        """
        pair = OPERANDS[operation]
        formats = {role: FORMATS[self.tensors[tensors[role]].format] for role in pair}
        nonzero = {
            role: non_zeros(self.values[tensors[role]], formats[role]).reshape(geometry.shapes[role]) for role in pair
        }
        rows = rows or self.rule(operation)
        if rows is None:
            rows, found = choose_rows(self.config, geometry, operation, list(pair), nonzero)
        else:
            found = count_cycles(geometry, operation, nonzero, rows, self.config.tile)
        product = Product(
            name=name,
            geometry=geometry,
            operation=operation,
            rows=rows,
            fp32=fp32,
            relu=relu,
            tensors={**tensors, "result": result},
            speedup=round(found.speedup * SPEEDUP_LEVELS) / SPEEDUP_LEVELS,
        )
        if self._fills_with_zeros(product):
            product = replace(product, turned=space_of(self.config, product.problem).problem.turned)
        order = groups_of(geometry, RESULTS[operation], turned=product.turned)
        shape = geometry.shapes[RESULTS[operation]]
        kind = "fp32" if fp32 else self.config.tile.a_format.name
        self.add_tensor(StepTensor(name=result, shape=shape, format=kind, groups=order))
        self._calls.append(product)
        self.values[result] = compute_product(self.config, product, self.values)
        return result

    def _fills_with_zeros(self, product: Product) -> bool:
        """Return whether a turned result has zeros beyond its positions; with windows, other values may be there."""
        has_windows = isinstance(product.geometry, Convolution) and product.operation != "AxG"
        positions, _ = groups_of(product.geometry, RESULTS[product.operation]).positions
        return not has_windows or positions % self.config.tile.lanes == 0

    def add_host_call(self, function: str, tensors: Mapping[str, str], **parameters: Any) -> None:
        """Add a host call on tensors that the plan already has, and compute it."""
        call = HostCall(
            function=function,
            tensors=dict(tensors),
            reads=tuple(role for role in FUNCTIONS[function].read if role in tensors),
            writes=tuple(role for role in FUNCTIONS[function].written if role in tensors),
            parameters=parameters,
        )
        self._calls.append(call)
        self.values |= compute_host_call(call, self.tensors, self.values)

    def build(self, name: str, inputs: tuple[str, ...] = (), outputs: tuple[str, ...] = ()) -> Plan:
        """Return the plan."""
        return Plan(
            name=name,
            config=self.config,
            tensors=self.tensors,
            calls=tuple(self._calls),
            inputs=inputs,
            outputs=outputs,
        )
