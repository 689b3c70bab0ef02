"""Resident tensors: tensors that stay completely in the buffer from one problem of a program to the next.

`plan_buffers` chooses them for the problems of a program. A resident tensor has the same layout in the buffer and in
memory.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tensordash.configuration.core_config import CoreConfig

from .iteration_space import BufferPlan, IterationSpace
from .problem import Problem

__all__ = ["NamedProblem", "plan_buffers"]

MIN_FREE_SHARE = 8
"""Resident tensors leave at least ``1 / MIN_FREE_SHARE`` of the buffer to other operands and results."""


@dataclass(frozen=True)
class NamedProblem:
    """A problem, and names of its tensors that are unique in a program."""

    problem: Problem
    names: Mapping[str, str]


@dataclass(frozen=True)
class _Use:
    """A problem's use of a tensor as an operand, the mask or the result."""

    problem: int
    role: str
    name: str


@dataclass(frozen=True)
class _Stay:
    """Uses of a place in the buffer by one tensor, or by a mask and then the result that overwrites it."""

    groups: int
    uses: tuple[_Use, ...]

    @property
    def saved_groups(self) -> int:
        """Groups that need no load: all groups that are read, minus one load if no problem computes the tensor."""
        reads = [use for use in self.uses if use.role != "result"]
        return self.groups * (len(reads) - (self.uses[0].role != "result"))

    @property
    def names(self) -> set[str]:
        return {use.name for use in self.uses}

    @property
    def span(self) -> range:
        """The problems during the stay."""
        return range(self.uses[0].problem, self.uses[-1].problem + 1)


def plan_buffers(
    core: CoreConfig, problems: Sequence[NamedProblem], has_schedule: Callable[[IterationSpace], bool]
) -> list[BufferPlan]:
    """Choose the tensors that stay in the buffer between the problems of a program, and their places.

    The function tries tensors that save most loads first. A tensor stays only if every problem during its stay still
    has a schedule.

    Parameters
    ----------
    core : CoreConfig
        The core.
    problems : sequence of NamedProblem
        The problems in order.
    has_schedule : callable
        Whether a problem with its buffer plan has a schedule.

    Returns
    -------
    list of BufferPlan
        The plan of each problem.
    """
    spaces = [IterationSpace(problem=each.problem, core=core) for each in problems]
    chosen: list[tuple[_Stay, int]] = []
    plans = [BufferPlan()] * len(problems)
    for stay in sorted(_possible_stays(spaces, problems), key=lambda stay: -stay.saved_groups):
        others = [(other, address) for other, address in chosen if set(other.span) & set(stay.span)]
        address = _free_address(core, stay.groups, [(at, at + other.groups) for other, at in others])
        if address is None or any(stay.names & other.names for other, _ in chosen):
            continue
        more = _plans(core, len(problems), [*chosen, (stay, address)])
        if all(has_schedule(spaces[k].with_buffer(more[k])) for k in stay.span):
            chosen.append((stay, address))
            plans = more
    return plans


def _possible_stays(spaces: Sequence[IterationSpace], problems: Sequence[NamedProblem]) -> Iterator[_Stay]:
    """Yield the stays that save loads."""
    uses: dict[tuple[str, int, tuple], list[_Use]] = {}
    for k, (space, each) in enumerate(zip(spaces, problems, strict=True)):
        for role, name in each.names.items():
            if space.can_stay(role):
                key = name, space.product_groups[role], tuple(space.memory_form(role).items())
                uses.setdefault(key, []).append(_Use(k, role, name))
    for (_, groups, form), all_uses in uses.items():
        stays = [_Stay(groups, tuple(use for use in all_uses if use.role != "mask"))]
        if (result := all_uses[0]).role == "result" and "mask" in problems[result.problem].names:
            mask = problems[result.problem].names["mask"]
            before = [use for use in uses[mask, groups, form] if use.problem <= result.problem]
            # An earlier result may have been written over the mask.
            first = max((k for k, use in enumerate(before[:-1]) if use.role == "mask"), default=-1) + 1
            stays = [_Stay(groups, (*before[k:], *stays[0].uses)) for k in (first, -1)]
        yield from (stay for stay in stays if stay.uses and stay.saved_groups > 0)


def _free_address(core: CoreConfig, groups: int, taken: Sequence[tuple[int, int]]) -> int | None:
    """Return the highest address of a range of groups that is not taken."""
    for end in sorted({core.groups, *(begin for begin, _ in taken)}, reverse=True):
        begin = end - groups
        if begin >= core.groups // MIN_FREE_SHARE and all(begin >= last or first >= end for first, last in taken):
            return begin
    return None


def _plans(core: CoreConfig, count: int, stays: Sequence[tuple[_Stay, int]]) -> list[BufferPlan]:
    """Return the buffer plan of each problem."""
    plans = []
    for k in range(count):
        meanwhile = [(stay, address) for stay, address in stays if k in stay.span]
        resident = {use.role: address for stay, address in meanwhile for use in stay.uses if use.problem == k}
        groups = min((address for _, address in meanwhile), default=core.groups)
        loaded = (use.role for stay, _ in meanwhile if (use := stay.uses[0]).problem == k and use.role != "result")
        plan = BufferPlan(groups=groups, resident=tuple(resident.items()), loaded=tuple(loaded))
        plans.append(plan if meanwhile else BufferPlan())
    return plans
