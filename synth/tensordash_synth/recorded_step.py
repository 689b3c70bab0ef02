"""The training step of the package's trace as programs of a core."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from numpy.typing import NDArray

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.formats import Format
from tensordash_sim.compiler.images import TensorImage, layer_values
from tensordash_sim.compiler.layer import OPERANDS, Layer
from tensordash_sim.compiler.pipeline import compile_problem
from tensordash_sim.compiler.problem import Problem
from tensordash_sim.compiler.scheduled import scheduled_speedup
from tensordash_sim.golden.core.golden_core import Memory
from tensordash_sim.golden.quantization import quantized
from tensordash_sim.trace import Record, Trace, example_trace

__all__ = ["MEMORY", "RecordedOperation", "StepProgram", "recorded_operations", "step_program"]

MEMORY = 1 << 17
"""Bytes for the operands and the result of one operation; its program follows them."""


@dataclass(frozen=True, kw_only=True)
class RecordedOperation:
    """An operation of a training step.

    Parameters
    ----------
    name : str
        Layer and operation.
    layer : Layer
        Its shapes.
    operation : str
        "AxW", "WxG" or "AxG".
    rows : str
        The operand with more zeros, which goes to the row side.
    values : dict of str to array
        Bit patterns of both operands, as in `TensorImage`.
    """

    name: str
    layer: Layer
    operation: str
    rows: str
    values: Mapping[str, NDArray]


@dataclass(frozen=True, kw_only=True)
class StepProgram:
    """Program of an operation for one core.

    Parameters
    ----------
    descriptors : tuple of int
        The program.
    image : TensorImage
        Operands in memory, and the place of the result.
    """

    descriptors: tuple[int, ...]
    image: TensorImage


def recorded_operations(config: CoreConfig) -> Iterator[RecordedOperation]:
    """Yield the operations of a training step of a CNN on 16 digits; the first layer has no gradient of its input.

    Parameters
    ----------
    config : CoreConfig
        A core whose sides have one format; operands are rounded to it.

    Raises
    ------
    ValueError
        If the sides of its tile have two formats.
    """
    a_format, b_format = config.tile.a_format, config.tile.b_format
    if a_format != b_format:
        raise ValueError(f"the sides of the tile must have one format, not {a_format.name} and {b_format.name}")
    for record in Trace.open(example_trace()).records:
        yield _operation(record, a_format)


def _operation(record: Record, fmt: Format) -> RecordedOperation:
    operation = str(record.operation)
    values = {
        name: layer_values(record.geometry, name, quantized(record.values(name), fmt)) for name in OPERANDS[operation]
    }
    return RecordedOperation(
        name=f"{record.layer} {operation}",
        layer=Layer.of(record.geometry),
        operation=operation,
        rows=record.sparser,
        values=values,
    )


def step_program(config: CoreConfig, work: RecordedOperation) -> StepProgram:
    """Compile an operation with the best tiling for the core and for the speedup of its tile on these values."""
    image = TensorImage(config, Memory(MEMORY), work.layer, work.operation, work.values, rows=work.rows)
    problem = Problem(layer=work.layer, operation=work.operation, rows=work.rows)
    program = compile_problem(problem, config, image.tensors)
    if config.tile.sparsity != "none":
        speedup = scheduled_speedup(config, program.descriptors, image.memory)
        program = compile_problem(replace(problem, speedup=round(speedup, 1)), config, image.tensors)
    return StepProgram(descriptors=tuple(program.descriptors), image=image)
