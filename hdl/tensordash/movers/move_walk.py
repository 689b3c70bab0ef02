"""The loops of a move between memory and the buffer."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed

from ..configuration.core_config import CoreConfig
from .unit import DescriptorRegister

__all__ = ["MoveWalk"]


class MoveWalk:
    """Steps through the runs of a move, and returns each run's place in memory and in the buffer.

    The walk stores the place of each loop's present turn, so that one adder suffices. It counts the outermost loop's
    place and turns in the descriptor.

    Parameters
    ----------
    m : Module
        The module that the walk is built in.
    descriptor : DescriptorRegister
        The descriptor of a load or a store.
    config : CoreConfig
        The core.
    is_nvfp4 : Signal, optional
        The move has groups of half the bytes. With this signal, places in memory count such halves.

    Attributes
    ----------
    begin, step, skip : Signal
        Driven by the unit, one at most: go to the first run; go to the next run; go past a run in the buffer only.
    place : Signal
        The run's first group in memory, as an address in groups or in halves. One more bit is set if the run begins
        outside of the address space. After that the walk is undefined.
    address : Signal
        The run's first group in the buffer, after the previous run's last.
    end : Signal
        The group of the buffer after the run's last.
    fits : Signal
        The run does not go beyond the buffer's end.
    last : Signal
        This is the last run.

    Source: docs/core.md, "Loops".
    """

    def __init__(
        self, m: Module, descriptor: DescriptorRegister, config: CoreConfig, is_nvfp4: Value | None = None
    ) -> None:
        skipped = config.group_bytes.bit_length() - (1 if is_nvfp4 is None else 2)
        bits = config.address_bits - skipped
        self.begin = Signal(name="walk_begin")
        self.step = Signal(name="walk_step")
        self.skip = Signal(name="walk_skip")
        self.address = Signal(17, name="walk_address", reset_less=True)
        self.fits = Signal(name="walk_fits")
        self.last = Signal(name="walk_last")
        self.end = Signal(18, name="walk_end")
        memory = Cat(descriptor["memory"], descriptor["memory_high"])[skipped : config.address_bits]
        inner = [Signal(bits, name=f"walk_place_{k}", reset_less=True) for k in (1, 2)]
        places = [*inner, memory]
        outside = Signal(name="walk_outside")
        self.place = Cat(places[0], outside)
        turns = [Signal(16, name=f"walk_turns_{k}", reset_less=True) for k in (1, 2)]  # left, with the present one
        turns.append(descriptor.stored_bits("count_3"))
        counts = [descriptor[f"count_{k}"] for k in (1, 2, 3)]
        strides = [descriptor[f"stride_{k}"] for k in (1, 2, 3)]
        over = [turns[0] == 1, turns[1] == 1, counts[2] == 1]
        # All loops up to loop k are in their last turn: an outer loop steps.
        last_turn = [Signal(name=f"walk_last_turn_{k}") for k in (1, 2)]
        m.d.comb += [last_turn[0].eq(over[0]), last_turn[1].eq(over[0] & over[1])]
        next_place = Signal(signed(max(bits, len(strides[0]) + (is_nvfp4 is not None)) + 2), name="walk_next_place")
        origin = Mux(last_turn[1], places[2], Mux(last_turn[0], places[1], places[0]))
        stride = Mux(last_turn[1], strides[2], Mux(last_turn[0], strides[1], strides[0]))
        if is_nvfp4 is not None:
            stride = Mux(is_nvfp4, stride, stride << 1)
        m.d.comb += [
            self.last.eq(last_turn[1] & over[2]),
            self.end.eq(self.address + descriptor["count_0"]),
            self.fits.eq(self.end <= config.groups),
            next_place.eq(origin + stride),
        ]
        with m.If(self.begin):
            m.d.sync += [self.address.eq(descriptor["address"]), *(place.eq(memory) for place in inner)]
            m.d.sync += outside.eq(0)
            m.d.sync += [turn.eq(count) for turn, count in zip(turns[:2], counts, strict=False)]
        with m.If(self.step | self.skip):
            m.d.sync += self.address.eq(self.end)
        with m.If(self.step):
            m.d.sync += [places[0].eq(next_place), outside.eq(next_place[bits:].any())]
            m.d.sync += turns[0].eq(Mux(over[0], counts[0], turns[0] - 1))
            with m.If(last_turn[0]):
                m.d.sync += [places[1].eq(next_place), turns[1].eq(Mux(over[1], counts[1], turns[1] - 1))]
            with m.If(last_turn[1]):
                m.d.sync += [places[2].eq(next_place), turns[2].eq(counts[2] - 1)]
