"""Test that the programs of field ends are defined for a core that drops steps, on the golden core alone."""

from random import Random

import numpy as np
import pytest

from tensordash.configuration.preset import load_any_preset
from tensordash_sim.compiler.order import find_races
from tensordash_sim.golden.core.golden_core import GoldenCore, Memory
from tensordash_sim.golden.core.laid_streams import misreads_streams
from tensordash_sim.verify.core_field_ends import field_ends
from tensordash_sim.verify.core_program_bench import LOG2_PLACES, MIDDLE, RING, SIZE, ProgramBench

SMALL = ["core.buffer=4", "core.stream_buffer=1", "core.axi_bits=128"]
PROGRAMS_WITHOUT_ERRORS = 30


class GoldenBench(ProgramBench):
    """A bench without the Verilog."""

    def __init__(self, config):
        self.config, self.random, self.base, self.middle = config, Random(1), 0, MIDDLE
        self.golden = GoldenCore(config, Memory(SIZE, line=config.axi_bits // 8))
        self.golden.memory.bytes[:] = np.random.default_rng(1).bytes(SIZE)
        self.ring, self.log2_places, self.legal = RING, LOG2_PLACES, 0

    def restart(self):
        """Keep golden's state."""

    def run(self, descriptors, title):
        """Run a program on golden, and check that its results are defined."""
        outcome = self.golden.run(descriptors)
        if not outcome.error:
            self.legal += 1
            assert not misreads_streams(descriptors, self.config), title
            assert not find_races(self.config, descriptors), title
        return outcome


@pytest.mark.slow
def test_field_ends_of_a_core_that_drops_steps_are_defined():
    bench = GoldenBench(load_any_preset("core-drop", SMALL))
    bench.fill()
    field_ends(bench, 100)
    assert bench.legal > PROGRAMS_WITHOUT_ERRORS
