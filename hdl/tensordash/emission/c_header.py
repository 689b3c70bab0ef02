"""C for a core: a header with its registers, descriptors and parameters, and a driver that uses the header."""

import re
from collections.abc import Iterable, Iterator
from importlib import resources

from ..configuration.core_config import CoreConfig
from ..configuration.descriptors import BYTES, HEADER, OPERATIONS, UNITS, Field
from ..configuration.registers import COUNTERS, ERRORS, FORMAT_CODES, IDENTITY, REGISTERS
from ..core.descriptor_check import allowed_bits
from .head import check_prefix

__all__ = ["c_header", "core_parameters", "device_tree_files", "driver_files"]

HEAD = """\
/* Registers and descriptors of {prefix}_core, from configuration {digest}: the tables of docs/core.md as C99.
 *
 *   uint32_t descriptor[{macro}_DESCRIPTOR_WORDS] = {{0}};
 *   {macro}_SET(descriptor, HEADER_OPERATION, {macro}_OPERATION_LOAD);
 *   {macro}_SET(descriptor, LOAD_COUNT_0, 4);
 *
 * Words of a descriptor are little-endian in memory.
 */
#ifndef {macro}_H
#define {macro}_H

#include <stdint.h>
"""

ACCESS = """
/* Access a field of a descriptor by its name below without {macro}_ and _BIT. Values too long lose their high bits. */
#define {macro}_SET(descriptor, field, value) \\
  {prefix}_set((descriptor), {macro}_##field##_BIT, {macro}_##field##_WIDTH, (uint32_t)(value))
#define {macro}_GET(descriptor, field) \\
  {prefix}_get((descriptor), {macro}_##field##_BIT, {macro}_##field##_WIDTH)

/* Bits of a descriptor, at most 32, which may span two words. */
static inline uint32_t {prefix}_get(const uint32_t *descriptor, unsigned bit, unsigned width) {{
  uint64_t words = descriptor[bit / 32];
  if (bit % 32 + width > 32) words |= (uint64_t)descriptor[bit / 32 + 1] << 32;
  return (uint32_t)(words >> bit % 32 & ((UINT64_C(1) << width) - 1));
}}

static inline void {prefix}_set(uint32_t *descriptor, unsigned bit, unsigned width, uint32_t value) {{
  uint64_t mask = ((UINT64_C(1) << width) - 1) << bit % 32;
  uint64_t bits = (uint64_t)value << bit % 32 & mask;
  descriptor[bit / 32] = (uint32_t)((descriptor[bit / 32] & ~mask) | bits);
  if (bit % 32 + width > 32)
    descriptor[bit / 32 + 1] = (uint32_t)((descriptor[bit / 32 + 1] & ~(mask >> 32)) | bits >> 32);
}}

#endif
"""


def c_header(config: CoreConfig, prefix: str = "tensordash") -> str:
    """Return the header: registers, errors, units, operations, fields of descriptors, and the core's parameters.

    Parameters
    ----------
    config : CoreConfig
        The core.
    prefix : str
        Prefix of names; in capitals for macros.

    Returns
    -------
    str
        C99, of macros and two inline functions.

    Source: docs/core.md, whose tables have the same source.
    """
    names = {"prefix": check_prefix(prefix), "macro": prefix.upper(), "digest": config.digest}
    lines = [
        *_shape(config),
        *_registers(),
        *_numbers("Codes of errors.", "ERROR_CODE", ERRORS),
        *_numbers("Codes of operand formats, in the register formats.", "FORMAT", FORMAT_CODES),
        *_numbers(
            "Units: the bits of wait, signal, output_wait and output_signal.",
            "UNIT",
            {unit: f"(1u << {place})" for place, unit in enumerate(UNITS)},
        ),
        *_numbers("Operations.", "OPERATION", {name: each.code for name, each in OPERATIONS.items()}),
        *_descriptors(),
        *_lists(config),
    ]
    text = re.sub(r"(?<=[ ])@(?=[A-Z])", f"{names['macro']}_", "\n".join(lines))
    return HEAD.format(**names) + text + "\n" + ACCESS.format(**names)


def driver_files(prefix: str = "tensordash") -> dict[str, str]:
    """Return the driver and its Linux part: ``PREFIX_driver.h``, ``PREFIX_linux.h`` and their ``.c`` files.

    They include the header ``PREFIX.h``.

    Parameters
    ----------
    prefix : str
        Prefix of names; in capitals for macros. With two prefixes, one program can have drivers for two cores.
    """
    return {
        f"{check_prefix(prefix)}_{name}": text.replace("tensordash", prefix).replace("TENSORDASH", prefix.upper())
        for name, text in _driver_texts("driver.h", "driver.c", "linux.h", "linux.c")
    }


def device_tree_files(prefix: str = "tensordash") -> dict[str, str]:
    """Return the device-tree binding ``PREFIX_binding.yaml`` and the example ``PREFIX_node.dtsi``."""
    return {f"{prefix}_{name}": text for name, text in _driver_texts("binding.yaml", "node.dtsi")}


def _driver_texts(*names: str) -> Iterator[tuple[str, str]]:
    folder = resources.files(__package__).joinpath("driver")
    for name in names:
        yield name, folder.joinpath(name).read_text(encoding="utf-8")


def core_parameters(config: CoreConfig) -> dict[str, int]:
    """Return the numeric parameters of a core, by name."""
    tile = config.tile
    return {
        "LANES": tile.lanes,
        "ROWS": tile.rows,
        "COLUMNS": tile.columns,
        "DEPTH": tile.window_depth,
        "VALUE_BITS": config.value_bits,
        "GROUP_BYTES": config.group_bytes,
        "GROUPS": config.groups,
        "REGIONS": config.regions,
        "STREAM_WORDS_A": config.stream_words("a"),
        "STREAM_WORDS_B": config.stream_words("b"),
        "PARTIAL_SUMS": config.partial_sums,
        "WINDOW": config.window,
        "ADDRESS_BITS": config.address_bits,
        "AXI_BITS": config.axi_bits,
        "AXI_PROT": config.axi_prot,
        "AXI_CACHE": config.axi_cache,
    }


def _shape(config: CoreConfig) -> Iterator[str]:
    tile = config.tile
    yield "\n/* Parameters of this core. */"
    yield from (f"#define @{name} {number}" for name, number in core_parameters(config).items())
    for side, each in (("A", tile.a_format), ("B", tile.b_format)):
        yield f"#define @FORMAT_{side} @FORMAT_{each.name.upper()}"
    yield f"#define @DIGEST UINT64_C(0x{config.digest})"


def _registers() -> Iterator[str]:
    yield "\n/* Registers: addresses in bytes, and their bits. ro: read only, wo: write only, rw: both;"
    yield " * w1c: read, and writing a one clears its bit. */"
    yield f"#define @IDENTITY_VALUE 0x{IDENTITY:08x}u"
    for register in REGISTERS:
        name = f"@REGISTER_{register.name.upper()}"
        yield f"#define {name} 0x{register.offset:02x}u /* {register.access}: {register.doc} */"
        for each in register.bits:
            mask = ((1 << each.width) - 1) << each.low
            yield f"#define {name}_{each.name.upper()}_SHIFT {each.low}"
            yield f"#define {name}_{each.name.upper()}_MASK 0x{mask:08x}u /* {each.doc} */"


def _numbers(title: str, kind: str, numbers: dict) -> Iterator[str]:
    yield f"\n/* {title} */"
    yield from (f"#define @{kind}_{name.upper()} {number}" for name, number in numbers.items())


def _descriptors() -> Iterator[str]:
    yield "\n/* Descriptors: each field's lowest bit, counted from bit 0 of word 0, and its number of bits. */"
    yield f"#define @DESCRIPTOR_BYTES {BYTES}"
    yield f"#define @DESCRIPTOR_WORDS {BYTES // 4}"
    yield "\n/* Fields of every descriptor. */"
    yield from _fields("HEADER", HEADER)
    for name, operation in OPERATIONS.items():
        if operation.fields:
            yield f"\n/* {name}: {operation.doc}. */"
            yield from _fields(name.upper(), operation.fields)


def _fields(kind: str, fields: tuple[Field, ...]) -> Iterator[str]:
    for field in fields:
        name = f"@{kind}_{field.name.upper()}"
        limits = f"{field.minimum} to {field.maximum}: " if field.width < 32 else ""
        yield f"#define {name}_BIT {field.low} /* {limits}{field.doc} */"
        yield f"#define {name}_WIDTH {field.width}"


def _lists(config: CoreConfig) -> Iterator[str]:
    """Yield lists of names for tables in C: macros that apply a macro X to each row."""
    yield "\n/* Lists for tables: each calls X with a row. Errors and counters: X(NAME, name). */"
    yield from _list("ERRORS", (f"{name.upper()}, {name}" for name in ERRORS))
    yield from _list("COUNTERS", (f"{name.upper()}, {name}" for name, _ in COUNTERS))
    yield "\n/* Operations: X(NAME, name, 16 words of the bits that may be set). */"
    rows = []
    for name, operation in OPERATIONS.items():
        bits = allowed_bits(operation, config)
        words = ", ".join(f"0x{bits >> 32 * k & 0xFFFFFFFF:x}u" for k in range(BYTES // 4))
        rows.append(f"{name.upper()}, {name}, {words}")
    yield from _list("OPERATIONS", rows)
    yield "\n/* Fields that allow fewer values than their bits: X(OPERATION, FIELD, name, least, greatest). */"
    yield from _list(
        "LIMITED_FIELDS",
        (
            f"{name.upper()}, {field.name.upper()}, {field.name}, {field.least}, "
            f"{field.maximum if field.greatest is None else field.greatest}"
            for name, operation in OPERATIONS.items()
            for field in sorted(operation.fields, key=lambda each: each.low)
            if field.least is not None
        ),
    )


def _list(name: str, rows: Iterable[str]) -> Iterator[str]:
    lines = [f"#define @{name}(X)", *(f"  X({row})" for row in rows)]
    yield " \\\n".join(lines)
