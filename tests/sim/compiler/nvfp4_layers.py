"""Random layers with NVFP4 operands in memory."""

from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.formats import FloatFormat
from tensordash_sim.compiler.images import TensorImage
from tensordash_sim.compiler.iteration_space import IterationSpace
from tensordash_sim.compiler.layer import OPERANDS
from tensordash_sim.compiler.nvfp4_values import block_values, nvfp4_products
from tensordash_sim.emulator import contract
from tensordash_sim.golden.block_scales import quantise_blocks
from tensordash_sim.golden.core.memory import Memory
from tensordash_sim.golden.core.tensors import NVFP4_ELEMENT, NVFP4_SCALE
from tensordash_sim.verify.programs.random_layers import LayerWork, random_work


@dataclass(frozen=True)
class Nvfp4Work:
    """An operation of a random layer; `work` has NVFP4 values for operands."""

    work: LayerWork

    def space(self, config: CoreConfig) -> IterationSpace:
        space = self.work.space(config)
        return replace(space, problem=replace(space.problem, nvfp4=True))

    def image(self, config: CoreConfig, memory: Memory) -> TensorImage:
        work, turned = self.work, self.space(config).problem.turned
        how: dict[str, Any] = {"rows": work.rows, "fp32": work.fp32, "turned": turned, "nvfp4": True}
        return TensorImage(config, memory, work.layer, work.operation, work.values, **how)

    def plain(self, config: CoreConfig) -> LayerWork:
        """Return the work with the same numbers in the operand format."""
        products = {
            name: nvfp4_products(self.work.values[name], config.tile.a_format) for name in OPERANDS[self.work.operation]
        }
        return replace(self.work, values={**self.work.values, **products})

    def expected(self, config: CoreConfig) -> NDArray:
        work = self.plain(config)
        how: dict[str, Any] = {name: work.values.get(name) for name in ("bias", "mask")}
        how |= {"fp32": work.fp32, "relu": work.relu}
        return contract(config, work.layer, work.operation, work.rows, work.values, **how)


def random_nvfp4_work(random: Random, config: CoreConfig, macs: tuple[int, int]) -> Nvfp4Work:
    """Quantise the operands of `random_work`, with blocks along the reduction."""
    assert isinstance(NVFP4_ELEMENT, FloatFormat)
    work = random_work(random, config, macs)
    values = dict(work.values)
    for name in OPERANDS[work.operation]:
        axis = {"AxW": -3, "WxG": -3 if name == "G" else -4, "AxG": -1}[work.operation]
        vectors = np.moveaxis(values[name].view(np.float16).astype(np.float32), axis, -1)
        blocks = quantise_blocks(vectors * np.float32(random.choice([1, 1e-3])), NVFP4_ELEMENT, NVFP4_SCALE)
        values[name] = np.ascontiguousarray(np.moveaxis(block_values(blocks), -1, axis))
    return Nvfp4Work(replace(work, values=values))
