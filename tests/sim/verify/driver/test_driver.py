"""Test the C driver on the Verilated core, with faults, under ASan and UBSan; its coverage, size and compilers."""

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from shutil import which

import numpy as np
import pytest

from tensordash import TileConfig
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import OPERATIONS, Field, encode
from tensordash.configuration.preset import load_any_preset, preset_names
from tensordash.emission.c_header import c_header, driver_files
from tensordash.extras import is_installed
from tensordash_sim.verify.core_example import example_program
from tensordash_sim.verify.core_library import build_library, verilog_of

from ....replaced_text import replace_in_file
from ..conftest import core_preset

CHECKS = Path(__file__).with_name("checks.c")
HOST = Path(__file__).parents[4] / "examples/firmware/host"
RING = 1 << 16
SIZE = 1 << 17
C99 = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g")
MAX_RV32_BYTES = 6 * 1024

CHANGES = [
    ("(value < limited_fields[k].least) ||", ""),
    (">= limit) {\n      return TENSORDASH_TIMEOUT;\n    }\n  }", ">= limit) {\n      break;\n    }\n  }"),
    ("if (reached == last) {", "if (false) {"),
    ("(count > (device->places - pending))", "(count > device->places)"),
    ("(void)tensordash_acknowledge(device);", ""),
    ("(device->tail + k) & (device->places - 1u)", "(k) & (device->places - 1u)"),
    ("TENSORDASH_REGISTER_DIGEST_HIGH) !=", "TENSORDASH_REGISTER_DIGEST_HIGH) =="),
    ("write_register(device, offset + 4u, (uint32_t)(value >> 32u))", "(void)offset"),
    (
        "!= 0u) {\n    return TENSORDASH_BUSY;\n  }\n  write_address",
        "> 99u) {\n    return TENSORDASH_BUSY;\n  }\n  write_address",
    ),
    ("fault->index = read_register(device, TENSORDASH_REGISTER_ERROR_INDEX);", "fault->index = 2u;"),
    ("nvfp4 ? (TENSORDASH_GROUP_BYTES / 2u)", "nvfp4 ? TENSORDASH_GROUP_BYTES"),
    ('{TENSORDASH_MULTIPLY_X_2_BIT, "x_2"}', '{TENSORDASH_MULTIPLY_X_1_BIT, "x_2"}'),
    ("TENSORDASH_GET(descriptor, LOAD_TABLE) % 4u", "TENSORDASH_GET(descriptor, LOAD_TABLE) % 2u"),
    ("tensordash_publish(device, program,", "if (false) tensordash_publish(device, program,"),
]
"""Mistakes in the driver that the checks must find."""


def wrong_descriptors(config: CoreConfig) -> Iterator[tuple[int, str, str, str, int]]:
    """Yield wrong descriptors: bits, names of the error, operation and field, and the reserved bit."""
    moves = {name: OPERATIONS[name] for name in ("load", "store")}
    for code in (0, 8, 15):
        yield code, "operation", "", "operation", 0
    for name, operation in OPERATIONS.items():
        right = encode(operation, {})
        free = [bit for bit in range(512) if not operation.mask >> bit & 1]
        yield right | 1 << free[0] | 1 << free[-1], "reserved", name, "", free[0]
        for field in operation.fields:
            for value in _outside(field):
                yield right & ~field.mask | value << field.low, "field", name, field.name, 0
    high = 1 << config.address_bits - 32
    for name, operation in moves.items():
        packed = {"compressed": 1, "segment": 1}
        unfit = [({"memory": config.group_bytes // 2}, "memory"), ({"memory_high": high}, "memory_high")]
        unfit += [({**packed, f"count_{k}": 2}, f"count_{k}") for k in (1, 2, 3)]
        unfit += [({**packed, "memory": 8}, "memory"), ({**packed, "table": 2}, "table")]
        unfit += [({**packed, "table_high": high}, "table_high"), ({"compressed": 1}, "segment")]
        for values, unfit_name in unfit:
            yield encode(operation, values), "field", name, unfit_name, 0
        beyond = {"memory": SIZE}
        yield encode(operation, beyond), "read" if name == "load" else "write", name, "memory", 0
        yield encode(operation, {"address": config.groups - 1, "count_0": 2}), "range", name, "address", 0
        yield encode(operation, {"wait": 1}), "tokens", name, "wait", 0
    if config.nvfp4:
        half = config.group_bytes // 2
        unfit = [({"memory": half // 2}, "memory"), ({"memory": half, "memory_high": high}, "memory_high")]
        for values, unfit_name in (*unfit, (packed, "nvfp4")):
            yield encode(moves["load"], {"nvfp4": 1, **values}), "field", "load", unfit_name, 0
    if config.skip_masked:
        unaligned = {"stride": 2, **dict.fromkeys(("x", "x_0", "x_1", "x_2", "x_3"), config.tile.lanes // 2)}
        for unfit_name, value in unaligned.items():
            skipping = {"skip_masked": 1, "mask": 1, unfit_name: value}
            yield encode(OPERATIONS["multiply"], skipping), "field", "multiply", unfit_name, 0
    yield encode(OPERATIONS["record"], {"memory": 16}), "field", "record", "memory", 0
    yield encode(moves["load"], {"compressed": 1, "segment": 1, "table": 64}), "compressed", "load", "table", 0
    yield encode(OPERATIONS["layout_a"], {"address": config.groups}), "address", "layout_a", "address", 0


def _outside(field: Field) -> Iterator[int]:
    if field.least is not None:
        yield field.least - 1
    if field.name == "stride":
        yield 5


def initializer(bits: int) -> str:
    return "{" + ", ".join(f"0x{bits >> 32 * k & 0xFFFFFFFF:x}" for k in range(16)) + "}"


def cases_header(config: CoreConfig) -> str:
    """Return the header of checks.c: a program, memory before and after the run, and wrong descriptors."""
    example = example_program(config)
    assert len(example.before) < RING
    after = np.frombuffer(example.after, np.uint8)
    faults = list(wrong_descriptors(config))
    rows = [f'  {{{initializer(bits)}, "{e}", "{o}", "{f}", {bit}}},' for bits, e, o, f, bit in faults]
    records = [initializer(encode(OPERATIONS["record"], {"memory_high": high})) for high in (0, 1)]
    compressed = initializer(encode(OPERATIONS["load"], {"compressed": 1, "segment": 1}))
    lines = [
        f"#define COUNT {len(example.program.descriptors)}",
        f"#define RING {RING}",
        f"#define SIZE {SIZE}",
        f"#define FIELD_FAULT {next(k for k, each in enumerate(faults) if each[1] == 'field')}",
        f"static const uint32_t RECORD[16] = {records[0]}, HIGH_RECORD[16] = {records[1]};",
        f"static const uint32_t COMPRESSED[16] = {compressed};",
        f"static const uint32_t MULTIPLY[16] = {initializer(encode(OPERATIONS['multiply'], {}))};",
        "typedef struct { uint32_t words[16]; const char *error, *operation, *field; uint32_t bit; } wrong_descriptor;",
        "static const wrong_descriptor FAULTS[] = {",
        *rows,
        "};",
        f"static const uint8_t BEFORE[] = {{{','.join(map(str, example.before))}}};",
        f"static const uint8_t AFTER[] = {{{','.join(map(str, after.tolist()))}}};",
    ]
    return "\n".join(lines) + "\n"


def full_core() -> CoreConfig:
    """Return `core` with all errors that a descriptor can have."""
    return replace(core_preset("core"), nvfp4=True, skip_masked=True)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Verilated core as a library."""
    return build_library(verilog_of(full_core()), tmp_path_factory.mktemp("core"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write the driver of the core, the checks and their cases into a folder."""
    config = full_core()
    (tmp_path / "tensordash.h").write_text(c_header(config))
    (tmp_path / "cases.h").write_text(cases_header(config))
    (tmp_path / "checks.c").write_bytes(CHECKS.read_bytes())
    for name, text in driver_files().items():
        (tmp_path / name).write_text(text)
    return tmp_path


def compile_and_run(folder: Path, library: Path, *options: str) -> subprocess.CompletedProcess[str]:
    sources = ["checks.c", "tensordash_driver.c"]
    command = ["gcc", *C99, *options, f"-I{HOST}", "-o", "checks", *sources, str(library)]
    subprocess.run(command, cwd=folder, check=True)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(library.parent)}
    return subprocess.run(["./checks"], cwd=folder, env=environment, capture_output=True, text=True, timeout=120)


def test_driver_runs_on_the_core_under_sanitizers(folder: Path, library: Path) -> None:
    ran = compile_and_run(folder, library, *SANITIZERS)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "PASS" in ran.stdout


def test_checks_cover_every_path_of_the_driver(folder: Path, library: Path) -> None:
    """Each line runs, and each part of each condition is both true and false. All error paths are taken."""
    assert compile_and_run(folder, library, "--coverage").returncode == 0
    command = ["gcov", "--json-format", "--branch-probabilities", "checks-tensordash_driver.gcda"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    (report,) = folder.glob("*.gcov.json.gz")
    files = json.loads(gzip.decompress(report.read_bytes()))["files"]
    lines = next(each["lines"] for each in files if each["file"] == "tensordash_driver.c")
    assert len(lines) > 100
    assert not [each["line_number"] for each in lines if not each["count"]]
    branches = [(each["line_number"], branch["count"]) for each in lines for branch in each["branches"]]
    assert len(branches) > 100
    assert not [number for number, count in branches if not count]


@pytest.mark.parametrize(("right", "wrong"), CHANGES)
def test_broken_drivers_fail_the_checks(right: str, wrong: str, folder: Path, library: Path) -> None:
    replace_in_file(folder / "tensordash_driver.c", right, wrong)
    assert compile_and_run(folder, library, "-Wno-error").returncode != 0


@pytest.mark.parametrize("name", preset_names("core"))
def test_every_core_has_a_driver_that_compiles(name: str, tmp_path: Path) -> None:
    """Cores include the narrowest and the widest addresses, and another prefix."""
    configs: list[TileConfig | CoreConfig] = [core_preset(name)]
    if name == "core":
        configs += [load_any_preset("core", [f"core.address_bits={bits}"]) for bits in (32, 64)]
    for config in configs:
        assert isinstance(config, CoreConfig)
        texts = {"mine.h": c_header(config, "mine"), **driver_files("mine")}
        assert "tensordash" not in "".join(texts.values()).lower()
        for file, text in texts.items():
            (tmp_path / file).write_text(text)
        subprocess.run(["gcc", *C99, "-ffreestanding", "-c", "mine_driver.c"], cwd=tmp_path, check=True)
        subprocess.run(
            ["g++", "-Wall", "-Werror", "-fsyntax-only", "-include", "mine_driver.h", "-xc++", "/dev/null"],
            cwd=tmp_path,
            check=True,
        )


def rv32_compiler(extensions: str) -> list[str]:
    if which("riscv64-unknown-elf-gcc"):
        return ["riscv64-unknown-elf-gcc", f"-march=rv32i{extensions}", "-mabi=ilp32"]
    if is_installed("ziglang") and extensions:  # Without extensions Clang's code exceeds 6 KiB.
        target = ["-target", "riscv32-freestanding-none", f"-mcpu=generic_rv32{''.join(f'+{e}' for e in extensions)}"]
        return [sys.executable, "-m", "ziglang", "cc", *target]
    pytest.skip(f"no compiler for RV32I{extensions}: neither riscv64-unknown-elf-gcc nor the package ziglang")


@pytest.mark.parametrize("extensions", ["", "mc"])
def test_size_on_rv32(extensions: str, folder: Path) -> None:
    options = ["-Os", "-std=c99", "-ffreestanding", "-c", "tensordash_driver.c", "-o", "driver.o"]
    subprocess.run([*rv32_compiler(extensions), *options], cwd=folder, check=True)
    size = loaded_bytes((folder / "driver.o").read_bytes())
    print(f"RV32I{extensions.upper()}: {size} bytes")
    assert 2000 < size <= MAX_RV32_BYTES


def loaded_bytes(elf: bytes) -> int:
    """Return the loaded bytes of a 32-bit object: sections with the flag ALLOC."""
    place, size, count = (int.from_bytes(elf[at : at + n], "little") for at, n in ((32, 4), (46, 2), (48, 2)))
    sections = [elf[place + k * size :][:size] for k in range(count)]
    words = [np.frombuffer(each, "<u4") for each in sections]
    return sum(int(each[5]) for each in words if each[2] & 2)
