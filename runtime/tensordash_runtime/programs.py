"""The program of an operation: how it is cut, its descriptors and the record of its counts."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import decode
from tensordash_sim.compiler.blocking import Blocking
from tensordash_sim.compiler.contraction import Contraction
from tensordash_sim.compiler.layer import OPERANDS
from tensordash_sim.compiler.program import Program
from tensordash_sim.compiler.tiling_search import best_blocking

from .jobs import Work

__all__ = ["RECORD", "contraction_of", "cut_of", "moved_bytes", "recorded"]

RECORD = 32
"""Bytes that a `record` writes."""


def contraction_of(config: CoreConfig, work: Work, tensors: Mapping[str, int] | None = None) -> Contraction:
    """Return an operation on tensors at their addresses; at some addresses if those do not matter.

    FP32 results are turned where that saves cycles.
    """
    more = [name for name in ("bias", "mask") if name in work.fused]
    names = (*OPERANDS[work.operation], "result", *more)
    contraction = Contraction(
        config=config,
        layer=work.layer,
        operation=work.operation,
        tensors={name: (k + 1) << 28 for k, name in enumerate(names)} if tensors is None else dict(tensors),
        rows=work.rows,
        fp32=work.fp32,
        relu=work.relu,
        speedup=work.speedup,
    )
    return replace(contraction, turned=contraction.turnable)


@cache
def cut_of(config: CoreConfig, work: Work) -> Blocking:
    """How an operation is cut, wherever its tensors are; searched for once."""
    return best_blocking(contraction_of(config, work))


def recorded(program: Program, memory: int) -> Program:
    """Return a program with a record of its counts before its end: in the unit of stores, behind all of them."""
    end = program.descriptors.pop()
    program.add("record", memory=memory)
    program.descriptors.append(end)
    return program


def moved_bytes(program: Program, config: CoreConfig) -> int:
    """Return bytes that a program's plain loads and stores move, and its records."""
    groups = records = 0
    for bits in program.descriptors:
        operation, fields = decode(bits)
        if operation is not None and operation.name in ("load", "store"):
            groups += fields["count_0"] * fields["count_1"] * fields["count_2"] * fields["count_3"]
        records += operation is not None and operation.name == "record"
    return groups * config.group_bytes + records * RECORD
