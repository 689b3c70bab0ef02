"""Bench of full-size programs on a core's Verilog built as a library, with memory at any address.

Benches in a simulator have time for small programs only. This bench runs up to 10^5 descriptors, and tensors as large
as the buffer on both sides of an address with a long carry. It runs each field of each descriptor at its limits.
Programs follow each other with a soft reset between them, with one inside a program, or without one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from random import Random
from types import MappingProxyType
from typing import Any

import numpy as np

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import BYTES, OPERATIONS

from ..compiler.program import Loop, Program
from ..golden.core.legal import MAX_TOKENS
from ..golden.core.tensors import deflate
from .axi_memory import PAGE
from .core_field_ends import field_ends
from .core_program_bench import FILLED, MAX_CYCLES, MIDDLE, SIZE, ProgramBench
from .programs.random_programs import DATA, random_program
from .verilated_core import VerilatedCore, VerilatedError

__all__ = ["PROGRAMS", "run_core_programs"]

LARGE_LOG2_PLACES = 15
LONG = 70_000
"""Descriptors of the long program: more than 2^16."""
RANDOM_SIZE = 1 << 17
TOKEN_PROGRAMS = 3
"""Programs with random tokens at an effort of 1."""
RANDOM_PROGRAMS = 24
"""Random programs at an effort of 1."""
ERROR_CASES = 300
"""Descriptors with an error at an effort of 1; each needs a soft reset."""


def _add(program: Program, operation: str, **fields: Any) -> None:
    program.add(operation, **fields)


@dataclass(frozen=True, kw_only=True)
class _Place:
    """Addresses of a program's tensors; one tensor spans the middle of memory."""

    source: int
    target: int
    table: int


def whole_buffer(bench: ProgramBench) -> None:
    """Load and store the full buffer in one run; source and target in turn span the middle of memory."""
    config, size = bench.config, bench.config.group_bytes * bench.config.groups
    for name in ("source", "target"):
        place = _place(bench, name, size)
        program = Program()
        _add(program, "load", signal=["store"], memory=place.source, address=0, count_0=config.groups)
        _add(program, "store", wait=["load"], memory=place.target, address=0, count_0=config.groups)
        _add(program, "end")
        bench.run(program.descriptors, f"the whole buffer, {name} across {bench.middle:#x}")


def compressed_buffer(bench: ProgramBench) -> None:
    """Store the full buffer compressed and load it; each tensor and table in turn spans the middle of memory."""
    config = bench.config
    if not config.compression:
        return
    groups = config.groups
    room = groups * (config.group_bytes + config.tile.lanes**2 // 8)
    for name, segment in (("source", 1), ("target", 1), ("table", 1), ("table", 7), ("target", groups)):
        place = _place(bench, name, room)
        title = f"the compressed buffer in segments of {segment}, {name} across {bench.middle:#x}"
        fields = {"compressed": 1, "count_0": groups, "segment": segment}
        program = Program()
        _add(program, "load", signal=["store"], memory=bench.base + FILLED, address=0, count_0=groups)
        _add(program, "store", wait=["load"], memory=place.target, table=place.table, address=0, **fields)
        _add(program, "end")
        bench.run(program.descriptors, title)
        data, table = deflate(bench.golden.buffer.reshape(groups, -1)[::-1], config, segment)
        bench.golden.memory.write(place.source, data)
        bench.golden.memory.write(place.table, table.astype("<u4").tobytes())
        program = Program()
        _add(program, "load", signal=["store"], memory=place.source, table=place.table, address=0, **fields)
        _add(program, "store", wait=["load"], memory=place.target & -config.group_bytes, address=0, count_0=groups)
        _add(program, "end")
        bench.run(program.descriptors, f"{title}, loaded")


def _place(bench: ProgramBench, across: str, size: int) -> _Place:
    """Place tensors without overlap; the named one spans the middle of memory at a random aligned address."""
    room = 2 * (-(-size // PAGE) + 1) * PAGE
    places = {"source": bench.middle + room, "target": bench.middle + 2 * room, "table": bench.middle + 3 * room}
    if across == "table":
        places["table"] = bench.middle - 4 * bench.random.randint(1, bench.config.groups)
    else:
        line = max(64, bench.config.group_bytes)
        places[across] = bench.middle - line * bench.random.randint(1, size // line - 1)
    return _Place(**places)


def strided(bench: ProgramBench) -> None:
    """Move runs on both sides of the middle of memory."""
    size = bench.config.group_bytes
    first = bench.middle - 9 * size
    program = Program()
    loops = {"count_0": 2, "count_1": 3, "count_2": 2, "count_3": 2}
    strides = {"stride_1": 4, "stride_2": 13, "stride_3": 40}
    _add(program, "load", signal=["store"], memory=first, address=0, **loops, **strides)
    _add(program, "store", wait=["load"], memory=first + 100 * size, address=0, count_0=24)
    _add(program, "store", memory=bench.middle + 30 * size, address=0, count_0=2, count_1=12, stride_1=-5)
    _add(program, "end")
    bench.run(program.descriptors, "runs on both sides of the middle")


def full_streams(bench: ProgramBench) -> None:
    """Fill each side's stream buffer, and use all places of partial sums."""
    config, width = bench.config, bench.config.fp32_groups
    lanes, parts = config.tile.lanes, {side: config.parts(side) for side in "ab"}
    for side, other in ("ab", "ba"):
        streams = min(config.stream_words(side), 4095)
        program = Program()
        for each, count in ((side, streams), (other, 1)):
            _add(
                program,
                f"layout_{each}",
                signal=["multiply"],
                steps=1,
                streams=count,
                x_size=lanes,
                address=bench.random.randrange(64),
                loops=[Loop(count=count * parts[each], address=1)],
            )
        blocks = parts["a"] * parts["b"]
        room = max(1, min(streams, config.groups // 2 // (width * blocks)))
        wait = ["layout_a", "layout_b"]
        for first in range(0, streams, room):
            count = min(room, streams - first)
            _add(
                program,
                "multiply",
                wait=wait,
                output_wait=["store"] if first else [],
                output_signal=["store"],
                **{f"{side}_streams": count, f"{other}_streams": 1, f"{side}_base": first},
                steps=1,
                emit=1,
                fp32=1,
                x_size=lanes,
                address=config.groups // 2,
                loops=[Loop(count=count * blocks, address=width)],
            )
            wait = []
            last = first + count == streams
            _add(
                program,
                "store",
                wait=["output"],
                signal=[] if last else ["output"],
                memory=bench.middle + first * blocks * width * config.group_bytes,
                address=config.groups // 2,
                count_0=count * blocks * width,
            )
        _add(program, "end")
        bench.run(program.descriptors, f"{streams} streams of side {side}")
    _partial_sums(bench)


def _partial_sums(bench: ProgramBench) -> None:
    """Store different sums in each place of the partial sums, and read them back."""
    config, width = bench.config, bench.config.fp32_groups
    blocks, parts = min(config.partial_sums, config.stream_words("b")), config.parts("a") * config.parts("b")
    first = config.partial_sums - blocks
    program = Program()
    for side, count in (("a", 1), ("b", blocks)):
        _add(
            program,
            f"layout_{side}",
            signal=["multiply"],
            steps=1,
            streams=count,
            x_size=config.tile.lanes,
            address=bench.random.randrange(64),
            loops=[Loop(count=count * config.parts(side), address=1)],
        )
    fields = {"a_streams": 1, "b_streams": blocks, "steps": 1, "partial": first}
    _add(program, "multiply", wait=["layout_a", "layout_b"], **fields)
    _add(
        program,
        "multiply",
        output_signal=["store"],
        **fields,
        add=1,
        emit=1,
        fp32=1,
        x_size=config.tile.lanes,
        address=config.groups // 2,
        loops=[Loop(count=blocks * parts, address=width)],
    )
    _add(
        program,
        "store",
        wait=["output"],
        memory=bench.middle,
        address=config.groups // 2,
        count_0=blocks * parts * width,
    )
    _add(program, "end")
    bench.run(program.descriptors, "all partial sums")


def tokens(bench: ProgramBench, count: int) -> None:
    """Signal the most tokens that one unit may hold for another, also with consumers running, and one too many."""
    for _ in range(count):
        _tokens(bench)


def _tokens(bench: ProgramBench) -> None:
    config = bench.config
    names = ("load", "layout_a", "layout_b", "store")
    usual = {
        "load": {"memory": bench.base + DATA, "count_0": 1},
        "store": {"memory": bench.middle, "count_0": 1},
        "layout_a": {"steps": 1, "x_size": 1},
        "layout_b": {"steps": 1, "x_size": 1},
    }
    # A store must not read what a load is writing.
    orders = [order for order in permutations(names, 3) if not (order[2] == "load" and "store" in order)]
    producer, consumer, third = bench.random.choice(orders)
    long = {"count_0": config.groups} if third in ("load", "store") else {"streams": config.stream_words(third[-1])}

    def add(program: Program, unit: str, **more) -> None:
        _add(program, unit, **{**usual[unit], "address": names.index(unit), **more})

    program = Program()
    add(program, third, **{**long, "address": 0}, signal=[consumer])
    for _ in range(MAX_TOKENS):
        add(program, producer, signal=[consumer])
    add(program, consumer, wait=[producer, third])
    for _ in range(MAX_TOKENS):
        add(program, producer, signal=[consumer])
        add(program, consumer, wait=[producer])
    for _ in range(MAX_TOKENS - 1):
        add(program, consumer, wait=[producer])
    _add(program, "end")
    bench.run(program.descriptors, f"{MAX_TOKENS} tokens from {producer} to {consumer}")
    program = Program()
    for _ in range(MAX_TOKENS + 1):
        add(program, producer, signal=[consumer])
    _add(program, "end")
    bench.run(program.descriptors, f"{MAX_TOKENS + 1} tokens from {producer} to {consumer}")
    bench.fill()


def long_program(bench: ProgramBench) -> None:
    """Run more than 2^16 descriptors in a ring of 2^15 places across the middle of memory, then an error."""
    places = 1 << LARGE_LOG2_PLACES
    ring, random, config = bench.middle - BYTES * places // 2, bench.random, bench.config
    bench.restart(ring, LARGE_LOG2_PLACES)
    memory = bench.golden.memory
    ends = np.zeros((places, BYTES), np.uint8)
    ends[:, 0] = OPERATIONS["end"].code
    loads = {}
    for k, place in enumerate(sorted(random.sample(range(places), 60))):
        fields = {"memory": bench.base + DATA + k * max(64, config.group_bytes), "address": k, "count_0": 1}
        program = Program()
        _add(program, "load", **fields)
        loads[place] = program.descriptors[0]
        ends[place] = np.frombuffer(loads[place].to_bytes(BYTES, "little"), np.uint8)
    memory.write(ring, ends.tobytes())
    bench.device.memory[:] = np.frombuffer(memory.bytes, np.uint8)
    outcome = bench.golden.run([loads[place] for place in sorted(loads)])
    assert not outcome.error
    bench.device.write("interrupt_enable", 2)
    bench.device.write("tail", LONG)
    began = bench.device.cycle
    while (done := bench.device.read("done")) < LONG:
        assert not bench.device.wait(20_000), f"the long program: {bench.device.outcome()}"
        assert bench.device.cycle - began < MAX_CYCLES, f"the long program hangs after {done} descriptors"
    assert bench.device.read("head") == LONG, f"head is {bench.device.read('head')}, not {LONG}"
    bench.tail = LONG
    bench.device.write("interrupt_enable", 3)
    moved = sum(1 + (LONG - 1 - place) // places for place in loads) * config.group_bits // config.axi_bits
    bench.counted["read_beats"] += moved
    bench.counted["load_busy"] += len(loads)
    program = Program()
    _add(program, "store", memory=bench.base + DATA, address=0, count_0=config.groups)
    _add(program, "end")
    bench.run(program.descriptors, f"after {LONG} descriptors")
    bench.run([0], f"an error after {LONG} descriptors")
    bench.restart()


def random_programs(bench: ProgramBench, count: int) -> None:
    """Run random programs in sequence, with tensors across the middle of memory and with soft resets.

    Soft resets occur between programs and inside them.
    """
    for _ in range(count):
        at = bench.middle - DATA - PAGE * bench.random.randrange(8)
        edges = bench.random.random() < 0.5
        made = random_program(bench.random, bench.config, RANDOM_SIZE, edges=edges, at=at)
        untouched = bench.golden.memory.bytes[: at - bench.base]
        after = bench.golden.memory.bytes[at - bench.base + RANDOM_SIZE :]
        bench.golden.memory.bytes[:] = untouched + made.memory.bytes + after
        way = bench.random.random()
        if way < 0.3:
            _reset_in_midst(bench, made.program.descriptors)
        elif way < 0.6:
            bench.restart()
        bench.run(made.program.descriptors, made.title)


def _reset_in_midst(bench: ProgramBench, descriptors: Sequence[int]) -> None:
    """Start a program, issue a soft reset in a random cycle, and refill all memories."""
    bench.start(descriptors)
    bench.device.wait(bench.random.choice((bench.random.randint(1, 200), bench.random.randint(1, 5000))))
    bench.fill()


PROGRAMS: Mapping[str, tuple[bool, Callable[[ProgramBench, float], None]]] = MappingProxyType(
    {
        "strided": (False, lambda bench, _: strided(bench)),
        "whole_buffer": (False, lambda bench, _: whole_buffer(bench)),
        "compressed_buffer": (False, lambda bench, _: compressed_buffer(bench)),
        "full_streams": (True, lambda bench, _: full_streams(bench)),
        "tokens": (True, lambda bench, effort: tokens(bench, max(1, round(TOKEN_PROGRAMS * effort)))),
        "random_programs": (
            False,
            lambda bench, effort: random_programs(bench, max(2, round(RANDOM_PROGRAMS * effort))),
        ),
        "field_ends": (True, lambda bench, effort: field_ends(bench, round(ERROR_CASES * effort))),
        "long_program": (False, lambda bench, _: long_program(bench)),
    }
)
"""Tests by name: whether the memory's middle is a random power of two instead of 4 GiB, and the test function."""


def run_core_programs(
    config: CoreConfig, verilog: str, *, seed: int = 0, effort: float = 1.0, tests: Sequence[str] = tuple(PROGRAMS)
) -> list[str]:
    """Run programs on a core's Verilog.

    Parameters
    ----------
    config : CoreConfig
        The core.
    verilog : str
        The Verilog of all its modules.
    seed, effort
        See `run_bench`.
    tests : sequence of str
        Names from `PROGRAMS`.

    Returns
    -------
    list of str
        A line for each test that failed.

    Raises
    ------
    VerilatedError
        If the core cannot be built.
    """
    failures = []
    for name in tests:
        anywhere, test = PROGRAMS[name]
        random = Random(f"{seed} core programs {name}")
        bits = config.address_bits
        power = random.randrange(32, bits) if anywhere and bits > 32 else min(32, bits - 1)
        latency, pause = random.choice((((0, 1), 0.0), ((0, 40), 0.0), ((0, 20), 0.3)))
        if name == "long_program":
            latency, pause = (0, 0), 0.0
        how: dict[str, Any] = {"latency": latency, "pause": pause, "seed": random.getrandbits(32), "verilog": verilog}
        with VerilatedCore(config, SIZE, base=(1 << power) - MIDDLE, **how) as device:
            try:
                bench = ProgramBench(device, random)
                bench.fill()
                test(bench, effort)
            except (AssertionError, VerilatedError) as error:
                failures.append(f"{name}, seed {seed}: {error}")
    return failures
