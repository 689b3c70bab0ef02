"""Output unit: turns blocks of sums into partial sums, or into results in the buffer."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..block import Block, placed
from ..configuration.core_config import CoreConfig
from ..configuration.descriptors import OPERATIONS
from ..configuration.registers import ERRORS
from ..layouts import sum_beat_layout
from ..memory.bank import group_address_bits
from ..memory.memory import Memory
from ..memory.signature import BufferReadSignature, BufferWriteSignature
from ..movers.unit import CommandSignature, DescriptorRegister
from ..movers.walk import Walk
from .bias_fetch import BiasFetch
from .group_writer import GroupWriter
from .result_pipeline import FLAGS, ResultPipeline
from .row_adder import RowAdder

__all__ = ["COUNTS", "Output"]

COUNTS = ("zeros", "non_finite", "overflow")
LOOPS = 4


class Output(Block):
    """Takes the blocks of a multiply, adds partial sums, and stores the sums or writes results.

    Timing: a row of a block takes one cycle if nothing is added to it, and `result_cycles` otherwise (twice as many
    with a partial sum and a bias). Rows of skipped passes do not wait for the tile. Writing groups takes further cycles
    (see `GroupWriter`). The first row is taken at the earliest two cycles after the descriptor's last beat.

    Parameters
    ----------
    config : CoreConfig
        The core.

    Members
    -------
    command : In(CommandSignature)
        Descriptors `multiply`.
    sums : In(stream of sum_beat_layout)
        Rows of blocks from the tile.
    read : Out(BufferReadSignature), write : Out(BufferWriteSignature)
        To the buffer: reads of biases and masks, writes of results.
    zeros, non_finite, overflow : Out(32)
        Saturating counts of results.
    clear : In(1)
        Reset the counts to zero.
    marks : In(stream of 1 bit)
        Only in a core with `skip_masked`: for each pass of a multiply with it, whether it is skipped.
    skip_read : In(BufferReadSignature)
        Only in a core with `skip_masked`: reads of the multiply unit, which share the port `read`.

    Raises
    ------
    TypeError
        If `config` is not a CoreConfig.

    Source: docs/core.md, "Multiply".
    """

    def __init__(self, config: CoreConfig) -> None:
        if not isinstance(config, CoreConfig):
            raise TypeError(f"config must be a CoreConfig, not {config!r}")
        self.config = config
        tile = config.tile
        port = {
            "lanes": tile.lanes,
            "width": config.value_bits,
            "address_bits": group_address_bits(config.groups),
        }
        super().__init__(
            {
                "command": In(CommandSignature()),
                "sums": In(stream.Signature(sum_beat_layout(tile.numerics, tile.columns))),
                "read": Out(BufferReadSignature(**port)),
                "write": Out(BufferWriteSignature(**port)),
                **{name: Out(32) for name in COUNTS},
                "clear": In(1),
                **(
                    {"marks": In(stream.Signature(1)), "skip_read": In(BufferReadSignature(**port))}
                    if config.skip_masked
                    else {}
                ),
            }
        )
        self.adder = RowAdder(config)
        self.pipeline = ResultPipeline(config)
        self.writer = GroupWriter(config)
        self.walk = Walk(loops=LOOPS)
        self._words = config.partial_sums * tile.rows * config.result_cycles
        self.partial_sums = Memory(words=max(2, self._words), bits=len(self.adder.stored_sums))
        if config.bias:
            self.bias_fetch = BiasFetch(config)
            # Where a row is one group, biases are read at the only walk's place before the writer advances it.
            self.bias_walk = Walk(loops=LOOPS, places=("y",)) if config.parts("a") > 1 else None

    def elaborate(self, platform):
        """Take rows, add partial sums and biases, write groups, and count results."""
        m = Module()
        m.submodules.adder = placed(self.adder, platform)
        m.submodules.pipeline = placed(self.pipeline, platform)
        m.submodules.writer = placed(self.writer, platform)
        m.submodules.walk = placed(self.walk, platform)
        m.submodules.partial_sums = placed(self.partial_sums, platform)
        self._descriptor = DescriptorRegister(m, self.command, OPERATIONS["multiply"])
        self._running = Signal(name="running")
        self._starts = Signal(name="starts")  # this is the first cycle with the complete descriptor
        m.d.comb += self._starts.eq(self._descriptor.present & ~self._running)
        self._biased = self._descriptor["bias"] if self.config.bias else Const(0, 1)
        left = self._take(m)
        beyond = self._store(m)
        self._give(m)
        self._follow(m, self.walk, self.writer.step)
        if self.config.bias:
            self._bias(m, platform)
        self._read(m)
        self._finish(m, left, beyond)
        self._count(m)
        return m

    def _take(self, m: Module) -> Any:
        """Count the blocks down. Return whether rows are left."""
        left_a, left_b = (Signal(12, name=f"{side}_left", reset_less=True) for side in "ab")
        left, taken, descriptor = Signal(name="left"), Signal(name="taken"), self._descriptor
        rows = self.adder.rows
        last = self.sums.payload.last
        m.d.comb += taken.eq(rows.valid & rows.ready)
        if self.config.skip_masked:
            last = self._skip(m, left, taken)
        else:
            m.d.comb += [
                rows.payload.eq(self.sums.payload.values),
                rows.valid.eq(self.sums.valid & left),
                self.sums.ready.eq(rows.ready & left),
            ]
        with m.If(taken & last):
            m.d.sync += left_a.eq(left_a - 1)
            with m.If(left_a == 1):
                m.d.sync += [left_a.eq(descriptor["a_streams"]), left_b.eq(left_b - 1), left.eq(left_b != 1)]
        with m.If(self._starts):
            m.d.sync += [left_a.eq(descriptor["a_streams"]), left.eq(1)]
        arrives, b_streams = descriptor.arriving("b_streams")
        with m.If(arrives):
            m.d.sync += left_b.eq(b_streams)
        return left

    def _skip(self, m: Module, left: Signal, taken: Signal) -> Signal:
        """Take rows of the tile, or zeros for skipped passes. Return whether a row is the last of its block."""
        rows, marks, sums = self.adder.rows, self.marks, self.sums
        row = Signal(self.config.tile.rows, init=1, name="skipped_row")  # of a skipped block, one-hot
        skipped, runs, last = Signal(name="skipped"), Signal(name="runs"), Signal(name="last_row")
        may_skip = self._descriptor["skip_masked"] & left
        m.d.comb += [
            skipped.eq(may_skip & marks.valid & marks.payload),
            runs.eq(left & ~(may_skip & (~marks.valid | marks.payload))),
            rows.payload.eq(Mux(skipped, 0, Value.cast(sums.payload.values))),
            rows.valid.eq(skipped | (sums.valid & runs)),
            sums.ready.eq(rows.ready & runs),
            last.eq(Mux(skipped, row[-1], sums.payload.last)),
            marks.ready.eq(may_skip & taken & last),
        ]
        with m.If(taken & skipped):
            m.d.sync += row.eq(row.rotate_left(1))
        return last

    def _store(self, m: Module) -> Any:
        """Read partial sums a piece ahead of the adder, and write them. Return whether a place was beyond their end."""
        words, memory, adder, descriptor = self._words, self.partial_sums, self.adder, self._descriptor
        of_block = words // self.config.partial_sums
        # The word of the piece that is taken next. `words` stands for all words beyond the end.
        word = Signal(range(words + 1), reset_less=True)
        after, first = Signal(range(words + 1), name="word_after"), Signal(range(words + 1), name="first_word")
        stored_word = Signal(range(words + 1), reset_less=True)
        beyond = Signal(name="beyond")
        arrives, place = descriptor.arriving("partial")
        m.d.comb += [
            after.eq(Mux(word == words, words, word + 1)),
            first.eq(Mux(place < self.config.partial_sums, place * of_block, words)),
            memory.read_enable.eq(self._starts | adder.taken),
            memory.read_address.eq(Mux(self._starts, word, after)),
            memory.write_enable.eq(adder.stores & (stored_word != words)),
            memory.write_address.eq(stored_word),
            memory.write_data.eq(adder.stored_sums),
            adder.partial.eq(memory.read_data),
        ]
        with m.If(adder.taken):
            m.d.sync += [word.eq(after), stored_word.eq(word)]
            with m.If((word == words) & (descriptor["add"] | ~descriptor["emit"])):
                m.d.sync += beyond.eq(1)
        with m.If(arrives):
            m.d.sync += [word.eq(first), beyond.eq(0)]
        return beyond

    def _follow(self, m: Module, walk: Walk, step) -> None:
        """Wire a walk to the descriptor."""
        descriptor = self._descriptor
        m.d.comb += [
            walk.start.eq(self._starts),
            walk.step.eq(step),
            *(getattr(walk, f"first_{name}").eq(descriptor[name]) for name in walk.places),
            *(
                getattr(walk, f"{name}_steps")[k].eq(descriptor[f"{name}_{k}"])
                for name in walk.places
                for k in range(LOOPS)
            ),
            *(walk.counts[k].eq(descriptor[f"count_{k}"]) for k in range(LOOPS - 1)),
        ]

    def _bias(self, m: Module, platform) -> None:
        """Connect the bias fetch, which reads biases ahead of the groups that are written."""
        fetch, descriptor, walk = self.bias_fetch, self._descriptor, self.bias_walk or self.walk
        m.submodules.bias_fetch = placed(fetch, platform)
        if self.bias_walk:
            m.submodules.bias_walk = placed(self.bias_walk, platform)
            self._follow(m, self.bias_walk, fetch.step)
            m.d.comb += fetch.has_group.eq(1)
        else:
            fetched = Signal(name="bias_fetched")  # for the walk's present group
            m.d.comb += [fetch.has_group.eq(~fetched), self.writer.hold.eq(fetch.bias & ~fetched)]
            with m.If(self._starts | self.writer.step):
                m.d.sync += fetched.eq(0)
            with m.Elif(fetch.step):
                m.d.sync += fetched.eq(1)
        m.d.comb += [
            fetch.start.eq(self._starts),
            fetch.bias.eq(descriptor["bias"] & descriptor["emit"] & self._running),
            fetch.transposed.eq(descriptor["transposed"]),
            fetch.address.eq(descriptor["bias_address"]),
            fetch.y.eq(walk.y),
            self.adder.biased.eq(self._biased & descriptor["emit"]),
            self.adder.bias.eq(fetch.values),
            self.adder.bias_valid.eq(fetch.valid),
            fetch.taken.eq(self.adder.bias_taken),
        ]

    def _give(self, m: Module) -> None:
        """Connect the descriptor's fields to the stages, and the results to the writer."""
        config, pipeline, writer, descriptor = self.config, self.pipeline, self.writer, self._descriptor
        wiring.connect(m, self.adder.sums, pipeline.sums)
        built = {"relu": config.relu, "stochastic": config.stochastic}
        for name in FLAGS:
            m.d.comb += getattr(pipeline, name).eq(descriptor[name] if built.get(name, True) else 0)
        m.d.comb += [
            self.adder.add.eq(descriptor["add"]),
            self.adder.emit.eq(descriptor["emit"]),
            pipeline.scale.eq(descriptor["scale"] if config.scale else 0),
            Cat(pipeline.start, pipeline.seed).eq(Cat(*descriptor.arriving("seed"))),
            writer.rows.payload.eq(pipeline.out.payload),
            writer.rows.valid.eq(pipeline.out.valid),
            pipeline.out.ready.eq(writer.rows.ready),
            *(getattr(writer, name).eq(descriptor[name]) for name in ("transposed", "fp32", "stride", "x_size")),
            writer.address.eq(self.walk.address),
            writer.x.eq(self.walk.x),
            writer.start.eq(self._starts),
        ]
        if config.mask:
            m.d.comb += [
                writer.mask.eq(descriptor["mask"]),
                writer.mask_offset.eq(descriptor["mask_address"] - descriptor["address"]),
            ]
        wiring.connect(m, writer.write, wiring.flipped(self.write))

    def _read(self, m: Module) -> None:
        """Arbitrate the read port: masks of results, then biases, then masks for the multiply unit.

        A request that waits keeps the port until it is taken.
        """
        readers = {"mask": self.writer.read} if self.config.mask else {}
        readers |= {"bias": self.bias_fetch.read} if self.config.bias else {}
        readers |= {"skip": self.skip_read} if self.config.skip_masked else {}
        if not readers:
            return
        *earlier, last = readers
        waiting = {name: Signal(name=f"{name}_waits") for name in list(readers)[1:]}  # its request was not taken
        chosen: dict[str, Any] = {}
        before: Any = Const(0, 1)  # a reader with precedence requests
        for name in earlier:
            others = Cat(each for other, each in waiting.items() if other != name).any()
            chosen[name] = (waiting.get(name, Const(0, 1)) | (readers[name].valid & ~before)) & ~others
            before |= readers[name].valid
        chosen[last] = waiting[last] | ~before if earlier else Const(1)
        for name, waits in waiting.items():
            m.d.sync += waits.eq(readers[name].valid & chosen[name] & ~self.read.ready)
        # A request withdrawn at the descriptor's end may be chosen beside another, which then wins.
        for name, reader in readers.items():
            choice = chosen[name]
            m.d.comb += [reader.data.eq(self.read.data), reader.ready.eq(self.read.ready & choice)]
            with m.If(choice):
                m.d.comb += [
                    self.read.valid.eq(reader.valid),
                    self.read.enable.eq(reader.enable),
                    self.read.address.eq(reader.address),
                ]

    def _finish(self, m: Module, left, beyond) -> None:
        """Report the descriptor's end when no stage holds a row."""
        outside, done = Signal(name="outside"), Signal(name="done")
        with m.If(self._starts):
            m.d.sync += [self._running.eq(1), outside.eq(0)]
        with m.Elif(done):
            m.d.sync += self._running.eq(0)
        with m.If(self.writer.outside):
            m.d.sync += outside.eq(1)
        m.d.comb += [
            # The writer waits for complete groups, and the pipeline holds fewer rows than a group: both are empty.
            done.eq(self._running & ~left & self.adder.empty & self.writer.empty),
            self.command.done.eq(done),
            self.command.error.eq(Mux(beyond, ERRORS["range"], Mux(outside, ERRORS["address"], 0))),
        ]

    def _count(self, m: Module) -> None:
        """Build the saturating counts."""
        grows = {
            "zeros": self.writer.zeros,
            "non_finite": self.writer.non_finite,
            "overflow": sum(self.adder.overflows),
        }
        for name, more in grows.items():
            count, total = Signal(32, name=f"{name}_counted"), Signal(33, name=f"{name}_total")
            m.d.comb += [total.eq(count + more), getattr(self, name).eq(count)]
            m.d.sync += count.eq(Mux(self.clear, 0, Mux(total[-1], (1 << 32) - 1, total[:32])))
