"""Run host calls of a program folder in C, under sanitizers."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tensordash_runtime.program_folder.building import PlanBuilder
from tensordash_runtime.program_folder.execution import EXECUTORS, run_plan
from tensordash_runtime.program_folder.folder import ProgramFolder, build_folder
from tensordash_runtime.program_folder.host_calls import FUNCTIONS
from tensordash_runtime.program_folder.plan import HostCall, Plan
from tensordash_runtime.program_folder.storage import write_folder
from tensordash_runtime.program_folder.tensors import StepTensor

from ..sim.lowering.geometries import convolution

IMAGES = convolution(batch=2, channels=(5, 3), size=(7, 6), kernel=(2, 2))

MAIN = """\
#include <stdio.h>
#include "program.h"
static uint32_t memory[TENSORDASH_PROGRAM_BYTES / 4];
int main(void) {
  uint32_t index;
  while (fread(&index, sizeof index, 1, stdin) == 1) {
    if (fread(memory, sizeof memory, 1, stdin) != 1) return 1;
    tensordash_host_call(index, (uint8_t *)memory);
    fwrite(memory, sizeof memory, 1, stdout);
  }
  return 0;
}
"""
FLAGS = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-ffp-contract=off"]
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1"]


def run_in_c(folder: ProgramFolder, place: Path) -> Iterator[tuple[HostCall, bytes, bytes]]:
    """Yield each host call with the memory contents after it, from the emulator and from the C code."""
    write_folder(folder, place)
    (place / "main.c").write_text(MAIN)
    command = ["gcc", *FLAGS, *SANITIZERS, "main.c", "host.c", "program.c", "-o", "main"]
    subprocess.run(command, cwd=place, check=True)
    places, calls = folder.memory_map, [stage for stage in folder.plan.stages if isinstance(stage, HostCall)]
    before, after = [], []
    memory = EXECUTORS["emulator"](folder.plan, places)
    memory.write(places.base, bytes([0xA5]) * places.size)  # The calls must overwrite padding of groups with zeros.
    memory.write(places.base, folder.initial)
    for stage in folder.plan.stages:
        single = Plan(
            name="",
            config=folder.plan.config,
            tensors=folder.plan.tensors,
            calls=(stage,) if isinstance(stage, HostCall) else tuple(stage),
        )
        before.append(memory.read(places.base, places.size))
        run_plan(memory, single, places)
        after.append(memory.read(places.base, places.size))
        if not isinstance(stage, HostCall):
            before.pop(), after.pop()
    sent = b"".join(k.to_bytes(4, "little") + each for k, each in enumerate(before))
    done = subprocess.run([place / "main"], input=sent, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    for k, call in enumerate(calls):
        yield call, after[k], done.stdout[k * places.size : (k + 1) * places.size]


def require_equal(folder: ProgramFolder, place: Path) -> list[str]:
    """Require equal memory contents in C and emulator after each host call; return the called functions."""
    functions = []
    for call, expected, found in run_in_c(folder, place):
        assert len(found) == folder.memory_map.size
        for name, region in folder.memory_map.tensors.items():
            begin = region.address - folder.memory_map.base
            assert found[begin:][: region.bytes] == expected[begin:][: region.bytes], (call.function, name)
        assert found == expected
        functions.append(call.function)
    return functions


def hard_numbers(count: int, seed: int = 0) -> np.ndarray:
    """Return FP32 numbers of all kinds: ties of fp16 and bf16, subnormals, infinities, NaN, zeros of both signs."""
    random = np.random.default_rng(seed)
    bits = random.integers(0, 1 << 32, count, np.uint64).astype(np.uint32)
    near = (random.standard_normal(count) * 2.0 ** random.integers(-30, 18, count)).astype(np.float32)
    ties = (near.view(np.uint32) & 0xFFFFE000) | 0x1000
    ties_of_bf16 = (bits & random.choice([0x807F0000, 0xFFFF0000], count)) | 0x8000  # Half of them are subnormal.
    kinds = [
        bits,
        near.view(np.uint32),
        ties,
        ties_of_bf16,
        np.resize([0, 1 << 31, 0x7F800000, 0xFF800000, 0x7FC00001], count),
    ]
    chosen = np.choose(random.integers(0, len(kinds), count), kinds)
    return chosen.astype(np.uint32).view(np.float32)


def round_parameters(**parameters: Any) -> dict[str, Any]:
    """Round a host call's parameters to FP32, as a program folder stores them."""
    return {name: float(np.float32(each)) if isinstance(each, float) else each for name, each in parameters.items()}


def compute(name: str, values: dict[str, Any], **parameters: Any) -> dict[str, np.ndarray]:
    """Return the results of a host call."""
    arrays = {role: np.asarray(each) for role, each in values.items()}
    return FUNCTIONS[name].compute(arrays, round_parameters(**parameters))


def add(builder: PlanBuilder, name: str, numbers: np.ndarray, **fields: Any) -> str:
    kind = fields.pop("format", "int32" if numbers.dtype.kind == "i" else "fp32")
    builder.add_tensor(StepTensor(name=name, shape=numbers.shape, format=kind, **fields), numbers)
    if kind == "fp32":  # Conversion would change the bits of NaN.
        builder.values[name] = builder.initial[name] = numbers.view(np.uint32)
    return name


def add_result(builder: PlanBuilder, name: str, shape: tuple[int, ...], kind: str = "fp32", **fields: Any) -> str:
    return builder.add_tensor(StepTensor(name=name, shape=shape, format=kind, **fields))


def build(builder: PlanBuilder) -> ProgramFolder:
    return build_folder(builder.build("host calls"), builder.initial, base=0x10000)
