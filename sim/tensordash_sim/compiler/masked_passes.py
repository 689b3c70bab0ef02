"""Passes that a program's multiplies skip, from the masks in memory."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import decode

from .footprint import footprints, masked_groups
from .multiply_cycles import Pace
from .row_streams import Paces, loaded_groups

__all__ = ["MaskedPasses", "SkippingPaces"]

UNKNOWN = -2
"""Number of a group whose values in the buffer are not those of a tensor in memory."""
NO_MASK = -1
"""Number in place of a group that has no masks."""


class MaskedPasses:
    """Places in memory of the masks of each pass that a program may skip.

    Parameters
    ----------
    config : CoreConfig
        The core.
    program : sequence of int
        Legal descriptors; moves are not compressed.
    address : int
        Address of the masks' tensor in memory.
    """

    def __init__(self, config: CoreConfig, program: Sequence[int], address: int) -> None:
        self._places: dict[int, NDArray[np.int64]] = {}
        held = np.full(config.groups, UNKNOWN, np.int64)
        decoded = [decode(bits) for bits in program] if config.skip_masked else []
        for index, (operation, values) in enumerate(decoded):
            assert operation is not None
            if operation.name == "load":
                groups = loaded_groups(config, values, address)
                held[values["address"] :][: len(groups)] = UNKNOWN if values["nvfp4"] else groups
            elif operation.name == "multiply":
                if values["skip_masked"]:
                    masks = masked_groups(config, values)
                    self._places[index] = np.where(masks >= 0, held[masks], NO_MASK)
                if values["emit"]:
                    _, output = footprints(config, program[index])
                    written = output.writes["buffer"].to_bytes(config.groups // 8, "little")
                    held[np.unpackbits(np.frombuffer(written, np.uint8), bitorder="little") == 1] = UNKNOWN

    def skipped(self, non_zeros: NDArray[np.bool_]) -> dict[int, NDArray[np.bool_]]:
        """Return the skipped passes, (b_streams, a_streams), of each multiply that may skip some, by its index.

        A pass with masks outside the tensor is not skipped: their values are unknown.

        Parameters
        ----------
        non_zeros : array of bool, (groups,)
            Which groups of the masks' tensor have a value other than zero.
        """
        found, values = {}, np.append(non_zeros, True)  # The last one stands for unknown masks.
        for index, places in self._places.items():
            is_inside = (places >= 0) & (places < len(non_zeros))
            is_zero = ~values[np.where(is_inside, places, -1)]
            found[index] = (is_zero | (places == NO_MASK)).all(axis=2)
        return found


class SkippingPaces(Paces):
    """Paces of a program that skips passes.

    `speedup` is the speedup of all passes, the skipped ones included.

    Parameters
    ----------
    paces : Paces
        The paces of all passes.
    skipped : mapping of int to array of bool
        The result of `MaskedPasses.skipped`.
    """

    def __init__(self, paces: Paces, skipped: Mapping[int, NDArray[np.bool_]]) -> None:
        self._paces, self._skipped = paces, skipped
        self.speedup = paces.speedup

    def of(self, index: int, values: Mapping[str, int]) -> Pace:
        """Return the pace of a multiply; skipped passes have 0 cycles."""
        pace = self._paces.of(index, values)
        if index not in self._skipped:
            return pace
        skipped = self._skipped[index]
        streams = np.arange(len(skipped)) * len(pace.cycles) // len(skipped)
        return Pace(np.where(skipped, 0.0, pace.cycles[streams, None]), pace.losses[streams])
