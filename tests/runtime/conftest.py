"""Shared fixtures of the runtime's tests."""

from collections.abc import Iterator

import pytest

from tensordash_runtime import Device


@pytest.fixture
def device() -> Iterator[Device]:
    with Device("core") as made:
        yield made
