"""Output walk: results are written, and biases read, at the position of the descriptor's loops.

Assumes: descriptors have legal fields. Adder, pipeline, writer, bias fetch and memory are free.
"""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Module, Signal, Value, signed

from tensordash.block import Block
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import OPERATIONS
from tensordash.configuration.preset import load_any_preset
from tensordash.core.bias_fetch import BiasFetch
from tensordash.core.group_writer import GroupWriter
from tensordash.core.output import Output
from tensordash.core.result_pipeline import ResultPipeline
from tensordash.core.row_adder import RowAdder
from tensordash.memory.memory import Memory
from tensordash.movers.walk import Walk

from ..harness import Fault, FreeOutputs, Harness, Stub
from ..proof import BrokenVariant, Proof
from ..reference_descriptor import ReferenceDescriptor, corrupt_word

__all__ = ["PROOF"]

LOOPS = 4
COUNT_BITS = 12
PLACES = ("address", "x", "y")
FIELDS = ("transposed", "fp32", "stride", "x_size")


class LoopNest:
    """Tracks the reference position of a walk (docs/core.md, "Loops"), with loop counters that start at 0.

    Parameters
    ----------
    descriptor : ReferenceDescriptor
        The walk starts when this descriptor is complete.
    name : str
        Prefix of the registers' names.
    step : Value
        The walk advances to the next group.
    """

    def __init__(self, descriptor: ReferenceDescriptor, name: str, step: Value) -> None:
        m = descriptor.m
        self.turns = [Signal(COUNT_BITS, name=f"{name}_turn_{k}", reset_less=True) for k in range(LOOPS - 1)]
        self.place = {each: Signal(16, name=f"{name}_{each}", reset_less=True) for each in PLACES}
        turns, places = descriptor.advanced(self.turns, self.place)
        with m.If(descriptor.starting):
            m.d.sync += [each.eq(descriptor[place]) for place, each in self.place.items()]
            m.d.sync += [turn.eq(0) for turn in self.turns]
        with m.Elif(step):
            m.d.sync += [each.eq(places[place]) for place, each in self.place.items()]
            m.d.sync += [turn.eq(after) for turn, after in zip(self.turns, turns, strict=True)]


class OutputWalkHarness(Harness):
    """An output unit with stubs for its adder, pipeline, writer and bias fetch, which may step in any cycle.

    `group_writer` proves that results are written at the position of the writer's walk.

    Source: docs/core.md, "Loops" and "Multiply"; the docstrings of `Output` and `Walk`.
    """

    def __init__(self, config: CoreConfig, fault: tuple[type[Block], Fault] | None = None) -> None:
        self.config, self.dut = config, Output(config)
        free = (RowAdder, ResultPipeline, GroupWriter, BiasFetch, Memory)
        super().__init__(self.dut, stubs=tuple(Stub(kind, FreeOutputs) for kind in free), fault=fault, black_box=True)
        self.descriptor = descriptor = ReferenceDescriptor(self.m, self.dut.command, OPERATIONS["multiply"])
        self.assume(descriptor.is_legal(self.dut.command.descriptor.payload) | ~self.dut.command.descriptor.valid)
        nest = LoopNest(descriptor, "nest", self.port("writer.step", 1))
        for name, shape in (("address", 16), ("x", signed(16))):
            place = self.port(f"writer.{name}", shape).as_unsigned()
            self.claim(
                "results_are_written_at_the_loops_position",
                place == nest.place[name],
                when=descriptor.active,
            )
        self._claim_fields()
        descriptor.add_lemmas(self)
        descriptor.add_field_lemmas(self)
        self.lemma(self.probe("running", 1) == descriptor.active)
        self._add_lemmas("walk", nest, PLACES)
        if config.bias:
            bias_nest = nest
            if config.parts("a") > 1:
                bias_nest = LoopNest(descriptor, "bias_nest", self.port("bias_fetch.step", 1))
                self._add_lemmas("bias_walk", bias_nest, ("y",))
            y = self.port("bias_fetch.y", signed(16))
            self.claim(
                "biases_are_read_at_the_loops_position", y.as_unsigned() == bias_nest.place["y"], when=descriptor.active
            )

    def _claim_fields(self) -> None:
        """Claim the fields that writer and bias fetch receive, and the cycle in which they start."""
        descriptor = self.descriptor
        fields = {f"writer.{name}": descriptor[name] for name in FIELDS}
        if self.config.mask:
            fields |= {"writer.mask": descriptor["mask"]}
            fields |= {"writer.mask_offset": (descriptor["mask_address"] - descriptor["address"])[:16]}
        begins = ["writer"]
        if self.config.bias:
            begins.append("bias_fetch")
            fields |= {
                "bias_fetch.address": descriptor["bias_address"],
                "bias_fetch.transposed": descriptor["transposed"],
            }
        for part in begins:
            self.claim("all_begin_with_the_descriptor", self.port(f"{part}.start", 1) == descriptor.starting)
        for name, value in fields.items():
            port = self.port(name, len(value))
            self.claim("all_have_the_descriptors_fields", port == value.as_unsigned(), when=descriptor.complete)

    def _add_lemmas(self, walk: str, nest: LoopNest, places: Sequence[str]) -> None:
        """State the lemmas: the hardware counts down the remaining turns and marks the last turn of a loop."""
        ends, begun = self.probe(f"{walk}.ends", LOOPS - 1), self.descriptor.active
        for k, turn in enumerate(nest.turns):
            left = self.probe(f"{walk}.left_{k}", COUNT_BITS)
            count = self.descriptor[f"count_{k}"]
            self.lemma(turn < count, when=begun)
            self.lemma(left == (count - turn)[:COUNT_BITS], when=begun)
            self.lemma(ends[k] == (turn == count - 1), when=begun)
        for name in places:
            port = self.probe(f"{walk}.{name}", 16)
            self.lemma(port == nest.place[name], when=begun)


def _counts_one_turn_more(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.counts[1].eq(outer.counts[1] + 1)


def _stands_still_in_loop_2(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.x_steps[2].eq(0)


def _begins_at_0(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.first_address.eq(0)


def _loses_a_bit_of_y(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.y.eq(sound.y & 0x7FFF)


def _is_never_done(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.command.done.eq(0)


def _variant(claim: str, title: str, fault: Fault, kind: type[Block] = Walk) -> BrokenVariant:
    return BrokenVariant(claim=claim, title=title, kind=kind, fault=fault, depth=16)


PLACE, BIAS = "results_are_written_at_the_loops_position", "biases_are_read_at_the_loops_position"
BROKEN_VARIANTS = (
    _variant(PLACE, "loop 1 runs once more", _counts_one_turn_more),
    _variant(PLACE, "loop 2 does not change x", _stands_still_in_loop_2),
    _variant(PLACE, "the first group is group 0", _begins_at_0),
    _variant(BIAS, "y is never negative", _loses_a_bit_of_y),
    _variant("all_begin_with_the_descriptor", "`done` never comes", _is_never_done, Output),
    _variant(
        "all_have_the_descriptors_fields",
        "x_size is one too large",
        corrupt_word(4, lambda word: word + 1),
        Output,
    ),
)

PROOF = Proof(
    name="output_walk",
    build=OutputWalkHarness,
    applies=lambda config: isinstance(config, CoreConfig),
    broken_variants=BROKEN_VARIANTS,
    cover_depth=12,
    broken_config=load_any_preset("core"),
)
