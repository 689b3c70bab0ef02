"""Offer a unit's descriptors beat by beat, as the sequencer does."""

from random import Random

from tensordash.movers.unit import COMMAND_BEATS, COMMAND_BITS
from tensordash_sim.verify.pins import Pins

__all__ = ["Beats"]


class Beats:
    """Producer of a descriptor's beats, which also watches for the descriptor's end.

    Parameters
    ----------
    pins : Pins
        Pins of the unit.
    random : Random
        Source of the cycles without a beat.
    rate : float
        Probability that a beat is offered in a cycle.

    Attributes
    ----------
    completed_in : int or None
        The cycle in which the unit accepted the last beat.
    """

    def __init__(self, pins: Pins, random: Random, rate: float) -> None:
        self.pins, self.random, self.rate = pins, random, rate
        self._left: list[int] = []
        self._offered = False
        self.completed_in: int | None = None

    def give(self, bits: int) -> None:
        """Start to offer a descriptor."""
        mask = (1 << COMMAND_BITS) - 1
        self._left = [bits >> k * COMMAND_BITS & mask for k in range(COMMAND_BEATS)]
        self._offered, self.completed_in = False, None

    def drop(self) -> None:
        """Drop the descriptor after a reset."""
        self._left, self._offered, self.completed_in = [], False, None

    def drive(self) -> None:
        """Offer a beat, or drive random bits without valid."""
        self._offered = bool(self._left) and (self._offered or self.random.random() < self.rate)
        payload = self._left[0] if self._offered else self.random.getrandbits(COMMAND_BITS)
        self.pins.drive(command_descriptor_valid=int(self._offered), command_descriptor_payload=payload)

    def finish(self) -> int | None:
        """Remove a beat that the unit accepts; return the descriptor's error if it is done, else None."""
        done = self.pins.read("command_done")
        assert not done or self.completed_in is not None, f"cycle {self.pins.cycle}: done without a descriptor"
        ready = self.pins.read("command_descriptor_ready")
        assert not (ready and self.completed_in is not None), (
            f"cycle {self.pins.cycle}: a beat is taken before the descriptor is done"
        )
        if self._offered and ready:
            self._left.pop(0)
            self._offered = False
            if not self._left:
                self.completed_in = self.pins.cycle
        if not done:
            return None
        self.completed_in = None
        return self.pins.read("command_error")
