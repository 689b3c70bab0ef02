"""Estimate of the time of several cores at one memory port, each with a program of its own.

Each core has the clock of `timing`. The port sets the ends of loads and stores. It transfers bursts of loads in the
order in which cores request them. It does the same with bursts of stores. A shared burst begins when the last core
requests it, and answers all cores. Data of fetched descriptors take the port, too.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import decode

from .clock import LOAD, LOAD_ADDRESS_CYCLES, STORE, advance, end_move, fetch_until, last_end, note_load
from .clock_state import FETCHED, UNKNOWN, begin_clock
from .program import ProgramError
from .row_streams import Paces
from .timing import clock_core, clock_rows
from .unit_cycles import BURST_CYCLES, LATENCY, LOAD_CYCLES, STORE_CYCLES

__all__ = ["PortTiming", "port_timing"]

JOIN_CYCLES = 1
"""Cycles from a core's request of a burst to the port's."""
JOIN_BURSTS = 64
"""Maximum number of load bursts in flight at the port."""
START_CYCLES = 3
"""Cycles from a core's start to the next core's: a write of a register."""
MIN_STORE_BURST_CYCLES = 2
"""Minimum number of cycles from one burst of a store to the next."""
STORE_ADDRESS_CYCLES = 6
"""Cycles from a store's descriptor to its first data on the bus."""
ADDRESS_FIELDS = frozenset(("memory", "memory_high"))


@dataclass(frozen=True)
class PortTiming:
    """The estimated time of several programs.

    Attributes
    ----------
    cycles : int
        Cycles until the last core is done.
    beats : int
        Beats of loads and stores that memory transfers.
    """

    cycles: int
    beats: int


def port_timing(
    config: CoreConfig,
    programs: Sequence[Sequence[int]],
    speedups: Sequence[float | Paces],
    *,
    shared: range = range(0),
    latency: int = LATENCY,
) -> PortTiming:
    """Estimate the cycles of several cores at one memory port, each with a program of its own.

    Parameters
    ----------
    config : CoreConfig
        Each of the cores.
    programs : sequence of sequence of int
        The descriptors of each core, as for `timing`.
    speedups : sequence of float or Paces
        The tile's speedup in each program, as for `timing`.
    shared : range
        Addresses of operands that memory reads once for all cores. All programs load them in the same order.
    latency : int
        Latency of memory in cycles. Memory transfers one beat per cycle in each direction.

    Raises
    ------
    ProgramError
        If programs load shared operands in different orders.

    Source: docs/integration.md, "Several cores"; `ReadJoin` and `WriteJoin`.

    Examples
    --------
    Two cores load the same data, or each its own:

    >>> from .program import Program
    >>> program = Program()
    >>> program.add("load", memory=0, address=0, count_0=512), program.add("end")
    (0, 1)
    >>> both = [program.descriptors] * 2
    >>> together, apart = (port_timing(CoreConfig(), both, [1, 1], shared=range(end)) for end in (1 << 14, 0))
    >>> together.beats, apart.beats
    (1024, 2048)
    >>> 1000 < apart.cycles - together.cycles < 1048
    True
    """
    port = _Port(config, programs, speedups, shared, latency)
    ends = port.run()
    return PortTiming(round(max(ends)), port.beats)


@dataclass
class _Move:
    """A load or a store that waits for the port.

    Attributes
    ----------
    core, unit, index : int
        The core, its unit, and the descriptor.
    begin, request_time : float
        Times at which the unit got the descriptor and requests the next burst.
    bursts : int
        Bursts left.
    beats : float
        Beats of a burst.
    address : int
        Address of its first group, if all cores share its data, or -1.
    has_begun : bool
        Whether a burst has been transferred.
    ends : deque of float
        For a load: ends of the latest bursts, as many as may be in flight.
    """

    core: int
    unit: int
    index: int
    begin: float
    request_time: float
    bursts: int
    beats: float
    address: int
    has_begun: bool = False
    ends: deque[float] = field(default_factory=deque)


class _Port:
    """A memory port and the cores at it."""

    def __init__(
        self,
        config: CoreConfig,
        programs: Sequence[Sequence[int]],
        speedups: Sequence[float | Paces],
        shared: range,
        latency: int,
    ) -> None:
        self.core, self.shared, self.latency = clock_core(config, latency, len(programs)), shared, latency
        self.programs = programs
        self.inputs = [clock_rows(config, *each, latency) for each in zip(programs, speedups, strict=True)]
        starts = [float(START_CYCLES * k) for k in range(len(programs))]
        self.states = [begin_clock(rows, self.core, k) for (rows, _, _), k in zip(self.inputs, starts, strict=True)]
        self.moves: dict[tuple[int, int], _Move] = {}  # By core and unit: the move that waits for the port.
        self.read_free = self.write_free = 0.0  # Times at which the port has transferred all bursts so far.
        self.fetched = [0] * len(programs)  # Each core's descriptors whose data have taken the port.
        self.in_flight: deque[float] = deque(maxlen=JOIN_BURSTS)  # Ends of the latest bursts of loads.
        first, *others = [self._move_beats(core) for core in range(len(programs))]
        self.beats = sum(first) + sum(own for own, _ in others)

    def run(self) -> list[float]:
        """Return the time at which each core is done."""
        for core in range(len(self.states)):
            self._advance(core)
        while self.moves:
            self._transfer(self._next())
        return [last_end(state, self.core) for state in self.states]

    def _move_beats(self, core: int) -> tuple[int, int]:
        """Return the beats of a core's own moves, and of its shared loads."""
        rows = self.inputs[core][0]
        own = shared = 0
        for index in rows["beats"].nonzero()[0]:
            beats = int(rows[index]["beats"])
            if rows[index]["unit"] == LOAD and self._address(core, int(index)) in self.shared:
                shared += beats
            else:
                own += beats
        return own, shared

    def _address(self, core: int, index: int) -> int:
        """Return the address in memory of a load's first group."""
        _, fields = decode(self.programs[core][index], ADDRESS_FIELDS)
        return fields["memory"] | fields["memory_high"] << 32

    def _advance(self, core: int) -> None:
        """Time a core until it waits for the port."""
        state = self.states[core]
        advance(state, *self.inputs[core], self.core)
        for unit in (LOAD, STORE):
            if state.begun[unit] != UNKNOWN and (core, unit) not in self.moves:
                self.moves[core, unit] = self._move(core, unit)

    def _move(self, core: int, unit: int) -> _Move:
        """Return the move that a core's unit has begun."""
        state = self.states[core]
        index, begin = int(state.place[unit]), float(state.begun[unit])
        row = self.inputs[core][0][index]
        bursts = max(1, round(float(row["bursts"])))
        place = self._address(core, index) if unit == LOAD else -1
        address = place if place in self.shared else -1
        asks = begin + (LOAD_ADDRESS_CYCLES if unit == LOAD else STORE_ADDRESS_CYCLES)
        return _Move(core, unit, index, begin, asks, bursts, float(row["beats"]) / bursts, address)

    def _next(self) -> list[_Move]:
        """Return the moves of the burst that the port takes next: one, or those of all cores."""
        ready = [[each] for each in self.moves.values() if each.address < 0]
        waiting = [each for each in self.moves.values() if each.address >= 0]
        if len(waiting) == len(self.states) and len({(each.address, each.bursts) for each in waiting}) == 1:
            ready.append(waiting)
        if not ready:
            raise ProgramError("cores must load shared operands in the same order")
        return min(ready, key=_request_time)

    def _transfer(self, moves: list[_Move]) -> None:
        """Transfer a burst."""
        first, asks = moves[0], _request_time(moves)
        if first.unit == LOAD:
            if not first.has_begun:
                self._fetch_until(asks)
            if len(self.in_flight) == JOIN_BURSTS:
                asks = max(asks, self.in_flight[0])
            self.read_free = max(asks + JOIN_CYCLES + self.latency, self.read_free) + first.beats
            self.in_flight.append(self.read_free)
            end, asks = self.read_free, asks + 1
        else:
            begin = max(asks + JOIN_CYCLES, self.write_free)
            end = self.write_free = begin + first.beats
            asks = begin - JOIN_CYCLES + max(float(MIN_STORE_BURST_CYCLES), first.beats)
        for each in moves:
            each.has_begun, each.request_time = True, asks
            if first.unit == LOAD:
                each.ends.append(end)
                if len(each.ends) == self.core.outstanding:
                    each.request_time = max(asks, each.ends.popleft() + BURST_CYCLES)
            each.bursts -= 1
            if not each.bursts:
                self._end(each, end)

    def _fetch_until(self, asks: float) -> None:
        """Let the data of all fetches before a load take the port."""
        ends, more = 0.0, 0
        for core, state in enumerate(self.states):
            ends = max(ends, fetch_until(state, self.core, asks))
            more += int(state.counts[FETCHED]) - self.fetched[core]
            self.fetched[core] = int(state.counts[FETCHED])
        if more:
            self.read_free = max(self.read_free + more * self.core.fetch_cycles, ends)

    def _end(self, move: _Move, end: float) -> None:
        """End a move with its last burst, and time its core."""
        del self.moves[move.core, move.unit]
        state, row = self.states[move.core], self.inputs[move.core][0][move.index]
        if move.unit == LOAD:
            done = end + LOAD_CYCLES - LOAD_ADDRESS_CYCLES
            on_way = min(self.core.outstanding * float(row["burst"]), done - move.begin)
            for other in self.states if move.address < 0 else [state]:
                note_load(other, move.begin, done - LOAD_CYCLES, on_way)
        else:
            done = end + self.latency + STORE_CYCLES - STORE_ADDRESS_CYCLES
        end_move(state, self.core, row, move.unit, done)
        self._advance(move.core)


def _request_time(moves: list[_Move]) -> float:
    return max(each.request_time for each in moves)
