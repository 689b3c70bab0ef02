"""Execute jobs on the emulator, the golden core, the emitted Verilog or a core at an address, with equal bits."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tensordash import TileConfig
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import BYTES
from tensordash_sim.compiler.emission import emit, placeholder_addresses
from tensordash_sim.compiler.images import TensorImage
from tensordash_sim.compiler.layer import OPERANDS
from tensordash_sim.compiler.nvfp4_values import nvfp4_products
from tensordash_sim.compiler.problem import Problem
from tensordash_sim.compiler.program import RECORD_BYTES, Program, program_with_record
from tensordash_sim.compiler.rounding import scaled, stochastic, toward_zero
from tensordash_sim.emulator import RandomBits, contract, contract_scaled
from tensordash_sim.golden.core.golden_core import GoldenCore, Memory, Outcome
from tensordash_sim.verify.verilated_core import SilentMemoryError, VerilatedCore

from .errors import DeviceError, NoRoomError
from .jobs import BackendResult, DeviceJob
from .mmio.core import MappedCore
from .programs import moved_bytes, schedule_of, space_of

__all__ = ["Backend", "Emulator", "Golden", "Mmio", "ProgramMemory", "Verilator", "require_success"]

RING_ALIGNMENT_BYTES = 64
"""Alignment of the descriptor ring's address."""


class Backend(Protocol):
    """Interface of a backend."""

    def run(self, job: DeviceJob) -> BackendResult:
        """Run a job and return its results.

        Raises
        ------
        DeviceError
            If the job does not fit the memory, or the core reports an error.
        """

    def close(self) -> None:
        """Release memory and simulators."""


class Emulator:
    """Compiled model of a core or a tile, with the golden core's bits."""

    def __init__(self, config: CoreConfig | TileConfig) -> None:
        self._config = config

    def run(self, job: DeviceJob) -> BackendResult:
        """Run a job without measuring cycles."""
        problem = job.problem
        if isinstance(self._config, TileConfig) and self._config.numerics.scale is not None:
            settings: dict[str, Any] = {"seed": job.key, "weight_block_height": job.weight_block_height}
            bits = contract_scaled(self._config, problem.layer, problem.operation, problem.rows, job.values, **settings)
            return BackendResult(bits=bits.view(np.uint32))
        settings = {"fp32": problem.fp32, "relu": problem.relu, "toward_zero": job.toward_zero, "scale": job.scale}
        settings |= {name: job.values.get(name) for name in ("bias", "mask")}
        if job.seed is not None and not problem.fp32:
            assert isinstance(self._config, CoreConfig)
            settings["random"] = _random_bits(self._config, problem).of(job.seed, job.operation)
        values = job.values
        if problem.nvfp4:
            assert isinstance(self._config, CoreConfig)
            fmt = self._config.tile.a_format
            values = {name: nvfp4_products(values[name], fmt) for name in OPERANDS[problem.operation]}
        return BackendResult(
            bits=contract(self._config, problem.layer, problem.operation, problem.rows, values, **settings)
        )

    def close(self) -> None: ...


@lru_cache(maxsize=256)
def _random_bits(config: CoreConfig, problem: Problem) -> RandomBits:
    """Return a program's random bits, which do not depend on its tensors' addresses."""
    program, result = emit(schedule_of(config, problem)), placeholder_addresses(problem)["result"]
    return RandomBits(config, problem.layer, problem.operation, program.descriptors, result)


class ProgramMemory:
    """A core's memory with the tensors of a job, and programs for it.

    Parameters
    ----------
    config : CoreConfig
        The core.
    size, base : int
        Bytes of memory, and the address of the first one.
    """

    def __init__(self, config: CoreConfig, size: int, base: int = 0) -> None:
        self._config, self.memory = config, Memory(size, base)
        self._programs: dict[tuple[Problem, tuple[int, ...]], Program] = {}

    def place(self, job: DeviceJob) -> TensorImage:
        """Write the tensors of a job to memory.

        Raises
        ------
        NoRoomError
            If the memory is too small.
        """
        problem = job.problem
        try:
            return TensorImage(
                self._config,
                self.memory,
                problem.layer,
                problem.operation,
                job.values,
                rows=problem.rows,
                fp32=problem.fp32,
                turned=space_of(self._config, problem).problem.turned,
                nvfp4=problem.nvfp4,
            )
        except ValueError as error:  # Shapes were checked before: the memory is too small.
            raise NoRoomError(f"out of device memory: {error}") from None

    def program(self, job: DeviceJob, tensors: Mapping[str, int], end: int) -> tuple[Program, int]:
        """Return the program of a job, whose record is at `end`, and the address of its ring.

        Raises
        ------
        NoRoomError
            If the memory is too small.
        """
        program = self._compiled(job.problem, tensors, end)
        if job.seed is not None or job.toward_zero or job.scale:
            descriptors, program = program.descriptors, Program()
            if job.seed is not None:
                descriptors = stochastic(descriptors, job.seed, job.operation)
            elif job.toward_zero:
                descriptors = toward_zero(descriptors)
            program.descriptors = scaled(descriptors, job.scale) if job.scale else descriptors
        ring = -(-(end + RECORD_BYTES) // RING_ALIGNMENT_BYTES) * RING_ALIGNMENT_BYTES
        size = ring + BYTES * len(program.descriptors) - self.memory.base
        if size > len(self.memory.bytes):
            raise NoRoomError(f"out of device memory: {size} bytes with the program, not {len(self.memory.bytes)}")
        return program, ring

    def close(self) -> None:
        """Release the memory."""
        self.memory = Memory(0)

    def _compiled(self, problem: Problem, tensors: Mapping[str, int], end: int) -> Program:
        key = problem, tuple(tensors.values())
        if key not in self._programs:
            schedule = schedule_of(self._config, problem)
            self._programs[key] = program_with_record(emit(schedule, tensors), end)
        return self._programs[key]


class _Programs(ProgramMemory):
    """Base class of backends that run one program at a time."""

    def run(self, job: DeviceJob) -> BackendResult:
        """Write the tensors to memory, run the program, and read its result."""
        image = self.place(job)
        program, ring = self.program(job, image.tensors, image.end)
        cycles, traffic = self._execute(program, image.end, ring)
        bits = image.result()
        return BackendResult(bits=bits.view(f"u{bits.dtype.itemsize}"), cycles=cycles, traffic=traffic)

    def _execute(self, program: Program, end: int, ring: int) -> tuple[int | None, int]:
        """Run a program whose record is at `end`, after the tensors; return its cycles and the bytes moved."""
        raise NotImplementedError


def require_success(outcome: Outcome) -> None:
    """Raise DeviceError if a descriptor ended with an error."""
    if outcome.error:
        raise DeviceError(f"error {outcome.error} in descriptor {outcome.index}")


class Golden(_Programs):
    """Golden core: a simple but slow model."""

    def _execute(self, program: Program, end: int, ring: int) -> tuple[int | None, int]:
        require_success(GoldenCore(self._config, self.memory).run(program.descriptors))
        return None, moved_bytes(program, self._config)


class Verilator(_Programs):
    """Simulation of the emitted Verilog, with a memory of random latency.

    Parameters
    ----------
    config, size
        As for `Golden`.
    options
        Options of `VerilatedCore`: latency, pause, seed, quick, waves.

    Attributes
    ----------
    has_waves : bool
        Whether the build can draw waves.
    draw : tuple of (Path, int or None), optional
        VCD file for the waves of the next program, and the only descriptor to draw (None: all). The run resets it.
    """

    def __init__(self, config: CoreConfig, size: int, **options: Any) -> None:
        super().__init__(config, size)
        self._core = VerilatedCore(config, size, **options)
        self.has_waves = bool(options.get("waves"))
        self.draw: tuple[Path, int | None] | None = None

    def close(self) -> None:
        super().close()
        self._core.close()

    def _execute(self, program: Program, end: int, ring: int) -> tuple[int | None, int]:
        tensors: NDArray[np.uint8] = np.frombuffer(self.memory.bytes, np.uint8)
        self._core.memory[:end] = tensors[:end]
        waves, command = self.draw or (None, None)
        self.draw = None
        try:
            done = self._core.run(program.descriptors, ring, waves=waves, command=command)
        except (IndexError, SilentMemoryError) as error:
            raise DeviceError(str(error)) from None
        require_success(done.outcome)
        self.memory.bytes[: end + RECORD_BYTES] = self._core.memory[: end + RECORD_BYTES].tobytes()
        beats = done.counters["read_beats"] + done.counters["write_beats"]
        return done.cycles, beats * self._config.axi_bits // 8


class Mmio(_Programs):
    """A core at an address, used through its registers (`MappedCore`). Cycles are not measured.

    Parameters
    ----------
    config, size
        As for `Golden`.
    address : str
        The core's address.
    timeout : float
        Seconds that an operation may take.
    """

    def __init__(self, config: CoreConfig, size: int, *, address: str, timeout: float) -> None:
        self._core = MappedCore(config, size, address=address, timeout=timeout)
        super().__init__(config, size, self._core.base)

    def close(self) -> None:
        super().close()
        self._core.close()

    def _execute(self, program: Program, end: int, ring: int) -> tuple[int | None, int]:
        base = self.memory.base
        self._core.write(base, bytes(self.memory.bytes[: end - base]))
        self._core.write(ring, program.image())
        outcome, counters = self._core.run(ring, len(program.descriptors))
        require_success(outcome)
        count = end + RECORD_BYTES - base
        self.memory.bytes[:count] = self._core.read(base, count)
        return None, (counters["read_beats"] + counters["write_beats"]) * self._config.axi_bits // 8
