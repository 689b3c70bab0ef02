"""Measure skipped passes and dropped steps on the Verilog of cores, for `past_four.py` and `sparse_weights.py`.

A step of a GPT: all cores compute the same six products of the two linear layers around ReLU. The zeros are those of a
recorded step; other values are drawn, so that rounding makes no zeros. ReLU's backward pass is fused with its product
in all cores. A second measurement multiplies 512 tokens of 2,048 features with random zeros by weights for 512 outputs.
Every result must equal PyTorch's in float64, rounded as docs/core.md defines.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.progress import track

from common import run_program
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash_runtime.expected import SAMPLED_STREAMS
from tensordash_sim.compiler.emission import emit
from tensordash_sim.compiler.images import TensorImage, expected, layer_values, non_zero_groups
from tensordash_sim.compiler.iteration_space import IterationSpace
from tensordash_sim.compiler.layer import OPERANDS, RESULTS, Layer
from tensordash_sim.compiler.problem import Problem
from tensordash_sim.compiler.program import Program
from tensordash_sim.compiler.row_streams import RowStreams
from tensordash_sim.compiler.scheduled import scheduled_speedup
from tensordash_sim.compiler.search import best_schedule
from tensordash_sim.compiler.timing import timing
from tensordash_sim.golden.core.golden_core import Memory
from tensordash_sim.lowering import MatrixProduct
from tensordash_sim.verify.verilated_core import VerilatedCore

__all__ = [
    "CORES",
    "DROP_CORES",
    "Masks",
    "Workload",
    "ffn_workloads",
    "load_core",
    "measure_on_verilog",
    "measure_random_product",
    "run_workloads",
]


def load_core(preset: str, *overrides: str) -> CoreConfig:
    """Load a preset of a core."""
    config = load_any_preset(preset, overrides)
    assert isinstance(config, CoreConfig)
    return config


CORES = {
    "dense": load_core("core-dense"),
    "dense_skipped": load_core("core-dense", "core.skip_masked=true"),
    "core": load_core("core"),
    "skipped": load_core("core-skip"),
}
"""Cores with memory of 16 bytes a cycle."""
DROP = load_core("core-drop")
DROP_CORES = {
    "dense": replace(DROP.baseline, skip_masked=False),
    "dense_skipped": DROP.baseline,
    "skipped": replace(DROP, drop_steps=False),
    "dropped": DROP,
}
"""Cores with the sizes of `core-drop`, and memory of 32 bytes a cycle."""
PRODUCT = MatrixProduct(batch=1, samples=512, in_features=2048, out_features=512)
"""The product with random zeros."""
MEMORY_BYTES = 1 << 23
PROGRAM_BYTES = 1 << 20
MASKED = "down WxG"
"""The product whose results ReLU's mask makes zero."""

Masks = Mapping[str, NDArray[np.bool_]]
Workload = tuple[str, Layer, str, dict[str, NDArray]]
"""A product's name, its layer, its operation and its values."""


def measure_on_verilog(
    blocks: Sequence[tuple[Masks, Masks]], tokens: int, *, only_skipping: bool = False
) -> dict[str, Any]:
    """Run the six products of blocks on every core.

    Parameters
    ----------
    blocks : sequence of (dict, dict)
        For the layers before and after ReLU: nonzero positions of "A", "W" and "G", (1, rows, columns).
    tokens : int
        Positions of A and G that are used, the first ones.
    only_skipping : bool
        Whether only cores that skip passes run.

    Returns
    -------
    dict
        "tokens", and by core the cycles of all products ("whole") and of the masked ones ("masked"): first of `CORES`;
        "drop" has the same figures of `DROP_CORES`.
    """
    workloads = [each for up, down in blocks for each in ffn_workloads({"up": up, "down": down}, tokens)]
    chosen, chosen_drop = (
        {name: config for name, config in cores.items() if config.skip_masked or not only_skipping}
        for cores in (CORES, DROP_CORES)
    )
    return {"tokens": tokens, **_measure(chosen, workloads), "drop": _measure(chosen_drop, workloads)}


def _measure(cores: Mapping[str, CoreConfig], workloads: Sequence[Workload]) -> dict[str, dict[str, int]]:
    """Run workloads on cores; return the cycles of all and of the masked products by core."""
    whole, masked = dict.fromkeys(cores, 0), dict.fromkeys(cores, 0)
    for core, config in cores.items():
        for name, cycles in run_workloads(config, workloads, core):
            whole[core] += cycles
            masked[core] += cycles * (name == MASKED)
    return {"whole": whole, "masked": masked}


def measure_random_product(shares: Sequence[float]) -> list[dict[str, Any]]:
    """Multiply activations with random zeros by dense weights on the dense core, without and with dropped steps.

    Parameters
    ----------
    shares : sequence of float
        Shares of zeros.

    Returns
    -------
    list of dict
        For each share: "zeros", the cycles of "dense", "skipped" and "dropped" of `DROP_CORES`, and "estimates", the
        last two's estimated cycles. No pass is skipped here. The dense core's cycles do not depend on values, so it
        runs once.
    """
    rows: list[dict[str, Any]] = [{"zeros": zeros, "estimates": {}} for zeros in shares]
    layer = Layer.of(PRODUCT)
    for name in ("dense", "skipped", "dropped"):
        config = DROP_CORES[name]
        with VerilatedCore(config, MEMORY_BYTES + PROGRAM_BYTES) as verilated:
            for row in track(rows, name):
                if name == "dense" and "dense" in rows[0]:
                    row[name] = rows[0][name]
                    continue
                values = _random_values(row["zeros"])
                row[name] = _run_workload(config, verilated, layer, "AxW", values)
                if name != "dense":
                    row["estimates"][name] = _estimate(config, values)
    return rows


def _estimate(config: CoreConfig, values: Mapping[str, NDArray]) -> int:
    """Return the cycles that the runtime expects of `PRODUCT`."""
    layer = Layer.of(PRODUCT)
    problem = Problem(layer=layer, operation="AxW", rows="A")
    image, program = _compile(config, problem, values)
    streams = RowStreams(config, program.descriptors, image.tensors["A"], SAMPLED_STREAMS)
    paces = streams.paces(non_zero_groups(config, layer, "A", values["A"] != 0))
    return timing(config, program.descriptors, speedup=paces).cycles


def _random_values(zeros: float) -> dict[str, NDArray]:
    """Draw the operands of `PRODUCT`, with a share of zeros in A."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((1, PRODUCT.samples, PRODUCT.in_features))
    a *= rng.random(a.shape) >= zeros
    w = rng.standard_normal((1, PRODUCT.out_features, PRODUCT.in_features))
    return {name: layer_values(PRODUCT, name, each.astype(np.float16)) for name, each in (("A", a), ("W", w))}


def ffn_workloads(layers: Mapping[str, Masks], tokens: int, *, mask_weights: bool = False) -> Iterator[Workload]:
    """Yield the six products of the layers "up" and "down"; with `mask_weights`, W is the mask of its gradient."""
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
            if mask_weights and RESULTS[operation] == "W":
                used["mask"] = values["W"]
            yield f"{name} {operation}", Layer.of(geometry), operation, used


def run_workloads(config: CoreConfig, workloads: Sequence[Workload], title: str) -> list[tuple[str, int]]:
    """Run workloads on a core's Verilog; return their names and cycles. Show progress with a title."""
    with VerilatedCore(config, MEMORY_BYTES + PROGRAM_BYTES) as core:
        return [(each[0], _run_workload(config, core, *each[1:])) for each in track(workloads, title)]


def _run_workload(
    config: CoreConfig, core: VerilatedCore, layer: Layer, operation: str, values: Mapping[str, NDArray]
) -> int:
    """Run an operation with the sparser operand on the row side, and a tiling for its zeros; return the cycles."""
    rows = min(OPERANDS[operation], key=lambda each: np.count_nonzero(values[each]) / values[each].size)
    problem = Problem(layer=layer, operation=operation, rows=rows, mask="mask" in values)
    image, program = _compile(config, problem, values)
    run = run_program(core, program, image.memory)
    wanted = expected(layer, operation, values, config=config, rows=rows)
    if not np.array_equal(image.result().view(np.uint16), wanted.view(np.uint16)):
        raise SystemExit(f"{operation} of {layer}: the Verilog differs from PyTorch in float64")
    return run.cycles


def _compile(config: CoreConfig, problem: Problem, values: Mapping[str, NDArray]) -> tuple[TensorImage, Program]:
    """Return the tensors in memory, and a program with a tiling for their zeros."""
    image = TensorImage(config, Memory(MEMORY_BYTES), problem.layer, problem.operation, values, rows=problem.rows)
    program = emit(best_schedule(IterationSpace(problem=problem, core=config)), image.tensors)
    if config.tile.sparsity != "none" and config.buffer == DROP.buffer:
        speedup = scheduled_speedup(config, program.descriptors, image.memory)
        space = IterationSpace(problem=replace(problem, speedup=speedup), core=config)
        program = emit(best_schedule(space), image.tensors)
    return image, program
