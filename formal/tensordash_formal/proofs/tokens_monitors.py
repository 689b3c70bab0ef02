"""Monitors of the units at the sequencer's ports, and an abstraction of its window, for the proof `tokens`."""

from typing import Any

from amaranth.hdl import Array, Elaboratable, Instance, Module, Signal

from tensordash.block import Block
from tensordash.memory.memory import Memory
from tensordash.movers.unit import COMMAND_BEATS

from ..program_order import token_fields

__all__ = ["UnitMonitor", "WindowAbstraction"]


class WindowAbstraction(Elaboratable):
    """An abstraction of the window's memory: it stores the tokens of all descriptors, and one watched word.

    Other reads return a free value. The output is stable until the next read.
    """

    def __init__(self, block: Block) -> None:
        assert isinstance(block, Memory)
        self.block = block

    def elaborate(self, platform: Any) -> Module:
        """Create registers with fixed names, to which lemmas refer."""
        m = Module()
        block = self.block
        m.d.sync += Signal(name="clocked").eq(1)  # without a register, the module would have no clock and reset ports
        watched = Signal(range(block.words), name="watched")
        m.submodules.any_watched = Instance("$anyconst", p_WIDTH=len(watched), o_Y=watched)
        free = Signal(block.bits, name="free")
        m.submodules.any_free = Instance("$anyseq", p_WIDTH=block.bits, o_Y=free)
        word = Signal(block.bits, name="word", reset_less=True)
        stored = [
            {name: Signal(width, name=f"{name}_{slot}", reset_less=True) for name, (_, width) in token_fields().items()}
            for slot in range(block.words // COMMAND_BEATS)
        ]
        with m.If(block.write_enable):
            with m.If(block.write_address == watched):
                m.d.sync += word.eq(block.write_data)
            for slot, tokens in enumerate(stored):
                with m.If(block.write_address == COMMAND_BEATS * slot):
                    for name, (low, width) in token_fields().items():
                        m.d.sync += tokens[name].eq(block.write_data[low : low + width])
        read = Signal(block.bits, name="read", reset_less=True)
        m.d.comb += block.read_data.eq(read)
        at = block.read_address
        with m.If(block.read_enable):
            m.d.sync += read.eq(free)
            with m.If(at[:2] == 0):
                for name, (low, width) in token_fields().items():
                    m.d.sync += read[low : low + width].eq(Array(tokens[name] for tokens in stored)[at[2:]])
            with m.If(at == watched):
                m.d.sync += read.eq(word)
        return m


class UnitMonitor:
    """Tracks a unit at its ports: its place in the program, and the state of the descriptor at this place."""

    def __init__(self, harness: Any, number: int, name: str) -> None:
        m, order = harness.m, harness.order
        self.number, self.name = number, name
        self.command = getattr(harness.dut, name)
        self.at = order.place(f"{name}_at")
        self.begun = Signal(name=f"{name}_begun")  # the first beat of the descriptor was offered
        self.sent = Signal(range(COMMAND_BEATS + 1), name=f"{name}_sent")  # beats of the descriptor
        self.wrong = Signal(name=f"{name}_wrong")  # the unit finished with an error
        self.error = Signal(4, name=f"{name}_was", reset_less=True)
        self.owed = Signal(order.window, name=f"{name}_owed")  # slots with descriptors that the unit has not finished
        self.begins, self.holds = Signal(name=f"{name}_begins"), Signal(name=f"{name}_holds")
        self.ends = Signal(name=f"{name}_is_done")
        self.next_is_own = Signal(name=f"{name}_is_next")  # the descriptor at the unit's place belongs to the unit
        descriptor, done = self.command.descriptor, self.command.done
        slot = order.slot(self.at)
        m.d.comb += [
            self.begins.eq(descriptor.valid & ~self.begun),
            self.holds.eq(self.sent == COMMAND_BEATS),
            self.ends.eq(done & (self.command.error == 0)),
            self.next_is_own.eq(self.owed.bit_select(slot, 1)),
        ]
        # Source: docs/core.md, "Tokens"; `CommandSignature`.
        harness.assume(descriptor.ready == ~self.holds)
        harness.assume(self.holds | ~done)
        with m.If(order.completes & (order.new_code == 0) & order.new.units[number]):
            m.d.sync += self.owed.bit_select(order.slot(order.count), 1).eq(1)
        with m.If(descriptor.valid & descriptor.ready):
            m.d.sync += self.sent.eq(self.sent + 1)
        with m.If(self.begins):
            m.d.sync += self.begun.eq(1)
        with m.If(done):
            m.d.sync += self.sent.eq(0)
        with m.If(self.ends):
            m.d.sync += [self.begun.eq(0), self.at.eq(self.at + 1), self.owed.bit_select(slot, 1).eq(0)]
        with m.Elif((self.at != order.count) & ~self.next_is_own):
            m.d.sync += self.at.eq(self.at + 1)
        with m.If(done & ~self.ends):
            m.d.sync += [self.wrong.eq(1), self.error.eq(self.command.error)]
