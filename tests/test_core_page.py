"""Test the tables, examples and pictures of docs/core.md."""

import re
import runpy
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import BYTES, OPERATIONS, decode, encode
from tensordash.configuration.preset import load_any_preset, preset_names
from tensordash.configuration.register_map import register_map
from tensordash.configuration.registers import REGISTERS, bit_mask
from tensordash_runtime.mmio.golden_registers import GoldenRegisters

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


@pytest.mark.parametrize("preset", preset_names("core"))
def test_only_bounds_are_not_zero_after_reset(preset: str) -> None:
    """The page states in one sentence which registers are constants, and which of the others are not 0."""
    config = load_any_preset(preset)
    assert isinstance(config, CoreConfig)
    variable = [each for each in register_map(config) if each.offset > 0x1C]
    values = {each.name: each.reset for each in variable if each.reset}
    assert values["bounds_limit"] | values["bounds_limit_high"] << 32 == (1 << config.address_bits) - 1
    assert len(values) == 2
    constants = [each for each in register_map(config) if each.offset <= 0x1C]
    assert {field.access for each in constants for field in each.fields} == {"constant"}


def test_the_accesses_run_a_program_and_recover(monkeypatch: pytest.MonkeyPatch) -> None:
    """The golden registers get the table's accesses: first with an illegal descriptor, then with an `end`."""
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    accesses = runpy.run_path(str(ROOT / "bench" / "core_page.py"))["ACCESSES"]
    core = GoldenRegisters(CoreConfig(), 1 << 12)
    for name, descriptor, is_wrong in (("operation", 0, True), ("end", encode(OPERATIONS["end"], {}), False)):
        core.memory[0x40 : 0x40 + BYTES] = list(descriptor.to_bytes(BYTES, "little"))
        values, read = {"ring": 0x40, "log2": 2, "n": 1}, {}
        for kind, register, value, _ in accesses[:-1]:
            if not is_wrong and register in ("queue_base", "queue_size"):
                continue  # The first run's values stay.
            if kind == "write":
                core.write(register, values.get(value, value))
                continue
            if register == "cause":
                assert core.wait(0), name
            read[register] = values[value] = core.read(register)
        assert bool(read["status"] & bit_mask("status", "failed")) == is_wrong, name
        assert bool(read["error"]) == is_wrong, name
        assert (core.read("cause"), core.read("done")) == (0, not is_wrong), name
    assert accesses[-1][:3] == accesses[0][:3]
