"""In-memory program folders: a plan with its memory map, programs, and initial and expected contents."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from itertools import chain
from typing import Any

from tensordash.configuration.descriptors import BYTES

from .execution import EXECUTORS, EmulatedMemory, Executor, read_tensor, run_plan
from .linking import LinkedProgram, MemoryMap, Region, link, split_descriptors
from .plan import Plan

__all__ = ["PROGRAM_FIGURES", "ProgramFolder", "build_folder", "compare", "run_folder"]

PROGRAM_FIGURES = ("cycles", "dense_cycles", "moved_bytes")
"""Expected figures of a program."""


@dataclass(frozen=True, kw_only=True)
class ProgramFolder:
    """An in-memory program folder.

    Parameters
    ----------
    plan : Plan
        The step.
    memory_map : MemoryMap
        Addresses of tensors and programs.
    programs : list of dict
        Expected "cycles", "dense_cycles" and "moved_bytes" of each program.
    initial : bytes
        The first `memory_map.initial_bytes` of memory before the first program.
    expected : bytes
        Memory after the step, computed by the emulator; records are zeros.
    """

    plan: Plan
    memory_map: MemoryMap
    programs: list[dict[str, int]]
    initial: bytes
    expected: bytes

    def descriptors(self, program: int) -> list[int]:
        """Return the descriptors of a program."""
        region = self.memory_map.programs[program]
        begin = region.address - self.memory_map.base
        return split_descriptors(self.initial[begin : begin + region.bytes])

    def expected_bytes(self, tensor: str) -> bytes:
        """Return a tensor's bytes in memory after the step."""
        region = self.memory_map.tensors[tensor]
        begin = region.address - self.memory_map.base
        return self.expected[begin : begin + region.bytes]


def build_folder(
    plan: Plan,
    values: Mapping[str, Any],
    *,
    base: int,
    memory_bytes: int | None = None,
    computed: Mapping[str, Any] | None = None,
) -> ProgramFolder:
    """Link a plan, and lay out its initial and expected contents.

    Parameters
    ----------
    plan : Plan
        The step.
    values : mapping of str to array of unsigned
        Bit patterns of the plan's initial tensors.
    base, memory_bytes
        See `link`.
    computed : mapping of str to array of unsigned, optional
        Bit patterns of all tensors after the calls, from the plan's builder; by default the emulator computes them.

    Raises
    ------
    NoRoomError, ProgramFolderError, ProgramError
        See `link`.
    """
    memory_map, programs = link(plan, base, memory_bytes)
    initial = _initial_contents(plan, memory_map, programs, values)
    if computed is None:
        memory = EmulatedMemory(plan, memory_map)
        memory.write(memory_map.base, initial)
        run_plan(memory, plan, memory_map)
        expected = memory.read(memory_map.base, memory_map.size)
    else:
        tensors = _tensor_bytes(plan, memory_map, plan.tensors, computed)
        expected = _contents(memory_map.size, memory_map.base, initial, tensors)
    return ProgramFolder(
        plan=plan,
        memory_map=memory_map,
        programs=[{name: getattr(program, name) for name in PROGRAM_FIGURES} for program in programs],
        initial=initial,
        expected=expected,
    )


def _initial_contents(
    plan: Plan, memory_map: MemoryMap, programs: list[LinkedProgram], values: Mapping[str, Any]
) -> bytes:
    images = (b"".join(bits.to_bytes(BYTES, "little") for bits in program.descriptors) for program in programs)
    regions = chain(
        _tensor_bytes(plan, memory_map, plan.initial, values), zip(memory_map.programs, images, strict=True)
    )
    return _contents(memory_map.initial_bytes, memory_map.base, b"", regions)


def _tensor_bytes(
    plan: Plan, memory_map: MemoryMap, names: Iterable[str], values: Mapping[str, Any]
) -> Iterator[tuple[Region, bytes]]:
    """Yield the region and the bytes in memory of each tensor."""
    return ((memory_map.tensors[name], plan.tensors[name].to_bytes(values[name], plan.config)) for name in names)


def _contents(size: int, base: int, before: bytes, regions: Iterable[tuple[Region, bytes]]) -> bytes:
    """Return `size` bytes of memory from the base: bytes `before`, then zeros, overwritten by the regions' bytes."""
    contents = BytesIO()  # It returns its bytes without a copy, which may have gigabytes.
    contents.seek(size - 1)
    contents.write(b"\0")
    contents.seek(0)
    contents.write(before)
    for region, data in regions:
        contents.seek(region.address - base)
        contents.write(data)
    return contents.getvalue()


def run_folder(folder: ProgramFolder, executor: str, **options: Any) -> tuple[list[int | None], str]:
    """Run a folder once on an executor of `EXECUTORS`, which is built with the options.

    Returns
    -------
    list of int, str
        Cycles of each program, or None if the executor does not measure them; and the result of `compare`.
    """
    memory = EXECUTORS[executor](folder.plan, folder.memory_map, **options)
    try:
        memory.write(folder.memory_map.base, folder.initial)
        return run_plan(memory, folder.plan, folder.memory_map), compare(folder, memory)
    finally:
        memory.close()


def compare(folder: ProgramFolder, executor: Executor) -> str:
    """Compare all tensors in an executor's memory with the expected bytes; return the first difference, or ""."""
    plan, places = folder.plan, folder.memory_map
    for name, region in places.tensors.items():
        found, wanted = executor.read(region.address, region.bytes), folder.expected_bytes(name)
        if found == wanted:
            continue
        tensor = plan.tensors[name]
        bits = read_tensor(executor, plan, places, name).ravel()
        right = tensor.from_bytes(wanted, plan.config).ravel()
        different = (bits != right).nonzero()[0]
        if len(different):
            k = int(different[0])
            count = f"{len(different)} of {tensor.size} values differ"
            return f"{name}: {count}, the first is value {k}: {int(bits[k]):#x}, not {int(right[k]):#x}"
        return f"{name}: its padding is not zero"
    return ""
