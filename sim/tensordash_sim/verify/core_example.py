"""Small program that uses every unit, for a core's testbench and timing diagrams."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import numpy as np

from tensordash import ConfigError
from tensordash.configuration.core_config import CoreConfig

from ..compiler.program import Loop, Program
from ..golden.core.golden_core import GoldenCore, Memory
from ..golden.core.tensors import to_groups
from .programs.random_operands import random_values

__all__ = ["Example", "example_program", "example_programs"]

DATA = 0x400
"""Offset of the tensors from the base, in bytes; the descriptors start at the base."""
PAGE = 4096
"""Bytes of the pages of which a multicore's shared operands occupy whole ones."""


@dataclass(frozen=True, kw_only=True)
class Example:
    """A program, and the memory before and after it.

    Parameters
    ----------
    program : Program
        The descriptors, stored in memory from the base.
    before, after : bytes
        Memory from the base, both of the same length.
    title : str
        What the program computes.
    shared : bytes
        Weights at address 0 that several programs load.
    """

    program: Program
    before: bytes
    after: bytes
    title: str
    shared: bytes = b""


class _Image:
    """Memory that grows as data are appended."""

    def __init__(self, base: int) -> None:
        self.base, self.bytes = base, bytearray(DATA)

    def put(self, data: bytes) -> int:
        """Append bytes, padded to a multiple of 64; return their address."""
        at = self.base + len(self.bytes)
        self.bytes += data + bytes(-len(data) % 64)
        return at


def example_program(config: CoreConfig, seed: int = 0, base: int = 0) -> Example:
    """Return a matrix product with biases, ReLU and a compressed store, as far as the core's build has them.

    Parameters
    ----------
    config : CoreConfig
        The core.
    seed : int
        Seed of the values.
    base : int
        First address of the memory, a multiple of 64.

    Raises
    ------
    ConfigError
        If the core's memories are too small for a product of one step.

    Source: docs/core.md.
    """
    return _largest_example(config, base, lambda: (Random(seed), None))


def example_programs(config: CoreConfig, cores: int, seed: int = 0) -> dict[int, Example]:
    """Return a program for each core of a multicore, by the address at which its memory begins.

    All programs load the same weights from address 0 on. Their other operands differ. The first memory begins at a
    multiple of 4096, and each other one where the previous one ends. The parameters and errors are those of
    `example_program`.
    """

    def example(core: int, base: int) -> Example:
        return _largest_example(config, base, lambda: (Random(f"{seed}, core {core}"), Random(seed)))

    first = example(0, PAGE)
    begin, stride = -(-len(first.shared) // PAGE) * PAGE, len(first.before)
    return {base: example(core, base) for core, base in enumerate(range(begin, begin + cores * stride, stride))}


def _largest_example(config: CoreConfig, base: int, draw: Callable[[], tuple[Random, Random | None]]) -> Example:
    """Return the largest example that fits; `draw` returns new sources of its operands and of shared weights."""
    for steps, streams in ((7, 2), (3, 1), (1, 1)):
        if (made := _example(config, *draw(), base, steps, streams)) is not None:
            return made
    raise ConfigError(
        f"core.buffer must have room for a product of one step and its results; {config.buffer} KiB are too small"
    )


def _example(
    config: CoreConfig, random: Random, weights: Random | None, base: int, steps: int, streams: int
) -> Example | None:
    """Return a product of `steps`, or None if the core's memories are too small; `weights` draws shared weights."""
    lanes = config.tile.lanes
    counts = {side: config.parts(side) * streams for side in "ab"}  # groups of positions
    bias_bytes = 4 * lanes * counts["a"]
    sizes = {
        "b": steps * counts["b"],
        "a": steps * counts["a"],
        "result": counts["a"] * counts["b"],
        "bias": -(-bias_bytes // config.group_bytes) if config.bias else 0,
    }
    places = _places(config, sizes)
    words = -(-steps // config.tile.window_depth)
    if places is None or any(words * streams > config.stream_words(side) for side in "ab"):
        return None
    image, program = _Image(base), Program()
    channels = steps * lanes - 1
    shared = b""
    for side in "ba":
        source = weights if side == "a" and weights else random
        values = random_values(source, config, (channels, counts[side] * lanes), 0.6 if side == "b" else 0.3)
        data = to_groups(values, config).tobytes()
        if source is weights:
            memory, shared = 0, data
        else:
            memory = image.put(data)
        program.add("load", signal=[f"layout_{side}"], memory=memory, address=places[side], count_0=sizes[side])
    if config.bias:
        biases = np.random.default_rng(random.getrandbits(32)).standard_normal(bias_bytes // 4).astype("<f4").tobytes()
        memory = image.put(biases + bytes(-len(biases) % config.group_bytes))
        program.add("load", signal=["output"], memory=memory, address=places["bias"], count_0=sizes["bias"])
    for side in "ba":
        program.add(
            f"layout_{side}",
            wait=["load"],
            signal=["multiply"],
            steps=steps,
            streams=streams,
            address=places[side],
            x_size=counts[side] * lanes,
            loops=[Loop(count=steps, address=counts[side]), Loop(count=counts[side], x=lanes)],
        )
    bias = {"bias": 1, "bias_address": places["bias"], "output_wait": ["load"]} if config.bias else {}
    parts = {side: config.parts(side) for side in "ab"}
    program.add(
        "multiply",
        wait=["layout_a", "layout_b"],
        output_signal=["store"],
        steps=steps,
        a_streams=streams,
        b_streams=streams,
        emit=1,
        relu=int(config.relu),
        address=places["result"],
        x_size=counts["b"] * lanes,
        loops=[
            Loop(count=parts["a"], address=counts["b"], y=1),
            Loop(count=parts["b"], x=lanes),
            Loop(count=streams, address=counts["b"] * parts["a"], y=parts["a"]),
            Loop(count=streams, x=parts["b"] * lanes),
        ],
        **bias,  # type: ignore[arg-type]
    )
    room = 2 * sizes["result"] * config.group_bytes
    compressed = {"compressed": 1, "segment": 4, "table": image.put(bytes(4 * sizes["result"] + 4))}
    program.add(
        "store",
        wait=["output"],
        memory=image.put(bytes(room)),
        address=places["result"],
        count_0=sizes["result"],
        **(compressed if config.compression else {}),  # type: ignore[arg-type]
    )
    program.add("record", memory=image.put(bytes(32)))
    program.add("end")
    image.bytes[: len(program.image())] = program.image()
    first = 0 if shared else base
    golden = GoldenCore(config, Memory(base - first + len(image.bytes), first))
    golden.memory.bytes[: len(shared)] = shared
    golden.memory.bytes[base - first :] = image.bytes
    outcome = golden.run(program.descriptors)
    assert not outcome.error, outcome
    functions = [name for name in ("bias", "relu") if getattr(config, name)]
    title = f"a product of {counts['b'] * lanes} by {channels} by {counts['a'] * lanes}"
    title += f" with {' and '.join(functions)}" if functions else ""
    title += ", stored compressed" if config.compression else ""
    after = bytes(golden.memory.bytes[base - first :])
    return Example(program=program, before=bytes(image.bytes), after=after, title=title, shared=shared)


def _places(config: CoreConfig, sizes: dict[str, int]) -> dict[str, int] | None:
    """Place tensors in the buffer: each in its own region if there is room, else one after the other."""
    region = config.groups // config.regions
    if len(sizes) <= config.regions and max(sizes.values()) <= region:
        return {name: k * region for k, name in enumerate(sizes)}
    ends = np.cumsum(list(sizes.values())).tolist()
    if ends[-1] > config.groups:
        return None
    return {name: end - size for (name, size), end in zip(sizes.items(), ends, strict=True)}
