"""Test that the C header packs descriptors as Python does and defines every register."""

import re
import subprocess
from pathlib import Path
from random import Random

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import BYTES, HEADER, OPERATIONS, encode
from tensordash.configuration.preset import load_any_preset
from tensordash.configuration.register_map import constant_values
from tensordash.configuration.registers import ERRORS, IDENTITY, REGISTERS
from tensordash.emission.c_header import c_header

from ...replaced_text import replace_once

CONFIG = CoreConfig()
C99 = ["gcc", "-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-o", "main", "main.c"]


def run_c(folder: Path, body: str, header: str) -> str:
    """Compile and run a C program with the header, and return its output."""
    (folder / "tensordash.h").write_text(header)
    program = f'#include <stdio.h>\n#include "tensordash.h"\nint main(void) {{\n{body}\n  return 0;\n}}\n'
    (folder / "main.c").write_text(program)
    subprocess.run(C99, cwd=folder, check=True, capture_output=True)
    return subprocess.run([folder / "main"], check=True, capture_output=True, text=True).stdout


def random_fields(random: Random, name: str) -> dict[str, int]:
    """Draw values of an operation's fields: the ends of their ranges, or any value in them."""
    fields = (*HEADER[1:], *OPERATIONS[name].fields)
    ends = random.random() < 0.3
    return {
        field.name: random.choice([field.minimum, field.maximum])
        if ends
        else random.randint(field.minimum, field.maximum)
        for field in fields
    }


def packed(values: dict[str, int], name: str) -> str:
    """Return C code that packs a descriptor, prints it, and prints each of its fields."""
    header = {field.name for field in HEADER}
    macros = {each: f"{'HEADER' if each in header else name.upper()}_{each.upper()}" for each in values}
    lines = ["  {", "    uint32_t d[TENSORDASH_DESCRIPTOR_WORDS];"]
    lines.append("    for (int k = 0; k < TENSORDASH_DESCRIPTOR_WORDS; ++k) d[k] = 0xffffffff;")
    lines.append("    for (int k = 0; k < TENSORDASH_DESCRIPTOR_WORDS; ++k) TENSORDASH_SET(d + k, ALL, 0);")
    lines.append(f"    TENSORDASH_SET(d, HEADER_OPERATION, TENSORDASH_OPERATION_{name.upper()});")
    lines += [f"    TENSORDASH_SET(d, {macros[each]}, {value}ll);" for each, value in values.items()]
    lines.append('    for (int k = TENSORDASH_DESCRIPTOR_WORDS - 1; k >= 0; --k) printf("%08x", (unsigned)d[k]);')
    lines += [f'    printf(" %x", (unsigned)TENSORDASH_GET(d, {macro}));' for macro in macros.values()]
    return "\n".join([*lines, '    puts("");', "  }"])


def compiled(folder: Path, header: str) -> tuple[list[str], list[str]]:
    """Return lines with descriptors and their fields: from C, and from Python."""
    random, bodies, expected = Random(7), [], []
    bodies.append("#define TENSORDASH_ALL_BIT 0\n#define TENSORDASH_ALL_WIDTH 32")
    for name in [*OPERATIONS] * 10:
        values = random_fields(random, name)
        bits = encode(OPERATIONS[name], values)
        fields = {field.name: field for field in (*HEADER, *OPERATIONS[name].fields)}
        raw = [values[each] % (1 << fields[each].width) for each in values]
        expected.append(f"{bits:0{2 * BYTES}x} " + " ".join(f"{value:x}" for value in raw))
        bodies.append(packed(values, name))
    return run_c(folder, "\n".join(bodies), header).splitlines(), expected


def test_c_packs_descriptors_as_python(tmp_path: Path) -> None:
    found, expected = compiled(tmp_path, c_header(CONFIG))
    assert found == expected


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("TENSORDASH_LOAD_SEGMENT_BIT 352", "TENSORDASH_LOAD_SEGMENT_BIT 353"),
        ("TENSORDASH_LAYOUT_A_COUNT_2_WIDTH 12", "TENSORDASH_LAYOUT_A_COUNT_2_WIDTH 11"),
        ("if (bit % 32 + width > 32)\n", "if (bit % 32 + width > 40)\n"),
        ("(uint64_t)descriptor[bit / 32 + 1] << 32", "(uint64_t)descriptor[bit / 32 + 1] << 31"),
        ("TENSORDASH_OPERATION_STORE 5", "TENSORDASH_OPERATION_STORE 6"),
    ],
)
def test_a_wrong_header_is_found(right: str, wrong: str, tmp_path: Path) -> None:
    found, expected = compiled(tmp_path, replace_once(c_header(CONFIG), right, wrong))
    assert found != expected


def test_registers_and_codes(tmp_path: Path) -> None:
    """Addresses, shifts and masks have the right values in C."""
    numbers = {"IDENTITY_VALUE": IDENTITY, "GROUPS": CONFIG.groups, "STREAM_WORDS_A": CONFIG.stream_words("a")}
    numbers |= {f"ERROR_CODE_{name.upper()}": code for name, code in ERRORS.items()}
    for register in REGISTERS:
        name = f"REGISTER_{register.name.upper()}"
        numbers[name] = register.offset
        for bits in register.bits:
            numbers[f"{name}_{bits.name.upper()}_SHIFT"] = bits.low
            numbers[f"{name}_{bits.name.upper()}_MASK"] = ((1 << bits.width) - 1) << bits.low
    body = "\n".join(f'  printf("%u\\n", (unsigned)TENSORDASH_{name});' for name in numbers)
    found = run_c(tmp_path, body, c_header(CONFIG)).split()
    assert dict(zip(numbers, map(int, found), strict=True)) == numbers


def test_names_are_unique_and_have_the_prefix() -> None:
    names = re.findall(r"^#define (\w+)", c_header(CONFIG, "mine"), re.MULTILINE)
    assert len(names) == len(set(names)) > 300
    assert all(name.startswith("MINE_") for name in names)
    assert "tensordash" not in c_header(CONFIG, "mine").lower()


@pytest.mark.parametrize(
    ("name", "formats", "bus"),
    [
        ("core", ("FP16", "FP16"), 128),
        ("core-bf16", ("BF16", "BF16"), 128),
        ("core-fp8", ("FP8_E4M3", "FP8_E5M2"), None),
    ],
)
def test_operand_formats_and_bus(name: str, formats: tuple[str, str], bus: int | None, tmp_path: Path) -> None:
    """Header and register have the same codes for each side, and docs/core.md lists these codes."""
    config = load_any_preset(name)
    assert isinstance(config, CoreConfig)
    header = c_header(config)
    codes = {"FP16": 1, "BF16": 2, "FP8_E4M3": 3, "FP8_E5M2": 4}
    numbers = {f"FORMAT_{each}": code for each, code in codes.items()}
    numbers |= {f"FORMAT_{side}": codes[each] for side, each in zip("AB", formats, strict=True)}
    numbers |= {"AXI_BITS": config.axi_bits if bus is None else bus}
    body = "\n".join(f'  printf("%u\\n", (unsigned)TENSORDASH_{each});' for each in numbers)
    found = run_c(tmp_path, body, header).split()
    assert dict(zip(numbers, map(int, found), strict=True)) == numbers
    register = constant_values(config)["formats"]
    assert register == codes[formats[0]] | codes[formats[1]] << 8 | config.axi_bits << 16
