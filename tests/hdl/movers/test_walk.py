"""Compare the positions of a walk with nested loops."""

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.movers.walk import Walk
from tensordash_sim.verify.unit_run import run_unit


def run(loops, *replaced):
    return run_unit(Walk(loops=loops), "walk", CoreConfig(), seed=3, replaced=replaced, options={"loops": loops})


@pytest.mark.parametrize("loops", [2, 4, 6])
def test_walks(loops):
    assert run(loops) == []


def test_each_bit_of_a_count():
    assert run_unit(Walk(loops=4), "walk", CoreConfig(), options={"loops": 4}, test="one_bit_of_a_count") == []


BROKEN = {
    "a loop too long": ("left_0 == 12'd2", "left_0 == 12'd1"),
    "an outer loop does not step": ("x_steps[63:48] & {16{steps[3]}}", "x_steps[63:48] & {16{1'b0}}"),
    "y steps as x does": ("y_steps[47:32]", "x_steps[47:32]"),
    "a step though none is asked for": ("if (start | step) begin\n      address", "if (1) begin\n      address"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_variants_are_found(name):
    assert run(4, BROKEN[name])


@pytest.mark.parametrize("loops", [1, 0])
def test_wrong_parameters(loops):
    with pytest.raises(ValueError, match=f"loops must be an integer of at least 2, not {loops}"):
        Walk(loops=loops)
