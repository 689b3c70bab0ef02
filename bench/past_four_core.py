"""Measure the speedup of skipping masked passes, on the Verilog of cores, for `bench/past_four.py`.

All cores compute the same six products of the two linear layers around ReLU. The zeros are those of a recorded step;
other values are drawn, so that rounding makes no zeros. ReLU's backward pass is fused with its product in all cores.
Every result must equal PyTorch's in float64, rounded as docs/core.md defines.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.progress import track

from common import run_program
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash_sim.compiler.emission import emit
from tensordash_sim.compiler.images import TensorImage, expected, layer_values
from tensordash_sim.compiler.iteration_space import IterationSpace
from tensordash_sim.compiler.layer import OPERANDS, RESULTS, Layer
from tensordash_sim.compiler.problem import Problem
from tensordash_sim.compiler.search import best_schedule
from tensordash_sim.golden.core.golden_core import Memory
from tensordash_sim.lowering import MatrixProduct
from tensordash_sim.verify.verilated_core import VerilatedCore

__all__ = ["CORES", "measure_on_verilog"]

CORES = {
    "dense": ("core-dense", False),
    "dense_skipped": ("core-dense", True),
    "core": ("core", False),
    "skipped": ("core", True),
}
"""By name: the preset, and whether it skips masked passes (`core` with it is the preset `core-skip`)."""
MEMORY_BYTES = 1 << 22
MASKED = "down WxG"
"""The product whose results ReLU's mask makes zero."""

Masks = Mapping[str, NDArray[np.bool_]]


def measure_on_verilog(blocks: Sequence[tuple[Masks, Masks]], tokens: int) -> dict[str, Any]:
    """Run the six products of blocks on every core.

    Parameters
    ----------
    blocks : sequence of (dict, dict)
        For the layers before and after ReLU: nonzero positions of "A", "W" and "G", (1, rows, columns).
    tokens : int
        Positions of A and G that are used, the first ones.

    Returns
    -------
    dict
        "tokens", and by core the cycles of all products ("whole") and of the masked ones ("masked").
    """
    workloads = [each for up, down in blocks for each in _workloads({"up": up, "down": down}, tokens)]
    whole, masked = dict.fromkeys(CORES, 0), dict.fromkeys(CORES, 0)
    for core, (preset, skips) in CORES.items():
        config = load_any_preset(preset, [f"core.skip_masked={str(skips).lower()}"])
        assert isinstance(config, CoreConfig)
        with VerilatedCore(config, MEMORY_BYTES + (1 << 18)) as verilated:
            for name, layer, operation, values in track(workloads, core):
                cycles = _run(config, verilated, layer, operation, values)
                whole[core] += cycles
                masked[core] += cycles * (name == MASKED)
    return {"tokens": tokens, "whole": whole, "masked": masked}


def _workloads(layers: Mapping[str, Masks], tokens: int) -> Iterator[tuple[str, Layer, str, dict[str, NDArray]]]:
    rng = np.random.default_rng(0)
    for name, masks in layers.items():
        masks = {each: mask if each == "W" else mask[:, :tokens] for each, mask in masks.items()}
        _, samples, in_features = masks["A"].shape
        geometry = MatrixProduct(batch=1, samples=samples, in_features=in_features, out_features=masks["G"].shape[2])
        tensors = {each: rng.standard_normal(mask.shape).astype(np.float16) * mask for each, mask in masks.items()}
        values = {each: layer_values(geometry, each, tensor) for each, tensor in tensors.items()}
        for operation, operands in OPERANDS.items():
            used = {each: values[each] for each in operands}
            if name == "down" and RESULTS[operation] == "A":
                used["mask"] = values["A"]
            yield f"{name} {operation}", Layer.of(geometry), operation, used


def _run(config: CoreConfig, core: VerilatedCore, layer: Layer, operation: str, values: Mapping[str, NDArray]) -> int:
    """Run an operation with its best tiling and the sparser operand on the row side; return the cycles."""
    rows = min(OPERANDS[operation], key=lambda each: np.count_nonzero(values[each]) / values[each].size)
    problem = Problem(layer=layer, operation=operation, rows=rows, mask="mask" in values)
    image = TensorImage(config, Memory(MEMORY_BYTES), layer, operation, values, rows=rows)
    program = emit(best_schedule(IterationSpace(problem=problem, core=config)), image.tensors)
    run = run_program(core, program, image.memory)
    wanted = expected(layer, operation, values, config=config, rows=rows)
    if not np.array_equal(image.result().view(np.uint16), wanted.view(np.uint16)):
        raise SystemExit(f"{operation} of {layer}: the Verilog differs from PyTorch in float64")
    return run.cycles
