"""Pass filter: finds the passes of a multiply that are not skipped."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import stream
from amaranth.lib.data import ArrayLayout, StructLayout
from amaranth.lib.wiring import In, Out

from ..block import Block, placed
from ..configuration.core_config import CoreConfig
from ..memory.bank import group_address_bits
from ..memory.signature import BufferReadSignature
from ..movers.walk import COUNT_BITS, Walk
from ..short_queue import ShortQueue

__all__ = ["LOOPS", "PassFilter", "pass_layout"]

LOOPS = 4
QUEUED_PASSES = 3
"""A place is reserved for at least 3 cycles, so 3 places allow a pass in every cycle."""
QUEUED_MARKS = 16
"""Passes that the filter may be ahead of the output unit."""


def pass_layout(config: CoreConfig) -> StructLayout:
    """Return the layout of a pass: whether there is one, whether it is the last, and its streams' first words."""
    words = {f"{side}_word": (config.stream_words(side) - 1).bit_length() for side in "ab"}
    return StructLayout({"runs": 1, "last": 1, **words})


class PassFilter(Block):
    """Walks all passes of a multiply, and queues those that run. With `skip_masked` it reads their masks first.

    Timing: `parts` is the number of groups in a block. The first pass is in the queue 3 cycles after `start`, or
    `2 + parts` with `skip_masked`. Then a pass follows in every cycle, or with `skip_masked` every `parts` cycles if
    the buffer is ready. The filter is at most 3 passes that run ahead of
    the tile, and 16 passes ahead of the output unit.

    Parameters
    ----------
    config : CoreConfig
        The core, with `skip_masked`.

    Members
    -------
    start : In(1)
        Begin a descriptor. Its fields must not change from then on until its last pass was taken.
    skip_masked, a_base, b_base, a_streams, b_streams, fp32, x, x_size, mask_address : In
        Fields of the descriptor.
    pass_words : In(16)
        Words of a stream in each bank.
    address_steps, x_steps : In(16, 4), counts : In(12, 3)
        The walk's fields, the innermost loop first.
    read : Out(BufferReadSignature)
        Reads of masks.
    passes : Out(stream of pass_layout)
        Passes that run, in order. If the last pass is skipped, an entry without a pass follows.
    marks : Out(stream of 1 bit)
        With `skip_masked`: for each pass of the descriptor, in order, whether it is skipped.
    beyond : Out(1)
        A word of a pass since `start` is beyond its stream buffer.

    Raises
    ------
    TypeError, ValueError
        If `config` is not a CoreConfig with `skip_masked`.

    Source: docs/core.md, "Multiply".
    """

    def __init__(self, config: CoreConfig) -> None:
        if not isinstance(config, CoreConfig):
            raise TypeError(f"config must be a CoreConfig, not {config!r}")
        if not config.skip_masked:
            raise ValueError("core.skip_masked must be true, not false")
        self.config = config
        self.lanes = config.tile.lanes
        self.words = {side: config.stream_words(side) for side in "ab"}
        port = {
            "lanes": self.lanes,
            "width": config.value_bits,
            "address_bits": group_address_bits(config.groups),
        }
        super().__init__(
            {
                "start": In(1),
                "skip_masked": In(1),
                **{f"{side}_base": In(16) for side in "ab"},
                **{f"{side}_streams": In(12) for side in "ab"},
                "pass_words": In(16),
                "fp32": In(1),
                "x": In(signed(16)),
                "x_size": In(16),
                "mask_address": In(16),
                **{f"{name}_steps": In(ArrayLayout(16, LOOPS)) for name in ("address", "x")},
                "counts": In(ArrayLayout(COUNT_BITS, LOOPS - 1)),
                "read": Out(BufferReadSignature(**port)),
                "passes": Out(stream.Signature(pass_layout(config))),
                "marks": Out(stream.Signature(1)),
                "beyond": Out(1),
            }
        )
        self.walk = Walk(loops=LOOPS, places=("address", "x"))
        self.pass_queue = ShortQueue(bits=pass_layout(config).size, places=QUEUED_PASSES)
        self.mark_queue = ShortQueue(bits=1, places=QUEUED_MARKS)

    def elaborate(self, platform):
        """Request the mask's groups of each pass, and decide in the cycle after its last group."""
        m = Module()
        m.submodules.walk = placed(self.walk, platform)
        m.submodules.pass_queue = placed(self.pass_queue, platform)
        m.submodules.mark_queue = placed(self.mark_queue, platform)
        running, requests, advances = Signal(name="running"), Signal(name="requests"), Signal(name="advances")
        groups = self.config.parts("a") * self.config.parts("b")
        group = (
            Signal(groups, init=1, name="group") if groups > 1 else Const(1, 1)
        )  # the next group of the pass, one-hot
        pass_done = Signal(name="pass_done")  # the pass's last group is requested, or it needs no mask
        final = Signal(name="last_pass")
        place = self._place(m, self.start, pass_done, final)
        rooms = self._rooms(m, pass_done)
        is_last_request = Signal(name="is_last_request")  # this is the pass's last request
        outside = Signal(name="outside")  # the group has no results
        m.d.comb += [
            is_last_request.eq(~self.skip_masked | group[-1]),
            requests.eq(running & (~is_last_request | rooms)),
            outside.eq((self.walk.x < 0) | (self.walk.x >= self.x_size)),
            self.read.valid.eq(requests & self.skip_masked & ~outside),
            self.read.enable.eq((1 << self.lanes) - 1),
            advances.eq(requests & (~self.read.valid | self.read.ready)),
            pass_done.eq(advances & is_last_request),
        ]
        with m.If(self.start):
            m.d.sync += running.eq(1)
        with m.Elif(pass_done & final):
            m.d.sync += running.eq(0)
        if isinstance(group, Signal):
            with m.If(advances & self.skip_masked):
                m.d.sync += group.eq(group.rotate_left(1))
        self._walk(m, advances)
        self._decide(m, self.read.valid & self.read.ready, pass_done, (final, *place))
        return m

    def _place(self, m: Module, start: Signal, pass_done: Signal, final: Signal) -> tuple[Any, Any]:
        """Count the passes, and return the first words of both streams. Record whether words are beyond the end."""
        column, row = (Signal(12, name=f"{name}_stream", reset_less=True) for name in ("column", "row"))  # from 1 on
        beyond, turns, over = Signal(name="is_beyond", reset_less=True), Signal(name="turns"), Signal(name="over")
        places, overs = [], []
        m.d.comb += [turns.eq(column == self.a_streams), final.eq(turns & (row == self.b_streams))]
        for side, words in self.words.items():
            base = getattr(self, f"{side}_base")
            word = Signal(range(words + 1), name=f"{side}_first", reset_less=True)
            end, passed = Signal(17, name=f"{side}_end"), Signal(name=f"{side}_over")
            begin = Mux(base < words, base, words)[: len(word)]
            after = Mux(passed, words, end[: len(word)])  # `words` stands for all words beyond the end
            m.d.comb += [end.eq(word + self.pass_words), passed.eq(end > words)]
            with m.If(start):
                m.d.sync += word.eq(begin)
            with m.Elif(pass_done & (1 if side == "a" else turns)):
                m.d.sync += word.eq(Mux(turns, begin, after) if side == "a" else after)
            places.append(Mux(passed, 0, word)[: (words - 1).bit_length()])
            overs.append(passed)
        m.d.comb += [over.eq(reduce(or_, overs)), self.beyond.eq(beyond)]
        with m.If(start):
            m.d.sync += [column.eq(1), row.eq(1), beyond.eq(0)]
        with m.Elif(pass_done):
            m.d.sync += [column.eq(Mux(turns, 1, column + 1)), row.eq(row + turns), beyond.eq(beyond | over)]
        return places[0], places[1]

    def _rooms(self, m: Module, pass_done: Signal) -> Any:
        """Count places that are neither taken nor reserved. Return whether a pass can be requested."""
        self._drops = Signal(name="drops")  # a pass is skipped, and its place in the queue of passes is free again
        counts = {"pass": QUEUED_PASSES, "mark": QUEUED_MARKS}
        frees = {
            "pass": (self.passes.valid & self.passes.ready) + self._drops,
            "mark": self.marks.valid & self.marks.ready,
        }
        takes = {"pass": pass_done, "mark": pass_done & self.skip_masked}
        left = {}
        for name, places in counts.items():
            left[name] = Signal(range(places + 1), init=places, name=f"{name}_places")
            m.d.sync += left[name].eq(left[name] + frees[name] - takes[name])
        return left["pass"].any() & (~self.skip_masked | left["mark"].any())

    def _walk(self, m: Module, advances: Signal) -> None:
        """Connect the walk, which begins at the mask instead of the results."""
        walk, lane_bits = self.walk, (self.lanes - 1).bit_length()
        shift = (self.config.fp32_groups - 1).bit_length()
        away = walk.x >> lane_bits
        group = (walk.address + Mux(self.fp32, away << shift, away))[: group_address_bits(self.config.groups)]
        m.d.comb += [
            walk.start.eq(self.start),
            walk.step.eq(advances & self.skip_masked),
            walk.first_address.eq(self.mask_address),
            walk.first_x.eq(self.x),
            walk.address_steps.eq(self.address_steps),
            walk.x_steps.eq(self.x_steps),
            walk.counts.eq(self.counts),
            *(address.eq(group) for address in self.read.address),
        ]

    def _decide(self, m: Module, reads: Any, pass_done: Signal, passed: tuple[Any, Any, Any]) -> None:
        """Combine a pass's masks, and queue the pass unless all are zeros."""
        mask_valid, decides = Signal(name="mask_valid"), Signal(name="decides")
        has_mask, pass_runs = Signal(name="has_mask"), Signal(name="pass_runs")  # the pass has a mask that is not zero
        pending = Signal(1 + sum((words - 1).bit_length() for words in self.words.values()), reset_less=True)
        m.d.sync += [mask_valid.eq(reads), decides.eq(pass_done)]
        with m.If(pass_done):
            m.d.sync += pending.eq(Cat(*passed))
        width = self.config.value_bits
        has_sign = self.config.tile.numerics.result != "int32"
        magnitudes = [
            data[k * width : (k + 1) * width - has_sign].any() for data in self.read.data for k in range(self.lanes)
        ]
        m.d.comb += [
            pass_runs.eq(~self.skip_masked | has_mask | (mask_valid & Cat(magnitudes).any())),
            self._drops.eq(decides & ~pass_runs & ~pending[0]),
        ]
        m.d.sync += has_mask.eq(pass_runs & ~decides & self.skip_masked & ~self.start)
        passes, marks = self.pass_queue, self.mark_queue
        m.d.comb += [
            passes.added.eq(Cat(pass_runs, pending)),
            passes.adds.eq(decides & (pass_runs | pending[0])),
            self.passes.payload.eq(passes.first),
            self.passes.valid.eq(passes.present),
            passes.leaves.eq(self.passes.valid & self.passes.ready),
            marks.added.eq(~pass_runs),
            marks.adds.eq(decides & self.skip_masked),
            self.marks.payload.eq(marks.first),
            self.marks.valid.eq(marks.present),
            marks.leaves.eq(self.marks.valid & self.marks.ready),
        ]
