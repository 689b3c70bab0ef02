"""Count the resources of an ECP5 that the simulated SoC needs, with Yosys: the table of docs/tutorials/soc.md.

    python bench/soc_fpga.py                            # print the table: some minutes
    python bench/soc_fpga.py --json docs/soc-fpga.json  # also write the counts for `python bench/soc_page.py`

The bench does not place and route. Counts do not show whether the system fits, or its clock.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from common import argument_parser, measured_at, render, require_modules, store_figures
from tensordash_cli.soc import command as soc_command
from tensordash_synth.fpga_families import FAMILIES, RESOURCES
from tensordash_synth.yosys import run_yosys

PRESET = "core"
MEMORY_BYTES = 1 << 17
FAMILY = "ecp5"
DEVICE = "LFE5U-85F"
"""The largest part of the family."""
SOURCES = ("picorv32.v", "tensordash.v", "tensordash_memories.v", "soc.v")
PARTS = {"tensordash_core": "core", "picorv32": "PicoRV32", "soc": "memory, UART, timer, bus"}
"""Modules that are mapped separately, with their names in the table."""


def count(folder: Path) -> dict[str, dict[str, int]]:
    """Map a system, and return each part's count of each resource."""
    family = FAMILIES[FAMILY]
    (folder / "firmware.hex").write_text("0\n")  # The contents of memory do not change the counts.
    # Yosys puts the processor's parameters before its module name.
    commands = [
        f"read_verilog {' '.join(SOURCES)}",
        "hierarchy -check -top soc",
        "setattr -mod -set keep_hierarchy 1 tensordash_core *picorv32",
        f"{family.synth} -top soc",
    ]
    run_yosys([*commands, "tee -q -o stat.json stat -json"], folder, "soc")
    text = (folder / "stat.json").read_text(encoding="utf-8")
    modules = json.loads(text[text.index("{") :])["modules"]
    counts = {}
    for part, title in PARTS.items():
        (cells,) = (each["num_cells_by_type"] for name, each in modules.items() if name.endswith(f"\\{part}"))
        counts[title] = dict(family.count(cells))
    return counts


def table(results: dict[str, Any]) -> str:
    """Return the table of a system's parts, their sum, and the share of the device."""
    holds = FAMILIES[FAMILY].parts[results["device"]].holds
    return render("soc_fpga", resources=RESOURCES, holds=holds, **results)


def main() -> int:
    parser = argument_parser(__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the counts")
    options = parser.parse_args()
    require_modules(parser, "pythondata_cpu_picorv32", "pyosys")
    with tempfile.TemporaryDirectory(prefix="tensordash-") as scratch:
        arguments = ["--preset", PRESET, "--memory-bytes", str(MEMORY_BYTES), "-o", scratch]
        CliRunner().invoke(soc_command, arguments, catch_exceptions=False, standalone_mode=False)
        parts = count(Path(scratch))
    results: dict[str, Any] = {
        "command": "python bench/soc_fpga.py",
        **measured_at(),
        "preset": PRESET,
        "device": DEVICE,
    }
    results |= {"memory_bytes": MEMORY_BYTES, "parts": parts}
    print(table(results))
    if options.json:
        store_figures(options.json, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
