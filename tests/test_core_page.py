"""Test the tables, examples and pictures of docs/core.md."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

from tensordash.configuration.descriptors import BYTES, OPERATIONS, decode
from tensordash.configuration.registers import REGISTERS

ROOT = Path(__file__).parents[1]


def test_tables_are_up_to_date():
    done = subprocess.run([sys.executable, "bench/core_page.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_example_decodes_to_the_shown_values():
    page = (ROOT / "docs" / "core.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| 0x(\w\w) \| `([\w ]{11})` \| 0x(\w{8}) \| (.*) \|$", page, re.MULTILINE)
    memory, shown = bytearray(BYTES), {}
    for offset, encoded, word, fields in rows:
        first = int(offset, 16)
        memory[first : first + 4] = bytes.fromhex(encoded)
        assert bytes.fromhex(encoded)[::-1].hex() == word
        shown |= {name: int(value, 0) for name, value in re.findall(r"`(\w+)` = (\S+?)(?:,|$)", fields)}
    operation, values = decode(int.from_bytes(memory, "little"))
    assert operation is OPERATIONS["load"]
    assert {name: value for name, value in values.items() if value} == shown


def test_pictures_match_the_golden_core(tmp_path: Path):
    """The stored pictures are the program's, valid XML, legible in dark mode, and on the page."""
    subprocess.run([sys.executable, "bench/core_pictures.py", str(tmp_path)], cwd=ROOT, check=True)
    page = (ROOT / "docs" / "core.md").read_text(encoding="utf-8")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(re.findall(r"\]\((core-\w+\.svg)\)", page))
    for path in tmp_path.iterdir():
        drawn = path.read_text(encoding="utf-8")
        assert (ROOT / "docs" / path.name).read_text(encoding="utf-8") == drawn
        ET.fromstring(drawn)
        assert "prefers-color-scheme: dark" in drawn


def test_registers_do_not_overlap():
    offsets = [register.offset for register in REGISTERS]
    assert offsets == sorted(set(offsets))
    for register in REGISTERS:
        assert register.offset % 4 == 0
        assert sum(each.width for each in register.bits) == bin(register.mask).count("1") or not register.bits
