"""Execute each job on several cores at one memory port, on the emitted Verilog."""

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import BYTES
from tensordash.movers.axi import PAGE
from tensordash.movers.read_join import PATIENCE_BITS
from tensordash_sim.compiler.images import TensorImage, grouped_shape
from tensordash_sim.compiler.parts import Division, divide, join_results, part_of
from tensordash_sim.compiler.program import Program
from tensordash_sim.verify.verilated_core import SilentMemoryError
from tensordash_sim.verify.verilated_multicore import VerilatedMulticore

from .backends import ProgramMemory, require_success
from .errors import DeviceError
from .jobs import BackendResult, DeviceJob

__all__ = ["Multicore"]

PATIENCE = (1 << PATIENCE_BITS) - 1
"""Cycles that a shared burst waits for the other cores: as many as the register holds."""


class Multicore:
    """Simulation of the Verilog of several cores. Each core computes a part of a job's results (`divide`).

    Random bits of stochastic rounding depend on a core's program. Jobs with them run on one core.

    Parameters
    ----------
    config : CoreConfig
        The cores.
    size : int
        Bytes of memory for each core, and for the operand that all cores read.
    cores : int
        Number of cores, 2 to 16.
    shares : bool
        Whether an operand that all cores read is read once.
    options
        Options of `VerilatedMulticore`: latency, pause, seed, quick.

    Attributes
    ----------
    stopped_sharing : bool
        Whether sharing ended before the last job's end.

    Raises
    ------
    ValueError
        If `waves` is true.
    """

    def __init__(
        self, config: CoreConfig, size: int, cores: int, *, shares: bool = True, waves: bool = False, **options: Any
    ) -> None:
        if waves:
            raise ValueError("waves must be false on several cores")
        self._config, self._count, self._shares = config, cores, shares
        self.stopped_sharing = False
        self._size = -(-size // PAGE) * PAGE
        self._memories = [ProgramMemory(config, size, core * self._size) for core in range(cores)]
        self._cores = VerilatedMulticore(config, cores, (cores + 1) * self._size, **options)

    def run(self, job: DeviceJob) -> BackendResult:
        """Divide the job, run the programs of its parts, and join their results."""
        problem, lanes = job.problem, self._config.tile.lanes
        division = Division(size="samples", count=1)
        if job.seed is None:
            division = divide(problem.layer, problem.operation, self._count, lanes)
        images: list[TensorImage] = []
        programs: list[Program] = []
        rings: list[int] = []
        for number, memory in enumerate(self._memories[: division.count]):
            layer, values = part_of(problem.layer, problem.operation, job.values, division, number)
            part = replace(job, problem=replace(problem, layer=layer), values=values)
            image = memory.place(part)
            shared = {division.shared: self._count * self._size} if division.shared else {}
            program, ring = memory.program(part, image.tensors | shared, image.end)
            images.append(image)
            programs.append(program)
            rings.append(ring)
            self._write(image.memory.base, bytes(image.memory.bytes[: image.end - image.memory.base]))
        self._share(images[0], division, is_nvfp4=problem.nvfp4)
        cycles, traffic = self._execute(programs, rings)
        results = [self._result(image) for image in images]
        bits = join_results(results, problem.layer, problem.operation, division)
        return BackendResult(bits=bits.view(f"u{bits.dtype.itemsize}"), cycles=cycles, traffic=traffic)

    def close(self) -> None:
        """Release memory and the simulation."""
        for memory in self._memories:
            memory.close()
        self._cores.close()

    def _write(self, address: int, data: bytes) -> None:
        self._cores.memory[address : address + len(data)] = np.frombuffer(data, np.uint8)

    def _share(self, image: TensorImage, division: Division, *, is_nvfp4: bool) -> None:
        """Write the operand that all cores read to memory, and set the registers of its addresses."""
        base = self._count * self._size
        end_of_memory = base + self._size
        self._cores.share(end_of_memory, end_of_memory + PAGE, PATIENCE)
        if not division.shared:
            return
        groups = prod(grouped_shape(self._config, image.layer, division.shared))
        data = image.memory.read(image.tensors[division.shared], groups * (self._config.group_bytes >> is_nvfp4))
        assert data is not None
        self._write(base, data)
        if self._shares:
            self._cores.share(base, base + -(-len(data) // PAGE) * PAGE, PATIENCE)

    def _execute(self, programs: list[Program], rings: list[int]) -> tuple[int, int]:
        """Run the programs; return the cycles until the last one ends, and the bytes of tensors moved."""
        self._cores.silence("")  # counts transfers from now on
        try:
            runs = self._cores.run_all([each.descriptors for each in programs], rings)
        except SilentMemoryError as error:
            raise DeviceError(str(error)) from None
        self.stopped_sharing = self._cores.patience == 0
        for run in runs:
            require_success(run.outcome)
        moved = self._cores.moved
        descriptors = sum(len(each.descriptors) for each in programs) * BYTES
        traffic = (moved["r"] + moved["w"]) * self._config.axi_bits // 8 - descriptors
        return max(run.cycles for run in runs), traffic

    def _result(self, image: TensorImage) -> Any:
        base = image.memory.base
        image.memory.bytes[: image.end - base] = self._cores.memory[base : image.end].tobytes()
        return image.result()
