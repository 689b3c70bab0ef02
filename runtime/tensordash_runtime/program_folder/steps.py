"""Sequences of steps of a program folder, each on its own batch: inputs and checksums as C."""

import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import ProgramFolderError
from .execution import EmulatedMemory, run_plan
from .folder import ProgramFolder
from .plan import HostCall, Plan
from .tensors import INT32_RANGE, StepTensor

__all__ = ["compute_checksums", "read_batches", "render_steps", "step_bytes"]

Batch = Mapping[str, bytes]
"""Bytes in memory of each input, by its name."""

HEADER = """\
/* Steps of the program folder: inputs of each batch, and the CRC-32 of each tensor after each step (emulator). */
#ifndef TENSORDASH_STEPS_H
#define TENSORDASH_STEPS_H

#include "program.h"

#define COMPARED_STEPS {steps}u
/* Step k uses batch k % BATCHES. With 0 batches, inputs keep their initial contents. */
#define BATCHES {batches}u
#define BATCH_WORDS {words}

extern const uint32_t tensordash_checksums[COMPARED_STEPS][TENSORDASH_PROGRAM_TENSORS];
#if BATCHES
/* The inputs of a batch in the order of `tensordash_tensors`. */
extern const uint32_t tensordash_batches[BATCHES][BATCH_WORDS];
#endif

#endif
"""
SOURCE = """\
#include "steps.h"

#ifndef TENSORDASH_STEPS_SECTION
#define TENSORDASH_STEPS_SECTION
#endif

TENSORDASH_STEPS_SECTION const uint32_t tensordash_checksums[COMPARED_STEPS][TENSORDASH_PROGRAM_TENSORS] = {{
{checksums}
}};
"""
BATCHES = """
TENSORDASH_STEPS_SECTION const uint32_t tensordash_batches[BATCHES][BATCH_WORDS] = {{
{batches}
}};
"""


def read_batches(folder: ProgramFolder, path: Path) -> list[dict[str, bytes]]:
    """Read a NumPy archive with an array for each input of a program folder.

    Parameters
    ----------
    folder : ProgramFolder
        The step.
    path : Path
        An ``.npz`` file with an array for each input, named like it, of shape (batches, *shape of the input).

    Returns
    -------
    list of dict of str to bytes
        For each batch, the bytes in memory of each input. Numbers are rounded to the input's format.

    Raises
    ------
    ProgramFolderError
        If the file cannot be read, or an array is missing or has another shape, type or range of values.
    """
    plan, arrays = folder.plan, _read_archive(path)
    rows: dict[str, list[bytes]] = {}
    if not plan.inputs:
        raise ProgramFolderError(f"{path} must not go with a program folder without inputs")
    for name in plan.inputs:
        tensor = plan.tensors[name]
        if name not in arrays:
            raise ProgramFolderError(f"{path} must have an array {name!r}, not {', '.join(arrays) or 'none'}")
        array, kinds = arrays[name], "iu" if tensor.format == "int32" else "f"
        if array.shape[:1] == (0,):
            raise ProgramFolderError(f"{name} in {path} must have at least one batch, not shape {array.shape}")
        if array.shape[1:] != tensor.shape or array.dtype.kind not in kinds:
            kind = "integers" if kinds == "iu" else "floating-point numbers"
            shape = ("batches", *tensor.shape)
            raise ProgramFolderError(
                f"{name} in {path} must have {kind} of shape ({', '.join(map(str, shape))}), "
                f"not {array.dtype} of shape {array.shape}"
            )
        rows[name] = [
            tensor.to_bytes(_bits(each, plan, tensor, f"{name} in {path}, batch {k},"), plan.config)
            for k, each in enumerate(array)
        ]
    if len(counts := {name: len(each) for name, each in rows.items()}) and len(set(counts.values())) > 1:
        raise ProgramFolderError(f"arrays in {path} must have the same number of batches, not {counts}")
    return [dict(zip(rows, each, strict=True)) for each in zip(*rows.values(), strict=True)]


def _read_archive(path: Path) -> dict[str, NDArray]:
    """Return the arrays of an archive."""
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except OSError as error:
        raise ProgramFolderError(f"cannot read {path}: {error.strerror or 'not an archive of numpy.savez'}") from None
    except (AttributeError, TypeError, ValueError, EOFError, RuntimeError, MemoryError, zipfile.BadZipFile, zlib.error):
        # Damaged and foreign files raise various errors in NumPy and zipfile. An .npy array is not a context manager.
        raise ProgramFolderError(f"{path} must be an archive of numpy.savez with plain arrays (.npz)") from None


def _bits(values: NDArray, plan: Plan, tensor: StepTensor, name: str) -> NDArray:
    """Return the bit patterns of a batch, which must have finite numbers, labels of classes or other int32."""
    if tensor.format == "int32":
        losses = (call for call in plan.calls if isinstance(call, HostCall) and "labels" in call.tensors)
        ends = [call.parameters["shapes"]["scores"][1] for call in losses if call.tensors["labels"] == tensor.name]
        least, greatest = (0, min(ends) - 1) if ends else INT32_RANGE
        wrong = values[(values < least) | (values > greatest)]
        allowed = f"integers from {least} to {greatest}"
        bits = tensor.bits(values.astype(np.int32))
    else:
        with np.errstate(over="ignore"):
            bits = tensor.bits(values.astype(np.float32))
        wrong = values[~np.isfinite(tensor.numbers(bits))]
        allowed = f"numbers that are finite in {tensor.format}"
    if wrong.size:
        raise ProgramFolderError(f"{name} must have {allowed}, not {wrong[0]}")
    return bits


def step_bytes(folder: ProgramFolder, steps: int, batches: Sequence[Batch]) -> int:
    """Return the number of bytes of checksums and batches."""
    return 4 * steps * len(folder.plan.tensors) + sum(len(each) for batch in batches for each in batch.values())


def compute_checksums(folder: ProgramFolder, steps: int, batches: Sequence[Batch] = ()) -> NDArray[np.uint32]:
    """Return the CRC-32 of each tensor after each step, computed by the emulator.

    Parameters
    ----------
    folder : ProgramFolder
        The step.
    steps : int
        Number of steps.
    batches : sequence of mapping
        Step k sets the inputs to batch k modulo their number. Without batches, inputs keep their contents.

    Returns
    -------
    array of uint32
        Checksums of shape (steps, tensors), in the order of the plan's tensors.
    """
    places = folder.memory_map
    memory = EmulatedMemory(folder.plan, places)
    memory.write(places.base, folder.initial)
    checksums = np.zeros((steps, len(folder.plan.tensors)), np.uint32)
    for step in range(steps):
        for name, data in (batches[step % len(batches)] if batches else {}).items():
            memory.write(places.tensors[name].address, data)
        run_plan(memory, folder.plan, places)
        for k, name in enumerate(folder.plan.tensors):
            region = places.tensors[name]
            checksums[step, k] = zlib.crc32(memory.read(region.address, region.bytes))
    return checksums


def render_steps(folder: ProgramFolder, checksums: NDArray[np.uint32], batches: Sequence[Batch] = ()) -> dict[str, str]:
    """Return ``steps.h`` and ``steps.c``: the checksums of `compute_checksums`, and the batches.

    Parameters
    ----------
    folder : ProgramFolder
        The step.
    checksums : array of uint32
        Checksums of shape (steps, tensors).
    batches : sequence of mapping
        See `compute_checksums`.
    """
    order = [name for name in folder.plan.tensors if name in folder.plan.inputs]
    words = [np.frombuffer(b"".join(batch[name] for name in order), "<u4") for batch in batches]
    header = HEADER.format(steps=len(checksums), batches=len(words), words=len(words[0]) if words else 0)
    source = SOURCE.format(checksums=_rows(checksums))
    return {"steps.h": header, "steps.c": source + (BATCHES.format(batches=_rows(words)) if words else "")}


def _rows(rows: Sequence[NDArray] | NDArray) -> str:
    return "\n".join(f"  {{{', '.join(f'{word:#x}' for word in row.tolist())}}}," for row in rows)
