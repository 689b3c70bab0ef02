"""Tile control: which steps are in the window, which may be scheduled, and how far the window advances."""

from functools import reduce
from itertools import pairwise
from operator import and_, or_

from amaranth.hdl import Cat, Const, Module, Mux, ResetSignal, Signal
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.parameters import require_int
from ..schedule.motion import MotionSignature
from .balanced import reduce_balanced

__all__ = ["Control", "count_bits"]


def count_bits(limit: int) -> int:
    """Return the bits of a number from 0 to `limit`."""
    return limit.bit_length()


class Control(Block):
    """Advances all windows of a tile together, and separates streams.

    Inside, counts of steps are thermometers (bit j: more than j steps), which need no adders or comparators.

    Timing: every output is combinational from the window's state and the ports. `motion` is half of the loop that the
    schedulers close.

    Parameters
    ----------
    ports : int
        Input ports: rows plus columns.
    schedulers : int
        Sources of `advance`: rows (or PEs); 0 for the baseline, which advances by every eligible step.
    depth : int
        Steps in the window.
    full_window : bool
        Schedule only when min(depth, steps left in the stream) steps are present.
    initial : bool
        Whether a stream waits for its C.
    ring : bool
        Whether the staging buffers are rings.

    Members
    -------
    available : In(0..depth, ports)
        Steps that each port offers.
    last : In(ports)
        Whether the youngest step that a port offers ends its stream.
    taken : Out(0..depth)
        Number of steps that enter, the same for all ports. Zero in reset.
    entering : Out(depth)
        `taken` as a thermometer, but not forced to zero in reset.
    frozen : In(1)
        No schedule may be made in this cycle.
    startable : In(1)
        Only if `initial`: a stream may start.
    starts : Out(1)
        This cycle's schedule is the first of its stream.
    advances : In(depth, schedulers)
        Each scheduler's AS, as a thermometer. It counts only if a schedule is made.
    advance : Out(depth)
        The tile's AS, as a thermometer; zero when no schedule is made.
    motion : Out(MotionSignature)
        How every window moves.
    entry_line : Out(depth)
        Only of rings: the slot of the next step to enter, and its line at the port, one-hot.
    write : Out(depth)
        Only of rings: slots that a step enters.
    ends : Out(1)
        This schedule is the last of its stream.
    ends_next : Out(1)
        Unless `frozen`, a schedule can be made, and it would be the last of its stream.
    empty : Out(1)
        The window holds no step, and every stream that started has ended.
    starved : Out(1)
        The control is not frozen, but cannot schedule.
    limited : Out(1)
        This schedule drained all steps present. With more steps it could have drained more of its stream.
    protocol_error : Out(1)
        The ports disagree on the end of a stream.

    Raises
    ------
    ValueError
        For a parameter out of range.

    Source: paper, section III-A, "Composing TensorDash Cores"; docs/tile.md.
    """

    def __init__(
        self, *, ports: int, schedulers: int, depth: int, full_window: bool, initial: bool, ring: bool = False
    ) -> None:
        self.ports = require_int("ports", ports, 1)
        self.schedulers = require_int("schedulers", schedulers, 0)
        self.depth = require_int("depth", depth, 1)
        self.full_window = full_window
        self.initial = initial
        self.ring = ring
        super().__init__(
            {
                "available": In(ArrayLayout(count_bits(depth), ports)),
                "last": In(ports),
                "taken": Out(count_bits(depth)),
                "entering": Out(depth),
                "frozen": In(1),
                **({"startable": In(1)} if initial else {}),
                "starts": Out(1),
                "advances": In(ArrayLayout(depth, max(schedulers, 1))),
                "advance": Out(depth),
                "motion": Out(MotionSignature(depth, ring)),
                **({"entry_line": Out(depth), "write": Out(depth)} if ring else {}),
                "ends": Out(1),
                "ends_next": Out(1),
                "empty": Out(1),
                "starved": Out(1),
                "limited": Out(1),
                "protocol_error": Out(1),
            },
        )
        self._first = Signal(name="first", init=1)
        self._present = Signal(depth, name="present")
        self._ending = Signal(depth, name="ending")
        self._leaving = Signal(depth + 1, name="leaving")

    def elaborate(self, platform):
        """Schedule, advance, and refill."""
        m = Module()
        self._schedule(m)
        staying = self._advance(m)
        self._refill(m, staying)
        return m

    def _schedule(self, m: Module) -> None:
        present, ending = self._present, self._ending
        complete = present[-1] | ending.any() if self.full_window else Const(1)
        startable = self.startable | ~self._first if self.initial else Const(1)
        possible, least = Signal(name="possible"), Signal(self.depth, name="least")
        scheduled = self.motion.scheduled
        m.d.comb += [
            possible.eq(present[0] & complete & startable),
            scheduled.eq(possible & ~self.frozen),
            least.eq(reduce_balanced(and_, self.advances) if self.schedulers else 1),
            self.advance.eq(least & scheduled.replicate(self.depth)),
            self.starts.eq(scheduled & self._first),
            self.empty.eq(~present[0] & self._first),
            self.starved.eq(~scheduled & ~self.frozen),
        ]
        m.d.comb += [
            self.ends.eq((self.advance & ending).any()),
            self.ends_next.eq(possible & (least & ending).any()),
            self.limited.eq(scheduled & (self.advance == present) & ~present[-1] & ~ending.any()),
        ]
        with m.If(scheduled):
            m.d.sync += self._first.eq(self.ends)

    def _advance(self, m: Module):
        """Find how many steps leave (one-hot, from 0), and which ages remain (a thermometer)."""
        depth, present = self.depth, self._present
        staying = Signal(depth)
        m.d.comb += self._leaving.eq(_one_hot(self.advance))
        for slot in range(depth):
            stays = reduce(or_, (self._leaving[k] & present[slot + k] for k in range(depth - slot)))
            m.d.comb += staying[slot].eq(stays)
        return staying

    def _refill(self, m: Module, staying: Signal) -> None:
        depth = self.depth
        staying_count = Signal(depth + 1)
        offered = Signal(depth)
        present_next = Signal(depth)
        filling = Signal(depth)  # ages at which a step enters
        entering_count = Signal(depth + 1)
        port_ends = Signal(self.ports)
        m.d.comb += staying_count.eq(_one_hot(staying))
        for step in range(depth):
            m.d.comb += [
                offered[step].eq(Cat(self.available[port] > step for port in range(self.ports)).all()),
                self.entering[step].eq(offered[step] & ~staying[depth - 1 - step]),
            ]
        entering = self.entering
        m.d.comb += [
            entering_count.eq(_one_hot(entering)),
            # No step is taken in reset.
            self.taken.eq(reduce(or_, (Mux(entering_count[n] & ~ResetSignal(), n, 0) for n in range(1, depth + 1)))),
        ]
        for port in range(self.ports):
            more = Cat(self.available[port] > step for step in range(1, depth))
            # A port's stream ends if the last step that it offers with `last` enters.
            m.d.comb += port_ends[port].eq(self.last[port] & entering[0] & ~(more & entering_count[1:depth]).any())
        m.d.comb += self.protocol_error.eq(port_ends.any() & ~port_ends.all())
        ending_stays = Signal(depth)
        for slot in range(depth):
            fills = [staying_count[slot - step] & offered[step] for step in range(slot + 1)]
            m.d.comb += filling[slot].eq(reduce(or_, fills))
            if not self.ring:
                choices = [self._leaving[k] & staying[slot] for k in range(depth - slot)]
                choices += [staying_count[slot - step] for step in range(slot + 1)]
                if depth == 1:  # an operand register: it holds without a new step, so that the logic after it is quiet
                    choices = [~fills[0], fills[0]]
                m.d.comb += self.motion.refill[slot].eq(Cat(*choices))
            m.d.comb += present_next[slot].eq(staying[slot] | filling[slot])
            youngest = present_next[slot] & ~present_next[slot + 1] if slot + 1 < depth else present_next[slot]
            m.d.comb += [
                ending_stays[slot].eq(
                    reduce(or_, (self._leaving[k] & self._ending[slot + k] for k in range(depth - slot)))
                ),
                # No step follows an end that enters now, so only the ends that stay make later steps ineligible.
                self.motion.eligible_next[slot].eq(present_next[slot] & ~ending_stays[:slot].any()),
            ]
            m.d.sync += [
                self._present[slot].eq(present_next[slot]),
                self._ending[slot].eq(ending_stays[slot] | (port_ends.any() & youngest)),
            ]
        if self.ring:
            self._turn(m, staying, filling)

    def _turn(self, m: Module, staying: Signal, filling: Signal) -> None:
        """Drive a ring: the step of age j is `j` slots after the oldest step, whose slot advances as steps leave."""
        depth = self.depth
        oldest, oldest_next = Signal(depth, name="oldest", init=1), Signal(depth, name="oldest_next")
        for slot in range(depth):
            moves = (self._leaving[k] & oldest[(slot - k) % depth] for k in range(depth + 1))
            choices = [self._leaving[k] & staying[slot] for k in range(depth - slot)]
            choices += [~staying[slot] & oldest_next[(line - slot) % depth] for line in range(depth)]
            m.d.comb += [
                oldest_next[slot].eq(reduce(or_, moves)),
                self.motion.refill[f"age_{slot}"].eq(Cat(*choices)),
                self.write[slot].eq(reduce(or_, (filling[j] & oldest_next[(slot - j) % depth] for j in range(depth)))),
            ]
        present_count = Signal(depth + 1)
        m.d.comb += present_count.eq(_one_hot(self._present))
        count = list(enumerate(present_count))
        after_youngest = [reduce(or_, (n & oldest[(slot - k) % depth] for k, n in count)) for slot in range(depth)]
        m.d.sync += oldest.eq(oldest_next)
        m.d.comb += self.motion.oldest.eq(oldest)
        # The slot after the youngest step, where the next one is written.
        m.d.comb += self.entry_line.eq(Cat(after_youngest))


def _one_hot(thermometer):
    """Convert a thermometer to a one-hot count, from 0 to the thermometer's width."""
    bits = list(thermometer)
    return Cat(~bits[0], *(low & ~high for low, high in pairwise(bits)), bits[-1])
