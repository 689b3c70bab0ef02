"""Hooks and environment of all tests."""

import gc
import os
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

# Torch and Numba create millions of objects. With the default thresholds, Python searches them for cycles too often.
gc.set_threshold(100_000, 50, 50)

# Tests use neither data nor results in the user's cache. All workers share the folder of the first process.
# `tensordash mutate --by-hand` has its own empty folder for each run.
if "PYTEST_XDIST_WORKER" not in os.environ and "TENSORDASH_TEST_CACHE" not in os.environ:
    _cache = tempfile.TemporaryDirectory(prefix="tensordash-cache-")
    os.environ["XDG_CACHE_HOME"] = _cache.name


@pytest.hookimpl(tryfirst=True)  # before `-m` selects tests
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow all but n evenly spread tests of each `sampled(n)`."""
    tests_by_node: dict[str, tuple[int, list[pytest.Item]]] = {}
    for item in items:
        sampled = next(item.iter_markers_with_node("sampled"), None)
        if sampled is not None and item.get_closest_marker("slow") is None:
            node, mark = sampled
            tests_by_node.setdefault(node.nodeid.partition("[")[0], (mark.args[0], []))[1].append(item)
    for sample_size, tests in tests_by_node.values():
        chosen = {k * (len(tests) - 1) // max(sample_size - 1, 1) for k in range(sample_size)}
        for k, item in enumerate(tests):
            if k not in chosen:
                item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="module")
def bench(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """Import the module of bench/ that a file of tests names in `BENCH`. Its tests can import from that folder, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[1] / "bench"))
        yield import_module(request.module.BENCH)
