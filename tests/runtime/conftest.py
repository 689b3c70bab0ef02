"""Shared fixtures of the runtime's tests."""

from collections.abc import Iterator

import pytest
import torch

from tensordash.configuration.core_config import CoreConfig
from tensordash_runtime import Device
from tensordash_runtime.program_folder.building import PlanBuilder


@pytest.fixture
def device() -> Iterator[Device]:
    with Device("core") as device:
        yield device


@pytest.fixture
def fresh_compiler() -> Iterator[None]:
    """Forget compiled functions before and after a test."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def builder() -> PlanBuilder:
    return PlanBuilder(CoreConfig())
