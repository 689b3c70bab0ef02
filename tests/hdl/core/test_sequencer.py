"""Test the emitted Verilog of the sequencer against the golden core's rules."""

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.core.sequencer import Sequencer
from tensordash_sim.verify import simulator_names
from tensordash_sim.verify.unit_run import run_unit

pytestmark = pytest.mark.skipif("icarus" not in simulator_names(), reason="the bench sets registers that are ports")

CONFIGS = {
    "default": CoreConfig(),
    "small": CoreConfig.from_toml(
        "[core]\nwindow = 4\nbias = false\nscale = false\nmask = false\nrelu = false\nstochastic = false\n"
        "compression = false"
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
def test_sequencer_follows_the_rules(name):
    assert run_unit(Sequencer(config=CONFIGS[name]), "sequencer", CONFIGS[name], seed=1) == []


def test_sequencer_follows_the_rules_at_one_pace():
    """The part of `test_sequencer_follows_the_rules` with sets of waits and pairs of errors."""
    config = CONFIGS["default"]
    assert run_unit(Sequencer(config=config), "sequencer", config, seed=1, test="random_programs/slow=12") == []


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("wire store_tokens = ", "wire store_tokens = 1'd1 | "),  # `store` waits for no token.
        pytest.param("layout_a_to_layout_b == 4'd15", "layout_a_to_layout_b == 4'd14", marks=pytest.mark.slow),
        # At night: `store` does not wait for an error; descriptors retire before they are done; and after an error, the
        # sequencer waits for a unit that waits for the other half of its multiply, so the error is never reported.
        pytest.param("wire store_before = ", "wire store_before = 1'd1 | ", marks=pytest.mark.slow),
        pytest.param(
            "oldest = (done[4:0] != checked) & ", "oldest = (done[4:0] != checked) | 1'd0 & ", marks=pytest.mark.slow
        ),
        pytest.param("wire quiet = ", "wire quiet = ~multiply_sent & ~output_sent & ", marks=pytest.mark.slow),
        # At night: a later error moves the index of the first one; a counter of tokens above 15 toggles.
        pytest.param(
            "if (output_before) begin",
            "if (~output_before) limit[0] <= limit[0] ^ ~limit[2]; else begin",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "layout_b_to_layout_a <= layout_b_to_layout_a + {4'd0, layout_b_ends",
            "layout_b_to_layout_a <= (layout_b_to_layout_a ^ {2'd0, layout_b_to_layout_a[4], 2'd0}) + "
            "{4'd0, layout_b_ends",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_broken_sequencer_is_found(right, wrong):
    config = CONFIGS["default"]
    assert run_unit(Sequencer(config=config), "sequencer", config, replaced=[(right, wrong)], seed=1)
