"""Sequencer: sends descriptors to units in the order that queues and tokens allow, and retires them."""

from functools import reduce
from operator import or_

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from ..block import Block, placed
from ..configuration.core_config import CoreConfig
from ..configuration.descriptors import HEADER, OPERATIONS, UNITS
from ..configuration.registers import ERRORS
from ..memory.memory import Memory
from ..movers.unit import COMMAND_BEATS, COMMAND_BITS, CommandSignature
from .command_queue import fetched_layout
from .descriptor_check import MAX_TOKENS, DescriptorCheck

__all__ = ["CODES", "Sequencer"]

CODES = {
    unit: [each.code for each in OPERATIONS.values() if each.unit == ("multiply" if unit == "output" else unit)]
    for unit in UNITS
}
"""Codes of the operations of each unit. A multiply goes to two units."""


class _Unit:
    """A unit's state in the sequencer: the place and the tokens of its next or present descriptor."""

    def __init__(self, name: str, place_bits: int) -> None:
        self.name = name
        self.place = Signal(place_bits, name=f"{name}_place")
        self.found = Signal(name=f"{name}_found")  # its next descriptor is at `place`
        self.ready = Signal(name=f"{name}_ready")  # that descriptor's tokens are known
        self.sent = Signal(name=f"{name}_sent")  # that descriptor was sent
        self.failed = Signal(name=f"{name}_failed")  # that descriptor has an error that was not read yet
        self.error = Signal(4, name=f"{name}_error", reset_less=True)
        # One bit for each other unit, in their order.
        self.wait = Signal(len(UNITS) - 1, name=f"{name}_wait", reset_less=True)
        self.signal = Signal(len(UNITS) - 1, name=f"{name}_signal", reset_less=True)
        self.tokens = Signal(name=f"{name}_tokens")  # all tokens that it waits for have arrived
        self.ends = Signal(name=f"{name}_ends")  # done in this cycle, without an error


class Sequencer(Block):
    """Holds a window of descriptors in the program's order.

    Each unit has a pointer that advances until it finds a descriptor for the unit. One read port serves all units. It
    reads the tokens that the descriptor waits for and signals. When the unit has those tokens, it reads the
    descriptor's beats.

    After an error only descriptors before it are sent. So code and index are always those of the first descriptor with
    an error in the program's order, and everything done is a function of the program.

    Timing: the sequencer offers a unit its descriptor 4 cycles after the descriptor's last beat arrived, or 4 cycles
    after the unit finished the previous one. Each descriptor of another unit in between takes one cycle more. A
    descriptor takes 7 cycles of the read port.

    Parameters
    ----------
    config : CoreConfig
        The core.

    Members
    -------
    descriptors : In(stream of fetched_layout)
        From the command queue, which offers a descriptor only when the window has a place.
    load, layout_a, layout_b, multiply, output, store : Out(CommandSignature)
        To the units.
    done : Out(32)
        Number of descriptors done in the program's order.
    ended : Out(1)
        An `end` is done in this cycle.
    running : Out(6)
        Units that have a descriptor, in the order of `UNITS`.
    failed : Out(1)
        There is an error, and all descriptors sent are finished.
    error : Out(4)
        With `failed`: the error. The descriptor's index is `done`.

    Source: docs/core.md, "Tokens" and "Errors".
    """

    def __init__(self, *, config: CoreConfig) -> None:
        self.config = config
        super().__init__(
            {
                "descriptors": In(stream.Signature(fetched_layout())),
                **{unit: Out(CommandSignature()) for unit in UNITS},
                "done": Out(32),
                "ended": Out(1),
                "running": Out(len(UNITS)),
                "failed": Out(1),
                "error": Out(4),
            }
        )
        self._check = DescriptorCheck(config=config)
        self._window = Memory(words=config.window * COMMAND_BEATS, bits=COMMAND_BITS)
        self._slot_bits = (config.window - 1).bit_length()
        self._units = [_Unit(name, self._slot_bits + 1) for name in UNITS]
        self._checked = Signal(self._slot_bits + 1, name="checked")  # places of descriptors, one bit more than needed
        codes = range(1 + max(operation.code for operation in OPERATIONS.values()))
        self._operations = [Signal(codes, name=f"operation_{slot}", reset_less=True) for slot in range(config.window)]
        self._left = [Signal(2, name=f"left_{slot}") for slot in range(config.window)]  # units that are not done
        self._limited = Signal(name="limited")  # there is an error
        self._limit = Signal(self._slot_bits + 1, name="limit", reset_less=True)  # the first descriptor with an error
        self._code = Signal(4, name="code", reset_less=True)

    def elaborate(self, platform):
        """Build the window: descriptors enter, the units' pointers pass through it, and finished descriptors leave."""
        m = Module()
        m.submodules.check = placed(self._check, platform)
        m.submodules.window = placed(self._window, platform)
        self._accept(m)
        for unit in self._units:
            self._follow(m, unit)
        self._count_tokens(m)
        self._serve(m)
        self._retire(m)
        return m

    def _accept(self, m: Module) -> None:
        """Write checked descriptors into the window. Drop all after a refused one."""
        beats, check, window = self.descriptors, self._check, self._window
        beat = Signal(range(COMMAND_BEATS))
        unread = Signal()  # memory answered an earlier beat with an error
        fetched = Mux(unread | beats.payload.error, ERRORS["fetch"], check.error)
        error = Signal(4)
        refused = Signal()  # a descriptor was refused
        accepts = Signal()
        slot = self._checked[:-1]
        m.d.comb += [
            beats.ready.eq(1),
            accepts.eq(beats.valid & ~refused),
            check.data.eq(beats.payload.data),
            check.beat.eq(beat),
            check.take.eq(accepts),
            window.write_enable.eq(accepts),
            window.write_address.eq(Cat(beat, slot)),
            window.write_data.eq(beats.payload.data),
            error.eq(Mux(beats.payload.outside, ERRORS["bounds"], fetched)),
        ]
        with m.If(beats.valid):
            m.d.sync += beat.eq(beat + 1)
        with m.If(accepts):
            m.d.sync += unread.eq((unread | beats.payload.error) & (beat != COMMAND_BEATS - 1))
        with m.If(accepts & (beat == COMMAND_BEATS - 1)):
            m.d.sync += self._checked.eq(self._checked + 1)
            for k in range(self.config.window):
                with m.If(slot == k):
                    multiply = check.operation == OPERATIONS["multiply"].code
                    ends = check.operation == OPERATIONS["end"].code
                    # A refused descriptor is never done.
                    m.d.sync += self._left[k].eq(Mux(error != 0, 3, Cat(~ends, multiply)))
                    m.d.sync += self._operations[k].eq(Mux(error != 0, 0, check.operation))
            with m.If(error != 0):
                m.d.sync += refused.eq(1)
                with m.If(~self._limited):
                    m.d.sync += [self._limited.eq(1), self._limit.eq(self._checked), self._code.eq(error)]

    def _follow(self, m: Module, unit: _Unit) -> None:
        command = getattr(self, unit.name)
        operation = Array(self._operations)[unit.place[:-1]]
        fits = reduce(or_, (operation == code for code in CODES[unit.name]))
        fails = command.done & (command.error != 0)
        m.d.comb += unit.ends.eq(command.done & (command.error == 0))
        is_pending = unit.place != self._checked
        m.d.comb += unit.found.eq(is_pending & fits)
        with m.If(is_pending & ~fits):
            m.d.sync += unit.place.eq(unit.place + 1)
        with m.If(unit.ends):
            m.d.sync += [unit.ready.eq(0), unit.sent.eq(0), unit.place.eq(unit.place + 1)]
            for k, left in enumerate(self._left):
                with m.If(unit.place[:-1] == k):
                    m.d.sync += left[int(unit.name == "output")].eq(0)
        with m.If(fails):
            m.d.sync += [unit.sent.eq(0), unit.failed.eq(1), unit.error.eq(command.error)]

    def _count_tokens(self, m: Module) -> None:
        """Count tokens signalled and not taken: at most the rule's maximum, and one per descriptor of the window.

        Tokens of a unit to itself need no count: the check ensures that an earlier descriptor, which is done, signals
        them.
        """
        self._starts = Signal(len(UNITS), name="starts")
        most = MAX_TOKENS + self.config.window
        has_tokens: list[list[Value]] = [[] for _ in UNITS]
        for i, producer in enumerate(self._units):
            for j, consumer in enumerate(self._units):
                if producer is consumer:
                    continue
                count = Signal(range(most + 1), name=f"{producer.name}_to_{consumer.name}")
                waits = consumer.wait[i - (i > j)]
                gives = producer.ends & producer.signal[j - (j > i)]
                takes = self._starts[j] & waits
                m.d.sync += count.eq(count + gives - takes)
                has_tokens[j].append(~waits | (count != 0))
        for j, consumer in enumerate(self._units):
            m.d.comb += consumer.tokens.eq(Cat(*has_tokens[j]).all())

    def _serve(self, m: Module) -> None:
        """Serve one unit at a time: read its error, send its descriptor, or read its tokens."""
        window, units = self._window, self._units
        reading = Signal()  # the window returns tokens in this cycle
        sending = Signal()  # a beat of a descriptor is offered
        served = Signal(range(len(UNITS)), reset_less=True)
        beat = Signal(range(COMMAND_BEATS), reset_less=True)
        errors = Signal()
        m.d.comb += errors.eq(Cat(*(unit.failed for unit in units)).any())
        wants: list[Value] = []
        befores: list[Value] = []
        distances: list[Signal] = []  # from a unit's place to the first error: negative after it
        for unit in units:
            # Two places are never further apart than the window's length.
            distance = Signal(self._slot_bits + 1, name=f"{unit.name}_distance")
            before = Signal(name=f"{unit.name}_before")  # there is no error up to its descriptor
            sends = Signal(name=f"{unit.name}_sends")
            want = Signal(name=f"{unit.name}_wants")
            m.d.comb += [
                distance.eq(self._limit - unit.place),
                before.eq(~self._limited | ((distance != 0) & ~distance[-1])),
                sends.eq(unit.ready & ~unit.sent & unit.tokens),
                want.eq(Mux(errors, unit.failed, before & (sends | (unit.found & ~unit.ready)))),
            ]
            wants.append(want)
            befores.append(before)
            distances.append(distance)
        free = Signal()
        m.d.comb += free.eq(~reading & ~sending)
        for j, unit in enumerate(units):
            first = free & wants[j] & ~Cat(*wants[:j]).any() if j else free & wants[j]
            chosen = Signal(name=f"{unit.name}_chosen")
            m.d.comb += chosen.eq(first)
            with m.If(chosen & errors):
                m.d.sync += unit.failed.eq(0)
                with m.If(befores[j]):
                    m.d.sync += [self._limited.eq(1), self._limit.eq(unit.place), self._code.eq(unit.error)]
            with m.If(chosen & ~errors):
                m.d.comb += [
                    window.read_enable.eq(1),
                    window.read_address.eq(unit.place[:-1] << COMMAND_BEATS.bit_length() - 1),
                    self._starts[j].eq(unit.ready),
                ]
                m.d.sync += [served.eq(j), sending.eq(unit.ready), reading.eq(~unit.ready), beat.eq(0)]
                with m.If(unit.ready):
                    m.d.sync += unit.sent.eq(1)
        self._read_tokens(m, reading, served)
        place = Array([unit.place[:-1] for unit in units])[served]
        taken = Signal()
        ready = Signal()
        m.d.comb += [
            ready.eq(Array([getattr(self, unit.name).descriptor.ready for unit in units])[served]),
            taken.eq(sending & ready),
        ]
        for j, unit in enumerate(units):
            descriptor = getattr(self, unit.name).descriptor
            m.d.comb += [descriptor.valid.eq(sending & (served == j)), descriptor.payload.eq(window.read_data)]
        with m.If(taken):
            m.d.comb += [window.read_enable.eq(1), window.read_address.eq(Cat((beat + 1)[:2], place))]
            m.d.sync += [beat.eq(beat + 1), sending.eq(beat != COMMAND_BEATS - 1)]
        self._quiet = Signal(name="quiet")  # no descriptor that was sent is in progress
        # After an error, one of a multiply's two units may have its descriptor while the other never gets it. The
        # sequencer does not wait for such a multiply. Neither unit accesses memory.
        waited_for = [
            unit.sent & ~(self._limited & distance[-1]) if unit.name in ("multiply", "output") else unit.sent
            for unit, distance in zip(units, distances, strict=True)
        ]
        m.d.comb += self._quiet.eq(~errors & ~Cat(*waited_for).any())

    def _read_tokens(self, m: Module, reading: Signal, served: Signal) -> None:
        """Store the token fields of a unit's descriptor."""
        fields = {field.name: field for field in (*HEADER, *OPERATIONS["multiply"].fields)}
        read = {}
        for name in ("wait", "signal", "output_wait", "output_signal"):
            low, width = fields[name].low, fields[name].width
            read[name] = Signal(width, name=f"read_{name}")
            m.d.comb += read[name].eq(self._window.read_data[low : low + width])
        for j, unit in enumerate(self._units):
            prefix = "output_" if unit.name == "output" else ""
            with m.If(reading & (served == j)):
                m.d.sync += unit.ready.eq(1)
                for name, signal in (("wait", unit.wait), ("signal", unit.signal)):
                    bits = read[prefix + name]
                    m.d.sync += signal.eq(Cat(bits[:j], bits[j + 1 :]))
        with m.If(reading):
            m.d.sync += reading.eq(0)

    def _retire(self, m: Module) -> None:
        """Retire the oldest descriptor once it is done."""
        place = self.done[: self._slot_bits + 1]
        in_window = Signal()
        oldest = Signal()
        is_final = Signal()  # an error is final, whatever is found after it
        m.d.comb += [
            in_window.eq(place != self._checked),
            oldest.eq(in_window & (Array(self._left)[place[:-1]] == 0)),
            self.ended.eq(oldest & (Array(self._operations)[place[:-1]] == OPERATIONS["end"].code)),
            self.failed.eq(is_final),
            self.error.eq(Mux(self.failed, self._code, 0)),
            self.running.eq(Cat(unit.sent for unit in self._units)),
        ]
        with m.If(self._limited & self._quiet & (place == self._limit)):
            m.d.sync += is_final.eq(1)
        with m.If(oldest):
            m.d.sync += self.done.eq(self.done + 1)
