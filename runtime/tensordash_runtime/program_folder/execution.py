"""Execution of linked plans on the golden core, emulator, Verilog or a device, with equal bits in memory."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import BYTES
from tensordash_sim.compiler.images import geometry_values, layer_values
from tensordash_sim.compiler.layer import OPERANDS, RESULTS, Layer
from tensordash_sim.emulator import contract
from tensordash_sim.golden.core.golden_core import GoldenCore, Memory
from tensordash_sim.verify.verilated_core import VerilatedCore

from ..errors import DeviceError
from ..mmio.core import MappedCore
from .host_calls import compute_host_call
from .linking import MemoryMap, Region, split_descriptors
from .plan import HostCall, Plan, Product

__all__ = ["EXECUTORS", "EmulatedMemory", "Executor", "GoldenMemory", "VerilatedMemory", "compute_product", "run_plan"]


class Executor(Protocol):
    """Memory, and a core that executes the programs in it."""

    def read(self, address: int, count: int) -> bytes:
        """Read bytes of memory."""

    def write(self, address: int, data: bytes | memoryview) -> None:
        """Write bytes of memory."""

    def run_program(self, products: Sequence[Product], descriptors: Region) -> int | None:
        """Execute a program; return its cycles if they are measured.

        Raises
        ------
        DeviceError
            If the core reports an error.
        """

    def close(self) -> None:
        """Release simulators."""


class _SimulatedMemory:
    """Memory of golden core and emulator, which has all addresses of the map."""

    def __init__(self, memory_map: MemoryMap) -> None:
        self._memory = Memory(memory_map.size, memory_map.base)

    def read(self, address: int, count: int) -> bytes:
        data = self._memory.read(address, count)
        assert data is not None
        return data

    def write(self, address: int, data: bytes | memoryview) -> None:
        written = self._memory.write(address, data)
        assert written

    def close(self) -> None: ...


class GoldenMemory(_SimulatedMemory):
    """The golden core, which executes descriptors in sequence."""

    def __init__(self, plan: Plan, memory_map: MemoryMap) -> None:
        super().__init__(memory_map)
        self._core = GoldenCore(plan.config, self._memory)

    def run_program(self, products: Sequence[Product], descriptors: Region) -> int | None:
        outcome = self._core.run_queue(descriptors.address, descriptors.bytes // BYTES)
        if outcome.error:
            raise DeviceError(f"{descriptors.name}: error {outcome.error} in descriptor {outcome.index}")
        return None


class EmulatedMemory(_SimulatedMemory):
    """The emulator, which computes the products of a program and reads no descriptors."""

    def __init__(self, plan: Plan, memory_map: MemoryMap) -> None:
        super().__init__(memory_map)
        self._plan, self._map = plan, memory_map

    def run_program(self, products: Sequence[Product], descriptors: Region) -> int | None:
        for product in products:
            values = {name: read_tensor(self, self._plan, self._map, name) for name in product.read}
            bits = compute_product(self._plan.config, product, values)
            write_tensor(self, self._plan, self._map, product.tensors["result"], bits)
        return None


class VerilatedMemory:
    """The emitted Verilog, with a memory latency of 50 cycles."""

    def __init__(self, plan: Plan, memory_map: MemoryMap) -> None:
        self._base = memory_map.base
        self._core = VerilatedCore(plan.config, memory_map.size, base=memory_map.base)

    def read(self, address: int, count: int) -> bytes:
        return self._core.memory[address - self._base :][:count].tobytes()

    def write(self, address: int, data: bytes | memoryview) -> None:
        self._core.memory[address - self._base :][: len(data)] = np.frombuffer(data, np.uint8)

    def run_program(self, products: Sequence[Product], descriptors: Region) -> int | None:
        program = split_descriptors(self.read(descriptors.address, descriptors.bytes))
        done = self._core.run(program, descriptors.address)
        if done.outcome.error:
            raise DeviceError(f"{descriptors.name}: error {done.outcome.error} in descriptor {done.outcome.index}")
        return done.cycles

    def close(self) -> None:
        self._core.close()


class MappedMemory:
    """A core at an address (`MappedCore`), confined to the memory of the map."""

    def __init__(self, plan: Plan, memory_map: MemoryMap, *, address: str, timeout: float) -> None:
        self._core = MappedCore(plan.config, memory_map.size, address=address, timeout=timeout, start=memory_map.base)
        self.read, self.write, self.close = self._core.read, self._core.write, self._core.close

    def run_program(self, products: Sequence[Product], descriptors: Region) -> int | None:
        outcome, _ = self._core.run(descriptors.address, descriptors.bytes // BYTES)
        if outcome.error:
            raise DeviceError(f"{descriptors.name}: error {outcome.error} in descriptor {outcome.index}")
        return None


EXECUTORS: dict[str, Callable[..., Executor]] = {
    "golden": GoldenMemory,
    "emulator": EmulatedMemory,
    "verilator": VerilatedMemory,
    "mmio": MappedMemory,
}
"""Executors by name."""


def compute_product(config: CoreConfig, product: Product, values: Mapping[str, NDArray]) -> NDArray:
    """Return the bit patterns of a product's result, computed by the emulator from its tensors' bit patterns."""
    geometry, problem = product.geometry, product.problem
    tensors = {role: values[name] for role, name in product.tensors.items() if role != "result"}
    operands = {
        role: np.ascontiguousarray(layer_values(geometry, role, tensors[role].reshape(geometry.shapes[role])))
        for role in OPERANDS[product.operation]
    }
    result = RESULTS[product.operation]
    bias, mask = tensors.get("bias"), tensors.get("mask")
    bits = contract(
        config,
        problem.layer,
        problem.operation,
        problem.rows,
        operands,
        fp32=problem.fp32,
        relu=problem.relu,
        bias=None if bias is None else bias.view(np.float32).reshape(Layer.of(geometry).whole_shape("bias")),
        mask=None if mask is None else layer_values(geometry, result, mask.reshape(geometry.shapes[result])),
    )
    return np.ascontiguousarray(geometry_values(geometry, result, bits))


def read_tensor(executor: Executor, plan: Plan, memory_map: MemoryMap, name: str) -> NDArray:
    """Return a tensor's bit patterns from memory."""
    region = memory_map.tensors[name]
    return plan.tensors[name].from_bytes(executor.read(region.address, region.bytes), plan.config)


def write_tensor(executor: Executor, plan: Plan, memory_map: MemoryMap, name: str, bits: NDArray) -> None:
    """Write a tensor's bit patterns to memory."""
    executor.write(memory_map.tensors[name].address, plan.tensors[name].to_bytes(bits, plan.config))


def run_plan(executor: Executor, plan: Plan, memory_map: MemoryMap) -> list[int | None]:
    """Run all calls of a plan in order on memory with its initial contents; return the cycles of each program.

    Raises
    ------
    DeviceError
        If the core reports an error.
    """
    cycles: list[int | None] = []
    for stage in plan.stages:
        if isinstance(stage, HostCall):
            values = {name: read_tensor(executor, plan, memory_map, name) for name in stage.read}
            for name, bits in compute_host_call(stage, plan.tensors, values).items():
                write_tensor(executor, plan, memory_map, name, bits)
        else:
            cycles.append(executor.run_program(stage, memory_map.programs[len(cycles)]))
    return cycles
