"""Test that tokens order descriptors, and that the search for races finds missing tokens."""

from random import Random
from time import process_time
from typing import Any

import numpy as np
import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import decode
from tensordash_sim.compiler.footprint import Footprint, footprints
from tensordash_sim.compiler.layer import Layer
from tensordash_sim.compiler.order import add_tokens, find_races, hoist
from tensordash_sim.compiler.order_kernels import find_meetings, tasks_of
from tensordash_sim.compiler.pipeline import compile_problem
from tensordash_sim.compiler.problem import Problem
from tensordash_sim.compiler.program import Loop, Program
from tensordash_sim.golden.core.golden_core import GoldenCore, Memory
from tensordash_sim.golden.core.legal import Sequencer
from tensordash_sim.golden.core.loop_walk import LoopWalk
from tensordash_sim.verify.programs.random_programs import random_program

CONFIG = CoreConfig()
PROBLEM = Problem(layer=Layer(samples=4, channels=64, filters=32, size=(16, 16)), operation="AxW", rows="A")
"""This problem has many multiplies."""


def without_tokens(program):
    """Return descriptors without `wait` and `signal`."""
    header = ~(0x3F3F00)
    return [bits & header & (~(0x3F3F << 32) if decode(bits)[0].name == "multiply" else -1) for bits in program]


@pytest.mark.parametrize("seed", range(8))
def test_each_token_of_a_random_program_matters(seed):
    """Programs have races without their tokens, and none with their own or recomputed tokens."""
    program = random_program(Random(seed), CONFIG).program.descriptors
    assert find_races(CONFIG, program) == []
    bare = without_tokens(program)
    assert find_races(CONFIG, bare)
    assert find_races(CONFIG, add_tokens(CONFIG, bare)) == []


def test_a_missing_token_is_named():
    program = Program()
    program.add("load", memory=0, address=0, count_0=4)
    program.add("layout_a", steps=4, streams=1, x_size=4, loops=[Loop(count=4, address=1)])
    (race,) = find_races(CONFIG, program.descriptors)
    assert str(race) == "descriptor 1 (layout_a) and descriptor 0 (load) conflict, and no token orders them"


@pytest.mark.parametrize(
    ("first", "second", "meet"),
    [
        (("load", {"memory": 0, "address": 0}), ("load", {"memory": 0, "address": 0}), False),  # one unit
        (("load", {"memory": 0, "address": 0}), ("store", {"memory": 64, "address": 0}), True),  # buffer
        (("load", {"memory": 0, "address": 0}), ("store", {"memory": 0, "address": 9}), True),  # memory
        (("load", {"memory": 0, "address": 0}), ("store", {"memory": 64, "address": 9}), False),
        (("load", {"memory": 0, "address": 0}), ("record", {"memory": 32}), False),
        (("load", {"memory": 0, "address": 0, "count_0": 2}), ("record", {"memory": 32}), True),
        (("store", {"memory": 0, "address": 0}), ("store", {"memory": 0, "address": 9}), False),
    ],
)
def test_descriptors_that_race(first, second, meet):
    program = Program()
    for operation, fields in (first, second):
        program.add(operation, **fields)
    assert bool(find_races(CONFIG, program.descriptors)) == meet


def conflicts(one, other):
    """Return whether one footprint writes a place that the other reads or writes."""
    both = [(one.reads, other.writes), (one.writes, other.reads), (one.writes, other.writes)]
    if any(places & second.get(name, 0) for first, second in both for name, places in first.items()):
        return True
    return any(
        (written or also) and low < end and begin < high
        for low, high, written in one.memory
        for begin, end, also in other.memory
    )


R, W = False, True


@pytest.mark.parametrize(
    ("first", "second", "meet"),
    [
        (Footprint("load", writes={"buffer": 0b110}), Footprint("store", reads={"buffer": 0b100}), True),
        (Footprint("load", writes={"buffer": 0b110}), Footprint("output", writes={"buffer": 0b011}), True),
        (Footprint("load", writes={"buffer": 0b110}), Footprint("store", reads={"buffer": 0b001}), False),
        (Footprint("store", reads={"buffer": 0b110}), Footprint("layout_a", reads={"buffer": 0b110}), False),
        (Footprint("layout_a", writes={"a": 1}), Footprint("multiply", reads={"a": 0, "b": 1}), False),
        (Footprint("load", memory=[(0, 64, R)]), Footprint("store", memory=[(63, 64, W)]), True),
        (Footprint("load", memory=[(0, 64, R)]), Footprint("store", memory=[(64, 128, W)]), False),
        (Footprint("load", memory=[(0, 64, R)]), Footprint("load", memory=[(0, 64, R)]), False),
        (Footprint("store", memory=[(0, 64, W), (128, 192, W)]), Footprint("load", memory=[(64, 128, R)]), False),
        (Footprint("store", memory=[(0, 64, R), (128, 192, W)]), Footprint("load", memory=[(0, 64, R)]), False),
        (Footprint("store", memory=[(0, 64, R), (128, 192, W)]), Footprint("load", memory=[(100, 129, R)]), True),
    ],
)
def test_conflicting_footprints(first, second, meet):
    """Footprints conflict, in either order, if one writes what the other reads or writes. Range ends are exclusive."""
    assert conflicts(first, second) == conflicts(second, first) == meet
    if any(is_written != (each.unit == "store") for each in (first, second) for *_, is_written in each.memory):
        return  # The search derives from the unit whether memory is written.
    for both in (first, second), (second, first):
        assert bool(find_meetings(tasks_of(([each], 0) for each in both), np.empty((0, 2), np.int64), 0)) == meet


LAYOUT: dict[str, Any] = {"steps": 4, "streams": 1, "x_size": 4, "loops": [Loop(count=4, address=1)]}


def layouts_and_multiply(signal: str) -> Program:
    """Return a program that lays out both sides and multiplies them. Its results give a token to a unit."""
    program = Program()
    program.add("layout_a", signal=["multiply"], **LAYOUT)
    program.add("layout_b", signal=["multiply"], **LAYOUT)
    waits: dict[str, Any] = {"wait": ["layout_a", "layout_b"], "output_signal": [signal]}
    program.add("multiply", **waits, emit=1, steps=4, address=64, x_size=4)
    return program


def test_partial_sums_and_streams():
    """Find a layout that replaces streams during their multiply, and a store that precedes its output."""
    program = layouts_and_multiply("store")
    program.add("layout_a", **LAYOUT)
    program.add("store", memory=0, address=64, count_0=1)
    found = [(race.first, race.second) for race in find_races(CONFIG, program.descriptors)]
    assert found == [((2, "multiply"), (3, "layout_a")), ((2, "output"), (4, "store"))]
    assert find_races(CONFIG, add_tokens(CONFIG, program.descriptors)) == []


def test_token_of_an_output_implies_its_multiply():
    program = layouts_and_multiply("layout_a")
    program.add("layout_a", wait=["output"], **LAYOUT)
    assert find_races(CONFIG, program.descriptors) == []


@pytest.mark.parametrize("seed", range(10))
def test_footprint_of_a_layout_matches_golden(seed):
    """A layout's footprint contains exactly the groups that the golden model reads."""
    random = Random(seed)
    program = Program()
    loops = [
        Loop(count=random.randint(1, 4), **{n: random.randint(-9, 40) for n in ("address", "x", "y")}) for _ in range(6)
    ]
    total = 1
    for loop in loops:
        total *= loop.count
    program.add(
        "layout_b",
        steps=total,
        streams=1,
        checked=random.randint(0, 1),
        stride=random.randint(1, 4),
        address=random.randint(0, 300),
        x=random.randint(-9, 9),
        y=random.randint(-3, 3),
        x_size=random.randint(1, 60),
        y_size=random.randint(1, 60),
        loops=loops,
    )
    _, values = decode(program.descriptors[0])
    walk, expected = LoopWalk(values, loops=6), 0
    for _ in range(total):
        for i in range(4):
            x = walk.x + i * values["stride"]
            if 0 <= x < values["x_size"] and (not values["checked"] or 0 <= walk.y < values["y_size"]):
                group = (walk.address + x // 4) % (1 << 16)
                expected |= (1 << group) * (group < CONFIG.groups)
        walk.step()
    (layout,) = footprints(CONFIG, program.descriptors[0])
    assert layout.reads["buffer"] == expected


@pytest.mark.parametrize("seed", range(8))
def test_footprint_of_a_multiply_matches_golden(seed):
    """A multiply's footprint contains exactly both sides' streams, the results, and their masks and biases."""
    random = Random(seed)
    fields = {
        "steps": random.randint(1, 9),
        "a_streams": random.randint(1, 3),
        "b_streams": random.randint(1, 3),
        "a_base": random.randint(0, 9),
        "b_base": random.randint(0, 9),
        "fp32": random.randint(0, 1),
        "mask": random.randint(0, 1),
        "bias": random.randint(0, 1),
        "stride": random.randint(1, 3),
        "address": random.randint(0, 200),
        "mask_address": random.randint(300, 900),
        "bias_address": random.randint(1000, 1500),
        "x": random.randint(-5, 5),
        "x_size": random.randint(1, 30),
    }
    blocks = fields["a_streams"] * fields["b_streams"]
    loops = [Loop(count=fields["a_streams"], x=4), Loop(count=fields["b_streams"], address=40, y=random.randint(0, 9))]
    program = Program()
    program.add("multiply", emit=1, loops=loops, **fields)
    _, values = decode(program.descriptors[0])
    walk, written, read = LoopWalk(values, loops=4), set(), set()
    width = 2 if fields["fp32"] else 1
    for _ in range(blocks):
        for i in range(4):
            x = walk.x + i * fields["stride"]
            if 0 <= x < -(-fields["x_size"] // 4) * 4:
                group = walk.address + x // 4 * width
                written |= set(range(group, group + width))
                read |= {group + fields["mask_address"] - fields["address"]} if fields["mask"] else set()
        read |= {fields["bias_address"] + walk.y * 4 // 8} if fields["bias"] and written else set()
        walk.step()
    multiply, output = footprints(CONFIG, program.descriptors[0])
    words = -(-fields["steps"] // CONFIG.tile.window_depth)
    for side in "ab":
        places = range(fields[f"{side}_base"], fields[f"{side}_base"] + words * fields[f"{side}_streams"])
        assert multiply.reads[side] == sum(1 << place for place in places)
    assert output.writes["buffer"] == sum(1 << group for group in written)
    found = output.reads.get("buffer", 0)
    assert found & sum(1 << group for group in read) == sum(1 << group for group in read)
    if not fields["bias"]:  # The footprint may have one more group of biases: an output without results reads none.
        assert found == sum(1 << group for group in read)


@pytest.mark.parametrize("window", [4, 32])
def test_long_programs_are_legal(window):
    """For any window, the number of pending tokens fits the core's counters."""
    config = CoreConfig.from_toml("", [f"core.window={window}", "core.partial_sums=64"])
    program = compile_problem(PROBLEM, config).descriptors
    sequencer = Sequencer(config)
    assert [sequencer.refusal(bits) for bits in program] == [""] * len(program)
    assert len(program) > 30


def test_hoisting_changes_no_bit():
    """Hoisting runs loads and layouts earlier and does not change the golden core's results."""
    case = random_program(Random(5), CONFIG)
    bare = without_tokens(case.program.descriptors)[:-1]
    end = case.program.descriptors[-1]
    ends = []
    for program in (bare, hoist(CONFIG, bare, {"load": 9, "layout_a": 9, "layout_b": 9})):
        memory = Memory(len(case.memory.bytes))
        memory.bytes[:] = case.memory.bytes
        assert not GoldenCore(CONFIG, memory).run([*add_tokens(CONFIG, program), end]).error
        ends.append(bytes(memory.bytes))
    assert ends[0] == ends[1]
    names = [decode(bits)[0].name for bits in compile_problem(PROBLEM, CONFIG).descriptors]
    assert names[: names.index("multiply")].count("layout_b") > 1, "none is laid out ahead"


@pytest.mark.parametrize("seed", range(8))
def test_races_match_conflicting_footprints(seed):
    """Without tokens, all conflicting tasks of different units race. The search finds all of them."""
    bare = without_tokens(random_program(Random(seed), CONFIG).program.descriptors)[:-1]
    tasks = [(k, place) for k, bits in enumerate(bare) for place in footprints(CONFIG, bits)]
    pairs = [(one, other) for k, other in enumerate(tasks) for one in tasks[:k] if one[1].unit != other[1].unit]
    meeting = {
        ((one, first.unit), (other, second.unit)) for (one, first), (other, second) in pairs if conflicts(first, second)
    }
    assert meeting
    assert {(race.first, race.second) for race in find_races(CONFIG, bare)} == meeting


def test_the_search_for_tokens_does_not_grow_with_the_program():
    """The time per descriptor hardly grows in a program eight times as long."""
    bare = without_tokens(compile_problem(PROBLEM, CONFIG).descriptors)[:-1]
    seconds = []
    for repeats in (16, 128):
        taken = []
        for _ in range(9):
            begin = process_time()
            add_tokens(CONFIG, bare * repeats)
            taken.append(process_time() - begin)
        seconds.append(min(taken) / repeats)
    assert seconds[1] < 3 * seconds[0]  # 1.3 on an idle machine; 8 if each descriptor searched the program
