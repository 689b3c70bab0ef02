"""When a core is done with a program, from its descriptors alone: nothing of them is executed.

Descriptors are gone through once, in the program's order: all that one waits for comes before it. Each unit's time
for a descriptor is that of the hardware's pages; what is shared (the bus, the buffer) is as if it were there alone,
but for the fetch of descriptors behind a load's bursts.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd, prod

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import BITS, UNITS, decode

__all__ = [
    "LATENCY",
    "Timing",
    "block_cycles",
    "block_cycles_of",
    "held_up",
    "layout_cycles",
    "load_cycles",
    "store_cycles",
    "timing",
]

LATENCY = 50
"""Of memory, in cycles, if nobody says otherwise."""
BURST, FETCHES, FETCH_BEATS = 32, 2, 4
"""Beats of the longest burst; descriptors on their way at once, and the fewest cycles from one to the next."""
FETCHED, GIVEN, TAKEN = 2, 5, 4
"""Cycles of a fetch beside memory's latency; from there, or from the unit's last descriptor, to its next; and from the
last token that it waits for."""
LATE = 4
"""Multiplies that may come before a layout in a program which runs beside them."""
SENT = 5
"""Cycles in which the sequencer sends a descriptor."""
LOADED, STORED, LAID, MULTIPLIED = 12, 10, 10, 5
"""Cycles of each unit for a descriptor, beside those for what it describes."""
HELD_UP = 0.8
"""Steps that a fast tile loses for each cycle in which a layout writes a bank, as measured on single layers."""
MADE, WAITING, WRITTEN = 4, 2, 8
"""Cycles from a pass's last step to its block, of a block that waits, and from the last block to the buffer."""


@dataclass
class Timing:
    """What a program takes.

    Attributes
    ----------
    cycles : int
        Of all of it.
    busy : dict of str to float
        By unit, the cycles in which it has a descriptor.
    """

    cycles: int = 0
    busy: dict[str, float] = field(default_factory=lambda: dict.fromkeys(UNITS, 0.0))


class _Clock:
    """Times of a program's descriptors, one after the other.

    Parameters
    ----------
    config : CoreConfig
        The core.
    speedup : float
        Dense steps over cycles with a schedule.
    latency : int
        Cycles from an address to the first data.
    """

    def __init__(self, config: CoreConfig, speedup: float, latency: int) -> None:
        self.config, self.speedup, self.latency = config, speedup, latency
        self.free = dict.fromkeys(UNITS, 0.0)  # when each unit is done with its last descriptor
        self.place = dict.fromkeys(UNITS, -1)
        self.tokens: dict[tuple[str, str], list[float]] = {(one, two): [] for one in UNITS for two in UNITS}
        self.sent: deque[float] = deque(maxlen=len(UNITS))  # when units got their last descriptors
        self.asked = self.over = 0.0
        self.came: list[float] = []
        self.left: list[float] = []  # when all up to a descriptor are done
        self.loads: list[tuple[float, float, float]] = []  # begin, end, and beats on their way meanwhile
        self.laid: list[tuple[float, float]] = []  # begin and end of layouts, as far as no multiply has been held up
        self.multiplied: deque[tuple[float, float]] = deque(maxlen=LATE)  # begin and end of the last multiplies
        self.timing = Timing()

    def add(self, bits: int) -> None:
        """The program's next descriptor."""
        operation, values = decode(bits)
        assert operation is not None
        index = len(self.came)
        known = self._fetched(index)
        name = operation.name
        if name == "end":
            done = max(self.over, known)
        elif name == "multiply":
            done = self._multiply(index, known, values)
        else:
            taken = {
                "load": self._load,
                "store": self._store,
                "layout_a": self._layout,
                "layout_b": self._layout,
                "record": lambda *_: float(self.latency + STORED),
            }[name](values, operation.unit)
            begin = self._begin(operation.unit, index, known, values["wait"])
            done = begin + taken
            self._done(operation.unit, index, begin, done, values["signal"])
            if name == "load":
                burst = min(values["count_0"] * self.config.group_bits // self.config.axi_bits, BURST)
                on_way = min(self.config.outstanding * burst, taken)
                self.loads.append((begin, done - LOADED, on_way))
            elif name.startswith("layout"):
                self.laid.append((begin + LAID, done))  # until then it writes nothing
        self.over = max(self.over, done)
        self.left.append(self.over)

    def _fetched(self, index: int) -> float:
        """When the sequencer has a descriptor."""
        window, beats = self.config.window, max(FETCH_BEATS, BITS // self.config.axi_bits)
        asked = self.asked + beats
        if index >= FETCHES:
            asked = max(asked, self.came[index - FETCHES])
        if index >= window:
            asked = max(asked, self.left[index - window])
        self.asked = asked
        wait = float(self.latency)
        for begin, end, on_way in reversed(self.loads[-4:]):
            if begin <= asked < end:
                wait = max(wait, min(end - asked, on_way))
        self.came.append(asked + wait + beats)
        return self.came[-1] + FETCHED

    def _begin(self, unit: str, index: int, known: float, wait: int) -> float:
        """When a unit has its next descriptor, whose tokens it takes."""
        # Every place from its last descriptor on is looked at.
        begin = max(known, self.free[unit] + index - self.place[unit] - 1) + GIVEN
        for k, other in enumerate(UNITS):
            if wait >> k & 1:
                begin = max(begin, self.tokens[other, unit].pop(0) + TAKEN)
        # One unit at a time is sent its descriptor.
        for sent in sorted(self.sent):
            if sent - SENT < begin < sent + SENT:
                begin = sent + SENT
        self.sent.append(begin)
        return begin

    def _done(self, unit: str, index: int, begin: float, done: float, signal: int) -> None:
        self.timing.busy[unit] += done - begin
        self.free[unit], self.place[unit] = done, index
        for k, other in enumerate(UNITS):
            if signal >> k & 1:
                self.tokens[unit, other].append(done)

    def _load(self, values: Mapping[str, int], unit: str) -> float:
        return load_cycles(self.config, *_runs(values), self.latency)

    def _store(self, values: Mapping[str, int], unit: str) -> float:
        return store_cycles(self.config, *_runs(values), self.latency)

    def _layout(self, values: Mapping[str, int], unit: str) -> float:
        groups = values["streams"] * self.config.parts(unit[-1])
        return layout_cycles(self.config, groups, values["steps"], values["stride"])

    def _multiply(self, index: int, known: float, values: Mapping[str, int]) -> float:
        """The tile, and the output unit behind it."""
        config, tile = self.config, self.config.tile
        steps = -(-values["steps"] // tile.window_depth) * tile.window_depth
        speedup = min(self.speedup, tile.window_depth) if tile.sparsity != "none" else 1.0
        passes = values["a_streams"] * values["b_streams"]
        block = block_cycles_of(config, values)
        each = steps / speedup
        begin = self._begin("multiply", index, known, values["wait"])
        output = self._begin("output", index, known, values["output_wait"])
        each += self._held_up(begin, begin + passes * each) / passes
        first = begin + MULTIPLIED + each
        opens = output + 2 + values["bias"] * 2 * config.parts("a")
        blocks = max(max(first + MADE, opens) + passes * block, first + (passes - 1) * each + MADE + block)
        # Two blocks may wait between the tile's last step and the buffer.
        done = max(first + (passes - 1) * each, blocks - 2 * block - WAITING)
        made = blocks + WRITTEN
        self.multiplied.append((begin, done))
        self._done("multiply", index, begin, done, values["signal"])
        self._done("output", index, output, made, values["output_signal"])
        return made

    def _held_up(self, begin: float, end: float) -> float:
        """What a multiply loses to layouts that write meanwhile, and to those that ran beside ones before it."""
        windows = *self.multiplied, (begin, end)
        beside = sum(max(0.0, min(high, stop) - max(low, start)) for low, high in windows for start, stop in self.laid)
        self.laid = [(max(start, end), stop) for start, stop in self.laid if stop > end]
        return held_up(self.config, self.speedup) * beside


def _runs(values: Mapping[str, int]) -> tuple[int, int]:
    """Groups of a move, and in how many runs."""
    runs = prod(values[f"count_{k}"] for k in (1, 2, 3))
    return runs * values["count_0"], runs


def _bursts(config: CoreConfig, groups: int, runs: int) -> tuple[float, int]:
    """Bursts of a move, and its beats; a long run begins anywhere in its first burst."""
    beats = groups * config.group_bits // config.axi_bits
    each = beats / runs
    return runs * (each / BURST + 0.5 if each > BURST else 1 + (each - 1) / BURST), beats


def load_cycles(config: CoreConfig, groups: int, runs: int, latency: int) -> float:
    """A plain load of so many groups in so many runs."""
    bursts, beats = _bursts(config, groups, runs)
    # As many bursts are on their way as may be: then each waits for the latency of the one so many before it.
    waits = max(0.0, (latency + 2 + beats / bursts) / config.outstanding - beats / bursts)
    return LOADED + latency + beats + (bursts - 1) * waits


def store_cycles(config: CoreConfig, groups: int, runs: int, latency: int) -> float:
    """Likewise, a store; memory answers when all of it has come."""
    bursts, beats = _bursts(config, groups, runs)
    return STORED + latency + beats + (bursts - 1) * max(0.0, 2 - beats / bursts)


def layout_cycles(config: CoreConfig, runs: int, steps: int, stride: int) -> float:
    """A layout of so many runs, one for each part of each stream."""
    run = steps * gcd(stride, config.tile.lanes) + (steps % config.tile.window_depth > 0)
    return LAID + runs * run


def held_up(config: CoreConfig, speedup: float) -> float:
    """Cycles that the tile waits for each cycle of a layout: a bank that is written is not read.

    A fast one loses most of that bank's step; one waits for nothing if two cycles in a row take no more than it holds.
    """
    tile = config.tile
    if tile.sparsity == "none":
        return 0.0
    return HELD_UP * min(max(speedup - tile.window_depth / 2, 0.0), 1.0) / tile.window_depth


def block_cycles(
    config: CoreConfig, stride: int, *, fp32: int, transposed: int, mask: int, emit: int, add: int, bias: int
) -> float:
    """What the output unit takes for a block: its rows, and the groups of results."""
    lanes, parts = config.tile.lanes, config.parts("a")
    # In a cycle goes a row to which nothing is added, or a piece of one that gets a partial sum or a bias.
    row = max(1, config.result_cycles * (max(add, 1 - emit) + emit * bias))
    rows = lanes * row
    if not emit:
        return config.parts("b") * rows
    # A group of FP32 is written a word, or as many of its positions, at a time.
    batches = config.fp32_groups if fp32 else 1
    words = gcd(stride, lanes) * (1 + 2 * mask) * (1 if transposed else batches)
    # Three rows of the next batch wait for the last word, with which the first is taken; then come the others, if any.
    # Of one that gets both, the partial sum is there by then.
    more = lanes // batches - 1
    late = max(more - 2, 0) * (row - (add & bias))
    written = batches * (words * parts + min(more, 2) + late + (fp32 & (parts > 1)))
    # Meanwhile the next rows' biases are read, which wait for the mask.
    read = bias * (2 * parts - add + (mask & (parts > 1)))
    return config.parts("b") * max(rows + read, written)


def block_cycles_of(config: CoreConfig, values: Mapping[str, int]) -> float:
    """Likewise, of a multiply's fields."""
    how = {name: values[name] for name in ("fp32", "transposed", "mask", "emit", "add", "bias")}
    return block_cycles(config, values["stride"], **how)


def timing(config: CoreConfig, program: Sequence[int], *, speedup: float = 1.0, latency: int = LATENCY) -> Timing:
    """How long a core is thought to take for a program.

    Parameters
    ----------
    config : CoreConfig
        The core.
    program : sequence of int
        Legal descriptors; moves are taken for plain ones.
    speedup : float
        Dense steps over cycles with a schedule, as `scheduled_speedup` counts them; the dense tile's is 1.
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
    clock = _Clock(config, speedup, latency)
    for bits in program:
        clock.add(bits)
    made = clock.timing
    made.cycles = round(clock.over)
    return made
