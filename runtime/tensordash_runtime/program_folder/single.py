"""Plan a single operation of a layer, with random values."""

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.core_config import CoreConfig
from tensordash_sim.compiler.layer import OPERANDS
from tensordash_sim.lowering import Geometry

from .building import PlanBuilder, require_floating_point
from .plan import Plan
from .tensors import StepTensor, groups_of

__all__ = ["plan_operation"]


def plan_operation(
    config: CoreConfig,
    geometry: Geometry,
    operation: str,
    *,
    rows: str | None = None,
    zeros: float = 0.5,
    seed: int = 0,
) -> tuple[Plan, dict[str, NDArray]]:
    """Plan one operation of a layer, with random operands.

    Parameters
    ----------
    config : CoreConfig
        The core.
    geometry : Convolution or MatrixProduct
        The layer.
    operation : str
        "AxW", "WxG" or "AxG".
    rows : str, optional
        The operand on the row side; by default the one for which the tile takes fewer cycles.
    zeros : float
        Probability of a zero, from 0 to 1.
    seed : int
        Seed of the values, which are normal deviates rounded to the operand format.

    Returns
    -------
    Plan, dict of str to array of unsigned
        The plan, and the bit patterns of its operands.

    Raises
    ------
    ProgramFolderError
        If the core computes on integers.
    """
    require_floating_point(config)
    builder, random = PlanBuilder(config), np.random.default_rng(seed)
    for name in OPERANDS[operation]:
        shape = geometry.shapes[name]
        numbers = random.standard_normal(shape, np.float32)
        numbers = np.where(random.random(shape) < zeros, np.float32(0), numbers)
        tensor = StepTensor(
            name=name,
            shape=shape,
            format=builder.operand_format(operation, name, rows),
            groups=groups_of(geometry, name),
        )
        builder.add_tensor(tensor, numbers)
    names = {name: name for name in OPERANDS[operation]}
    builder.add_product(operation, geometry, operation, names, "result", rows=rows)
    return builder.build(operation, tuple(OPERANDS[operation]), ("result",)), builder.initial
