"""Runs a command in this process."""

import pytest

from tensordash_cli.main import run


def call(arguments: str, capfd: pytest.CaptureFixture[str], status: int = 0) -> tuple[str, str]:
    """Run a command; return what it prints and what it complains of."""
    with pytest.raises(SystemExit) as stop:
        run(arguments.split())
    out, err = capfd.readouterr()
    assert (stop.value.code or 0) == status, err
    return out, err
