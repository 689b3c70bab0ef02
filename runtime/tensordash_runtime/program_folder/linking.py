"""Linking: a memory map for a plan's tensors and programs, and the programs at these addresses."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import BYTES
from tensordash_sim.compiler.emission import emit_unordered, order_program
from tensordash_sim.compiler.schedule import schedule_tiling
from tensordash_sim.compiler.timing import timing

from ..errors import NoRoomError, ProgramFolderError
from ..programs import RECORD_BYTES, moved_bytes, program_with_record, schedule_of, space_of
from .plan import Plan, Product

__all__ = ["PAGE_BYTES", "LinkedProgram", "MemoryMap", "Region", "link"]

PAGE_BYTES = 4096
"""What base and size of a memory map are multiples of: pages of the core's bounds."""
ALIGNMENT_BYTES = 64
"""What addresses of tensors and programs are multiples of."""


@dataclass(frozen=True, kw_only=True)
class Region:
    """Some bytes of memory that have a name."""

    name: str
    address: int
    bytes: int

    @property
    def end(self) -> int:
        """The first address after it."""
        return self.address + self.bytes


@dataclass(frozen=True, kw_only=True)
class MemoryMap:
    """Where everything is.

    Parameters
    ----------
    base, size : int
        Bytes of the whole map, and the first one's address; multiples of `PAGE_BYTES`.
    initial_bytes : int
        Bytes from `base` on that are written before the first program: initial tensors and programs.
    tensors : dict of str to Region
        By the tensor's name.
    programs, records : tuple of Region
        Descriptors of each program, and where it records its counts.
    """

    base: int
    size: int
    initial_bytes: int
    tensors: dict[str, Region]
    programs: tuple[Region, ...]
    records: tuple[Region, ...]

    def check(self, config: CoreConfig) -> None:
        """Require that regions are aligned, apart from each other and inside.

        Raises
        ------
        ProgramFolderError
            Naming the region, its addresses and what is allowed.
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
    """A program at its place.

    Parameters
    ----------
    products : list of Product
        What it computes.
    descriptors : list of int
        The program, with a record of its counts and an end.
    cycles, dense_cycles : int
        Estimated cycles of the core, and of the core around the dense tile.
    moved_bytes : int
        Bytes that its loads and stores move, the record's among them.
    """

    products: list[Product]
    descriptors: list[int]
    cycles: int
    dense_cycles: int
    moved_bytes: int


def link(plan: Plan, base: int, memory_bytes: int | None = None) -> tuple[MemoryMap, list[LinkedProgram]]:
    """Place a plan's tensors and programs in memory, and emit the programs.

    Parameters
    ----------
    plan : Plan
        The step.
    base : int
        The first address, a multiple of `PAGE_BYTES`.
    memory_bytes : int, optional
        Bytes of memory from `base` on; as many as it takes if left out.

    Raises
    ------
    NoRoomError
        If tensors and programs do not fit.
    ProgramFolderError
        If `base` is misaligned.
    ProgramError
        If the core cannot compute a product.
    """
    stages = [stage for stage in plan.stages if isinstance(stage, list)]
    counts = [sum(_descriptor_count(plan.config, product) for product in stage) + 2 for stage in stages]
    memory_map = _place(plan, counts, base)
    if memory_bytes is not None and memory_map.size > memory_bytes:
        raise NoRoomError(
            f"memory must have {memory_map.size} bytes for the tensors and programs of {plan.name}, not {memory_bytes}"
        )
    memory_map.check(plan.config)
    programs = [
        _link_program(plan, memory_map, stage, record.address)
        for stage, record in zip(stages, memory_map.records, strict=True)
    ]
    return memory_map, programs


def _descriptor_count(config: CoreConfig, product: Product) -> int:
    """Count a product's descriptors, which do not depend on addresses."""
    schedule = schedule_of(config, product.problem)
    return len(emit_unordered(schedule, dict.fromkeys(product.problem.tensors, 0)))


def _place(plan: Plan, counts: Sequence[int], base: int) -> MemoryMap:
    """Place initial tensors, programs, and what they write, in this order."""
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


def _link_program(plan: Plan, memory_map: MemoryMap, products: list[Product], record: int) -> LinkedProgram:
    """Emit the program of products that follow each other: loads of one may run under the multiplies before."""
    config = plan.config
    emitted: list[int] = []
    dense_emitted: list[int] = []
    dense_steps, tile_steps = 0, 0.0
    for product in products:
        places = {role: memory_map.tensors[name].address for role, name in product.tensors.items()}
        problem = product.problem
        schedule = schedule_of(config, problem)
        emitted += emit_unordered(schedule, places)
        dense_emitted += emit_unordered(schedule_tiling(space_of(config.baseline, problem), schedule.tiling), places)
        dense_steps += schedule.space.total_steps
        tile_steps += schedule.space.total_steps / product.speedup
    program = program_with_record(order_program(config, emitted), record)
    dense_program = program_with_record(order_program(config.baseline, dense_emitted), record)
    return LinkedProgram(
        products=products,
        descriptors=program.descriptors,
        cycles=timing(config, program.descriptors, speedup=dense_steps / tile_steps).cycles,
        dense_cycles=timing(config.baseline, dense_program.descriptors).cycles,
        moved_bytes=moved_bytes(program, config),
    )
