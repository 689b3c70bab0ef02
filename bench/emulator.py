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
"""Steps of the reduction that the golden model multiplies."""
FUSED = "hopper"
BINNED = Binned(3)
TILE_NUMERICS = (
    ("fp16", "exact"),
    ("fp16", FUSED),
    ("bf16", FUSED),
    ("bf16", BINNED),
    ("fp8_e4m3", "exact"),
    ("fp8_e4m3", FUSED),
    ("int8", "exact"),
)
"""Format and accumulator of each measured tile."""
VERILOG_OPERATION = "CNN.conv2", "AxW"
"""Layer and operation of the recorded step that the Verilog runs."""
CONVOLUTION = Layer(samples=8, channels=64, filters=64, size=(28, 28), kernel=(3, 3), padding=1)


def draw(shape: tuple[int, ...], fmt: Format, zeros: float, rng: np.random.Generator) -> NDArray:
    """Draw bit patterns of normally distributed numbers with zeros. For int8, draw integers from -127 to 127."""
    values = np.where(rng.random(shape) < zeros, 0, rng.standard_normal(shape))
    if fmt.name == "int8":
        return encode(np.clip(np.rint(values * 40), -127, 127).astype(np.int8), fmt)
    return encode(values.astype(np.float32), fmt)


def measure_golden_rate(config: TileConfig, columns: NDArray, rows: NDArray, emulated: NDArray) -> float:
    """Return the golden model's MACs per second on one block.

    Raises
    ------
    AssertionError
        If its bits differ from the emulator's.
    """
    length = GOLDEN_STEPS * config.lanes
    a = columns[: config.columns, :length].reshape(config.columns, -1, config.lanes)
    b = rows[: config.rows, :length].reshape(config.rows, -1, config.lanes)
    start = time.perf_counter()
    expected = matmul(a, b, config).c_bits
    seconds = time.perf_counter() - start
    if not np.array_equal(emulated, expected):
        raise AssertionError(f"the emulator returns {emulated}, the golden model {expected}")
    return config.rows * config.columns * length / seconds


def measure_product_rates(config: TileConfig, size: int, zeros: float, seed: int) -> dict[str, float]:
    """Return MACs per second of the emulator, the golden model and NumPy on the same values."""
    rng = np.random.default_rng(seed)
    columns, rows = (draw((size, size), fmt, zeros, rng) for fmt in (config.a_format, config.b_format))
    left, right = decode(rows, config.b_format), decode(columns, config.a_format)
    length = GOLDEN_STEPS * config.lanes
    block = matrix_product(columns[: config.columns, :length], rows[: config.rows, :length], config)
    return {
        "emulator": size**3 / best_time(lambda: matrix_product(columns, rows, config)),
        "golden": measure_golden_rate(config, columns, rows, block),
        "numpy": size**3 / best_time(lambda: left @ right.T),
    }


def measure_layer_rate(config: TileConfig, operation: str, zeros: float, seed: int) -> float:
    """Return the emulator's MACs per second in an operation of the convolution."""
    rng = np.random.default_rng(seed)
    values = {name: draw(CONVOLUTION.shape(name), FORMATS["fp16"], zeros, rng) for name in OPERANDS[operation]}
    first = OPERANDS[operation][0]
    macs = int(np.prod(CONVOLUTION.shape("G"))) * CONVOLUTION.channels * int(np.prod(CONVOLUTION.kernel))
    return macs / best_time(lambda: contract(config, CONVOLUTION, operation, first, values))


def measure_verilator_rate() -> float:
    """Return cycles per second of the core's Verilog. The Verilog is built if the cache lacks it."""
    records = Trace.open(example_trace()).records
    record = next(each for each in records if (each.layer, str(each.operation)) == VERILOG_OPERATION)
    operands = {name: record.values(name).astype(np.float16) for name in "AWG" if name in VERILOG_OPERATION[1]}
    cycles = []

    def step() -> None:
        cycles.append(device.contract(record.geometry, VERILOG_OPERATION[1], operands).executed.cycles or 0)

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
    tiles = {(name, kind): replace(core.tile, format=name, accumulator=kind) for name, kind in TILE_NUMERICS}
    settings = arguments.zeros, arguments.seed
    with threadpool_limits(1):
        if arguments.json:
            rates_by_accumulator = {
                key: measure_product_rates(tiles["fp16", kind], arguments.size, *settings)
                for key, kind in (("exact", "exact"), ("fused", FUSED))
            }
            document = {
                "mac_per_second": {kind: round(each["emulator"]) for kind, each in rates_by_accumulator.items()},
                "golden_mac_per_second": {kind: round(each["golden"]) for kind, each in rates_by_accumulator.items()},
                "numpy_float32_mac_per_second": round(rates_by_accumulator["exact"]["numpy"]),
                "verilator_cycles_per_second": round(measure_verilator_rate()),
            }
            print(json.dumps(document))
            return
        print(f"one core, {arguments.zeros:.0%} zeros, products of size {arguments.size}, seed {arguments.seed}\n")
        print(f"{'M MAC/s':24} {'emulator':>10} {'golden':>10} {'NumPy float32':>14}")
        for (name, kind), config in tiles.items():
            rates = measure_product_rates(config, arguments.size, *settings)
            figures = [rates[model] / 1e6 for model in ("emulator", "golden", "numpy")]
            print(f"{f'{name}, {kind}':24} {figures[0]:10.1f} {figures[1]:10.4f} {figures[2]:14.1f}")
        print(f"\n{'3x3, 64 channels, fp16':24} {'exact':>10} {FUSED:>10}")
        for operation in OPERANDS:
            speeds = [measure_layer_rate(tiles["fp16", kind], operation, *settings) / 1e6 for kind in ("exact", FUSED)]
            print(f"{operation:24} {speeds[0]:10.1f} {speeds[1]:10.1f}")
        print(f"\nVerilog of `core`, {' '.join(VERILOG_OPERATION)}: {measure_verilator_rate():,.0f} cycles a second")


if __name__ == "__main__":
    main()
