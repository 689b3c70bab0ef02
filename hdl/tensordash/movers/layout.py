"""Layout: turns groups of the buffer into steps in a stream buffer."""

from types import SimpleNamespace
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib.data import ArrayLayout

from ..block import placed
from ..configuration.core_config import CoreConfig
from ..configuration.descriptors import OPERATIONS
from ..memory.signature import BufferReadSignature
from ..memory.stream_buffer import StreamWriteSignature
from .aligner import Aligner
from .layout_unit import LayoutUnit
from .placement import DISTANCE_BITS, Placement
from .unit import DescriptorRegister
from .walk import Walk

__all__ = ["Layout"]

LOOPS = 6
ADDRESS_BITS = 16
"""Bits of a group's address before it is checked against the buffer's size."""
CARRIED = 3
"""Lowest bits of an address. A port's distance in groups is added to them."""


class Layout(LayoutUnit):
    """Executes `layout_a` or `layout_b`: walks the buffer, and writes each group as a part of a step.

    Each stage holds a group: the walk; the places of its positions; the request to the buffer; the data read; the
    ports' values, collected over all turns. The steps that pad a stream's last word are zeros. They take the same way
    together, as a group that reads nothing.

    Timing: a group in every cycle while the buffer is ready, or every 2 or 4 cycles where `stride` is 2 or 4. A run
    whose number of steps is not a multiple of `depth` takes one cycle more. The first group is written 6 cycles after
    the descriptor's last beat was taken. The descriptor is done one cycle after its last group was written.

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
    read : Out(BufferReadSignature)
        The buffer.
    write : Out(StreamWriteSignature)
        The side's stream buffer.

    Raises
    ------
    TypeError, ValueError
        For a parameter out of range.

    Source: docs/core.md, "Layout" and "Loops".
    """

    def __init__(self, config: CoreConfig, side: str) -> None:
        super().__init__(config, side, read=BufferReadSignature, write=StreamWriteSignature)
        self.walk = Walk(loops=LOOPS)
        self.placement = Placement(lanes=self.lanes)
        self.aligner = Aligner(lanes=self.lanes, bits=self.position_bits)

    def elaborate(self, platform):
        """Build the stages from the walk to the stream buffer. A stage advances unless the next one stalls."""
        m = Module()
        m.submodules.walk = placed(self.walk, platform)
        m.submodules.placement = placed(self.placement, platform)
        m.submodules.aligner = placed(self.aligner, platform)
        descriptor = DescriptorRegister(m, self.command, OPERATIONS[f"layout_{self.side}"])
        self._running = Signal(name="running")
        self._starts = Signal(name="starts")  # this is the first cycle with the complete descriptor
        self._beyond = Signal(name="beyond")  # a word lies beyond the stream buffer's end
        self._outside = Signal(name="outside")  # a position that counts was beyond the buffer's end
        m.d.comb += self._starts.eq(descriptor.present & ~self._running)
        walked = self._walk(m, descriptor)
        requested = self._request(m, descriptor, walked)
        turned = self._align(m, descriptor, requested)
        self._write(m, descriptor, turned)
        self._finish(m, (walked, requested, turned))
        return m

    def _token(self, stage: str) -> Any:
        """Create the signals that accompany a group: `valid`, its target banks, and whether it ends a run."""
        return SimpleNamespace(
            valid=Signal(name=f"{stage}_valid"),
            banks=Signal(self.depth, name=f"{stage}_banks", reset_less=True),
            ends=Signal(name=f"{stage}_ends", reset_less=True),
        )

    def _walk(self, m: Module, descriptor: DescriptorRegister) -> Any:
        """Count groups, runs and streams, and locate each group's positions."""
        walk, depth = self.walk, self.depth
        walked = self._token("walked")
        walked.leaves = Signal(name="walked_leaves")
        walked.address = Signal(ADDRESS_BITS, name="walked_address", reset_less=True)  # the group with port 0
        walked.low = Signal(range(self.lanes), name="walked_low", reset_less=True)
        walked.first = Signal(DISTANCE_BITS, name="walked_first", reset_less=True)
        walked.limit = Signal(DISTANCE_BITS, name="walked_limit", reset_less=True)
        self._walking = Signal(name="walking")  # there are groups left
        filling = Signal(name="filling")  # not a group, but the zeros after a run's last group
        steps_left = Signal(16, name="steps_left", reset_less=True)
        streams_left = Signal(12, name="streams_left", reset_less=True)
        part = Signal(self.parts, name="walked_part", reset_less=True)
        bank = Signal(depth, name="walked_bank", reset_less=True)
        advances, last_step, ends = Signal(name="advances"), Signal(name="last_step"), Signal(name="run_ends")
        m.d.comb += [
            advances.eq(self._walking & (~walked.valid | walked.leaves)),
            last_step.eq(steps_left == 1),
            ends.eq(filling | (last_step & bank[-1])),
            walk.start.eq(self._starts),
            walk.step.eq(advances & ~filling),
            *(getattr(walk, f"first_{name}").eq(descriptor[name]) for name in ("address", "x", "y")),
            *(
                getattr(walk, f"{name}_steps")[k].eq(descriptor[f"{name}_{k}"])
                for name in ("address", "x", "y")
                for k in range(LOOPS)
            ),
            *(walk.counts[k].eq(descriptor[f"count_{k}"]) for k in range(LOOPS - 1)),
        ]
        with m.If(advances):
            m.d.sync += [
                steps_left.eq(Mux(ends, descriptor["steps"], steps_left - 1)),
                filling.eq(last_step & ~bank[-1] & ~filling),
                bank.eq(Mux(ends, 1, bank.rotate_left(1))),
                part.eq(Mux(ends, part.rotate_left(1), part)),
            ]
            with m.If(ends & self._is_last(part)):
                m.d.sync += [streams_left.eq(streams_left - 1), self._walking.eq(streams_left != 1)]
        with m.If(self._beyond):
            m.d.sync += self._walking.eq(0)
        with m.If(self._starts):
            m.d.sync += [
                steps_left.eq(descriptor["steps"]),
                streams_left.eq(descriptor["streams"]),
                part.eq(1),
                bank.eq(1),
                filling.eq(0),
                self._walking.eq(1),
            ]
        # The zeros go to all banks from the next one on.
        rest = Cat(bank[: k + 1].any() for k in range(depth))
        with m.If(advances):
            m.d.sync += [walked.banks.eq(Mux(filling, rest, bank)), walked.ends.eq(ends)]
            m.d.sync += self._positions(descriptor, walked, filling)
        with m.If(~walked.valid | walked.leaves):
            m.d.sync += walked.valid.eq(self._walking & ~self._beyond)
        return walked

    def _positions(self, descriptor: DescriptorRegister, walked: Any, filling: Signal) -> list[Any]:
        """Compute port 0's group and bank, and its distances to the first position and to the end."""
        walk, most = self.walk, (1 << DISTANCE_BITS) - 1
        before = (-walk.x)[:16]  # of an x below 0: distance to position 0
        rest = (descriptor["x_size"] - walk.x)[:18]
        row = ~descriptor["checked"] | ((walk.y >= 0) & (walk.y.as_unsigned() < descriptor["y_size"]))
        none = filling | ~row | rest[-1]
        return [
            walked.address.eq(walk.address + (walk.x >> len(walked.low))),
            walked.low.eq(walk.x[: len(walked.low)]),
            walked.first.eq(Mux(walk.x >= 0, 0, Mux(before[DISTANCE_BITS:].any(), most, before[:DISTANCE_BITS]))),
            walked.limit.eq(Mux(none, 0, Mux(rest[DISTANCE_BITS:].any(), most, rest[:DISTANCE_BITS]))),
        ]

    def _request(self, m: Module, descriptor: DescriptorRegister, walked: Any) -> Any:
        """Request the reads of a turn from the buffer, and wait until it is ready."""
        placement, read = self.placement, self.read
        requested = self._token("requested")
        requested.leaves = Signal(name="requested_leaves")
        requested.reads = Signal(name="requested_reads")  # something is read
        requested.enable = Signal(self.lanes, name="requested_enable", reset_less=True)
        requested.address = Signal(
            ArrayLayout(self.address_bits, self.lanes), name="requested_address", reset_less=True
        )
        requested.low = Signal(range(self.lanes), name="requested_low", reset_less=True)
        requested.ports = Signal(self.lanes, name="requested_ports", reset_less=True)
        requested.last = Signal(name="requested_last", reset_less=True)
        turn = Signal.like(placement.turn, name="turn")
        moves = Signal(name="walked_moves")
        m.d.comb += [
            placement.low.eq(walked.low),
            placement.stride.eq(descriptor["stride"]),
            placement.turn.eq(turn),
            placement.first.eq(walked.first),
            placement.limit.eq(walked.limit),
            moves.eq(walked.valid & (~requested.valid | requested.leaves)),
            walked.leaves.eq(moves & placement.last),
        ]
        enable, outside = Signal(self.lanes, name="enable"), Signal(self.lanes, name="outside_banks")
        high, higher = walked.address[CARRIED:], Signal(ADDRESS_BITS - CARRIED, name="higher")
        m.d.comb += higher.eq(high + 1)
        for bank in range(self.lanes):
            near = Signal(CARRIED + 1, name=f"near_{bank}")
            group = Cat(near[:CARRIED], Mux(near[CARRIED], higher, high))
            m.d.comb += [
                near.eq(walked.address[:CARRIED] + placement.group[bank]),
                outside[bank].eq(placement.enable[bank] & (group >= self.config.groups)),
                enable[bank].eq(placement.enable[bank] & ~outside[bank]),
            ]
            with m.If(moves):
                m.d.sync += requested.address[bank].eq(group)
        with m.If(moves):
            m.d.sync += [
                turn.eq(Mux(placement.last, 0, turn + 1)),
                requested.enable.eq(enable),
                requested.low.eq(walked.low),
                requested.ports.eq(placement.ports),
                requested.last.eq(placement.last),
                requested.banks.eq(walked.banks),
                requested.ends.eq(walked.ends),
            ]
        with m.If(~requested.valid | requested.leaves):
            m.d.sync += [requested.valid.eq(walked.valid), requested.reads.eq(walked.valid & enable.any())]
        with m.If(self._starts):
            m.d.sync += self._outside.eq(0)
        with m.Elif(moves & outside.any()):
            m.d.sync += self._outside.eq(1)
        m.d.comb += [
            read.valid.eq(requested.reads),
            read.enable.eq(requested.enable),
            read.address.eq(requested.address),
            requested.leaves.eq(requested.valid & (~requested.reads | read.ready)),
        ]
        return requested

    def _align(self, m: Module, descriptor: DescriptorRegister, requested: Any) -> Any:
        """Drive the ports with the data that the buffer returns in the cycle after the request."""
        aligner = self.aligner
        returned = self._token("returned")
        returned.enable = Signal(self.lanes, name="returned_enable", reset_less=True)
        returned.low = Signal(range(self.lanes), name="returned_low", reset_less=True)
        returned.ports = Signal(self.lanes, name="returned_ports", reset_less=True)
        returned.last = Signal(name="returned_last", reset_less=True)
        turned = self._token("turned")
        turned.returned = returned.valid
        turned.ports = [Signal(self.position_bits, name=f"port_{port}", reset_less=True) for port in range(self.lanes)]
        m.d.sync += returned.valid.eq(requested.leaves)
        with m.If(requested.leaves):
            m.d.sync += [
                returned.enable.eq(requested.enable),
                returned.low.eq(requested.low),
                returned.ports.eq(requested.ports),
                returned.last.eq(requested.last),
                returned.banks.eq(requested.banks),
                returned.ends.eq(requested.ends),
            ]
        m.d.comb += [
            aligner.low.eq(returned.low),
            aligner.stride.eq(descriptor["stride"]),
            aligner.enable.eq(returned.enable),
            *(aligner.banks[bank].eq(self.read.data[bank]) for bank in range(self.lanes)),
        ]
        for port, values in enumerate(turned.ports):
            with m.If(returned.valid & returned.ports[port]):
                m.d.sync += values.eq(aligner.ports[port])
        m.d.sync += turned.valid.eq(returned.valid & returned.last)
        with m.If(returned.valid):
            m.d.sync += [turned.banks.eq(returned.banks), turned.ends.eq(returned.ends)]
        return turned

    def _write(self, m: Module, descriptor: DescriptorRegister, turned: Any) -> None:
        """Write a part of a word, and find the place of the next part."""
        write, width = self.write, self.config.value_bits
        word = Signal(range(self.words + 1), name="word", reset_less=True)  # beyond the last word: none is left
        begin = Signal(range(self.words + 1), name="stream_begin", reset_less=True)
        after = Signal(range(self.words + 1), name="word_after")
        part = Signal(self.parts, name="part", reset_less=True) if self.parts > 1 else Const(1, 1)
        full, writes = Signal(name="full"), Signal(name="writes")
        m.d.comb += [
            full.eq(word == self.words),
            writes.eq(turned.valid & ~full & ~self._beyond),
            after.eq(word + 1),
            write.bank.eq(turned.banks & writes.replicate(self.depth)),
            write.word.eq(word),
            write.part.eq(part),
        ]
        for k, value in enumerate(self._values(turned.ports, descriptor["transposed"])):
            m.d.comb += write.data[k * width : (k + 1) * width].eq(value)
        with m.If(writes & turned.banks[-1]):
            last = self._is_last(part)
            m.d.sync += word.eq(Mux(turned.ends & ~last, begin, after))
            with m.If(turned.ends):
                m.d.sync += begin.eq(Mux(last, after, begin))
                if self.parts > 1:
                    m.d.sync += part.eq(part.rotate_left(1))
        with m.If(self._starts):
            if self.parts > 1:
                m.d.sync += part.eq(1)
            m.d.sync += [
                word.eq(descriptor["base"]),
                begin.eq(descriptor["base"]),
                self._beyond.eq(descriptor["base"] >= self.words),
            ]
        with m.Elif(turned.valid & full):
            m.d.sync += self._beyond.eq(1)

    def _finish(self, m: Module, stages: tuple[Any, Any, Any]) -> None:
        """Report the descriptor's end when no stage holds a group."""
        walked, requested, turned = stages
        left = Cat(self._walking, walked.valid, requested.valid, turned.returned, turned.valid)
        error = self._error(self._beyond, self._outside)
        m.d.comb += [self.command.done.eq(self._running & ~left.any()), self.command.error.eq(error)]
        with m.If(self._starts):
            m.d.sync += self._running.eq(1)
        with m.Elif(self.command.done):
            m.d.sync += self._running.eq(0)
