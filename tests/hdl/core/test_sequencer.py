"""The sequencer, on the emitted Verilog, against the golden core's rules."""

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.core.sequencer import Sequencer
from tensordash_sim.verify.unit_run import run_unit

CONFIGS = {
    "default": CoreConfig(),
    "small": CoreConfig.from_toml(
        "[core]\nwindow = 4\nbias = false\nscale = false\nmask = false\nrelu = false\nstochastic = false\n"
        "compression = false"
    ),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_the_sequencer_keeps_to_the_rules(name):
    assert run_unit(Sequencer(config=CONFIGS[name]), "sequencer", CONFIGS[name], seed=1) == []
