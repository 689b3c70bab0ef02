"""Test that all products of a training step of every built-in network run on the device."""

import pytest

from tensordash_runtime import Device, offload
from tensordash_sim.networks import NAMES, load

QUICK = ("ncf", "gcn", "gpt")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in NAMES]
)
def test_training_step_runs_completely_on_the_device(name: str) -> None:
    training = load(name, "tiny")
    # fp16 may flush values far below their tensor's largest value.
    with Device("core") as device, offload(device, model=training.model, strict=True, flush_limit=1.0) as run:
        training.step()
    assert run.share == 1.0
    assert run.steps == 1
    assert {each.operation for each in run.contractions} == {"AxW", "WxG", "AxG"}
