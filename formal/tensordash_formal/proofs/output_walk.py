"""Output walk: results are written, and biases read, at the position of the descriptor's loops.

Assumes: descriptors have legal fields. Adder, pipeline, writer, bias fetch and memory are free.
"""

from amaranth.hdl import signed

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
from ..loop_nest import LoopNest, counts_one_turn_more, stands_still_in_loop_2
from ..proof import Proof, make_variants
from ..reference_descriptor import ReferenceDescriptor, corrupt_word

__all__ = ["PROOF"]

PLACES = ("address", "x", "y")
FIELDS = ("transposed", "fp32", "stride", "x_size")


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
        nest = self._nest("nest", "writer")
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
        nest.add_lemmas(self, "walk", PLACES, when=descriptor.active)
        if config.bias:
            bias_nest = nest
            if config.parts("a") > 1:
                bias_nest = self._nest("bias_nest", "bias_fetch")
                bias_nest.add_lemmas(self, "bias_walk", ("y",), when=descriptor.active)
            y = self.port("bias_fetch.y", signed(16))
            self.claim(
                "biases_are_read_at_the_loops_position", y.as_unsigned() == bias_nest.place["y"], when=descriptor.active
            )

    def _nest(self, name: str, part: str) -> LoopNest:
        """Build the reference walk of a part, which steps it."""
        step = self.port(f"{part}.step", 1)
        return LoopNest(self.m, self.descriptor, name, starts=self.descriptor.starting, step=step)

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


PLACE, BIAS = "results_are_written_at_the_loops_position", "biases_are_read_at_the_loops_position"
BROKEN_VARIANTS = (
    *make_variants(
        Walk,
        {
            PLACE: {
                "loop 1 runs once more": counts_one_turn_more,
                "loop 2 does not change x": stands_still_in_loop_2,
                "the first group is group 0": lambda m, sound, outer: sound.first_address.eq(0),
            },
            BIAS: {"y is never negative": lambda m, sound, outer: outer.y.eq(sound.y & 0x7FFF)},
        },
        depth=16,
    ),
    *make_variants(
        Output,
        {
            "all_begin_with_the_descriptor": {"`done` never comes": lambda m, sound, outer: outer.command.done.eq(0)},
            "all_have_the_descriptors_fields": {"x_size is one too large": corrupt_word(4, lambda word: word + 1)},
        },
        depth=16,
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
