"""Run matrix products and convolutions of arrays and tensors, forward and backward, on a core or a tile."""

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from tensordash import TileConfig
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.parameters import require_choice, require_int
from tensordash.configuration.preset import load_any_preset
from tensordash_sim.compiler.images import layer_values
from tensordash_sim.compiler.layer import OPERANDS
from tensordash_sim.emulator import limited_threads, start_threads
from tensordash_sim.golden.quantization import non_zeros
from tensordash_sim.lowering import Geometry, MatrixProduct

from .backends import Backend, Verilator
from .errors import DeviceError
from .execution import Execution, operand_types, require_operand_formats
from .expected import Expectations
from .jobs import DeviceResult
from .opening import BACKENDS, open_backend
from .operands import Scaling, checked_operands, checked_scaling
from .recipe import Recipe, checked_recipe, default_rounding
from .rounding import checked_seed
from .shapes import Pair, broadcast, convolution_of, product_shape
from .values import FLOAT32, type_of

__all__ = ["Device"]

MEMORY_BYTES = 64 << 20
ROW_SIDES = {"a": "A", "w": "W", "g": "G"}
"""Names of operands by the arguments of a convolution."""


class Device:
    """A core or a tile that runs operations for one thread of one process.

    All backends return the same bits, which docs/numerics.md defines. For operands of the device's operand type, a
    result is the exact or binned sum, rounded to FP32 and then to that type. Values of float32 tensors are scaled and
    rounded to the operand type, and the result is the sum rounded to FP32. Other types raise an error.

    A tile with scales accepts only float32, and quantises values to elements and scales (`contract_scaled`). Its
    results have no bias, ReLU or mask. On a core in int8, int8 tensors have int8 or INT32 results (docs/core.md,
    "Integers"). float32 tensors are scaled, rounded to nearest and saturated, and the INT32 sums become float32.

    Parameters
    ----------
    preset : str, CoreConfig or TileConfig
        Preset of a core or a tile, or a configuration.
    backend : str
        "emulator": compiled code. "golden": the golden core, which is slow. "verilator": the emitted Verilog, whose
        first build takes half a minute. "mmio": a core at `address`. A tile has only the emulator.
    memory_bytes, cores : int
        Size of the memory, which must hold the operands and the result of an operation. For "verilator": number of
        cores at one memory port that divide each operation among them, 1 to 16.
    latency : (int, int)
        Minimum and maximum latency of the simulated Verilog's memory, in cycles.
    pause : float
        Probability that a channel of that memory pauses in a cycle.
    seed : int
        Seed of that memory's random latencies and pauses.
    rounding : str, optional
        Rounding of results of the operand type: "nearest" (ties to even), "zero" (toward zero) or "stochastic", which
        needs a core with `core.stochastic`. On a tile with scales, or with a recipe, rounding of quantised gradients:
        "nearest" or "stochastic". The default is "nearest", or "stochastic" with a recipe.
    rounding_seed : int
        Seed of stochastic rounding, 32 bits. Each pair of a seed and an operation number has its own random bits.
    scaling : str or mapping of str to int
        Exponents of powers of two that multiply float32 operands before rounding; results are divided by the powers.
        "auto" chooses the largest power that leaves all finite values of an operand in range. "none" does not scale.
        A mapping has exponents for "A", "W" and "G" (default: 0). Operands with scales ignore it.
    recipe : Recipe, optional
        Training recipe, for a tile with the scales of NVFP4 or a core with `core.nvfp4`. float32 operands of a core
        are then NVFP4 tensors in its memory.
    quick : bool
        Whether to build the Verilog in half the time, for a tenth of the speed.
    waves : bool
        Whether to build the Verilog for `draw_waves`.
    address, timeout : str, float
        For "mmio": the core's address (docs/runtime.md), and the time limit of an operation in seconds.

    Attributes
    ----------
    config : CoreConfig or TileConfig
        Configuration of the core or tile.
    name : str
        The preset's name, or the configuration's class and digest.
    backend, scaling, recipe, rounding
        The arguments, or their defaults.
    operations : int
        Number of operations so far; stochastic rounding uses it as the next operation's number.

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid.
    DeviceError
        If `address` has no core, or a core of another configuration.

    Examples
    --------
    >>> with Device("core") as device:
    ...     device.matmul(np.eye(2, dtype=np.float16), np.array([[1, 2], [3, 4]], np.float16))
    array([[1., 2.],
           [3., 4.]], dtype=float16)
    """

    def __init__(
        self,
        preset: str | CoreConfig | TileConfig = "core",
        backend: str = "emulator",
        *,
        memory_bytes: int = MEMORY_BYTES,
        cores: int = 1,
        latency: tuple[int, int] = (50, 50),
        pause: float = 0.0,
        seed: int = 0,
        rounding: str | None = None,
        rounding_seed: int = 0,
        scaling: Scaling = "auto",
        recipe: Recipe | None = None,
        quick: bool = False,
        waves: bool = False,
        address: str = "",
        timeout: float = 60.0,
    ) -> None:
        if not isinstance(preset, str | CoreConfig | TileConfig):
            raise TypeError(f"preset must be a preset's name, a CoreConfig or a TileConfig, not {preset!r}")
        self.config = load_any_preset(preset) if isinstance(preset, str) else preset
        self.name = preset if isinstance(preset, str) else f"{type(preset).__name__} {preset.digest}"
        self.backend = require_choice("backend", backend, BACKENDS)
        require_int("memory_bytes", memory_bytes, 1 << 12)
        self._memory_bytes = memory_bytes
        self._place = os.getpid(), threading.get_ident()
        require_operand_formats(self.config)
        start_threads()
        self.operations = 0
        self.scaling = checked_scaling(scaling)
        self.recipe = checked_recipe(self.config, recipe)
        self.rounding = default_rounding(recipe) if rounding is None else rounding
        self._rounding_seed = checked_seed(self.config, self.rounding, rounding_seed, has_recipe=recipe is not None)
        options = {"latency": latency, "pause": pause, "seed": seed, "quick": quick, "waves": waves}
        self._backend: Backend | None = open_backend(
            backend, self.config, memory_bytes, cores, address, timeout, options
        )
        self.expectations = Expectations(self.config) if isinstance(self.config, CoreConfig) else None

    def __enter__(self) -> "Device":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Release memory and processes. Later operations raise `DeviceError`."""
        if self._backend is not None:
            self._backend.close()
            self._backend = None

    @property
    def tile(self) -> TileConfig:
        return self.config.tile if isinstance(self.config, CoreConfig) else self.config

    @property
    def types(self) -> tuple[str, ...]:
        """Names of the tensor types that the device accepts; first the type to train in."""
        types = *operand_types(self.tile), FLOAT32
        return tuple(dict.fromkeys(types if self.recipe is None else types[::-1]))

    def matmul(self, a: Any, b: Any, *, row_side: str | None = None) -> Any:
        """Return a matrix product. Leading axes are a batch and are broadcast, as in NumPy and PyTorch.

        Parameters
        ----------
        a : array or tensor, (..., n, k)
            Left factor.
        b : array or tensor, (..., k, m)
            Right factor.
        row_side : str, optional
            The factor on the row side, "a" or "b", as for `contract`. The default is "a" if results depend on it.

        Returns
        -------
        array or tensor, (..., n, m)

        Raises
        ------
        TypeError, ValueError, DeviceError
            See `contract`.
        """
        type_of("a", a), type_of("b", b)
        batch, n, k, m = product_shape(tuple(a.shape), tuple(b.shape))
        left, right = (broadcast(each, (*batch, *each.shape[-2:])) for each in (a, b))
        geometry = MatrixProduct(batch=int(np.prod(batch, dtype=int)), samples=n, in_features=k, out_features=m)
        operands = {"A": left.reshape(-1, n, k), "W": right.reshape(-1, k, m).swapaxes(1, 2)}
        side = None if row_side is None else {"a": "A", "b": "W"}[require_choice("row_side", row_side, ("a", "b"))]
        return self.contract(geometry, "AxW", operands, row_side=side).result.reshape(*batch, n, m)

    def convolution(
        self,
        a: Any,
        w: Any,
        stride: Pair = 1,
        padding: Pair = 0,
        dilation: Pair = 1,
        groups: int = 1,
        *,
        row_side: str | None = None,
    ) -> Any:
        """Return a convolution without bias.

        Parameters
        ----------
        a : array or tensor, (samples, channels, x) or (samples, channels, y, x)
            Input.
        w : array or tensor, (filters, channels / groups, x) or (filters, channels / groups, y, x)
            Weights.
        stride, padding, dilation : int or tuple of int
            One value for all directions, or one for each.
        groups : int
            Number of groups of channels and filters, as in PyTorch.
        row_side : str, optional
            The operand on the row side, "a" or "w", as for `contract`.

        Returns
        -------
        array or tensor, (samples, filters, ...)

        Raises
        ------
        TypeError, ValueError, DeviceError
            See `contract`.
        """
        type_of("a", a), type_of("w", w)
        geometry = convolution_of(tuple(a.shape), tuple(w.shape), stride, padding, dilation, groups)
        return self._convolve(geometry, {"a": a, "w": w}, "AxW", row_side)

    def convolution_input(
        self,
        shape: tuple[int, ...],
        w: Any,
        g: Any,
        stride: Pair = 1,
        padding: Pair = 0,
        dilation: Pair = 1,
        groups: int = 1,
        *,
        row_side: str | None = None,
    ) -> Any:
        """Return a convolution's gradient with respect to its input, of shape `shape`.

        `g`, (samples, filters, ...), is the gradient with respect to the result. Settings and errors are those of
        `convolution`.
        """
        type_of("w", w), type_of("g", g)
        geometry = convolution_of(tuple(shape), tuple(w.shape), stride, padding, dilation, groups)
        return self._convolve(geometry, {"w": w, "g": g}, "WxG", row_side)

    def convolution_weight(
        self,
        a: Any,
        shape: tuple[int, ...],
        g: Any,
        stride: Pair = 1,
        padding: Pair = 0,
        dilation: Pair = 1,
        groups: int = 1,
        *,
        row_side: str | None = None,
    ) -> Any:
        """Return a convolution's gradient with respect to its weights, of shape `shape`; see `convolution_input`."""
        type_of("a", a), type_of("g", g)
        geometry = convolution_of(tuple(a.shape), tuple(shape), stride, padding, dilation, groups)
        return self._convolve(geometry, {"a": a, "g": g}, "AxG", row_side)

    def _convolve(self, geometry: Geometry, arguments: Mapping[str, Any], operation: str, row_side: str | None) -> Any:
        side = None if row_side is None else ROW_SIDES[require_choice("row_side", row_side, arguments)]
        operands = {ROW_SIDES[name]: each for name, each in arguments.items()}
        return self.contract(geometry, operation, operands, row_side=side).result

    def contract(
        self,
        geometry: Geometry,
        operation: str,
        operands: Mapping[str, Any],
        *,
        fp32: bool = False,
        bias: Any = None,
        relu: bool = False,
        mask: Any = None,
        row_side: str | None = None,
        scale: int = 0,
        count: bool = True,
        layer: str = "",
    ) -> DeviceResult:
        """Run one of the three operations of a layer, and return its result and a record.

        The tile skips zeros of the row side. If results do not depend on the side, the row side has the operand
        that costs the tile fewer cycles. Otherwise it has the gradient, or A in AxW. If the sides have different
        formats, the gradient is on the side whose format has the wider range (`sides.fixed_rows`).

        Parameters
        ----------
        geometry : Convolution or MatrixProduct
            The layer.
        operation : str
            "AxW", "WxG" or "AxG".
        operands : mapping of str to array or tensor
            Both operands, in the geometry's shapes.
        fp32 : bool
            Whether results stay FP32, or INT32 for int8 operands, instead of the operands' type.
        bias : array or tensor, (filters,), optional
            Values added to the sums of AxW before rounding, in one of the device's `types`; int32 for int8 operands.
        relu : bool
            Whether negative results become zero.
        mask : array or tensor, optional
            Results become zero where the mask is zero. It has the result's shape and side A's type. FP32 results have
            no mask.
        row_side : str, optional
            The operand on the row side: "A", "W" or "G".
        scale : int
            Exponent, -128 to 127, of the power of two that multiplies results of the operand type before rounding.
        count : bool
            Whether to count the tile's cycles for the record. If false, the row side always has the gradient, or A
            in AxW, unless `row_side` names another operand.
        layer : str
            Name of the layer, by which the recipe chooses its format.

        Raises
        ------
        TypeError
            If the device does not accept a tensor's type.
        ValueError
            If shapes do not fit, the core has no program for the layer, or results of this type or of this core have
            no bias, ReLU or mask.
        DeviceError
            If the device is closed, belongs to another thread or process, or is out of memory.
        """
        backend = self.require_usable()
        pair = OPERANDS[require_choice("operation", operation, OPERANDS)]
        tensors = checked_operands({name: operands[name] for name in pair}, geometry)
        execution = Execution(
            config=self.config,
            backend=backend,
            memory_bytes=self._memory_bytes,
            geometry=geometry,
            operation=operation,
            scaling=self.scaling,
            row_side=row_side,
            number=self.operations,
            seed=self._rounding_seed,
            toward_zero=self.rounding == "zero",
            count=count,
        )
        if self.recipe is not None:
            execution, tensors = self.recipe.apply(execution, tensors, layer)
        with limited_threads(geometry.macs):
            done = execution.run(tensors, fp32=fp32, bias=bias, relu=relu, mask=mask, scale=scale)
        self.operations += 1
        executed = done.executed
        if count and executed.cycles is None and self.expectations is not None and self.tile.sparsity == "rows":
            rows = executed.problem.rows
            found = layer_values(executed.geometry, rows, tensors[rows].non_zeros)
            mask = None if done.mask is None else non_zeros(done.mask, self.tile.a_format)
            self.expectations.observe(executed, found, mask if self.expectations.skips_masked else None)
        return done

    def draw_waves(self, path: str | Path, command: int | None = None) -> None:
        """Write waves of the next operation into a VCD file.

        Parameters
        ----------
        path : path
            The file, in an existing folder.
        command : int, optional
            The only descriptor to draw, counted from 0 (`VerilatedCore.run`); by default all descriptors.

        Raises
        ------
        DeviceError
            If the device was opened without ``waves=True``, is closed, or belongs to another thread or process. The
            next operation raises it if it cannot write the file, or the program has no such descriptor.
        """
        backend = self.require_usable()
        if not isinstance(backend, Verilator) or not backend.has_waves:
            raise DeviceError('waves need Device(..., "verilator", waves=True)')
        backend.draw = Path(path), command

    def require_usable(self) -> Backend:
        """Return the backend, if the device is open in this thread.

        Raises
        ------
        DeviceError
            If the device is closed, or belongs to another thread or process.
        """
        if self._backend is None:
            raise DeviceError("the device is closed")
        places = zip(("process", "thread"), self._place, (os.getpid(), threading.get_ident()), strict=True)
        for kind, maker, user in places:
            if maker != user:
                raise DeviceError(f"a device must be used in the {kind} that made it, {maker}, not {user}")
        return self._backend
