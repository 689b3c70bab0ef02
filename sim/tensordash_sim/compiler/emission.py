"""Emission of a schedule's descriptors, with tokens and the addresses of tensors."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tensordash.configuration.core_config import CoreConfig

from .iteration_space import SIDES
from .operands import Move, size_of
from .order import order_descriptors
from .problem import Problem
from .program import Loop, Program
from .resident_loads import ResidentLoads
from .schedule import Schedule, ScheduledMultiply
from .unit_cycles import layout_cycles

__all__ = ["emit", "emit_unordered", "order_program", "placeholder_addresses"]

PLACEHOLDER_BYTES = 1 << 28
"""Bytes between tensors whose addresses do not matter."""


def emit(schedule: Schedule, tensors: Mapping[str, int] | None = None) -> Program:
    """Emit the program of a schedule, with an `end`.

    Parameters
    ----------
    schedule : Schedule
        All multiplies of a problem.
    tensors : mapping of str to int, optional
        The address of each of `Problem.tensors`; by default `placeholder_addresses`.

    Raises
    ------
    ProgramError
        If a value exceeds its field.
    """
    space = schedule.space
    addresses = placeholder_addresses(space.problem) if tensors is None else tensors
    descriptors = emit_unordered(schedule, addresses)
    names = {name: name for name in space.problem.tensors}
    return order_program(space.core, ResidentLoads(space.core).insert(space, names, addresses, descriptors))


def emit_unordered(schedule: Schedule, tensors: Mapping[str, int]) -> list[int]:
    """Emit the descriptors of a schedule without tokens, in an order in which they could be executed one by one.

    Parameters and errors are those of `emit`.
    """
    emitter = _Emitter(schedule, tensors)
    for each in schedule.multiplies:
        emitter.add(each)
    return emitter.program.descriptors


def order_program(core: CoreConfig, descriptors: Sequence[int]) -> Program:
    """Move loads and layouts ahead of multiplies, add tokens and an `end`.

    Parameters
    ----------
    core : CoreConfig
        The core.
    descriptors : sequence of int
        Results of `emit_unordered` for one problem or several, concatenated.
    """
    program = Program()
    program.descriptors = order_descriptors(core, descriptors)
    program.add("end")
    return program


def placeholder_addresses(problem: Problem) -> dict[str, int]:
    """Return addresses of a problem's tensors, for estimates and other uses in which addresses do not matter."""
    return {name: (k + 1) * PLACEHOLDER_BYTES for k, name in enumerate(problem.tensors)}


class _Emitter:
    """Adds descriptors without tokens to a program."""

    def __init__(self, schedule: Schedule, tensors: Mapping[str, int]) -> None:
        self.space, self.tensors = schedule.space, tensors
        self.program = Program()

    def add(self, each: ScheduledMultiply) -> None:
        """Add a multiply, the loads and layouts before it, and the store after it."""
        multiply, product = each.multiply, each.multiply.product
        # The side whose layout takes longer comes first: the load unit loads the other side's groups meanwhile.
        sides = list(SIDES)
        if any(use.is_loaded for use in each.sides.values()) or all(use.is_laid_out for use in each.sides.values()):
            sides.sort(key=lambda side: self._layout_cycles(each, side), reverse=True)
        for side in sides:
            if each.sides[side].is_loaded:
                self._add_loads(each.sides[side].moves, each.sides[side].address, product)
            if each.sides[side].is_laid_out:
                self._add_layout(each, side)
        if each.loads_mask:
            self._add_loads(self.space.plan_mask_loads(each.tile), each.address, product)
        if each.bias and each.bias.is_loaded:
            self._add_loads([each.bias.move], each.bias.address, product)
        has_walk = multiply.is_last_chunk or self.space.skips_masked
        fields, loops = self._walk(each) if has_walk else ({}, None)
        fields |= {"add": int(not multiply.is_first_chunk), "emit": int(multiply.is_last_chunk), "steps": each.steps}
        for side, key in SIDES.items():
            fields |= {f"{key}_base": each.sides[side].base, f"{key}_streams": each.sides[side].streams}
        if not (multiply.is_first_chunk and multiply.is_last_chunk):
            fields["partial"] = multiply.partial
        self._add("multiply", fields, loops)
        if each.is_stored:
            self._add_move("store", each.tile.move, each.address, product)

    def _layout_cycles(self, each: ScheduledMultiply, side: str) -> float:
        stride = self.space.stride(side, each.multiply.phase)
        return layout_cycles(self.space.core, size_of(each.multiply.sets[side]), each.steps, stride)

    def _add_layout(self, each: ScheduledMultiply, side: str) -> None:
        multiply, use, is_resident = each.multiply, each.sides[side], side in self.space.resident
        layout = self.space.operands[side].plan_layout(
            self.space.full_tiles[side] if is_resident else multiply.tiles[side],
            self.space.full_reduction if is_resident else multiply.spans[side],
            self.space.phases[multiply.phase],
            multiply.sets[side],
            multiply.chunk,
            use.address,
        )
        fields = {**layout.fields, "base": use.base, "steps": each.steps, "streams": use.streams}
        self._add(f"layout_{SIDES[side]}", fields, layout.loops)

    def _walk(self, each: ScheduledMultiply) -> tuple[dict[str, int], list[Loop]]:
        """Return fields and loops of a multiply that writes results, or that skips passes of them."""
        space, problem, multiply = self.space, self.space.problem, each.multiply
        tile, streams = (
            (boxes[space.position_side], boxes[space.channel_side])
            for boxes in (space.full_tiles if "result" in space.resident else multiply.tiles, multiply.sets)
        )
        fields, loops = space.result_layout.plan_walk(tile, streams, space.phases[multiply.phase], each.address)
        if problem.mask:
            fields |= {"mask_address": fields["address"], "skip_masked": int(space.skips_masked)}
        if multiply.is_last_chunk:
            fields |= {"fp32": int(problem.fp32), "relu": int(problem.relu), "mask": int(problem.mask)}
        if each.bias is not None:
            fields |= {"bias": 1, "bias_address": each.bias.address, "y": fields["y"] + each.bias.groups_before}
        return fields, loops

    def _add_loads(self, moves: Iterable[Move], address: int, product: int) -> None:
        """Add loads to consecutive groups of the buffer."""
        for move in moves:
            self._add_move("load", move, address, product)
            address += move.groups

    def _add_move(self, operation: str, move: Move, address: int, product: int) -> None:
        first = move.first + product * self.space.product_groups[move.tensor]
        memory = self.tensors[move.tensor] + first * (self.space.core.group_bytes >> move.is_nvfp4)
        self._add(operation, {**move.fields, "memory": memory, "address": address})

    def _add(self, operation: str, fields: dict[str, Any], loops: list[Loop] | None = None) -> None:
        self.program.add(operation, loops=loops, **fields)
