"""Sequencer's side of a unit's command port, for benches of units."""

from random import Random

from tensordash_sim.verify.axi_memory import AxiMemory
from tensordash_sim.verify.pins import Pins, PinsLike

__all__ = ["CommandPort", "settle"]

BEATS = 4
BITS = 128


class CommandPort:
    """Sequencer's side of a unit's command port; in each cycle call `drive`, settle, call `observe`, then tick.

    Parameters
    ----------
    pins : PinsLike
        Pins of the unit.
    random : Random
        Source of pauses.

    Attributes
    ----------
    error : int or None
        Error code of the descriptor once it is done, else None.
    """

    IDLE = {"command_descriptor_valid": 0, "command_descriptor_payload": 0}

    def __init__(self, pins: PinsLike, random: Random) -> None:
        self.pins, self.random = pins, random
        self._beats: list[int] = []
        self._shown = False
        self.error: int | None = None

    def begin(self, bits: int) -> None:
        """Start to send a descriptor to the unit."""
        self._beats = [bits >> (BITS * k) & ((1 << BITS) - 1) for k in range(BEATS)]
        self._shown = False
        self.error = None

    def drive(self) -> None:
        """Set the inputs for a cycle."""
        self._shown = bool(self._beats) and (self._shown or self.random.random() < 0.7)
        self.pins.drive(
            command_descriptor_valid=int(self._shown), command_descriptor_payload=self._beats[0] if self._shown else 0
        )

    def observe(self) -> None:
        """Process the unit's handshake and `done` of this cycle."""
        if self.pins.read("command_done"):
            assert not self._beats, f"cycle {self.pins.cycle}: done before all of the descriptor was taken"
            assert self.error is None, f"cycle {self.pins.cycle}: done twice"
            self.error = self.pins.read("command_error")
        if self._shown and self.pins.read("command_descriptor_ready"):
            self._beats.pop(0)
            self._shown = False


async def settle(pins: Pins, memory: AxiMemory, command: CommandPort) -> None:
    """Drive memory and command port for a cycle, let the unit's outputs settle, and observe them."""
    memory.drive()
    command.drive()
    await pins.settle()
    memory.observe()
    command.observe()
