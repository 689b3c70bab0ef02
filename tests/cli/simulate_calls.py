"""Calls of `tensordash simulate`."""

import json
from typing import Any

import pytest

from .called import call as call_both

__all__ = ["Capture", "call", "call_json"]

Capture = pytest.CaptureFixture[str]


def call(arguments: str, capfd: Capture, status: int = 0) -> str:
    """Run the command. Return its standard output or, with a `status`, its error message of one line."""
    out, err = call_both(f"simulate {arguments}", capfd, status)
    if not status:
        return out
    assert out == ""
    lines = [line for line in err.splitlines() if line.strip()]
    assert len(lines) == 1, err
    assert lines[0].startswith("tensordash: ")
    return lines[0]


def call_json(arguments: str, capfd: Capture) -> Any:
    """Run the command with `--json` and return its document."""
    return json.loads(call(f"{arguments} --json", capfd))
