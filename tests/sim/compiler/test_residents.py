"""Test that resident tensors are loaded at most once, stay at one address, and never overlap other data."""

from collections.abc import Iterator, Mapping
from itertools import pairwise

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import decode
from tensordash_sim.compiler.emission import emit_unordered, placeholder_addresses
from tensordash_sim.compiler.footprint import footprints
from tensordash_sim.compiler.iteration_space import BufferPlan, IterationSpace
from tensordash_sim.compiler.layer import Layer
from tensordash_sim.compiler.problem import Problem
from tensordash_sim.compiler.program import ProgramError
from tensordash_sim.compiler.resident_loads import ResidentLoads
from tensordash_sim.compiler.residents import NamedProblem, plan_buffers
from tensordash_sim.compiler.search import best_schedule

CONFIG = CoreConfig()
WIDE = Layer(samples=4, channels=16, filters=16, size=(8, 8), kernel=(3, 3), padding=1)
BEFORE = Layer(samples=4, channels=4, filters=16, size=(8, 8), kernel=(3, 3), padding=1)
BACKWARD = [
    NamedProblem(Problem(layer=WIDE, operation="AxG", rows="G", fp32=True), {"G": "g2", "A": "a1", "result": "dw2"}),
    NamedProblem(
        Problem(layer=WIDE, operation="WxG", rows="G", mask=True),
        {"G": "g2", "W": "w2", "mask": "a1", "result": "g1"},
    ),
    NamedProblem(Problem(layer=BEFORE, operation="AxG", rows="G", fp32=True), {"G": "g1", "A": "a0", "result": "dw1"}),
]
"""The backward pass of two layers. Both gradients of a layer share G, the mask is A, and the result is the next G."""


def has_schedule(space: IterationSpace) -> bool:
    try:
        best_schedule(space)
    except ProgramError:
        return False
    return True


def places(plans: list[BufferPlan], problems: list[NamedProblem]) -> Iterator[tuple[int, str, str, int]]:
    """Yield the problem's number, role, name and address of each resident tensor."""
    for k, (plan, each) in enumerate(zip(plans, problems, strict=True)):
        yield from ((k, role, each.names[role], address) for role, address in plan.resident)


def test_gradients_share_operands():
    """The first of two problems loads a shared operand. A result overwrites its mask for the next problem."""
    plans = plan_buffers(CONFIG, BACKWARD, has_schedule)
    assert [set(dict(plan.resident)) for plan in plans] == [{"A", "G"}, {"G", "mask", "result"}, {"G"}]
    assert [set(plan.loaded) for plan in plans] == [{"A", "G"}, set(), set()]
    addresses: dict[str, set[int]] = {}
    for _, _, name, address in places(plans, BACKWARD):
        addresses.setdefault(name, set()).add(address)
    assert all(len(each) == 1 for each in addresses.values())
    assert addresses["a1"] == addresses["g1"] != addresses["g2"]


def test_resident_tensors_do_not_overlap():
    """Resident tensors overlap neither each other nor a problem's tiles."""
    plans = plan_buffers(CONFIG, BACKWARD, has_schedule)
    for plan, each in zip(plans, BACKWARD, strict=True):
        space = IterationSpace(problem=each.problem, core=CONFIG, buffer=plan)
        ranges = {(at, at + space.product_groups[role]) for role, at in plan.resident}
        ranges |= {(first, first + size) for first, size in best_schedule(space).regions.values() if size}
        ordered = sorted(ranges)
        assert all(one[1] <= two[0] for one, two in pairwise(ordered))
        assert ordered[-1][1] <= CONFIG.groups


def test_resident_tensors_are_loaded_once_before_they_are_read():
    """Each group is loaded from its address to its place, except for results, which a problem writes."""
    loads, present, loaded = ResidentLoads(CONFIG), 0, 0
    for plan, each in zip(plan_buffers(CONFIG, BACKWARD, has_schedule), BACKWARD, strict=True):
        space = IterationSpace(problem=each.problem, core=CONFIG, buffer=plan)
        tensors = placeholder_addresses(each.problem)
        ranges = {role: range(at, at + space.product_groups[role]) for role, at in plan.resident}
        resident = sum(1 << group for group in set().union(*ranges.values()))
        expected = {
            (tensors[role] + k * CONFIG.group_bytes, group)
            for role in plan.loaded
            for k, group in enumerate(ranges[role])
        }
        found: list[tuple[int, int]] = []
        for bits in loads.insert(space, each.names, tensors, emit_unordered(best_schedule(space), tensors)):
            for place in footprints(CONFIG, bits):
                assert not place.reads.get("buffer", 0) & resident & ~present
                present |= place.writes.get("buffer", 0)
            operation, fields = decode(bits)
            if operation.name == "load" and resident >> fields["address"] & 1:
                groups = range(fields["count_0"])
                found += [(fields["memory"] + k * CONFIG.group_bytes, fields["address"] + k) for k in groups]
        assert sorted(found) == sorted(expected)
        loaded += len(found)
    assert loaded > 0


@pytest.mark.parametrize(
    ("names", "why"),
    [
        ({"G": "other"}, "nothing is shared"),
        ({"A": "g2"}, "another size"),
    ],
)
def test_unshared_tensors_are_not_resident(names: Mapping[str, str], why: str):
    first, _, last = BACKWARD
    plans = plan_buffers(CONFIG, [first, NamedProblem(last.problem, {**last.names, **names})], has_schedule)
    assert plans == [BufferPlan(), BufferPlan()], why


def test_tensors_without_room_are_not_resident():
    """A tensor does not stay if other residents or a problem's schedule leave no room."""
    small = CoreConfig.from_toml("", ["core.buffer=16"])
    plans = plan_buffers(small, BACKWARD, has_schedule)
    assert not any("A" in plan.loaded and "G" in plan.loaded for plan in plans)
    assert plan_buffers(CONFIG, BACKWARD, lambda space: not space.resident) == [BufferPlan()] * len(BACKWARD)


def test_fp32_and_grouped_tensors_are_not_resident():
    grouped = Layer(samples=4, channels=4, filters=4, size=(8, 8), products=2)
    for problem, name in (
        (Problem(layer=WIDE, operation="AxG", rows="G", fp32=True), "result"),
        (Problem(layer=grouped, operation="AxW", rows="A"), "A"),
        (Problem(layer=WIDE, operation="AxW", rows="A", bias=True), "bias"),
    ):
        assert not IterationSpace(problem=problem, core=CONFIG).can_stay(name)
