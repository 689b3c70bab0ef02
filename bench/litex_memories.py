"""Count the cycles of a program on a core in LiteX, by its memory: the table of docs/howto/core-in-a-soc.md.

    pip install litex==2024.12
    python bench/litex_memories.py          # a minute; writes docs/litex.json and the page
    python bench/litex_memories.py --json   # prints the cycles, and writes nothing

The systems of examples/litex/system.py run in Verilator. Memory must equal the golden core's.
"""

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from common import DOCS, argument_parser, measured_at, print_json, render, replace_between, store_figures
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash.emission.verilog import generate
from tensordash_sim.verify.job import JOB_VARIABLE, BenchJob
from tensordash_sim.verify.run import read_results
from tensordash_sim.verify.simulators import Simulation, SimulatorError
from tensordash_storage.files import atomic_write

EXAMPLE = DOCS.parent / "examples/litex"
RESULTS = DOCS / "litex.json"
PAGE = DOCS / "howto/core-in-a-soc.md"
PRESET = "core"
CYCLES = "cycles.txt"
TITLES = {
    "wide-ram": "a RAM of 128 bits, with a port for a bus of 32 bits (`WideRam`)",
    "bus-128": "RAM on a bus of 128 bits",
    "bus-32": "RAM on a bus of 32 bits, LiteX's default",
}
CORE_BASE, RAM_BASE = 0x8000_0000, 0x4000_0000
"""Addresses of registers and memory, as in examples/litex/system.py."""


def run(config: CoreConfig, verilog: Path, memory: str, folder: Path) -> int:
    """Simulate a system, and return the cycles of the program from its start to the interrupt."""
    system = folder / "litex.v"
    subprocess.run([sys.executable, str(EXAMPLE / "system.py"), str(verilog), memory, str(system)], check=True)
    job, result = folder / "job.json", folder / CYCLES
    BenchJob(config=config, seed=0, options={"ram": RAM_BASE, "core": CORE_BASE, "result": str(result)}).write(job)
    sources = [system, verilog / "tensordash.v", verilog / "tensordash_memories.v"]
    simulation = Simulation("verilator", "litex", sources, folder)
    tests, failures = read_results(simulation.run("litex_program", {JOB_VARIABLE: str(job)}, 0))
    if failures or tests != 1:
        raise SimulatorError(f"{memory}: {'; '.join(failures) or 'no test ran'}")
    return int(result.read_text())


def measure() -> dict[str, int]:
    """Return the cycles of the program for each memory."""
    config = load_any_preset(PRESET, ["core.address_bits=32"])
    assert isinstance(config, CoreConfig)
    cycles = {}
    with tempfile.TemporaryDirectory(prefix="tensordash-") as scratch:
        verilog = Path(scratch) / "verilog"
        generate(config, verilog)
        for memory in TITLES:
            folder = Path(scratch) / memory
            folder.mkdir()
            cycles[memory] = run(config, verilog, memory, folder)
    return cycles


def fill_page(page: str, results: Mapping[str, Any]) -> str:
    """Return the page with its table."""
    return replace_between(page, "<!-- litex -->", "<!-- /litex -->", render("litex", titles=TITLES, **results))


def main() -> int:
    """Run the command."""
    parser = argument_parser(__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document; write nothing")
    options = parser.parse_args()
    try:
        litex = version("litex")
    except PackageNotFoundError:
        parser.error("LiteX is not installed: pip install litex==2024.12")
    cycles = measure()
    if options.json:
        print_json({"litex": litex, "cycles": cycles})
        return 0
    command = "python bench/litex_memories.py"
    results = {"command": command, **measured_at(), "litex": litex, "preset": PRESET, "cycles": cycles}
    store_figures(RESULTS, results)
    atomic_write(PAGE, fill_page(PAGE.read_text(encoding="utf-8"), results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
