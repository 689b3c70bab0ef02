"""docs/core.md has the tables that the descriptions make."""

import subprocess
import sys
from pathlib import Path

from tensordash.configuration.registers import REGISTERS

ROOT = Path(__file__).parents[1]


def test_tables_are_up_to_date():
    done = subprocess.run([sys.executable, "bench/core_page.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_registers_do_not_overlap():
    offsets = [register.offset for register in REGISTERS]
    assert offsets == sorted(set(offsets))
    for register in REGISTERS:
        assert register.offset % 4 == 0
        assert sum(each.width for each in register.bits) == bin(register.mask).count("1") or not register.bits
