"""Test the order of multiplies that skip passes, and that compiled programs skip the passes that masks allow."""

from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import OPERATIONS, UNITS, decode
from tensordash.configuration.preset import load_any_preset
from tensordash_sim.compiler.emission import emit_unordered, order_program
from tensordash_sim.compiler.footprint import footprints
from tensordash_sim.compiler.images import TensorImage, side_formats
from tensordash_sim.compiler.images import expected as expected_result
from tensordash_sim.compiler.iteration_space import IterationSpace
from tensordash_sim.compiler.layer import OPERANDS, RESULTS, Layer
from tensordash_sim.compiler.masked_passes import MaskedPasses
from tensordash_sim.compiler.order import Race, add_tokens, find_races
from tensordash_sim.compiler.pipeline import compile_problem
from tensordash_sim.compiler.problem import Problem
from tensordash_sim.compiler.program import Loop, Program
from tensordash_sim.compiler.resident_loads import ResidentLoads
from tensordash_sim.compiler.residents import NamedProblem, plan_buffers
from tensordash_sim.compiler.scheduled import scheduled_paces
from tensordash_sim.compiler.search import best_schedule
from tensordash_sim.compiler.timing import timing
from tensordash_sim.golden import encode
from tensordash_sim.golden.core.golden_core import GoldenCore, Memory
from tensordash_sim.golden.core.legal import Sequencer
from tensordash_sim.lowering import MatrixProduct
from tensordash_sim.verify.programs.corruptor import with_fields
from tensordash_sim.verify.programs.random_programs import random_program
from tensordash_sim.verify.soak.program_variants import repeat_program

SIZE = 1 << 20
PLAIN = ["core.partial_sums=16"]
SMALL = CoreConfig.from_toml("", ["core.buffer=4", "core.stream_buffer=4", "tile.rows=8", "core.skip_masked=true"])
CONFIG = CoreConfig.from_toml("", [*PLAIN, "core.skip_masked=true"])
CORES = {
    "usual": PLAIN,
    "more rows and columns": [*PLAIN, "tile.rows=8", "tile.columns=16", "core.buffer=128"],
    "dense": [*PLAIN, 'tile.sparsity="none"', 'tile.staging="shift"'],
    "int8": [*PLAIN, "tile.format='int8'"],
}
LAYERS = {
    "products": Layer(samples=2, channels=3, filters=6, size=(4, 7), kernel=(3, 2), padding=1, products=2),
    "a reduction in chunks": Layer(samples=1, channels=70, filters=50, size=(2, 5), kernel=(3, 3), padding=1),
    "results in many tiles": Layer(samples=1, channels=9, filters=90, size=(3, 40)),
    "phases of rows": Layer(samples=2, channels=20, filters=40, size=(6, 9), kernel=(3, 3), stride=(2, 1), padding=1),
    "phases of columns": Layer(samples=1, channels=20, filters=40, size=(6, 9), kernel=(3, 3), stride=2, padding=1),
}


def read_masks(config: CoreConfig, bits: int) -> set[int]:
    """Return the groups that decide which passes golden skips: those that add steps if they are not zeros."""
    golden, found = GoldenCore(config, Memory(0)), set()
    for group in range(config.groups):
        golden.buffer[:], golden.steps = 0, 0
        golden.buffer[group, -1, -1] = 1
        assert golden.run([bits]).error in ("", "address")
        if golden.steps:
            found.add(group)
    return found


@pytest.mark.parametrize("seed", range(6))
def test_footprint_matches_golden(seed):
    """The unit `multiply` reads the masks that golden reads, without `mask` and `emit` as well."""
    random = Random(seed)
    program = Program()
    program.add(
        "multiply",
        skip_masked=1,
        a_streams=2,
        b_streams=2,
        x=random.choice((0, -8, 4)),
        x_size=random.randint(1, 24),
        loops=[Loop(2, x=4), Loop(2, address=random.randint(1, 9)), Loop(2, x=8)],
        address=random.randint(0, 20),
        mask_address=random.randint(0, SMALL.groups),
        **{name: random.randint(0, 1) for name in ("mask", "emit", "fp32", "bias")},
    )
    multiply, _ = footprints(SMALL, program.descriptors[0])
    assert {k for k in range(SMALL.groups) if multiply.reads["buffer"] >> k & 1} == read_masks(
        SMALL, program.descriptors[0]
    )


@pytest.mark.parametrize("seed", range(20))
def test_each_token_of_a_random_program_matters(seed):
    program = random_program(Random(seed), CONFIG).program.descriptors
    assert find_races(CONFIG, program) == []
    repeated = repeat_program(CONFIG, program)
    assert find_races(CONFIG, repeated) == []
    assert not any(map(Sequencer(CONFIG).refusal, repeated))
    skips = [bool(decode(bits)[1].get("skip_masked")) for bits in program]
    if any(skips):  # Its `wait` for the load unit, besides `output_wait`.
        index = next(k for k, bits in enumerate(program) if decode(bits)[0] is OPERATIONS["multiply"])
        program[index] = without_wait(program[index], "load")
        late = [race for race in find_races(CONFIG, program) if race.second[1] == "multiply"]
        assert {(race.first[1], skips[race.second[0]]) for race in late} == {("load", True)}


def without_wait(bits: int, unit: str) -> int:
    return with_fields(bits, wait=decode(bits)[1]["wait"] & ~(1 << UNITS.index(unit)))


MULTIPLY: dict[str, Any] = {"skip_masked": 1, "address": 64, "mask_address": 64, "x_size": 4}


def mask_program(*, wait: bool, later: tuple[str, ...], **fields: Any) -> list[Race]:
    """Return the races of a program that loads a mask, multiplies with it, and loads other data in its place.

    `wait` is whether the unit `multiply` waits for the first load; `later` are the units that the second one waits for.
    """
    program = Program()
    program.add("load", address=64, count_0=1, signal=["output", *(["multiply"] if wait else [])])
    tokens: dict[str, Any] = {"wait": ["load"] * wait, "signal": ["load"] * ("multiply" in later)}
    tokens |= {"output_wait": ["load"], "output_signal": ["load"] * ("output" in later)}
    program.add("multiply", **tokens, **MULTIPLY, **fields)
    program.add("load", address=64, count_0=1, wait=later)
    return find_races(CONFIG, program.descriptors)


def test_masks_need_tokens():
    """A mask is loaded before both units of a multiply; other data replace it after both."""
    for fields in ({}, {"emit": 1}, {"emit": 1, "mask": 1}):
        assert mask_program(wait=True, later=("output",), **fields) == []
        assert mask_program(wait=False, later=("output",), **fields) == [Race((0, "load"), (1, "multiply"))]
        assert Race((1, "multiply"), (2, "load")) in mask_program(wait=True, later=(), **fields)
        after_multiply = mask_program(wait=True, later=("multiply",), **fields)
        assert after_multiply == ([Race((1, "output"), (2, "load"))] if fields else [])


def test_results_as_masks_need_tokens():
    """A multiply whose masks are results of another one waits for its output, but not for its own."""
    program = Program()
    program.add("multiply", emit=1, address=64, x_size=4)
    program.add("multiply", emit=1, **MULTIPLY)
    assert find_races(CONFIG, program.descriptors) == [Race((0, "output"), (1, "multiply"))]
    assert find_races(CONFIG, add_tokens(CONFIG, program.descriptors)) == []


def masked_values(config: CoreConfig, layer: Layer, operation: str, rows: str) -> dict[str, np.ndarray]:
    """Return random operands and a mask, of which whole channels and rows are zeros of either sign."""
    rng, kind = np.random.default_rng(1), np.int64 if config.tile.numerics.result == "int32" else np.float64
    values = {
        each: encode(rng.integers(-9, 10, layer.whole_shape(each)).astype(kind), fmt)
        for each, fmt in side_formats(config, operation, rows).items()
    }
    mask = rng.integers(-3, 4, layer.whole_shape(RESULTS[operation])).astype(kind)
    for axis in range(mask.ndim):
        mask = mask * (rng.random([size if k == axis else 1 for k, size in enumerate(mask.shape)]) < 0.6)
    return values | {"mask": encode(mask.astype(kind), config.tile.a_format)}


def compiled(
    overrides: list[str], layer: Layer, operation: str, rows: str
) -> Iterator[tuple[GoldenCore, list[int], np.ndarray]]:
    """Yield golden after a program, the program and the results, for a core that skips passes and one that does not."""
    for skips in ("true", "false"):
        config = CoreConfig.from_toml("", [*overrides, f"core.skip_masked={skips}"])
        image = TensorImage(
            config, Memory(SIZE), layer, operation, masked_values(config, layer, operation, rows), rows=rows
        )
        problem = Problem(layer=layer, operation=operation, rows=rows, mask=True)
        program = compile_problem(problem, config, image.tensors).descriptors
        assert find_races(config, program) == []
        golden = GoldenCore(config, image.memory)
        golden.buffer[:] = 1  # Masks must not be what was in the buffer before.
        assert golden.run(program).error == ""
        yield golden, program, image.result()


@pytest.mark.parametrize(
    ("core", "name"),
    [*((core, "products") for core in CORES), *(("usual", name) for name in LAYERS if name != "products")],
)
@pytest.mark.parametrize("operation", OPERANDS)
def test_results_do_not_depend_on_skipping(core, name, operation):
    layer = LAYERS[name]
    for rows in OPERANDS[operation]:
        (golden, program, result), (plain, _, expected) = compiled(CORES[core], layer, operation, rows)
        assert result.tobytes() == expected.tobytes()
        multiplies = [values for each, values in map(decode, program) if each is OPERATIONS["multiply"]]
        can_skip = operation != "WxG" or name != "phases of columns"
        assert {values["skip_masked"] for values in multiplies} == {int(can_skip)}
        assert golden.steps < plain.steps if can_skip else golden.steps == plain.steps
        assert (golden.counts.zeros, golden.counts.non_finite) == (plain.counts.zeros, plain.counts.non_finite)


@pytest.mark.parametrize("rows", OPERANDS["AxG"])
def test_masked_blocks_of_weights_need_no_pass(rows):
    """The gradient of weights that are masked in blocks takes the steps of the blocks that are left.

    A mask without structure leaves a value in each block, and skips nothing.
    """
    config, steps = load_any_preset("core-skip"), {}
    assert isinstance(config, CoreConfig)
    layer = Layer.of(MatrixProduct(batch=1, samples=20, in_features=24, out_features=32))
    rng = np.random.default_rng(0)
    values = {each: rng.standard_normal(layer.whole_shape(each)).astype(np.float16) for each in OPERANDS["AxG"]}
    blocks = rng.permutation(48).reshape(8, 6) < 6
    masks = {
        "none": np.ones((32, 24)),
        "blocks": np.kron(blocks, np.ones((4, 4))),
        "single": np.kron(np.ones((8, 6)), np.eye(4)),
    }
    for name, mask in masks.items():
        masked = values | {"mask": mask.astype(np.float16).reshape(layer.whole_shape("W"))}
        image = TensorImage(config, Memory(SIZE), layer, "AxG", masked, rows=rows)
        problem = Problem(layer=layer, operation="AxG", rows=rows, mask=True)
        golden = GoldenCore(config, image.memory)
        assert golden.run(compile_problem(problem, config, image.tensors).descriptors).error == ""
        assert np.array_equal(image.result(), expected_result(layer, "AxG", masked, config=config, rows=rows))
        steps[name] = golden.steps
    assert steps["single"] == steps["none"]
    assert 8 * steps["blocks"] == steps["none"]


WIDE = Layer(samples=4, channels=16, filters=16, size=(8, 8), kernel=(3, 3), padding=1)
BACKWARD = [
    NamedProblem(Problem(layer=WIDE, operation="AxG", rows="G", fp32=True), {"G": "g2", "A": "a1", "result": "dw2"}),
    NamedProblem(
        Problem(layer=WIDE, operation="WxG", rows="G", mask=True), {"G": "g2", "W": "w2", "mask": "a1", "result": "g1"}
    ),
]
"""The backward pass of a layer after ReLU. The input A is the mask, and stays in the buffer."""


def backward_pass(overrides: list[str]) -> tuple[GoldenCore, list[int]]:
    """Run `BACKWARD` as one program with resident tensors; return golden and the program."""
    config, addresses = CoreConfig.from_toml("", overrides), dict[str, int]()
    plans = plan_buffers(config, BACKWARD, lambda _: True)
    loads, rng, memory, descriptors = ResidentLoads(config), np.random.default_rng(0), Memory(SIZE), list[int]()
    for plan, each in zip(plans, BACKWARD, strict=True):
        space = IterationSpace(problem=each.problem, core=config, buffer=plan)
        for role, name in each.names.items():
            if name not in addresses:
                addresses[name] = len(addresses) * SIZE // 8
                groups = rng.integers(-4, 5, (space.product_groups[role], config.tile.lanes**2)).astype(np.float16)
                groups[rng.random(len(groups)) < 0.4] = 0
                memory.write(addresses[name], groups.tobytes())
        tensors = {role: addresses[name] for role, name in each.names.items()}
        descriptors += loads.insert(space, each.names, tensors, emit_unordered(best_schedule(space), tensors))
    assert "mask" in dict(plans[1].resident)
    program = order_program(config, descriptors).descriptors
    assert find_races(config, program) == []
    golden = GoldenCore(config, memory)
    assert golden.run(program).error == ""
    return golden, program


def test_resident_masks_skip():
    """Results overwrite the mask, an operand of the first problem, in place."""
    (skipping, program), (plain, _) = backward_pass(["core.skip_masked=true"]), backward_pass([])
    assert any(decode(bits)[1].get("skip_masked") for bits in program)
    assert skipping.memory.bytes == plain.memory.bytes
    assert skipping.steps < plain.steps


def test_partial_chunks_skip():
    """A compiled program's multiplies skip the passes of a reduction's first chunks as well, and wait for the mask."""
    config = CoreConfig.from_toml("", [*PLAIN, "core.skip_masked=true", "core.stream_buffer=4"])
    problem = Problem(layer=LAYERS["a reduction in chunks"], operation="WxG", rows="G", mask=True)
    program = compile_problem(problem, config).descriptors
    partial = [
        k for k, bits in enumerate(program) if decode(bits)[0] is OPERATIONS["multiply"] and not decode(bits)[1]["emit"]
    ]
    assert partial
    assert all(decode(program[k])[1]["skip_masked"] for k in partial)
    index = next(k for k in partial if decode(program[k])[1]["wait"] >> UNITS.index("load") & 1)
    program[index] = without_wait(program[index], "load")
    assert (index, "multiply") in {race.second for race in find_races(config, program)}


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("operation", OPERANDS)
def test_skipped_passes_are_estimated(core, operation):
    """The estimate skips the passes that golden skips; masks that the program computes are unknown."""
    config = CoreConfig.from_toml("", [*CORES[core], "core.skip_masked=true"])
    layer, rows = LAYERS["products"], OPERANDS[operation][0]
    values = masked_values(config, layer, operation, rows)
    image = TensorImage(config, Memory(SIZE), layer, operation, values, rows=rows)
    problem = Problem(layer=layer, operation=operation, rows=rows, mask=True)
    program = compile_problem(problem, config, image.tensors).descriptors
    paces = scheduled_paces(config, program, image.memory)
    steps = 0
    for index, (each, fields) in enumerate(map(decode, program)):
        if each is OPERATIONS["multiply"]:
            words = -(-fields["steps"] // config.tile.window_depth)
            steps += words * config.tile.window_depth * np.count_nonzero(paces.of(index, fields).cycles)
    golden = GoldenCore(config, image.memory)
    golden.run(program)
    assert golden.steps == steps
    assert timing(config, program, speedup=paces).cycles < timing(config, program, speedup=paces.speedup).cycles


def test_unknown_masks_skip_nothing():
    """Masks that the program computes, and masks outside the tensor, are unknown."""
    program = Program()
    program.add("load", memory=0, address=64, count_0=1)
    program.add("multiply", emit=1, **MULTIPLY)
    program.add("multiply", **MULTIPLY)
    found = MaskedPasses(CONFIG, program.descriptors, 0).skipped(np.zeros(1, np.bool_))
    assert {index: passes.tolist() for index, passes in found.items()} == {1: [[True]], 2: [[False]]}
    for groups in (np.ones(1, np.bool_), np.zeros(0, np.bool_)):
        assert not MaskedPasses(CONFIG, program.descriptors, 0).skipped(groups)[1].any()


def test_plain_results_skip_nothing():
    problem = Problem(layer=LAYERS["products"], operation="WxG", rows="G")
    space = IterationSpace(problem=problem, core=CONFIG)
    assert not space.skips_masked
    assert not any(decode(bits)[1].get("skip_masked") for bits in compile_problem(problem, CONFIG).descriptors)


def test_preset_skips():
    config = load_any_preset("core-skip")
    assert isinstance(config, CoreConfig)
    (golden, _, _), (plain, _, _) = compiled(["core.buffer=64", "core.partial_sums=64"], LAYERS["products"], "WxG", "G")
    assert config.skip_masked
    assert golden.steps < plain.steps
