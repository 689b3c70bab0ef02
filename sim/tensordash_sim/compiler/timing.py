"""Estimate when a core is done with a program, from its descriptors alone, without executing them.

Each unit takes its descriptors in order, as soon as they are fetched and their tokens are there. Its time for a
descriptor is the time on the hardware's pages. Shared resources count where they matter: fetches wait until a load's
bursts are done, and the tile waits for layouts that write the banks that it reads.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd, prod

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import BITS, UNITS, decode

from .multiply_cycles import LayoutWrites, MoveAccess, move_losses, run_passes, write_rates
from .pair_cycles import pair_cycles
from .row_streams import EvenPaces, Paces
from .unit_cycles import (
    LATENCY,
    LAYOUT_CYCLES,
    LOAD_CYCLES,
    MAX_BURST_BEATS,
    STORE_CYCLES,
    block_cycles_of,
    layout_cycles,
    load_cycles,
    store_cycles,
)

__all__ = ["Timing", "timing"]

MIN_FETCH_BEATS = 4
"""Fewest cycles from one descriptor to the next."""
LOAD_ADDRESS_CYCLES = 7
"""Cycles from a load's descriptor until it sends its first address."""
FETCH_CYCLES = 4
"""Cycles of a fetch beside memory's latency and its beats."""
OFFER_CYCLES = 4
"""Cycles from a descriptor's fetch, or from the end of the unit's last descriptor, until the unit is offered it."""
TOKEN_CYCLES = 4
"""Cycles from the last token that a descriptor waits for until its unit is offered it."""
SEND_CYCLES = 5
"""Cycles in which the sequencer sends a descriptor."""
MULTIPLY_CYCLES = 5
"""Cycles from a multiply's descriptor until the tile is offered its first steps."""
OUTPUT_CYCLES = 2
"""Cycles from the output unit's descriptor until it takes the first row, without biases."""
BIAS_READ_CYCLES = 2
"""Cycles in which the output unit reads the biases of a group."""
WRITTEN_CYCLES = 8
"""Cycles from the end of the last block until its results are in the buffer."""
FIELDS = frozenset(
    (
        *("wait", "signal", "output_wait", "output_signal", "address", "steps", "streams", "stride"),
        *("count_0", "count_1", "count_2", "count_3", "a_streams", "b_streams"),
        *("add", "emit", "transposed", "fp32", "bias", "mask"),
    )
)
"""Fields of descriptors that their times depend on."""


@dataclass
class Timing:
    """What a program takes.

    Attributes
    ----------
    cycles : int
        Cycles of the whole program.
    busy : dict of str to float
        By unit, the cycles in which it has a descriptor.
    """

    cycles: int = 0
    busy: dict[str, float] = field(default_factory=lambda: dict.fromkeys(UNITS, 0.0))


class _Clock:
    """Times of a program's descriptors.

    A multiply is timed last of all that does not wait for it: by then all layouts that write meanwhile are known.

    Parameters
    ----------
    config : CoreConfig
        The core.
    program : sequence of int
        Legal descriptors.
    paces : Paces
        What the tile takes for streams.
    latency : int
        Cycles from an address to the first data.
    """

    def __init__(self, config: CoreConfig, program: Sequence[int], paces: Paces, latency: int) -> None:
        self.config, self.program, self.paces, self.latency = config, program, paces, latency
        self.decoded = [decode(bits, FIELDS) for bits in program]
        self.queues: dict[str, deque[int]] = {unit: deque() for unit in UNITS}
        for index, (operation, _) in enumerate(self.decoded):
            assert operation is not None
            for unit in ("multiply", "output") if operation.name == "multiply" else (operation.unit,):
                if unit in self.queues:
                    self.queues[unit].append(index)
        self.free = dict.fromkeys(UNITS, 0.0)  # when each unit is done with its last descriptor
        self.place = dict.fromkeys(UNITS, -1)
        self.tokens: dict[tuple[str, str], deque[float]] = {(one, two): deque() for one in UNITS for two in UNITS}
        self.sent: deque[float] = deque(maxlen=2 * len(UNITS))  # when units got their last descriptors
        self.asked = 0.0  # when the last descriptor was asked for
        self.fetched: list[float] = []  # when each descriptor is in the queue
        self.came: list[float] = []  # when each descriptor is in the window
        self.done: list[float | None] = [None] * len(program)  # when each descriptor is
        self.left: list[float] = []  # when all up to a descriptor are
        self.loads: deque[tuple[float, float, float]] = deque(maxlen=8)  # begin, end, and beats on their way meanwhile
        self.layouts: list[LayoutWrites] = []  # those that end after all multiplies so far
        self.moves: list[MoveAccess] = []  # those that end after all multiplies so far
        self.begun: dict[str, float] = {}  # when the multiply that runs, and its output, got their descriptors
        self.timing = Timing()

    def run(self) -> Timing:
        """Time all descriptors."""
        while True:
            moved = [self._advance(unit) for unit in UNITS]
            if not any(moved):
                if not self.begun:
                    break
                self._finish()
        last = len(self.decoded) - 1
        end = self._known(last) if self.done[last] is None else 0.0
        assert end is not None
        self.timing.cycles = round(max([end, *(done for done in self.done if done is not None)]))
        return self.timing

    def _advance(self, unit: str) -> bool:
        """Time what can be known of a unit's next descriptors; return whether there was one."""
        queue, moved = self.queues[unit], False
        while queue and unit not in self.begun:
            index = queue[0]
            operation, values = self.decoded[index]
            assert operation is not None
            wait = values["output_wait" if unit == "output" else "wait"]
            known = self._known(index)
            producers = [other for k, other in enumerate(UNITS) if wait >> k & 1]
            if known is None or not all(self.tokens[producer, unit] for producer in producers):
                break
            queue.popleft()
            moved = True
            begin = self._begin(unit, index, known, producers)
            if operation.name == "multiply":
                self.begun[unit] = begin
                continue
            done = begin + self._taken(index, operation.name, values)
            if unit == "load":
                done += self._behind_fetches(begin + LOAD_ADDRESS_CYCLES)
            self._done(unit, begin, done, values["signal"])
            self.done[index] = done
            if unit == "load":
                burst = min(values["count_0"] * self.config.group_bits // self.config.axi_bits, MAX_BURST_BEATS)
                on_way = min(self.config.outstanding * burst, done - begin)
                self.loads.append((begin, done - LOAD_CYCLES, on_way))
            if operation.name in ("load", "store"):
                self._note_accesses(operation.name, values, done)
            elif unit.startswith("layout"):
                self._note_writes(unit[-1], values, begin + LAYOUT_CYCLES, done)
        return moved

    def _note_writes(self, side: str, values: Mapping[str, int], first: float, last: float) -> None:
        """Record when a layout writes its stream buffer, and how many groups at once."""
        period = gcd(values["stride"], self.config.tile.lanes)
        written = values["streams"] * self.config.parts(side) * values["steps"]
        groups = written / (last - first) if self.config.layout_groups == 2 and period == 1 else 1.0
        self.layouts.append(LayoutWrites(side, first, last, period, groups))

    def _note_accesses(self, unit: str, values: Mapping[str, int], done: float) -> None:
        """Record when a move accesses the buffer: until the end of a load, or a memory latency before a store's."""
        config, (groups, _) = self.config, _runs(values)
        last = done if unit == "load" else done - self.latency
        self.moves.append(
            MoveAccess(unit, self._region(values), last - groups * config.group_bits // config.axi_bits, last)
        )

    def _region(self, values: Mapping[str, int]) -> int:
        """The region of the buffer in which a descriptor's groups begin."""
        return values["address"] * self.config.regions // self.config.groups

    def _over(self, index: int) -> float | None:
        """When all descriptors up to one are done, if that is known."""
        while len(self.left) <= index:
            done = self.done[len(self.left)]
            if done is None:
                return None
            self.left.append(max(done, self.left[-1] if self.left else 0.0))
        return self.left[index]

    def _known(self, index: int) -> float | None:
        """When the sequencer has a descriptor, if that is known."""
        window, beats = self.config.window, max(MIN_FETCH_BEATS, BITS // self.config.axi_bits)
        while len(self.came) <= index:
            place = len(self.came)
            over = self._over(place - window) if place >= window else 0.0
            if over is None:
                return None
            if place == len(self.fetched):
                self._fetch(self._next_fetch())
            before = self.came[-1] if self.came else 0.0
            self.came.append(max(self.fetched[place], over, before + beats))
        return self.came[index] + FETCH_CYCLES

    def _next_fetch(self) -> float:
        """When the next descriptor is asked for: in every cycle one, while there is a place in the queue."""
        place = len(self.fetched) - self.config.prefetch
        return max(self.asked + 1, self.came[place] if place >= 0 else 0.0)

    def _fetch(self, asked: float) -> None:
        """Fetch a descriptor; its data come after those of earlier fetches and of loads that were asked for before."""
        self.asked = asked
        wait = float(self.latency)
        for begin, end, on_way in self.loads:
            if begin <= asked < end:
                wait = max(wait, min(end - asked, on_way))
        bus = self.fetched[-1] if self.fetched else 0.0
        self.fetched.append(max(asked + wait, bus) + BITS // self.config.axi_bits)

    def _behind_fetches(self, asked: float) -> float:
        """Cycles that a load's first data wait for those of fetches that were asked for before it."""
        while len(self.fetched) < min(len(self.decoded), len(self.came) + self.config.prefetch):
            asked_next = self._next_fetch()
            if asked_next > asked:
                break
            self._fetch(asked_next)
        return max(0.0, self.fetched[-1] - asked - self.latency)

    def _begin(self, unit: str, index: int, known: float, producers: Sequence[str]) -> float:
        """When a unit has its next descriptor, whose tokens it takes."""
        # Every place from its last descriptor on is looked at.
        begin = max(known, self.free[unit] + index - self.place[unit] - 1) + OFFER_CYCLES
        for producer in producers:
            begin = max(begin, self.tokens[producer, unit].popleft() + TOKEN_CYCLES)
        # One unit at a time is sent its descriptor.
        for sent in sorted(self.sent):
            if sent - SEND_CYCLES < begin < sent + SEND_CYCLES:
                begin = sent + SEND_CYCLES
        self.sent.append(begin)
        self.place[unit] = index
        return begin

    def _done(self, unit: str, begin: float, done: float, signal: int) -> None:
        self.timing.busy[unit] += done - begin
        self.free[unit] = done
        for k, other in enumerate(UNITS):
            if signal >> k & 1:
                self.tokens[unit, other].append(done)

    def _taken(self, index: int, name: str, values: Mapping[str, int]) -> float:
        """Cycles that a unit takes for a descriptor."""
        if name == "load":
            return load_cycles(self.config, *_runs(values), self.latency)
        if name == "store":
            return store_cycles(self.config, *_runs(values), self.latency)
        if name == "record":
            return float(self.latency + STORE_CYCLES)
        if self.config.layout_groups == 2:
            return LAYOUT_CYCLES + pair_cycles(self.config, self.program[index])
        groups = values["streams"] * self.config.parts(name[-1])
        return layout_cycles(self.config, groups, values["steps"], values["stride"])

    def _finish(self) -> None:
        """Time the multiply that has begun: the tile, and the output unit after it."""
        config, index = self.config, self.place["multiply"]
        _, values = self.decoded[index]
        pace = self.paces.of(index, values)
        first = self.begun["multiply"] + MULTIPLY_CYCLES
        opens = self.begun["output"] + OUTPUT_CYCLES + values["bias"] * BIAS_READ_CYCLES * config.parts("a")
        words = -(-values["steps"] // config.tile.window_depth)
        moves = move_losses(config, self.moves if values["mask"] else (), self._region(values), opens)
        tile, blocks = run_passes(
            pace.cycles,
            pace.losses,
            (values["b_streams"], values["a_streams"]),
            (first, opens),
            block_cycles_of(config, values),
            *write_rates(config, self.layouts, words, values["a_streams"], first),
            moves,
        )
        self.moves = [each for each in self.moves if each.last > blocks]
        self.layouts = [each for each in self.layouts if each.last > tile]
        self._done("multiply", self.begun["multiply"], tile, values["signal"])
        self._done("output", self.begun["output"], blocks + WRITTEN_CYCLES, values["output_signal"])
        self.done[index] = self.free["output"]
        self.begun = {}


def _runs(values: Mapping[str, int]) -> tuple[int, int]:
    """Groups of a move, and in how many runs."""
    runs = prod(values[f"count_{k}"] for k in (1, 2, 3))
    return runs * values["count_0"], runs


def timing(
    config: CoreConfig, program: Sequence[int], *, speedup: float | Paces = 1.0, latency: int = LATENCY
) -> Timing:
    """Estimate how long a core takes for a program.

    Parameters
    ----------
    config : CoreConfig
        The core.
    program : sequence of int
        Legal descriptors; moves are taken for plain ones.
    speedup : float or Paces
        Steps over cycles of the tile in all passes, steps that only fill up the last word of a stream left out; or what
        was counted of this program's streams. The dense tile's is 1.
    latency : int
        Of memory, which gives and takes a beat a cycle.

    Examples
    --------
    >>> from .program import Program
    >>> program = Program()
    >>> program.add("load", memory=0, address=0, count_0=64)
    0
    >>> program.add("end")
    1
    >>> 178 < timing(CoreConfig(), program.descriptors).cycles < 300
    True
    """
    paces = speedup if isinstance(speedup, Paces) else EvenPaces(config, speedup)
    return _Clock(config, program, paces, latency).run()
