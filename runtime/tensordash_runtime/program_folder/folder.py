"""In-memory program folders: a plan with its memory map, programs, and initial and expected contents."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from typing import IO, Any

from tensordash.configuration.descriptors import BYTES
from tensordash_storage.files import annotate_oserror

from .execution import EXECUTORS, EmulatedMemory, Executor, read_tensor, run_plan
from .linking import MemoryMap, Region, link, split_descriptors
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
    initial : bytes or memoryview
        The first `memory_map.initial_bytes` of memory before the first program.
    expected : bytes or memoryview
        Memory after the step, computed by the emulator; records are zeros.
    """

    plan: Plan
    memory_map: MemoryMap
    programs: list[dict[str, int]]
    initial: bytes | memoryview
    expected: bytes | memoryview

    def descriptors(self, program: int) -> list[int]:
        """Return the descriptors of a program."""
        region = self.memory_map.programs[program]
        begin = region.address - self.memory_map.base
        return split_descriptors(bytes(self.initial[begin : begin + region.bytes]))

    def expected_bytes(self, tensor: str) -> bytes:
        """Return a tensor's bytes in memory after the step."""
        region = self.memory_map.tensors[tensor]
        begin = region.address - self.memory_map.base
        return bytes(self.expected[begin : begin + region.bytes])


def build_folder(
    plan: Plan,
    values: Mapping[str, Any],
    *,
    base: int,
    memory_bytes: int | None = None,
    computed: dict[str, Any] | None = None,
) -> ProgramFolder:
    """Link a plan, and write its initial and expected contents to temporary files, which need no memory until read.

    Parameters
    ----------
    plan : Plan
        The step.
    values : mapping of str to array of unsigned
        Bit patterns of the plan's initial tensors.
    base, memory_bytes
        See `link`.
    computed : mapping of str to array of unsigned, optional
        Bit patterns of all tensors after the calls, from the plan's builder; by default the emulator computes them. The
        function removes them, to free memory.

    Raises
    ------
    NoRoomError, ProgramFolderError, ProgramError
        See `link`.
    OSError
        If the system's folder for temporary files has no room for the contents. The error names the folder.
    """
    memory_map, linked = link(plan, base, memory_bytes)
    figures: list[dict[str, int]] = []
    with (
        annotate_oserror(Path(gettempdir()), if_nameless=True),
        TemporaryFile() as initial_file,
        TemporaryFile() as expected_file,
    ):
        _write(initial_file, base, _tensor_bytes(plan, memory_map, plan.initial, values.__getitem__))
        for region, program in zip(memory_map.programs, linked, strict=True):
            figures.append({name: getattr(program, name) for name in PROGRAM_FIGURES})
            image = b"".join(bits.to_bytes(BYTES, "little") for bits in program.descriptors)
            for file in (initial_file, expected_file):
                _write(file, base, [(region, image)])
        initial = _contents(initial_file, memory_map.initial_bytes)
        if computed is None:
            memory = EmulatedMemory(plan, memory_map)
            memory.write(memory_map.base, initial)
            run_plan(memory, plan, memory_map)
            whole = Region(name="memory", address=base, bytes=memory_map.size)
            _write(expected_file, base, [(whole, memory.read(base, memory_map.size))])
        else:
            _write(expected_file, base, _tensor_bytes(plan, memory_map, plan.tensors, computed.pop))
        expected = _contents(expected_file, memory_map.size)
    return ProgramFolder(plan=plan, memory_map=memory_map, programs=figures, initial=initial, expected=expected)


def _tensor_bytes(
    plan: Plan, memory_map: MemoryMap, names: Iterable[str], value_of: Callable[[str], Any]
) -> Iterator[tuple[Region, bytes]]:
    """Yield the region and the bytes in memory of each tensor."""
    return ((memory_map.tensors[name], plan.tensors[name].to_bytes(value_of(name), plan.config)) for name in names)


def _write(file: IO[bytes], base: int, regions: Iterable[tuple[Region, bytes]]) -> None:
    """Write regions of memory to a file that begins at the base."""
    for region, data in regions:
        file.seek(region.address - base)
        file.write(data)


def _contents(file: IO[bytes], size: int) -> memoryview:
    """Return `size` bytes of a file, of which only the pages that are read use memory."""
    file.truncate(size)
    return memoryview(mmap(file.fileno(), size, access=ACCESS_READ) if size else b"")


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
