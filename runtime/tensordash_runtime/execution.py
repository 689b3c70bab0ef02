"""Run a layer's operation on a device: choose sides, scale and round operands, run the job, convert the result."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensordash import TileConfig
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.formats import FP32, Format, IntegerFormat
from tensordash_sim.compiler.images import TENSOR_TYPES, geometry_values, layer_values
from tensordash_sim.compiler.layer import OPERANDS, RESULTS, Layer
from tensordash_sim.compiler.nvfp4_values import nvfp4_non_zeros
from tensordash_sim.compiler.problem import ASSUMED_SPEEDUP, Problem
from tensordash_sim.golden.quantization import non_zeros
from tensordash_sim.lowering import Geometry

from .backends import Backend
from .counting import NOT_COUNTED, CycleCount, count_cycles
from .errors import NoRoomError
from .jobs import BackendResult, DeviceJob, DeviceResult, ExecutedOperation, random_key
from .nonfinite import insert_results, non_finite_results
from .operands import Operand, RoundedOperand, Scaling, scaling_limit
from .output import finish_results, fit_bias, output_values, scale_integers
from .scaled import nvfp4_operands, scaled_non_zeros
from .sides import choose_rows, possible_rows, requested_rows
from .values import FLOAT32, INT32, convert_like

__all__ = ["Execution", "operand_types", "require_operand_formats"]

DESCRIPTOR_SCALES = range(-128, 128)
"""Exponents of the powers of two that a descriptor can multiply results by."""


def operand_types(tile: TileConfig) -> tuple[str, str]:
    """Return the tensor types of operands on the column side and on the row side."""
    if tile.numerics.scale is not None:
        return FLOAT32, FLOAT32
    return TENSOR_TYPES[tile.a_format.name], TENSOR_TYPES[tile.b_format.name]


def require_operand_formats(config: CoreConfig | TileConfig) -> None:
    """Check that tensors can hold the operands of a core or a tile.

    Raises
    ------
    ValueError
        If a tile without a core has integer operands, or if a format has neither scales nor a tensor type.
    """
    tile = config.tile if isinstance(config, CoreConfig) else config
    if tile.numerics.result == "int32" and not isinstance(config, CoreConfig):
        raise ValueError(f"preset must have floating-point operands, or be a core, not a tile in {tile.a_format.name}")
    for fmt in (tile.a_format, tile.b_format):
        if fmt.name not in TENSOR_TYPES and tile.numerics.scale is None:
            raise ValueError(f"preset must have operands that tensors hold ({', '.join(TENSOR_TYPES)}), not {fmt.name}")


@dataclass(frozen=True, kw_only=True)
class Execution:
    """An operation of a layer and the settings of the device that runs it.

    Parameters
    ----------
    config : CoreConfig or TileConfig
        The device's configuration.
    backend : Backend
        The backend that runs jobs.
    memory_bytes : int
        Size of the device's memory.
    geometry : Convolution or MatrixProduct
        The layer.
    operation : str
        "AxW", "WxG" or "AxG".
    scaling : str or mapping of str to int
        Scaling of float32 tensors, as for `Device`.
    row_side : str, optional
        The operand on the row side.
    number : int
        Number of operations that the device has run before this one.
    seed : int, optional
        The user's seed of stochastic rounding.
    toward_zero : bool
        Whether results of the operand type are rounded toward zero.
    count : bool
        Whether to count the tile's cycles. The counts choose the row side if results do not depend on that choice.
    weight_block_height : int
        With scales: number of vectors of W that share the scales of their blocks.
    nvfp4 : bool
        Whether float32 operands are NVFP4 tensors in a core's memory.
    """

    config: CoreConfig | TileConfig
    backend: Backend
    memory_bytes: int
    geometry: Geometry
    operation: str
    scaling: Scaling
    row_side: str | None = None
    number: int = 0
    seed: int | None = None
    toward_zero: bool = False
    count: bool = True
    weight_block_height: int = 1
    nvfp4: bool = False

    @property
    def tile(self) -> TileConfig:
        return self.config.tile if isinstance(self.config, CoreConfig) else self.config

    @property
    def has_scales(self) -> bool:
        """Whether operands are quantised to elements and scales."""
        return self.nvfp4 or self.tile.numerics.scale is not None

    @property
    def has_integers(self) -> bool:
        """Whether operands are integers and sums are INT32."""
        return self.tile.numerics.result == "int32"

    @property
    def pair(self) -> tuple[str, str]:
        """Names of the operands."""
        return OPERANDS[self.operation]

    @cached_property
    def layer(self) -> Layer:
        """The layer in the form that a core runs."""
        return Layer.of(self.geometry)

    def run(
        self, tensors: Mapping[str, Operand], *, fp32: bool, bias: Any, relu: bool, mask: Any, scale: int = 0
    ) -> DeviceResult:
        """Run the operation on operands of the right shapes.

        Raises
        ------
        TypeError, ValueError, DeviceError
            See `Device.contract`.
        """
        operands = {name: tensors[name] for name in self.pair}
        types = {name: each.kind for name, each in operands.items()}
        possible = possible_rows(operand_types(self.tile), types, scaled=self.has_scales)
        possible = requested_rows(self.tile, self.operation, possible, self.row_side)
        as_fp32 = fp32 or FLOAT32 in types.values()
        self._check_scale(scale, as_fp32)
        # Random bits depend on the row side and on the tiling: counts of zeros must not choose them.
        has_random_bits = self.seed is not None and not as_fp32 and not self.has_scales
        rows, counts = self._choose_rows(operands, possible[:1] if has_random_bits else possible)
        problem = Problem(
            layer=self.layer,
            operation=self.operation,
            rows=rows,
            fp32=as_fp32,
            speedup=counts.tiling_speedup if self.count and not has_random_bits else ASSUMED_SPEEDUP,
            bias=bias is not None,
            relu=relu,
            mask=mask is not None,
            nvfp4=self.nvfp4,
        )
        fused = output_values(self.config, self.geometry, problem, bias, mask, types.values())
        self._require_room(problem)
        rounded = self._round(operands, rows)
        non_finite, checks = self._non_finite_results(operands, rounded)
        is_float32 = FLOAT32 in types.values()
        problem, bits, backend_result = self._run_job(problem, rounded, fused, scale, is_float32=is_float32)
        fmt = FP32 if problem.fp32 else self.tile.a_format
        if non_finite is not None:
            assert not isinstance(fmt, IntegerFormat)
            bits = insert_results(bits, non_finite, fmt, bias=fused.get("bias"), relu=relu, mask=fused.get("mask"))
        result = geometry_values(self.geometry, RESULTS[self.operation], bits)
        executed = ExecutedOperation(
            geometry=self.geometry,
            problem=problem,
            number=self.number,
            operands={name: each.rounding for name, each in rounded.items()},
            dense=counts.dense,
            speedup=counts.speedup,
            flushed_speedup=self._flushed_speedup(operands, rounded, rows, counts.speedup),
            cycles=backend_result.cycles,
            traffic=backend_result.traffic,
            checks=checks,
        )
        sum_type = INT32 if self.has_integers and not is_float32 else FLOAT32
        result_type = sum_type if problem.fp32 else TENSOR_TYPES[fmt.name]
        converted = convert_like(operands[self.pair[0]].tensor, result, result_type)
        return DeviceResult(result=converted, executed=executed, mask=fused.get("mask"))

    def _check_scale(self, scale: int, as_fp32: bool) -> None:
        """Check that results can be scaled."""
        if scale not in DESCRIPTOR_SCALES:
            raise ValueError(f"scale must be an integer from -128 to 127, not {scale!r}")
        if scale and as_fp32:
            raise ValueError(f"scale must be 0 for results of 32 bits, not {scale}")
        if scale and not (isinstance(self.config, CoreConfig) and self.config.scale):
            raise ValueError(f"scale must be 0 unless the device is a core with core.scale = true, not {scale}")

    def _choose_rows(self, operands: Mapping[str, Operand], possible: list[str]) -> tuple[str, CycleCount]:
        """Return the operand on the row side and its cycles; without counting, the first possible operand."""
        if not self.count:
            return possible[0], NOT_COUNTED
        nonzero = {name: each.non_zeros for name, each in operands.items()}
        return choose_rows(self.config, self.geometry, self.operation, possible, nonzero)

    def _side_format(self, name: str, rows: str) -> Format:
        return self.tile.b_format if name == rows else self.tile.a_format

    def _round(self, operands: Mapping[str, Operand], rows: str) -> dict[str, RoundedOperand]:
        if self.has_scales:
            return self._quantise(operands, rows)
        reduction_length = -(-self.geometry.macs // int(np.prod(self.geometry.shapes[RESULTS[self.operation]])))
        limit = scaling_limit(self.tile, reduction_length)
        rounded = {}
        for name, each in operands.items():
            fmt = self._side_format(name, rows)
            rounded[name] = each.rounded(fmt, each.exponent(fmt, limit, self.scaling))
        return rounded

    def _quantise(self, operands: Mapping[str, Operand], rows: str) -> dict[str, RoundedOperand]:
        """Return operands with scales, and count the values that become zero.

        A job for a tile with scales quantises them; operands in a core's memory are quantised here.
        """
        finite = {
            name: np.where(np.isfinite(each.array), each.array, np.float32(0)) if each.non_finite else each.array
            for name, each in operands.items()
        }
        key = None if self.seed is None else random_key(self.seed, self.number)
        values: dict[str, tuple[NDArray, float]] = {name: (each, 1.0) for name, each in finite.items()}
        if self.nvfp4:
            values |= nvfp4_operands(self.geometry, self.operation, finite, key, self.weight_block_height)
            nonzero = {name: nvfp4_non_zeros(quantised) for name, (quantised, _) in values.items()}
        else:
            nonzero = scaled_non_zeros(
                self.tile, self.geometry, self.operation, rows, finite, key, self.weight_block_height
            )
        rounded = {}
        for name, each in operands.items():
            flushed = int(np.count_nonzero(finite[name]) - np.count_nonzero(nonzero[name]))
            rounded[name] = RoundedOperand(
                values=values[name][0],
                rounding=each.rounding(flushed=flushed),
                numbers=each.array if each.non_finite else None,
                non_zeros=nonzero[name],
                factor=values[name][1],
            )
        return rounded

    def _flushed_speedup(
        self,
        operands: Mapping[str, Operand],
        rounded: Mapping[str, RoundedOperand],
        rows: str,
        speedup: float,
    ) -> float:
        """Return the tile's speedup with all zeros that the device skips."""
        if not self.count or not any(each.has_other_zeros for each in rounded.values()):
            return speedup
        nonzero = {name: each.non_zeros for name, each in operands.items()}
        for name, each in rounded.items():
            if each.non_zeros is not None:
                nonzero[name] = each.non_zeros
            elif each.has_other_zeros:
                nonzero[name] = non_zeros(each.values, self._side_format(name, rows))
        return count_cycles(self.geometry, self.operation, nonzero, rows, self.tile).speedup

    def _non_finite_results(
        self, operands: Mapping[str, Operand], rounded: Mapping[str, RoundedOperand]
    ) -> tuple[NDArray[np.float32] | None, tuple[ExecutedOperation, ...]]:
        """Return infinite and NaN results, in the layer's shape, and the records of the products that found them."""
        if all(each.numbers is None for each in rounded.values()):
            return None, ()
        checks: list[ExecutedOperation] = []

        def multiply(geometry: Geometry, arrays: Mapping[str, NDArray[np.float32]]) -> NDArray[np.float32]:
            plain: dict[str, Any] = {"scaling": "none", "seed": None, "toward_zero": False, "nvfp4": False}
            check = replace(self, geometry=geometry, row_side=None, **plain)
            tensors = {name: Operand(name, array) for name, array in arrays.items()}
            checked = check.run(tensors, fp32=True, bias=None, relu=False, mask=None)
            checks.append(checked.executed)
            result: NDArray[np.float32] = checked.result
            return result

        numbers = {
            name: operands[name].numbers if each.numbers is None else each.numbers for name, each in rounded.items()
        }
        results = non_finite_results(
            self.tile, self.geometry, self.operation, numbers, multiply, has_scales=self.has_scales
        )
        in_layer = layer_values(self.geometry, RESULTS[self.operation], results)
        return np.ascontiguousarray(in_layer), tuple(checks)

    def _run_job(
        self,
        problem: Problem,
        rounded: Mapping[str, RoundedOperand],
        fused: Mapping[str, NDArray],
        result_scale: int,
        *,
        is_float32: bool,
    ) -> tuple[Problem, NDArray, BackendResult]:
        """Run the job; return its problem, the unscaled results in the layer's shape, and the backend's result."""
        values, exponent = dict(fused), sum(each.rounding.exponent for each in rounded.values())
        bias, relu = None, False
        if problem.bias and (exponent or self.nvfp4 or (self.has_integers and is_float32)):
            # NVFP4: the host multiplies sums by the tensors' scales before it adds biases.
            scaled_bias = None if self.nvfp4 else fit_bias(self.tile, fused["bias"], exponent)
            if scaled_bias is None:
                bias, relu = values.pop("bias"), problem.relu
                problem = replace(problem, bias=False, relu=False)
            else:
                values["bias"] = scaled_bias
        core_scales = isinstance(self.config, CoreConfig) and self.config.scale and -exponent in DESCRIPTOR_SCALES
        core_scales &= not self.has_integers  # A descriptor does not scale INT32.
        values |= {
            name: np.ascontiguousarray(layer_values(self.geometry, name, each.values)) for name, each in rounded.items()
        }
        scale = -exponent if core_scales else 0
        job = DeviceJob(
            problem=problem,
            values=values,
            seed=None if self.nvfp4 else self.seed,
            operation=self.number,
            toward_zero=self.toward_zero,
            scale=scale + result_scale,
            weight_block_height=self.weight_block_height,
        )
        result = self.backend.run(job)
        if self.nvfp4:
            with np.errstate(over="ignore", invalid="ignore"):
                factor = np.float32(prod(each.factor for each in rounded.values()))
                scaled_sums = result.bits.view(np.float32) * factor
            return problem, finish_results(scaled_sums.view(np.uint32), 0, bias, relu=relu), result
        if self.has_integers and is_float32:
            return problem, finish_results(scale_integers(result.bits, -exponent), 0, bias, relu=relu), result
        return problem, finish_results(result.bits, -exponent - scale, bias, relu=relu), result

    def _require_room(self, problem: Problem) -> None:
        """Check that operands and result fit into memory; every backend has the same limit."""
        layer, width = problem.layer, 1 if self.nvfp4 else 4 if self.has_scales else self.tile.a_format.width // 8
        sizes = [width * int(np.prod(layer.whole_shape(name))) for name in self.pair]
        results = int(np.prod(layer.whole_shape(RESULTS[problem.operation])))
        sizes += [(4 if problem.fp32 else width) * results, width * results * problem.mask]
        sizes.append(4 * layer.products * layer.filters * problem.bias)
        if sum(sizes) > self.memory_bytes:
            raise NoRoomError(
                f"out of device memory: operands and result have {sum(sizes)} bytes, the memory {self.memory_bytes}"
            )
