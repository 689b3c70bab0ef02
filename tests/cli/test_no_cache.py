"""Test that commands without a writable cache folder print one line about the folder, and run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("variable", ["XDG_CACHE_HOME", pytest.param("HOME", marks=pytest.mark.slow)])
def test_generate_without_a_cache(variable: str, tmp_path: Path) -> None:
    """The WebAssembly of Yosys needs a cache."""
    (tmp_path / "file").write_text("")
    environment = {name: value for name, value in os.environ.items() if name != "XDG_CACHE_HOME"}
    environment[variable] = str(tmp_path / "file")
    command = [sys.executable, "-c", "from tensordash_cli.main import run; run()"]
    arguments = ["generate", "--set", "tile.rows=1", "--set", "tile.columns=1", "-o", "out"]
    run = subprocess.run([*command, *arguments], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stderr == "tensordash: the cache folder cannot be written, and a temporary one is used\n"
    assert (tmp_path / "out" / "tensordash.v").is_file()
    assert (tmp_path / "file").read_text() == ""
