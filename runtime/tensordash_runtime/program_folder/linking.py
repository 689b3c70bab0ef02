"""Linker: place a plan's tensors and programs in a memory map, and emit the programs for these addresses."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, pairwise
from operator import not_

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import BYTES, HEADER, OPERATIONS
from tensordash_sim.compiler.emission import emit_unordered, order_program
from tensordash_sim.compiler.iteration_space import BufferPlan, IterationSpace
from tensordash_sim.compiler.program import RECORD_BYTES, Program, program_with_record
from tensordash_sim.compiler.resident_loads import ResidentLoads
from tensordash_sim.compiler.residents import NamedProblem, plan_buffers
from tensordash_sim.compiler.schedule import Residency, Schedule, schedule_tiling
from tensordash_sim.compiler.timing import timing
from tensordash_sim.golden.core.effects import read_memory

from ..errors import NoRoomError, ProgramFolderError
from ..programs import has_tiling, moved_bytes, tiling_of
from .plan import Plan, Product

__all__ = ["PAGE_BYTES", "LinkedProgram", "MemoryMap", "Region", "link", "split_descriptors"]

PAGE_BYTES = 4096
"""Alignment of a memory map's base and size, a page of the core's bounds."""
ALIGNMENT_BYTES = 64
"""Alignment of tensors and programs."""
RELATIVE_BITS = 48
"""Bits of an address relative to its tensor, before relocation. The bits above them are the number of the tensor."""
TENSOR_BITS = 64 - RELATIVE_BITS
OPERATION = HEADER[0]
MEMORY = OPERATIONS["load"].fields[0]
"""Low half of a move's address; the high half is next to it."""
MOVE_CODES = frozenset(OPERATIONS[name].code for name in ("load", "store"))


@dataclass(frozen=True, kw_only=True)
class Region:
    """A named range of memory."""

    name: str
    address: int
    bytes: int

    @property
    def end(self) -> int:
        """The first address after the region."""
        return self.address + self.bytes


@dataclass(frozen=True, kw_only=True)
class MemoryMap:
    """Addresses of tensors, programs and records.

    Parameters
    ----------
    base, size : int
        First address of the map and its size in bytes, multiples of `PAGE_BYTES`.
    initial_bytes : int
        Bytes from `base` to write before the first program: initial tensors and programs.
    tensors : dict of str to Region
        Region of each tensor, by its name.
    programs, records : tuple of Region
        For each program, the region of its descriptors and the region to which it records its counts.
    """

    base: int
    size: int
    initial_bytes: int
    tensors: dict[str, Region]
    programs: tuple[Region, ...]
    records: tuple[Region, ...]

    def check(self, config: CoreConfig) -> None:
        """Check that regions are aligned, do not overlap and are inside the map.

        Raises
        ------
        ProgramFolderError
            If not; the message has the region, its addresses and the allowed values.
        """
        for name, value in (("base", self.base), ("size", self.size)):
            if value < 0 or value % PAGE_BYTES:
                raise ProgramFolderError(f"memory.{name} must be a multiple of {PAGE_BYTES}, not {value:#x}")
        if self.base + self.size > 1 << config.address_bits:
            raise ProgramFolderError(
                f"memory must end at {1 << config.address_bits:#x} (core.address_bits = {config.address_bits}), "
                f"not at {self.base + self.size:#x}"
            )
        if not 0 <= self.initial_bytes <= self.size:
            raise ProgramFolderError(f"memory.initial_bytes must be from 0 to {self.size}, not {self.initial_bytes}")
        regions = sorted(self.regions, key=lambda region: region.address)
        for region in regions:
            if region.address % ALIGNMENT_BYTES:
                raise ProgramFolderError(
                    f"address of {region.name} must be a multiple of {ALIGNMENT_BYTES}, not {region.address:#x}"
                )
            if not self.base <= region.address <= region.end <= self.base + self.size:
                raise ProgramFolderError(
                    f"{region.name} must be in the memory from {self.base:#x} to {self.base + self.size:#x}, "
                    f"not from {region.address:#x} to {region.end:#x}"
                )
        for first, second in pairwise(regions):
            if first.end > second.address:
                raise ProgramFolderError(
                    f"{first.name} and {second.name} must not overlap: {first.name} ends at {first.end:#x}, "
                    f"{second.name} begins at {second.address:#x}"
                )

    @property
    def regions(self) -> Iterator[Region]:
        """Yield all regions."""
        yield from self.tensors.values()
        yield from self.programs
        yield from self.records


@dataclass(frozen=True, kw_only=True)
class LinkedProgram:
    """A program emitted for its addresses.

    Parameters
    ----------
    products : list of Product
        The products that it computes.
    descriptors : list of int
        The program, with a record of its counts and an end.
    cycles, dense_cycles : int
        Estimated cycles of the core, and of the same schedule on a core with the dense tile.
    moved_bytes : int
        Bytes that its loads and stores move, including the record.
    """

    products: list[Product]
    descriptors: list[int]
    cycles: int
    dense_cycles: int
    moved_bytes: int


def split_descriptors(data: bytes) -> list[int]:
    """Return the descriptors of a program from its bytes in memory."""
    return [int.from_bytes(data[k : k + BYTES], "little") for k in range(0, len(data), BYTES)]


def link(plan: Plan, base: int, memory_bytes: int | None = None) -> tuple[MemoryMap, Iterator[LinkedProgram]]:
    """Place a plan's tensors and programs in memory, and emit the programs one by one.

    Parameters
    ----------
    plan : Plan
        The step.
    base : int
        The first address, a multiple of `PAGE_BYTES`.
    memory_bytes : int, optional
        Bytes of memory from `base`; unlimited by default.

    Raises
    ------
    NoRoomError
        If tensors and programs do not fit.
    ProgramFolderError
        If `base` is misaligned.
    ProgramError
        If the core cannot compute a product.
    """
    config = plan.config
    stages = [stage for stage in plan.stages if isinstance(stage, list)]
    emitted = [_emit_stage(config, stage) for stage in stages]
    counts = [sum(len(image) for image, _ in each) // BYTES + 2 for each in emitted]
    memory_map = _place(plan, counts, base)
    if memory_bytes is not None and memory_map.size > memory_bytes:
        raise NoRoomError(
            f"memory must have {memory_map.size} bytes for the tensors and programs of {plan.name}, not {memory_bytes}"
        )
    memory_map.check(plan.config)
    emitted.reverse()  # Each stage's descriptors are freed when its program is linked.
    programs = (
        _link_program(config, memory_map, stage, emitted.pop(), record.address)
        for stage, record in zip(stages, memory_map.records, strict=True)
    )
    return memory_map, programs


def _plan_buffers(config: CoreConfig, products: Sequence[Product]) -> list[BufferPlan]:
    """Plan which tensors stay in the buffer between a program's products."""
    return plan_buffers(config, [NamedProblem(each.problem, each.tensors) for each in products], has_tiling)


def _schedule(config: CoreConfig, products: Sequence[Product], buffers: Sequence[BufferPlan]) -> list[Schedule]:
    """Return the schedules of a program's products; each uses the tensors that earlier products leave in the buffer."""
    residency = Residency(config)
    spaces = [
        IterationSpace(problem=product.problem, core=config, buffer=buffer)
        for product, buffer in zip(products, buffers, strict=True)
    ]
    return [
        schedule_tiling(space, tiling_of(space), residency=residency, names=product.tensors)
        for product, space in zip(products, spaces, strict=True)
    ]


def _emit_stage(core: CoreConfig, products: Sequence[Product]) -> list[tuple[bytes, int]]:
    """Return the descriptors and the steps of each product of a program; `_relocate` sets the addresses.

    Descriptors include the loads of resident tensors. The schedules of one program at a time are in memory. Descriptors
    are bytes because integers need more memory.
    """
    loads = ResidentLoads(core)
    emitted = []
    for product, schedule in zip(products, _schedule(core, products, _plan_buffers(core, products)), strict=True):
        places = {role: k << RELATIVE_BITS for k, role in enumerate(product.tensors)}
        descriptors = loads.insert(schedule.space, product.tensors, places, emit_unordered(schedule, places))
        image = b"".join(bits.to_bytes(BYTES, "little") for bits in descriptors)
        emitted.append((image, schedule.space.total_steps))
    return emitted


def _relocate(descriptors: Sequence[int], addresses: Sequence[int]) -> list[int]:
    """Return descriptors of `_emit_products` with the addresses of the product's tensors."""
    offsets = [address - (k << RELATIVE_BITS) << MEMORY.low for k, address in enumerate(addresses)]
    tensor_low = MEMORY.low + RELATIVE_BITS
    return [
        bits + offsets[(bits >> tensor_low) % (1 << TENSOR_BITS)] if bits & OPERATION.mask in MOVE_CODES else bits
        for bits in descriptors
    ]


def _place(plan: Plan, counts: Sequence[int], base: int) -> MemoryMap:
    """Place initial tensors, programs, records, and the other tensors, in this order."""
    at = base

    def place(name: str, size: int) -> Region:
        nonlocal at
        region = Region(name=name, address=at, bytes=size)
        at = -(-region.end // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        return region

    initial = plan.initial
    tensors = {name: place(name, plan.tensors[name].memory_bytes(plan.config)) for name in initial}
    programs = tuple(place(f"program {k}", BYTES * count) for k, count in enumerate(counts))
    initial_bytes = at - base
    records = tuple(place(f"record {k}", RECORD_BYTES) for k in range(len(counts)))
    for name, tensor in plan.tensors.items():
        if name not in tensors:
            tensors[name] = place(name, tensor.memory_bytes(plan.config))
    size = -(-(at - base) // PAGE_BYTES) * PAGE_BYTES
    return MemoryMap(
        base=base, size=size, initial_bytes=initial_bytes, tensors=tensors, programs=programs, records=records
    )


def _link_program(
    config: CoreConfig,
    memory_map: MemoryMap,
    products: list[Product],
    emitted: Sequence[tuple[bytes, int]],
    record: int,
) -> LinkedProgram:
    """Emit the program of successive products; loads of a product may overlap with earlier multiplies."""
    images, steps = zip(*emitted, strict=True)
    tile_steps = sum(count / product.speedup for count, product in zip(steps, products, strict=True))
    program = _order(config, memory_map, products, [split_descriptors(image) for image in images], record)
    return LinkedProgram(
        products=products,
        descriptors=program.descriptors,
        cycles=timing(config, program.descriptors, speedup=sum(steps) / tile_steps).cycles,
        dense_cycles=timing(config.baseline, program.descriptors).cycles,
        moved_bytes=moved_bytes(program, config),
    )


def _order(
    core: CoreConfig, memory_map: MemoryMap, products: list[Product], emitted: Sequence[list[int]], record: int
) -> Program:
    """Join the descriptors of successive products to a program."""
    joined: list[int] = []
    written: list[Region] = []
    for product, descriptors in zip(products, emitted, strict=True):
        addresses = [memory_map.tensors[name].address for name in product.tensors.values()]
        joined += _with_independent_loads_first(core, _relocate(descriptors, addresses), written)
        written += [memory_map.tensors[name] for name in product.written]
    return program_with_record(order_program(core, joined), record)


def _with_independent_loads_first(core: CoreConfig, descriptors: list[int], written: Sequence[Region]) -> list[int]:
    """Move a product's first loads that read no results of the program ahead of its other descriptors.

    Only loads before the first multiply move. Nothing else before the multiply uses their groups of the buffer.
    """
    codes = [bits & OPERATION.mask for bits in descriptors]
    end = codes.index(OPERATIONS["multiply"].code)
    is_independent = [
        codes[k] == OPERATIONS["load"].code
        and not any(
            region.address < address + count and address < region.end
            for address, count in read_memory(descriptors[k], core)
            for region in written
        )
        for k in range(end)
    ]
    first = compress(descriptors, is_independent)
    return [*first, *compress(descriptors, map(not_, is_independent)), *descriptors[end:]]
