"""What tests of the runtime share."""

from collections.abc import Iterator

import pytest

from tensordash_runtime import Device


@pytest.fixture
def device() -> Iterator[Device]:
    with Device("core") as made:
        yield made
