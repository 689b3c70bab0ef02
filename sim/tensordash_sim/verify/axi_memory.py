"""Memory at an AXI4 port of a bench: it delays and reorders as AXI allows, and checks the master."""

from collections import deque
from dataclasses import dataclass, field
from random import Random

from ..golden.core.golden_core import Memory
from .pins import PinsLike

__all__ = ["AxiMemory"]

PAGE = 4096
ERRORS = (2, 3)
"""SLVERR and DECERR."""
GARBLED = 0x5A


@dataclass
class _Burst:
    number: int
    address: int
    beats: int
    ready_cycle: int
    data: list[tuple[int, int]] = field(default_factory=list)
    moved: int = 0


class AxiMemory:
    """AXI4 slave; in each cycle call `drive`, settle, call `observe`, then tick.

    Parameters
    ----------
    pins : PinsLike
        Pins that include the port's.
    random : Random
        Source of latencies, orders and pauses.
    memory : Memory
        The bytes; an address outside the memory gets an error response.
    bits : int
        Bits of a beat.
    prefix : str
        Prefix of the port's pin names.
    reads, writes : bool
        Whether the port has the read channels and the write channels.
    ids : bool
        Whether the port has IDs.
    latency : (int, int)
        Least and most cycles from a read address to its first data, and from the last write data to its response.
    pause : float
        Probability that a channel pauses in a cycle.
    outstanding : int
        Maximum number of outstanding read bursts.
    burst : int
        Maximum number of beats in a burst.

    Attributes
    ----------
    read_bursts, write_bursts, read_beats, write_beats : int
        Transfers so far.
    write_errors : int
        Error responses to writes so far.
    """

    def __init__(
        self,
        pins: PinsLike,
        random: Random,
        memory: Memory,
        *,
        bits: int,
        prefix: str = "axi_",
        reads: bool = False,
        writes: bool = False,
        ids: bool = False,
        latency: tuple[int, int] = (0, 20),
        pause: float = 0.3,
        outstanding: int = 16,
        burst: int = 256,
    ) -> None:
        self.pins, self.random, self.memory, self.bytes, self.prefix = pins, random, memory, bits // 8, prefix
        self.reads, self.writes, self.ids = reads, writes, ids
        self.latency, self.pause, self.outstanding, self.burst = latency, pause, outstanding, burst
        self.read_bursts = self.write_bursts = self.read_beats = self.write_beats = 0
        self.write_errors = 0
        self.reset()

    def reset(self) -> None:
        """Discard all outstanding transfers."""
        self._reading: list[_Burst] = []
        self._addressed: deque[_Burst] = deque()
        self._data: deque[tuple[int, int, int]] = deque()
        self._answers: list[tuple[int, _Burst, int]] = []
        self._offers: dict[str, tuple] = {}
        self._offered: dict[str, dict[str, int] | None] = {"r": None, "b": None}
        self._chosen: _Burst | None = None
        self._answered: tuple[int, _Burst, int] | None = None

    @property
    def idle(self) -> bool:
        """Whether no transfer is outstanding."""
        return not (self._reading or self._addressed or self._data or self._answers or self._answered)

    def _draw_ready(self) -> int:
        return int(self.random.random() >= self.pause)

    def _draw_cycle(self) -> int:
        low, high = self.latency
        # Most latencies are minimal; 30 % span the range.
        return self.pins.cycle + (self.random.randint(low, high) if self.random.random() < 0.3 else low)

    def idle_pins(self) -> dict[str, int]:
        """Return the values of all inputs of an idle port."""
        values: dict[str, int] = {}
        if self.reads:
            values |= {"arready": 0, "rdata": 0, "rresp": 0, "rlast": 0, "rvalid": 0} | ({"rid": 0} if self.ids else {})
        if self.writes:
            values |= {"awready": 0, "wready": 0, "bresp": 0, "bvalid": 0} | ({"bid": 0} if self.ids else {})
        return {self.prefix + name: value for name, value in values.items()}

    def drive(self) -> None:
        """Set the port's inputs for a cycle."""
        if self.reads:
            self._drive_reads()
        if self.writes:
            self._drive_writes()

    def _set(self, values: dict[str, int]) -> None:
        self.pins.drive(**{self.prefix + name: value for name, value in values.items()})

    def _drive_reads(self) -> None:
        offered = self._offered["r"]
        if offered is None:
            first: dict[int, _Burst] = {}
            for burst in self._reading:
                first.setdefault(burst.number, burst)
            ready_cycle = [burst for burst in first.values() if burst.ready_cycle <= self.pins.cycle]
            if ready_cycle and self._draw_ready():
                burst = self._chosen = self.random.choice(ready_cycle)
                data = self.memory.read(burst.address + burst.moved * self.bytes, self.bytes)
                last = burst.moved + 1 == burst.beats
                offered = {
                    "rvalid": 1,
                    "rlast": int(last),
                    "rresp": 0 if data is not None else self.random.choice(ERRORS),
                }
                whole = bytes([GARBLED] * self.bytes) if data is None else data
                offered["rdata"] = int.from_bytes(whole, "little")
                if self.ids:
                    offered["rid"] = burst.number
            else:
                offered = {"rvalid": 0, "rlast": self.random.getrandbits(1), "rresp": self.random.getrandbits(2)}
        self._offered["r"] = offered
        self._set({**offered, "arready": self._draw_ready()})

    def _drive_writes(self) -> None:
        offered = self._offered["b"]
        if offered is None:
            ready_cycle = [answer for answer in self._answers if answer[0] <= self.pins.cycle]
            if ready_cycle and self._draw_ready():
                first = {answer[1].number: answer for answer in reversed(ready_cycle)}  # the oldest of each ID
                answer = ready_cycle[0] if len(first) == 1 else self.random.choice(list(first.values()))
                self._answered = answer
                self._answers.remove(answer)
                offered = {"bvalid": 1, "bresp": answer[2]} | ({"bid": answer[1].number} if self.ids else {})
            else:
                offered = {"bvalid": 0, "bresp": self.random.getrandbits(2)}
        self._offered["b"] = offered
        self._set({**offered, "awready": self._draw_ready(), "wready": self._draw_ready()})

    def observe(self) -> None:
        """Accept and check the master's transfers of this cycle; call it after all signals have settled."""
        if self.reads:
            self._observe_reads()
        if self.writes:
            self._observe_writes()

    def _pin(self, name: str) -> int:
        return self.pins.read(self.prefix + name)

    def _offer(self, channel: str, names: tuple[str, ...]) -> tuple | None:
        """Return the transfer accepted on a master's channel in this cycle, or None; check that an offer is stable."""
        valid = self._pin(f"{channel}valid")
        stood = self._offers.pop(channel, None)
        if not valid:
            assert stood is None, f"cycle {self.pins.cycle}: {channel}valid fell before it was taken"
            return None
        offer = tuple(self._pin(name) for name in names)
        assert stood is None or stood == offer, f"cycle {self.pins.cycle}: {channel} changed while it waited"
        if self._pin(f"{channel}ready"):
            return offer
        self._offers[channel] = offer
        return None

    def _begun(self, offer: tuple) -> _Burst:
        """Return the burst of an accepted address; check its alignment, length and page."""
        address, length, *number = offer
        beats, where = length + 1, f"cycle {self.pins.cycle}: burst of {length + 1} beats at {address:#x}"
        assert address % self.bytes == 0, f"{where} is not aligned"
        assert beats <= self.burst, f"{where} is too long"
        assert address % PAGE + beats * self.bytes <= PAGE, f"{where} crosses 4 KiB"
        return _Burst(number[0] if number else 0, address, beats, self._draw_cycle())

    def _observe_reads(self) -> None:
        ids = ("arid",) if self.ids else ()
        offer = self._offer("ar", ("araddr", "arlen", *ids))
        outstanding = len(self._reading) + (offer is not None) + ("ar" in self._offers)
        assert outstanding <= self.outstanding, f"cycle {self.pins.cycle}: {outstanding} reads are outstanding"
        offered, burst = self._offered["r"], self._chosen
        if offered is not None and (not offered["rvalid"] or self._pin("rready")):
            self._offered["r"] = None
            if offered["rvalid"]:
                assert burst is not None
                self.read_beats += 1
                burst.moved += 1
                if burst.moved == burst.beats:
                    self._reading.remove(burst)
        if offer is not None:
            self.read_bursts += 1
            self._reading.append(self._begun(offer))

    def _observe_writes(self) -> None:
        ids = ("awid",) if self.ids else ()
        offered = self._offered["b"]
        if offered is not None and (not offered["bvalid"] or self._pin("bready")):
            self._offered["b"] = self._answered = None
        if (offer := self._offer("aw", ("awaddr", "awlen", *ids))) is not None:
            self.write_bursts += 1
            self._addressed.append(self._begun(offer))
        if (beat := self._offer("w", ("wdata", "wstrb", "wlast"))) is not None:
            self.write_beats += 1
            self._data.append(beat)
        while self._addressed and self._data:
            burst, (data, strobe, last) = self._addressed[0], self._data.popleft()
            burst.data.append((data, strobe))
            final = len(burst.data) == burst.beats
            assert last == final, f"cycle {self.pins.cycle}: wlast is {last} in beat {len(burst.data)} of {burst.beats}"
            if final:
                self._addressed.popleft()
                answer = 0 if self._written(burst) else self.random.choice(ERRORS)
                self.write_errors += answer > 0
                earlier = (each[0] for each in self._answers if each[1].number == burst.number)
                ready_cycle = max([self._draw_cycle(), *earlier])
                self._answers.append((ready_cycle, burst, answer))

    def _written(self, burst: _Burst) -> bool:
        """Write a burst; return whether the memory has all bytes that it writes."""
        good = True
        for k, (data, strobe) in enumerate(burst.data):
            whole = data.to_bytes(self.bytes, "little")
            for i in range(self.bytes):
                if strobe >> i & 1:
                    good &= self.memory.write(burst.address + k * self.bytes + i, whole[i : i + 1])
        return good
