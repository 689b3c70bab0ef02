"""Pair layout: turns up to two groups of the buffer per cycle into steps in a stream buffer."""

from types import SimpleNamespace
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from ..block import placed
from ..configuration.core_config import CoreConfig
from ..configuration.descriptors import OPERATIONS
from ..memory.signature import PairReadSignature
from ..memory.stream_buffer import PairWriteSignature
from .aligner import Aligner
from .layout import ADDRESS_BITS, CARRIED, LOOPS
from .layout_unit import LayoutUnit
from .pair_queue import FIELDS as QUEUE_FIELDS
from .pair_queue import PairQueue
from .placement import Placement
from .unit import DescriptorRegister

__all__ = ["PairLayout"]

GROUPS = 2


class PairLayout(LayoutUnit):
    """Executes `layout_a` or `layout_b` like `Layout`, but reads and writes two groups per cycle where it can.

    Two consecutive groups make a *pair* if each takes one cycle (`stride` 1 or 3), if they are written to different
    banks, and if no bank has to read two words in the same half. The zeros that pad a stream's last word are written
    with its last step.

    The stages are: groups that wait; the request to the buffer; the data read; the ports' values. Each stage after the
    first holds up to two groups.

    Timing: a group or a pair in every cycle while the buffer is ready, or a group every 2 or 4 cycles where `stride` is
    2 or 4. The first group is written 6 cycles after the descriptor's last beat was taken. The descriptor is done one
    cycle after its last group was written.

    Parameters
    ----------
    config : CoreConfig
        The core.
    side : str
        "a" or "b".

    Members
    -------
    command : In(CommandSignature)
        Descriptors.
    read : Out(PairReadSignature)
        The buffer.
    write : Out(PairWriteSignature)
        The side's stream buffer.

    Raises
    ------
    TypeError, ValueError
        For a parameter out of range.

    Source: docs/core.md, "Layout" and "Loops".
    """

    step_signals: tuple[str, ...] = ("bank", "writes", "word", "part")
    """Signals of a step that accompany its group from the request to the write."""

    def __init__(self, config: CoreConfig, side: str) -> None:
        super().__init__(config, side, read=PairReadSignature, write=PairWriteSignature)
        self.queue = PairQueue(lanes=self.lanes)
        self.placements = [Placement(lanes=self.lanes) for _ in range(GROUPS)]
        self.aligners = [Aligner(lanes=self.lanes, bits=self.position_bits) for _ in range(GROUPS)]

    def elaborate(self, platform):
        """Build the stages from the walk to the stream buffer."""
        m = Module()
        m.submodules.queue = placed(self.queue, platform)
        for k in range(GROUPS):
            m.submodules[f"placement_{k}"] = placed(self.placements[k], platform)
            m.submodules[f"aligner_{k}"] = placed(self.aligners[k], platform)
        descriptor = DescriptorRegister(m, self.command, OPERATIONS[f"layout_{self.side}"])
        self._running = Signal(name="running")
        self._starts = Signal(name="starts")  # this is the first cycle with the complete descriptor
        self._left = Signal(name="left")  # there are groups without a request
        self._beyond = Signal(name="beyond")  # a word lies beyond the stream buffer's end
        self._outside = Signal(name="outside")  # a position that counts was beyond the buffer's end
        self._leaving = [Signal(name=f"leaving_{k}") for k in range(GROUPS)]  # groups that leave the queue
        m.d.comb += self._starts.eq(descriptor.present & ~self._running)
        waiting = self._wait(m, descriptor)
        steps = self._count(m, descriptor)
        requested = self._request(m, descriptor, waiting, steps)
        returned = self._receive(m, requested)
        turned = self._align(m, descriptor, returned)
        self._write(m, descriptor, turned)
        self._finish(m, (requested[0].valid, returned[0].valid, turned[0].valid))
        return m

    def _wait(self, m: Module, descriptor: DescriptorRegister) -> list[Any]:
        """Drive the queue with the descriptor. Return the first two groups that wait, each with `valid`."""
        queue = self.queue
        m.d.comb += [
            queue.start.eq(self._starts),
            queue.active.eq(self._running),
            queue.leave.eq(Cat(self._leaving)),
            *(getattr(queue, name).eq(descriptor[name]) for name in QUEUE_FIELDS),
            *(
                getattr(queue, f"{name}_steps")[k].eq(descriptor[f"{name}_{k}"])
                for name in ("address", "x", "y")
                for k in range(LOOPS)
            ),
            *(queue.counts[k].eq(descriptor[f"count_{k}"]) for k in range(LOOPS - 1)),
        ]
        return list(queue.groups)

    # Steps of the groups

    def _step(self, name: str) -> Any:
        """Create the signals of the step that a group becomes: its bank, word and part, and the counts left."""
        return SimpleNamespace(
            steps=Signal(16, name=f"{name}_steps", reset_less=True),  # left in the run, with this one
            streams=Signal(12, name=f"{name}_streams", reset_less=True),
            bank=Signal(self.depth, name=f"{name}_bank", reset_less=True),
            part=Signal(self.parts, name=f"{name}_part", reset_less=True),
            word=Signal(range(self.words + 1), name=f"{name}_word", reset_less=True),  # beyond the last word: none left
            begin=Signal(range(self.words + 1), name=f"{name}_begin", reset_less=True),
        )

    def _count(self, m: Module, descriptor: DescriptorRegister) -> list[Any]:
        """Count steps, runs and streams. Return the steps of the first two groups that wait.

        `left` is set if a step exists, and `full` if its word is beyond the end.
        """
        current, after, later = (self._step(name) for name in ("current", "after", "later"))
        current.left = self._left
        for one, other in ((current, after), (after, later)):
            other.left = self._follow(m, descriptor, one, other)
        for name, step in (("current", current), ("after", after)):
            step.full = Signal(name=f"{name}_full")
            m.d.comb += step.full.eq(step.word == self.words)
            self._add_writes(m, name, step)
        with m.If(self._leaving[0]):
            for name in vars(after):
                if name in vars(later):
                    m.d.sync += getattr(current, name).eq(
                        Mux(self._leaving[1], getattr(later, name), getattr(after, name))
                    )
        with m.Elif(self._left & current.full):
            m.d.sync += [self._beyond.eq(1), self._left.eq(0)]
        with m.If(self._starts):
            beyond = descriptor["base"] >= self.words
            m.d.sync += [
                current.steps.eq(descriptor["steps"]),
                current.streams.eq(descriptor["streams"]),
                current.bank.eq(1),
                current.part.eq(1),
                current.word.eq(descriptor["base"]),
                current.begin.eq(descriptor["base"]),
                self._left.eq(~beyond),
                self._beyond.eq(beyond),
            ]
        return [current, after]

    def _add_writes(self, m: Module, name: str, step: Any) -> None:
        """Add `writes` to a step: its bank and the banks padded with zeros."""
        step.writes = Signal(self.depth, name=f"{name}_writes")
        rest = Cat(step.bank[: k + 1].any() for k in range(self.depth))
        m.d.comb += step.writes.eq(Mux(step.steps == 1, rest, step.bank))

    def _collide(self, steps: list[Any]) -> Value:
        """Return whether two consecutive steps cannot be written in one cycle."""
        return (steps[0].writes & steps[1].writes).any()

    def _follow(self, m: Module, descriptor: DescriptorRegister, step: Any, after: Any) -> Value:
        """Drive the step after another one. Return whether it exists."""
        ends, last_part = step.steps == 1, self._is_last(step.part)
        ends_stream = ends & last_part
        next_word = (step.word + 1)[: len(step.word)]
        m.d.comb += [
            after.steps.eq(Mux(ends, descriptor["steps"], step.steps - 1)),
            after.streams.eq(step.streams - ends_stream),
            after.bank.eq(Mux(ends, 1, step.bank.rotate_left(1))),
            after.part.eq(Mux(ends, step.part.rotate_left(1), step.part)),
            after.word.eq(Mux(ends & ~last_part, step.begin, Mux(ends | step.bank[-1], next_word, step.word))),
            after.begin.eq(Mux(ends_stream, next_word, step.begin)),
        ]
        left = Signal.like(self._left, name=f"{after.steps.name}_left")
        m.d.comb += left.eq(step.left & ~(ends_stream & (step.streams == 1)))
        return left

    # Reads

    def _token(self, name: str) -> Any:
        """Create the signals that accompany a group from the request to the write."""
        shapes = {"word": range(self.words), "part": self.parts, "ends": 1}
        return SimpleNamespace(
            valid=Signal(name=f"{name}_valid"),
            **{
                each: Signal(shapes.get(each, self.depth), name=f"{name}_{each}", reset_less=True)
                for each in self.step_signals
            },
        )

    def _read_token(self, name: str) -> Any:
        """Create the signals of `_token`, and those that align the data read."""
        token = self._token(name)
        token.enable = Signal(self.lanes, name=f"{name}_enable", reset_less=True)
        token.half = Signal(self.lanes, name=f"{name}_half", reset_less=True)
        token.low = Signal(range(self.lanes), name=f"{name}_low", reset_less=True)
        token.ports = Signal(self.lanes, name=f"{name}_ports", reset_less=True)
        token.last = Signal(name=f"{name}_last", reset_less=True)
        return token

    def _request(self, m: Module, descriptor: DescriptorRegister, waiting: list[Any], steps: list[Any]) -> list[Any]:
        """Request the reads of a turn or of a pair from the buffer, and wait until it is ready."""
        read = self.read
        requested = [self._read_token(f"requested_{k}") for k in range(GROUPS)]
        self._leaves = Signal(name="requested_leaves")
        reads, turn = Signal(name="requested_reads"), Signal.like(self.placements[0].turn, name="turn")
        enables, halves, groups, outside = zip(
            *(self._locate(m, k, descriptor, waiting[k], turn if k == 0 else Const(0)) for k in range(GROUPS)),
            strict=True,
        )
        moves, pair, conflict = Signal(name="moves"), Signal(name="pair"), Signal(name="conflict")
        first = self.placements[0]
        m.d.comb += [
            conflict.eq(
                Cat(
                    enables[0][k] & enables[1][k] & (halves[0][k] == halves[1][k]) & (groups[0][k] != groups[1][k])
                    for k in range(self.lanes)
                ).any()
            ),
            moves.eq(waiting[0].valid & steps[0].left & ~steps[0].full & (~requested[0].valid | self._leaves)),
            pair.eq(
                (waiting[1].valid & steps[1].left & ~steps[1].full)
                & (first.last & (turn == 0))
                & ~self._collide(steps)
                & ~conflict
            ),
            self._leaving[0].eq(moves & first.last),
            self._leaving[1].eq(moves & pair),
        ]
        enable = Signal(GROUPS * self.lanes, name="read_banks")
        for bank in range(self.lanes):
            for half in range(GROUPS):
                wants = [enables[k][bank] & (halves[k][bank] == half) for k in range(GROUPS)]
                place = GROUPS * bank + half
                m.d.comb += enable[place].eq(wants[0] | (pair & wants[1]))
                address = Signal(self.address_bits - 1, name=f"requested_address_{place}", reset_less=True)
                with m.If(moves):
                    m.d.sync += address.eq(Mux(wants[0], groups[0][bank], groups[1][bank])[1 : self.address_bits])
                m.d.comb += read.address[place].eq(address)
        read_banks = Signal.like(enable, name="requested_banks", reset_less=True)
        with m.If(moves):
            m.d.sync += [turn.eq(Mux(first.last, 0, turn + 1)), read_banks.eq(enable)]
            for k, token in enumerate(requested):
                m.d.sync += [
                    *(getattr(token, name).eq(getattr(steps[k], name)) for name in self.step_signals),
                    token.enable.eq(enables[k]),
                    token.half.eq(halves[k]),
                    token.low.eq(waiting[k].low),
                    token.ports.eq(self.placements[k].ports),
                    token.last.eq(self.placements[k].last),
                ]
        with m.If(~requested[0].valid | self._leaves):
            m.d.sync += [
                requested[0].valid.eq(moves),
                requested[1].valid.eq(moves & pair),
                reads.eq(moves & enable.any()),
            ]
        with m.If(self._starts):
            m.d.sync += self._outside.eq(0)
        with m.Elif(moves & (outside[0].any() | (pair & outside[1].any()))):
            m.d.sync += self._outside.eq(1)
        m.d.comb += [
            read.valid.eq(reads),
            read.enable.eq(read_banks),
            self._leaves.eq(requested[0].valid & (~reads | read.ready)),
        ]
        return requested

    def _locate(self, m: Module, k: int, descriptor: DescriptorRegister, group: Any, turn: Value) -> tuple[Any, ...]:
        """Find the banks that a group reads, the half and group in each, and the banks beyond the buffer's end."""
        placement, lanes, bits = self.placements[k], self.lanes, self.address_bits
        m.d.comb += [
            placement.low.eq(group.low),
            placement.stride.eq(descriptor["stride"]),
            placement.turn.eq(turn),
            placement.first.eq(group.first),
            placement.limit.eq(group.limit),
        ]
        high, higher = group.address[CARRIED:], Signal(ADDRESS_BITS - CARRIED, name=f"higher_{k}")
        m.d.comb += higher.eq(high + 1)
        odd, odd_higher = (Signal(name=f"{name}_{k}") for name in ("odd", "odd_higher"))  # the number of ones is odd
        m.d.comb += [odd.eq(high[: bits - CARRIED].xor()), odd_higher.eq(higher[: bits - CARRIED].xor())]
        enable, outside, half = (Signal(lanes, name=f"{name}_{k}") for name in ("enable", "outside_banks", "half"))
        groups = []
        for bank in range(lanes):
            near = Signal(CARRIED + 1, name=f"near_{k}_{bank}")
            at = Cat(near[:CARRIED], Mux(near[CARRIED], higher, high))
            m.d.comb += [
                near.eq(group.address[:CARRIED] + placement.group[bank]),
                outside[bank].eq(placement.enable[bank] & (at >= self.config.groups)),
                enable[bank].eq(placement.enable[bank] & ~outside[bank]),
                half[bank].eq(near[:CARRIED].xor() ^ Mux(near[CARRIED], odd_higher, odd)),
            ]
            groups.append(at)
        return enable, half, groups, outside

    def _receive(self, m: Module, requested: list[Any]) -> list[Any]:
        """Carry the groups into the cycle in which the buffer returns the data."""
        returned = [self._read_token(f"returned_{k}") for k in range(GROUPS)]
        for token, before in zip(returned, requested, strict=True):
            m.d.sync += token.valid.eq(self._leaves & before.valid)
            with m.If(self._leaves):
                m.d.sync += [
                    signal.eq(getattr(before, name)) for name, signal in vars(token).items() if name != "valid"
                ]
        return returned

    def _align(self, m: Module, descriptor: DescriptorRegister, returned: list[Any]) -> list[Any]:
        """Collect the ports' values over all turns of a group."""
        turned = [self._token(f"turned_{k}") for k in range(GROUPS)]
        for k, (token, before) in enumerate(zip(turned, returned, strict=True)):
            aligner, data = self.aligners[k], self.read.data
            token.ports = [
                Signal(self.position_bits, name=f"port_{k}_{port}", reset_less=True) for port in range(self.lanes)
            ]
            m.d.comb += [
                aligner.low.eq(before.low),
                aligner.stride.eq(descriptor["stride"]),
                aligner.enable.eq(before.enable),
                *(
                    aligner.banks[bank].eq(Mux(before.half[bank], data[GROUPS * bank + 1], data[GROUPS * bank]))
                    for bank in range(self.lanes)
                ),
            ]
            for port, values in enumerate(token.ports):
                with m.If(before.valid & before.ports[port]):
                    m.d.sync += values.eq(aligner.ports[port])
            m.d.sync += token.valid.eq(before.valid & before.last)
            with m.If(before.valid):
                m.d.sync += [getattr(token, name).eq(getattr(before, name)) for name in self.step_signals]
        return turned

    def _write(self, m: Module, descriptor: DescriptorRegister, turned: list[Any]) -> None:
        """Write each bank's step, or zeros as padding."""
        write, values = self.write, self._data(m, descriptor, turned)
        first, second = turned
        for bank in range(self.depth):
            writes = [token.valid & token.writes[bank] for token in turned]
            shows = [
                value & token.bank[bank].replicate(len(value)) for value, token in zip(values, turned, strict=True)
            ]
            m.d.comb += [
                write.bank[bank].eq(writes[0] | writes[1]),
                write.word[bank].eq(Mux(writes[1], second.word, first.word)),
                write.part[bank].eq(Mux(writes[1], second.part, first.part)),
                write.data[bank].eq(Mux(writes[1], shows[1], shows[0])),
            ]

    def _data(self, m: Module, descriptor: DescriptorRegister, turned: list[Any]) -> list[Signal]:
        """Return the values of both groups as they are written."""
        width, values = self.config.value_bits, []
        for k, token in enumerate(turned):
            data = Signal(self.config.group_bits, name=f"data_{k}")
            for place, value in enumerate(self._values(token.ports, descriptor["transposed"])):
                m.d.comb += data[place * width : (place + 1) * width].eq(value)
            values.append(data)
        return values

    def _finish(self, m: Module, stages: tuple[Any, ...]) -> None:
        """Report the descriptor's end when no stage holds a group."""
        error = self._error(self._beyond, self._outside)
        m.d.comb += [
            self.command.done.eq(self._running & ~Cat(self._left, *stages).any()),
            self.command.error.eq(error),
        ]
        with m.If(self._starts):
            m.d.sync += self._running.eq(1)
        with m.Elif(self.command.done):
            m.d.sync += self._running.eq(0)
