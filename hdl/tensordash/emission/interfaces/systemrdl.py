"""SystemRDL 2.0 of a core: registers and descriptors, for PeakRDL and other tools."""

from collections.abc import Iterator

from ...configuration.core_config import CoreConfig
from ...configuration.descriptors import BITS, BYTES, HEADER, OPERATIONS, Operation
from ...configuration.register_map import MapRegister, register_map
from ...configuration.registers import ADDRESS_BITS, WORD_BITS
from ..head import check_prefix
from ..keywords import KEYWORDS

__all__ = ["descriptor_rdl", "rdl_name", "rdl_register", "register_rdl"]

HEAD = """\
// Registers of {prefix}_core, from configuration {digest}: SystemRDL 2.0 of the table in docs/core.md.
//
//   peakrdl html {prefix}.rdl -o html
//   peakrdl c-header {prefix}.rdl -o registers.h
//   peakrdl uvm {prefix}.rdl -o registers.sv

"""

DESCRIPTOR_HEAD = """\
// Descriptors of {prefix}_core: SystemRDL 2.0 of the tables in docs/core.md.
//
// A descriptor is {bytes} bytes of memory, not a register. This map has a register of {bits} bits for each operation.
// Bit n of the register is bit n of the descriptor. The register's address is {bytes} times the operation's code.
// The value after reset has each field at its smallest allowed value, signed fields at 0.
//
//   peakrdl html {prefix}_descriptors.rdl -o html_descriptors

"""

ACCESS = {
    "constant": "sw = r; hw = na;",
    "ro": "sw = r; hw = w;",
    "rw": "sw = rw; hw = r;",
    "w1c": "sw = rw; onwrite = woclr; hw = w; hwset;",
    "wo": "sw = w; hw = r; singlepulse;",
}
"""Maps the access of a field to its properties."""

RDL_KEYWORDS = """
abstract accesstype addressingtype addrmap alias all bit boolean bothedge compact component componentwidth constraint
default encode enum external false field fullalign hw inside internal level longint mem na negedge nonsticky number
onreadtype onwritetype posedge property r rclr ref reg regalign regfile rset ruser rw rw1 signal string struct sw this
true type unsigned w w1 wclr woclr woset wot wr wset wuser wzc wzs wzt
"""
TAKEN = KEYWORDS | {*RDL_KEYWORDS.split(), "reset"}
"""Names reserved in SystemRDL or in a UVM model of the registers: keywords, and a method of `uvm_reg`."""


def rdl_name(name: str) -> str:
    """Return the identifier of a register, field or value: its name, with an underscore after a reserved name.

    >>> rdl_name("tail"), rdl_name("end")
    ('tail', 'end_')
    """
    return f"{name}_" if name in TAKEN else name


def register_rdl(config: CoreConfig, prefix: str = "tensordash") -> str:
    """Return the SystemRDL of a core's registers.

    Parameters
    ----------
    config : CoreConfig
        The core.
    prefix : str
        Prefix of names: the address map is ``PREFIX_registers``.

    Returns
    -------
    str
        One address map, with every field's access, reset value, description and named values.

    Source: Accellera, "SystemRDL 2.0 Register Description Language", January 2018.
    """
    registers = register_map(config)
    lines = [
        *_enumerations(registers),
        f"addrmap {check_prefix(prefix)}_registers {{",
        f"  name = {_text(f'{prefix}_core')};",
        f"  desc = {_text(f'Registers at an AXI4-Lite port with addresses of {ADDRESS_BITS} bits.')};",
        "  addressing = regalign;",
        "  littleendian;",
        f"  default regwidth = {WORD_BITS};",
        f"  default accesswidth = {WORD_BITS};",
    ]
    for register in registers:
        lines += rdl_register(register)
    return HEAD.format(prefix=prefix, digest=config.digest) + "\n".join([*lines, "};"]) + "\n"


def _text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _enumeration(register: MapRegister) -> str:
    """Return the name of the enumeration of a field's values. Fields with the same values share one."""
    return "error_code" if register.name == "error" else "operand_format"


def _enumerations(registers: tuple[MapRegister, ...]) -> Iterator[str]:
    types = {_enumeration(register): each.codes for register in registers for each in register.fields if each.codes}
    for name, codes in types.items():
        yield f"enum {name} {{"
        yield from (f"  {rdl_name(label)} = {code};" for label, code in codes.items())
        yield "};\n"


def rdl_register(register: MapRegister) -> Iterator[str]:
    """Yield the lines of a register."""
    yield f"\n  reg {{\n    name = {_text(register.name)};\n    desc = {_text(register.doc)};"
    for each in register.fields:
        properties = [f"name = {_text(each.name)};", f"desc = {_text(each.doc)};", ACCESS[each.access]]
        if each.codes:
            properties.append(f"encode = {_enumeration(register)};")
        body = "".join(f"      {each_property}\n" for each_property in properties)
        reset = f"{each.width}'h{each.reset:x}"
        yield f"    field {{\n{body}    }} {rdl_name(each.name)}[{each.high}:{each.low}] = {reset};"
    yield f"  }} {rdl_name(register.name)} @ 0x{register.offset:02x};"


def descriptor_rdl(prefix: str = "tensordash") -> str:
    """Return the SystemRDL of all descriptors' layouts.

    Parameters
    ----------
    prefix : str
        Prefix of names: the address map is ``PREFIX_descriptors``.

    Returns
    -------
    str
        One address map with a register of 512 bits for each operation.
    """
    lines = [
        f"addrmap {check_prefix(prefix)}_descriptors {{",
        f"  name = {_text(f'descriptors of {prefix}_core')};",
        "  littleendian;",
        f"  default regwidth = {BITS};",
        f"  default accesswidth = {WORD_BITS};",
        "  default sw = rw;",
        "  default hw = r;",
    ]
    for operation in OPERATIONS.values():
        lines += _descriptor(operation)
    return DESCRIPTOR_HEAD.format(prefix=prefix, bytes=BYTES, bits=BITS) + "\n".join([*lines, "};"]) + "\n"


def _descriptor(operation: Operation) -> Iterator[str]:
    yield f"\n  reg {{\n    name = {_text(operation.name)};\n    desc = {_text(operation.doc)};"
    for field in sorted((*HEADER, *operation.fields), key=lambda each: each.low):
        reset = operation.code if field.name == "operation" else max(field.minimum, 0)
        desc = _text(f"{field.minimum} to {field.maximum}: {field.doc}")
        place = f"[{field.low + field.width - 1}:{field.low}] = {field.width}'h{reset:x}"
        yield f"    field {{ name = {_text(field.name)}; desc = {desc}; }} {rdl_name(field.name)}{place};"
    yield f"  }} {rdl_name(operation.name)} @ 0x{BYTES * operation.code:x};"
