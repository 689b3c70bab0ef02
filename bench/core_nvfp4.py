"""Measure what NVFP4 operands in memory save on a core's Verilog, for `bench/core.py --nvfp4`.

All runs of an operation compute the same numbers: NVFP4 operands, and the same values as fp16 operands. Every result
must have the emulator's bits. Random values are drawn once and quantised on the host, which no cycles count.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from common import core_preset, map_module, measured_at, run_program
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash.emission.core_files import core_verilog
from tensordash_runtime.scaled import nvfp4_operands
from tensordash_sim.compiler.emission import emit
from tensordash_sim.compiler.images import TensorImage, layer_values
from tensordash_sim.compiler.iteration_space import IterationSpace
from tensordash_sim.compiler.layer import OPERANDS, Layer
from tensordash_sim.compiler.nvfp4_values import nvfp4_products
from tensordash_sim.compiler.problem import Problem
from tensordash_sim.compiler.search import best_schedule
from tensordash_sim.emulator import contract
from tensordash_sim.golden.core.golden_core import Memory
from tensordash_sim.lowering import Convolution, Geometry, MatrixProduct
from tensordash_sim.verify.verilated_core import VerilatedCore

__all__ = ["measure_nvfp4"]

MEMORY_BYTES = 1 << 22
HIDDEN, TOKENS = 128, 128
"""Width of the small GPT (`networks/gpt.py`), and positions of one of its texts."""
GPT = {
    f"GPT {name}, {inputs} to {outputs}": MatrixProduct(
        batch=1, samples=TOKENS, in_features=inputs, out_features=outputs
    )
    for name, inputs, outputs in (
        ("qkv", HIDDEN, 3 * HIDDEN),
        ("out", HIDDEN, HIDDEN),
        ("up", HIDDEN, 4 * HIDDEN),
        ("down", 4 * HIDDEN, HIDDEN),
    )
}
RESNET = Convolution(
    batch=1, in_channels=512, out_channels=128, size=(8, 8), kernel=(1, 1), stride=(1, 1), padding=(0, 0),
    dilation=(1, 1), groups=1,
)  # fmt: skip
LAYERS: dict[str, tuple[Geometry, float]] = {
    **{name: (geometry, 0.0) for name, geometry in GPT.items()},
    "ResNet-50 1x1, 512 to 128 channels": (RESNET, 0.5),
}
"""Geometries, and the share of zeros of activations and gradients before they are quantised."""
PLAIN = {"fp32": True, "nvfp4": False}
NVFP4 = {"fp32": True, "nvfp4": True}
"""Problems with FP32 results, as the runtime has for float32 tensors."""
VARIANTS = {
    "fp16": ("core-nvfp4", 16, {"fp32": False, "nvfp4": False}),
    "fp32": ("core-nvfp4", 16, PLAIN),
    "nvfp4": ("core-nvfp4", 16, NVFP4),
    "wide": ("core-wide", 32, PLAIN),
    "narrow_fp32": ("core-nvfp4", 8, PLAIN),
    "narrow_nvfp4": ("core-nvfp4", 8, NVFP4),
}
"""By name: the preset, bytes of memory per cycle, and the problem. "fp16" has fp16 results."""


def measure_nvfp4(console: Console) -> dict[str, Any]:
    """Return the figures of all operations, and the gates of `core`'s load unit without and with NVFP4."""
    figures = {"nvfp4": _measure_operations(console), "nvfp4_at": measured_at()}
    return figures | {"nvfp4_load": {str(core.nvfp4): _map_load(core) for core in (core_preset(), _nvfp4_core())}}


def _nvfp4_core() -> CoreConfig:
    """Return the preset `core` with loads of NVFP4 tensors."""
    return replace(core_preset(), nvfp4=True)


def _map_load(config: CoreConfig) -> dict[str, float]:
    """Return the area and the longest path of a core's load unit."""
    return map_module(core_verilog(config), "tensordash_load")


def _measure_operations(console: Console) -> list[dict[str, Any]]:
    """Return cycles and bytes of every operation in each of `VARIANTS`; for NVFP4 also the tile's busy share."""
    found = []
    cores = {(name, count): _core(name, count) for name, count, _ in VARIANTS.values()}
    verilated = {name: VerilatedCore(config, MEMORY_BYTES + (1 << 18)) for name, config in cores.items()}
    try:
        for name, layer, operation, values in _operations():
            figures: dict[str, Any] = {"name": name, "operation": operation}
            for variant, (preset, count, how) in VARIANTS.items():
                key = preset, count
                run, traffic = _run(cores[key], verilated[key], layer, operation, values, how)
                figures[variant] = run.cycles
                figures[f"{variant}_bytes"] = traffic
                if variant == "nvfp4":
                    figures["busy"] = round(run.counters["scheduled"] / run.cycles, 3)
            found.append(figures)
            console.print(f"{name} {operation}: {[figures[variant] for variant in VARIANTS]} cycles", markup=False)
    finally:
        for core in verilated.values():
            core.close()
    return found


def _core(preset: str, count: int) -> CoreConfig:
    """Return a preset with a bus of `count` bytes."""
    config = load_any_preset(preset, [f"core.axi_bits={8 * count}"])
    assert isinstance(config, CoreConfig)
    return config


def _operations() -> Iterator[tuple[str, Layer, str, Mapping[str, NDArray[np.uint16]]]]:
    """Yield name, layer, operation and NVFP4 values of each workload."""
    rng = np.random.default_rng(0)
    for name, (geometry, zeros) in LAYERS.items():
        tensors = {each: rng.standard_normal(geometry.shapes[each]).astype(np.float32) for each in "AWG"}
        for each in "AG":
            tensors[each][rng.random(tensors[each].shape) < zeros] = 0
        for operation in OPERANDS:
            quantised = nvfp4_operands(geometry, operation, tensors, seed=None)
            values = {each: layer_values(geometry, each, bits) for each, (bits, _) in quantised.items()}
            yield name, Layer.of(geometry), operation, values


def _run(
    config: CoreConfig,
    core: VerilatedCore,
    layer: Layer,
    operation: str,
    values: Mapping[str, NDArray[np.uint16]],
    how: Mapping[str, bool],
) -> tuple[Any, int]:
    """Run an operation with its best tiling; return the run and the bytes moved."""
    rows = OPERANDS[operation][0]
    products = {name: nvfp4_products(each, config.tile.a_format) for name, each in values.items()}
    problem = Problem(layer=layer, operation=operation, rows=rows, **how)
    space = IterationSpace(problem=problem, core=config).with_turned_results()
    image = TensorImage(
        config,
        Memory(MEMORY_BYTES),
        layer,
        operation,
        values if problem.nvfp4 else products,
        rows=rows,
        turned=space.problem.turned,
        **how,
    )
    program = emit(best_schedule(space), image.tensors)
    run = run_program(core, program, image.memory)
    expected = contract(config, layer, operation, rows, products, fp32=problem.fp32)
    if not np.array_equal(image.result().view(expected.dtype), expected):
        raise SystemExit(f"{operation} of {layer}: the Verilog differs from the emulator")
    beats = run.counters["read_beats"] + run.counters["write_beats"]
    return run, beats * config.axi_bits // 8
