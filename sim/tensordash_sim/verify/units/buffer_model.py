"""A model of the buffer for the benches of units that read or write it."""

from collections.abc import Sequence
from random import Random

from numpy.typing import NDArray

from tensordash.configuration.core_config import CoreConfig
from tensordash_sim.verify.pins import PinsLike, split

__all__ = ["BufferModel"]


class BufferModel:
    """Model of the buffer that accepts requests at random; read data are valid in the next cycle only.

    In each cycle call `drive`, settle, call `answer`, settle, and call `take`.

    Parameters
    ----------
    pins : PinsLike
        The unit's pins.
    config : CoreConfig
        The core.
    groups : array of unsigned, (groups, L, L)
        Content of the buffer.
    random : Random
        Source of ready cycles and of undefined data.
    reads, writes : sequence of str
        Names of the unit's ports.
    """

    def __init__(
        self,
        pins: PinsLike,
        config: CoreConfig,
        groups: NDArray,
        random: Random,
        *,
        reads: Sequence[str],
        writes: Sequence[str],
    ) -> None:
        self.pins, self.config, self.groups, self.random = pins, config, groups, random
        self.reads, self.writes = list(reads), list(writes)
        self._shown: dict[str, dict[int, int]] = {}
        self._ready: dict[str, int] = {}
        self._held: dict[str, tuple[int, ...]] = {}

    def idle(self) -> dict[str, int]:
        """Return the values of the unit's inputs in reset."""
        return {f"{port}_ready": 0 for port in (*self.reads, *self.writes)} | {f"{port}_data": 0 for port in self.reads}

    def forget(self) -> None:
        """Drop pending requests and read data, after a reset."""
        self._shown, self._held = {}, {}

    def release(self) -> None:
        """Let pending requests change: the unit's descriptor is done."""
        self._held = {}

    def drive(self, stall: float) -> None:
        """Drive the data read in the last cycle, or random bits, and draw each port's ready."""
        width = self.config.tile.lanes * self.config.value_bits
        for port in self.reads:
            shown = self._shown.get(port, {})
            words = [shown.get(bank, self.random.getrandbits(width)) for bank in range(self.config.tile.lanes)]
            self.pins.drive(**{f"{port}_data": sum(word << (width * bank) for bank, word in enumerate(words))})
        self._shown = {}
        for port in (*self.reads, *self.writes):
            self._ready[port] = int(self.random.random() >= stall)
            self.pins.drive(**{f"{port}_ready": self._ready[port]})

    def answer(self) -> None:
        """Check that requests are stable until they are accepted."""
        for port in (*self.reads, *self.writes):
            request = self._request(port)
            if port in self._held:
                assert request == self._held[port], f"{port} has changed before it was taken"
            self._held.pop(port, None)
            if request and not self._ready[port]:
                self._held[port] = request

    def take(self) -> None:
        """Execute the accepted requests."""
        lanes, bits = self.config.tile.lanes, self.config.value_bits
        for port in self.writes:
            if request := self._taken(port):
                enable, addresses, data = request
                for bank in range(lanes):
                    if enable >> bank & 1:
                        self.groups[split(addresses, self._address_bits, lanes)[bank], bank] = split(
                            split(data, lanes * bits, lanes)[bank], bits, lanes
                        )
        for port in self.reads:
            if request := self._taken(port):
                enable, addresses = request
                self._shown[port] = {
                    bank: sum(
                        int(value) << (bits * c)
                        for c, value in enumerate(self.groups[split(addresses, self._address_bits, lanes)[bank], bank])
                    )
                    for bank in range(lanes)
                    if enable >> bank & 1
                }

    @property
    def _address_bits(self) -> int:
        return (self.config.groups - 1).bit_length()

    def _taken(self, port: str) -> tuple[int, ...]:
        return self._request(port) if self._ready[port] else ()

    def _request(self, port: str) -> tuple[int, ...]:
        """Return the request to the enabled banks, or an empty tuple."""
        if not self.pins.read(f"{port}_valid"):
            return ()
        lanes, bits = self.config.tile.lanes, self._address_bits
        enable = self.pins.read(f"{port}_enable")
        counted = sum(((1 << bits) - 1) << (bits * bank) for bank in range(lanes) if enable >> bank & 1)
        request: tuple[int, ...] = (enable, self.pins.read(f"{port}_address") & counted)
        if port in self.writes:
            word = lanes * self.config.value_bits
            enabled_bits = sum(((1 << word) - 1) << (word * bank) for bank in range(lanes) if enable >> bank & 1)
            request = (*request, self.pins.read(f"{port}_data") & enabled_bits)
        return request
