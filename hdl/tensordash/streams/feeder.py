"""Feeder: connects an AXI4-Stream to a tile's port."""

from amaranth.hdl import Cat, Const, Module, Mux, ResetSignal, Signal, Value
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..tile.steps import StepsSignature
from .signature import AxiStreamSignature

__all__ = ["Feeder"]


class Feeder(Block):
    """Turns beats of `depth` steps into the steps that a tile's port offers. Each kind of staging has a subclass.

    A null beat can end the stream of the steps before it. So the youngest step is *open* until its own beat or a later
    one shows whether it ends its stream. The feeder does not offer an open step.

    Timing: a beat's steps are offered in the cycle after the beat was taken, an open step in the cycle after the next
    beat was. The feeder holds ``2 * depth`` steps. Once it has a step to spare, it offers `depth` steps, or all up to
    the end of a stream, in every cycle while beats keep coming. `tready` depends on `taken` in the same cycle, and is
    low in reset.

    Parameters
    ----------
    width, lanes, depth : int
        Shape of a beat: `depth` steps of `lanes` values of `width` bits. Each step is padded to whole bytes.
    scale_bits : int
        Bits of the scale after each step, in whole bytes; 0 without scales.

    Members
    -------
    s_axis : In(AxiStreamSignature)
        Beats as docs/tile.md defines them, the oldest step in the lowest bytes.
    port : Out(StepsSignature)
        A tile's port.
    empty : Out(1)
        The feeder holds no step.
    wrong : Out(1)
        The beat taken in this cycle breaks the rules.

    Source: docs/tile.md, "AXI4-Stream".
    """

    def __init__(self, *, width: int, lanes: int, depth: int, scale_bits: int = 0) -> None:
        self.lanes, self.depth, self.width = lanes, depth, width
        self.value_bits, self.scale_bits = width * lanes, scale_bits
        self.step_bits = self.value_bits + scale_bits
        self.step_bytes = -(-self.value_bits // 8) + scale_bits // 8
        self.slots = 2 * depth
        super().__init__(
            {
                "s_axis": In(AxiStreamSignature(8 * self.step_bytes * depth, keep=True)),
                "port": Out(StepsSignature(width, lanes, depth, scale_bits)),
                "empty": Out(1),
                "wrong": Out(1),
            },
        )
        self._count = Signal(range(self.slots + 1), name="count")  # steps held
        self._known = Signal(range(self.slots + 1), name="known")  # held steps that are not open
        self._open = Signal(name="open")
        self._left = Signal(range(self.slots + 1), name="left")  # steps held that are not taken
        self._present = Signal(depth, name="present")  # steps in the beat, as a thermometer
        self._enters = Signal(depth, name="enters")  # steps that enter, as a thermometer
        self._ends = Signal(depth, name="ends")  # the entering step that ends its stream, one-hot
        self._closes = Signal(name="closes")  # a null beat ends the stream of the open step

    def _step(self, number: int) -> Value:
        """Return a step of the beat without padding: its values, and its scale above them."""
        step = self.s_axis.tdata.word_select(number, 8 * self.step_bytes)
        values = step[: self.value_bits]
        return Cat(values, step[-self.scale_bits :]) if self.scale_bits else values

    def _show_step(self, m: Module, line: int, step: Value) -> None:
        """Show a step on a line of the port."""
        m.d.comb += self.port.steps[line].eq(step[: self.value_bits] if self.scale_bits else step)
        if self.scale_bits:
            m.d.comb += self.port.scales[line].eq(step[self.value_bits :])

    def elaborate(self, platform):
        """Count the steps. A subclass stores them."""
        m = Module()
        self._accept(m)
        ending = self._hold(m)
        self._offer(m, ending)
        return m

    def _hold(self, m: Module):
        """Hold steps, and show them at the port.

        Returns
        -------
        Value
            Bit k: step k, counted from the oldest, is not open and ends a stream.
        """
        raise NotImplementedError

    def _accept(self, m: Module) -> None:
        beat, depth = self.s_axis, self.depth
        step_bytes = self.step_bytes
        entering, opens = Signal(name="entering"), Signal(name="opens")
        count = Signal.like(self._count, name="count_next")
        whole = Cat(self._present[step].replicate(step_bytes) for step in range(depth))
        m.d.comb += [
            # The lowest byte's bit decides about a step. The others are only checked.
            *(
                self._present[step].eq(beat.tkeep[: (step + 1) * step_bytes : step_bytes].all())
                for step in range(depth)
            ),
            self._left.eq(self._count - self.port.taken),
            beat.tready.eq((self._left <= self.slots - depth) & ~ResetSignal()),
            entering.eq(beat.tvalid & beat.tready),
            self._enters.eq(self._present & entering.replicate(depth)),
            self._ends.eq(self._enters & ~Cat(self._present[1:], Const(0, 1)) & beat.tlast.replicate(depth)),
            self._closes.eq(entering & beat.tlast & ~self._present[0] & self._open),
            opens.eq(Mux(self._enters[0], ~beat.tlast, self._open & ~self._closes)),
            count.eq(self._left + sum(self._enters)),
            self.empty.eq(self._count == 0),
            self.wrong.eq(
                entering
                & (
                    (beat.tkeep != whole)
                    | Mux(beat.tlast, ~self._present[0] & ~self._open, self._present[0] & ~self._present[-1])
                )
            ),
        ]
        m.d.sync += [
            self._open.eq(opens),
            self._count.eq(count),
            self._known.eq(count - opens),
        ]

    def _offer(self, m: Module, ending) -> None:
        """Offer the steps that are not open, up to the first that ends a stream."""
        port, known, depth = self.port, self._known, self.depth
        m.d.comb += port.available.eq(Mux(known < depth, known, depth))
        for step in reversed(range(depth)):
            with m.If(ending[step] & ~ending[:step].any()):
                m.d.comb += [port.available.eq(step + 1), port.last.eq(1)]
