"""Loads of resident tensors in pieces; each piece is loaded before the first descriptor that reads it."""

from collections.abc import Mapping, Sequence
from typing import Any

from tensordash.configuration.core_config import CoreConfig

from .footprint import footprints
from .iteration_space import IterationSpace
from .program import Program

__all__ = ["ResidentLoads"]

PIECES = 8
"""Number of loads of a resident tensor. Multiplies begin while later pieces are loaded."""
MIN_PIECE_GROUPS = 32
"""Minimum of groups in a piece, except the last one."""


class ResidentLoads:
    """Inserts loads of resident tensors into a program's descriptors, one problem after the other.

    Parameters
    ----------
    core : CoreConfig
        The core.
    """

    def __init__(self, core: CoreConfig) -> None:
        self.core = core
        self._missing: dict[str, list[tuple[int, int]]] = {}
        """For each tensor, the first group and the number of groups of each piece that is not loaded yet."""

    def insert(
        self,
        space: IterationSpace,
        names: Mapping[str, str],
        tensors: Mapping[str, int],
        descriptors: Sequence[int],
    ) -> list[int]:
        """Insert a problem's loads, each before the first descriptor that reads the loaded groups.

        Parameters
        ----------
        space : IterationSpace
            The problem with its buffer plan.
        names : mapping of str to str
            The unique name of each of the problem's tensors.
        tensors : mapping of str to int
            Their addresses in memory.
        descriptors : sequence of int
            As `emit_unordered` returns them.
        """
        made: list[int] = []
        addresses = dict(space.buffer.resident)
        for role in space.buffer.loaded:
            self._missing[names[role]] = _pieces(space.product_groups[role])
        read = [role for role in addresses if role != "result" and self._missing.get(names[role])]
        for bits in descriptors:
            missing = [role for role in read if self._missing[names[role]]]
            places = 0
            for place in footprints(self.core, bits) if missing else ():
                places |= place.reads.get("buffer", 0)
            for role in missing:
                made += self._loads(names[role], places, tensors[role], addresses[role], space.memory_form(role))
            made.append(bits)
        return made

    def _loads(self, name: str, places: int, memory: int, address: int, form: dict[str, Any]) -> list[int]:
        program, left = Program(), []
        size = self.core.group_bytes >> form.get("nvfp4", 0)
        for first, count in self._missing[name]:
            if places >> (address + first) & ((1 << count) - 1):
                program.add("load", memory=memory + first * size, address=address + first, count_0=count, **form)
            else:
                left.append((first, count))
        self._missing[name] = left
        return program.descriptors


def _pieces(groups: int) -> list[tuple[int, int]]:
    size = max(MIN_PIECE_GROUPS, -(-groups // PIECES))
    return [(first, min(size, groups - first)) for first in range(0, groups, size)]
