"""Calls of `tensordash simulate`."""

import json
from typing import Any

import pytest

from .called import call_text

__all__ = ["Capture", "call", "call_json"]

Capture = pytest.CaptureFixture[str]


def call(arguments: str, capfd: Capture, status: int = 0) -> str:
    """Run the command. Return its standard output or, with a `status`, its error message of one line."""
    return call_text(f"simulate {arguments}", capfd, status)


def call_json(arguments: str, capfd: Capture) -> Any:
    """Run the command with `--json` and return its document."""
    return json.loads(call(f"{arguments} --json", capfd))
