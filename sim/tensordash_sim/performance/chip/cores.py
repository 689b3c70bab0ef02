"""A chip of cores: several cores at one memory port, each with a part of an operation."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.core_config import MAX_CORES, CoreConfig
from tensordash.configuration.parameters import require_int

from ...compiler.emission import PLACEHOLDER_BYTES, emit
from ...compiler.images import non_zero_groups
from ...compiler.iteration_space import IterationSpace
from ...compiler.layer import OPERANDS
from ...compiler.parts import Division, divide, part_of
from ...compiler.port import port_timing
from ...compiler.problem import Problem
from ...compiler.program import RECORD_BYTES, ProgramError, program_with_record
from ...compiler.row_streams import Paces, RowStreams
from ...compiler.schedule import Schedule, schedule_tiling
from ...compiler.search import best_schedule
from ...compiler.tiling import Tiling
from ...compiler.unit_cycles import LATENCY

__all__ = ["CoresResult", "simulate_cores"]


@dataclass(frozen=True)
class CoresResult:
    """Results of an operation on several cores.

    Attributes
    ----------
    division : Division
        How the operation is divided.
    cycles : int
        Cycles until the last core is done.
    traffic : int
        Bytes of tensors and records that memory transfers, without descriptors.
    """

    division: Division
    cycles: int
    traffic: int


def simulate_cores(
    problem: Problem,
    core: CoreConfig,
    cores: int,
    *,
    nonzero: Mapping[str, NDArray[np.bool_]] | None = None,
    shares: bool = True,
    tiling: Tiling | None = None,
    has_record: bool = True,
    latency: int = LATENCY,
) -> CoresResult:
    """Estimate an operation on several cores at one memory port; each core has its own part and program.

    Parameters
    ----------
    problem : Problem
        The operation, without biases and masks.
    core : CoreConfig
        Each of the cores. Memory transfers `axi_bits` per cycle in each direction.
    cores : int
        Maximum number of cores, 1 to 16. An operation that cannot be divided further has fewer parts.
    nonzero : mapping of str to array of bool, optional
        Both operands: true where not zero. The model then counts the cycles of the tile for each stream, as
        `simulate_operation` does. Without them, the tile has the speedup `problem.speedup`.
    shares : bool
        Whether memory reads an operand that all cores load once.
    tiling : Tiling, optional
        Tiling of every part; by default the best one.
    has_record : bool
        Whether each program ends with a record of its counts, as those of the runtime do.
    latency : int
        Latency of memory in cycles.

    Raises
    ------
    TypeError, ValueError
        If the number of cores is out of range.
    ProgramError
        If a part does not fit the core, or if the problem has a bias or a mask.

    Source: docs/integration.md, "Several cores"; docs/core.md.

    Examples
    --------
    >>> from tensordash_sim.compiler.layer import Layer
    >>> layer = Layer(samples=4, channels=32, filters=32, size=(8, 8), kernel=(3, 3), padding=1)
    >>> problem = Problem(layer=layer, operation="AxW", rows="A")
    >>> one, four = (simulate_cores(problem, CoreConfig(), count) for count in (1, 4))
    >>> four.division.shared, round(one.cycles / four.cycles)
    ('W', 3)
    """
    require_int("cores", cores, 1, MAX_CORES)
    if problem.bias or problem.mask:
        raise ProgramError("problem must have no bias and no mask: they are not estimated for several cores")
    layer, operation = problem.layer, problem.operation
    division = divide(layer, operation, cores, core.tile.lanes) if cores > 1 else Division(size="samples", count=1)
    masks = nonzero or {name: np.broadcast_to(np.True_, layer.whole_shape(name)) for name in OPERANDS[operation]}
    shared = range(0)
    programs, speedups = [], []
    for number in range(division.count):
        part_layer, part_masks = part_of(layer, operation, masks, division, number)
        part = replace(problem, layer=part_layer)
        space = IterationSpace(problem=part, core=core).with_turned_results()
        schedule = schedule_tiling(space, tiling) if tiling else best_schedule(space)
        # Each core has its own tensors; the shared operand follows those of all cores.
        first = number * len(part.tensors)
        addresses = {name: (first + k) * PLACEHOLDER_BYTES for k, name in enumerate(part.tensors)}
        if division.shared:
            base = division.count * len(part.tensors) * PLACEHOLDER_BYTES
            addresses[division.shared] = base
            shared = range(base, base + PLACEHOLDER_BYTES) if shares else shared
        programs.append(_program(schedule, addresses, has_record=has_record))
        speedups.append(
            problem.speedup if nonzero is None else _paces(part, core, programs[-1], addresses[part.rows], part_masks)
        )
    timing = port_timing(core, programs, speedups, shared=shared, latency=latency)
    traffic = timing.beats * core.axi_bits // 8 + has_record * RECORD_BYTES * division.count
    return CoresResult(division, timing.cycles, traffic)


def _program(schedule: Schedule, addresses: Mapping[str, int], *, has_record: bool) -> list[int]:
    """Return the descriptors of a part, with a record before the end."""
    program = emit(schedule, addresses)
    return (program_with_record(program, addresses["result"]) if has_record else program).descriptors


def _paces(
    part: Problem, core: CoreConfig, program: list[int], address: int, nonzero: Mapping[str, NDArray[np.bool_]]
) -> float | Paces:
    """Count the tile's cycles for all streams of a part."""
    if core.tile.sparsity == "none":
        return 1.0
    groups = non_zero_groups(core, part.layer, part.rows, nonzero[part.rows])
    return RowStreams(core, program, address).paces(groups)
