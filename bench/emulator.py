"""Measure MACs per second of emulator, golden model and NumPy, and cycles per second of the Verilog, on one CPU core.

The tile is from the preset `core`. The golden model multiplies a block of the same matrices, and its bits must equal
the emulator's. The core's Verilog runs one convolution of a recorded training step.

    python bench/emulator.py [--size 512] [--zeros 0.5] [--seed 0] [--json]
"""

import json
import time
from dataclasses import replace

import numba
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from common import argument_parser, best_time, core_preset
from tensordash.configuration.config import TileConfig
from tensordash.configuration.formats import FORMATS, Format
from tensordash.configuration.numerics import Binned
from tensordash_runtime import Device
from tensordash_sim.compiler.layer import OPERANDS, Layer
from tensordash_sim.emulator import contract, decode, encode, matrix_product
from tensordash_sim.golden import matmul
from tensordash_sim.trace import Trace, example_trace

GOLDEN_STEPS = 64
FUSED = "hopper"
BINNED = Binned(3)
NUMBERS = (
    ("fp16", "exact"),
    ("fp16", FUSED),
    ("bf16", FUSED),
    ("bf16", BINNED),
    ("fp8_e4m3", "exact"),
    ("fp8_e4m3", FUSED),
    ("int8", "exact"),
)
STEP = "CNN.conv2", "AxW"
"""Layer and operation of the recorded step that the Verilog runs."""
LAYER = Layer(samples=8, channels=64, filters=64, size=(28, 28), kernel=(3, 3), padding=1)


def draw(shape: tuple[int, ...], fmt: Format, zeros: float, rng: np.random.Generator) -> NDArray:
    """Draw bit patterns of normally distributed numbers with zeros; of integers from -127 to 127 for int8."""
    values = np.where(rng.random(shape) < zeros, 0, rng.standard_normal(shape))
    if fmt.name == "int8":
        return encode(np.clip(np.rint(values * 40), -127, 127).astype(np.int8), fmt)
    return encode(values.astype(np.float32), fmt)


def golden_rate(config: TileConfig, columns: NDArray, rows: NDArray, products: NDArray) -> float:
    """Measure the tile model's rate on one block, and compare its bits."""
    length = GOLDEN_STEPS * config.lanes
    a = columns[: config.columns, :length].reshape(config.columns, -1, config.lanes)
    b = rows[: config.rows, :length].reshape(config.rows, -1, config.lanes)
    began = time.perf_counter()
    wanted = matmul(a, b, config).c_bits
    seconds = time.perf_counter() - began
    if not np.array_equal(products, wanted):
        raise AssertionError(f"the emulator gives {products}, golden {wanted}")
    return config.rows * config.columns * length / seconds


def product_rates(config: TileConfig, size: int, zeros: float, seed: int) -> dict[str, float]:
    """Measure the rates of the emulator, of golden, and of NumPy on the same values."""
    rng = np.random.default_rng(seed)
    columns, rows = (draw((size, size), fmt, zeros, rng) for fmt in (config.a_format, config.b_format))
    left, right = decode(rows, config.b_format), decode(columns, config.a_format)
    length = GOLDEN_STEPS * config.lanes
    part = matrix_product(columns[: config.columns, :length], rows[: config.rows, :length], config)
    return {
        "emulator": size**3 / best_time(lambda: matrix_product(columns, rows, config)),
        "golden": golden_rate(config, columns, rows, part),
        "numpy": size**3 / best_time(lambda: left @ right.T),
    }


def layer_rate(config: TileConfig, operation: str, zeros: float, seed: int) -> float:
    """Measure the rate of one of the layer's operations."""
    rng = np.random.default_rng(seed)
    values = {name: draw(LAYER.shape(name), FORMATS["fp16"], zeros, rng) for name in OPERANDS[operation]}
    first = OPERANDS[operation][0]
    macs = int(np.prod(LAYER.shape("G"))) * LAYER.channels * int(np.prod(LAYER.kernel))
    return macs / best_time(lambda: contract(config, LAYER, operation, first, values))


def verilator_rate() -> float:
    """Return cycles per second of the core's Verilog. The Verilog is built if the cache lacks it."""
    record = next(each for each in Trace.open(example_trace()).records if (each.layer, str(each.operation)) == STEP)
    operands = {name: record.values(name).astype(np.float16) for name in "AWG" if name in STEP[1]}
    cycles = []

    def step() -> None:
        cycles.append(device.contract(record.geometry, STEP[1], operands).executed.cycles or 0)

    with Device("core", "verilator") as device:
        seconds = best_time(step)
    return cycles[-1] / seconds


def main() -> None:
    """Print the table, or the figures of fp16 as JSON."""
    parser = argument_parser(__doc__)
    parser.add_argument("--size", type=int, default=512, help="rows, columns and length of the products")
    parser.add_argument("--zeros", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.size < GOLDEN_STEPS * 4:
        parser.error(f"--size must be at least {GOLDEN_STEPS * 4}, not {arguments.size}")
    numba.set_num_threads(1)
    core = core_preset()
    tiles = {(name, kind): replace(core.tile, format=name, accumulator=kind) for name, kind in NUMBERS}
    settings = arguments.zeros, arguments.seed
    with threadpool_limits(1):
        if arguments.json:
            rates = {kind: product_rates(tiles["fp16", kind], arguments.size, *settings) for kind in ("exact", FUSED)}
            named = {"exact": rates["exact"], "fused": rates[FUSED]}
            document = {
                "mac_per_second": {kind: round(measured["emulator"]) for kind, measured in named.items()},
                "golden_mac_per_second": {kind: round(measured["golden"]) for kind, measured in named.items()},
                "numpy_float32_mac_per_second": round(named["exact"]["numpy"]),
                "verilator_cycles_per_second": round(verilator_rate()),
            }
            print(json.dumps(document))
            return
        print(f"one core, {arguments.zeros:.0%} zeros, products of size {arguments.size}, seed {arguments.seed}\n")
        print(f"{'M MAC/s':24} {'emulator':>10} {'golden':>10} {'NumPy float32':>14}")
        for (name, kind), config in tiles.items():
            measured = product_rates(config, arguments.size, *settings)
            figures = [measured[which] / 1e6 for which in ("emulator", "golden", "numpy")]
            print(f"{f'{name}, {kind}':24} {figures[0]:10.1f} {figures[1]:10.4f} {figures[2]:14.1f}")
        print(f"\n{'3x3, 64 channels, fp16':24} {'exact':>10} {FUSED:>10}")
        for operation in OPERANDS:
            speeds = [layer_rate(tiles["fp16", kind], operation, *settings) / 1e6 for kind in ("exact", FUSED)]
            print(f"{operation:24} {speeds[0]:10.1f} {speeds[1]:10.1f}")
        print(f"\nVerilog of `core`, {' '.join(STEP)}: {verilator_rate():,.0f} cycles a second")


if __name__ == "__main__":
    main()
