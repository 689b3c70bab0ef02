"""Write the tables and the example of descriptors and registers into docs/core.md; `--check` writes nothing."""

import re
import sys
from collections.abc import Iterator

from common import DOCS, argument_parser, render, replace_between
from tensordash.configuration.descriptors import BYTES, HEADER, OPERATIONS, UNITS, Field, Operation, encode
from tensordash.configuration.registers import REGISTERS, Bits, Register, bit_mask, named

PAGE = DOCS / "core.md"
EXAMPLE = OPERATIONS["load"]
EXAMPLE_VALUES = {
    "signal": 1 << UNITS.index("layout_a"),
    "memory": 0x4000_2000,
    "address": 16,
    "count_0": 6,
    "count_1": 2,
    "stride_1": -12,
}
"""The descriptor that the page shows in hexadecimal."""

BOTH_CAUSES = bit_mask("interrupt_enable", "end") | bit_mask("interrupt_enable", "error")
ACCESSES = (
    ("write", "control", bit_mask("control", "reset"), "soft reset"),
    ("read", "status", "", "until `resetting` is 0"),
    ("write", "queue_base", "ring", "the ring's address, low half; the high half to `queue_base_high`"),
    ("write", "queue_size", "log2", "2^log2 >= n places, which hold the descriptors"),
    ("write", "interrupt_enable", BOTH_CAUSES, "both causes raise `irq`"),
    ("write", "control", bit_mask("control", "enable"), "fetch descriptors"),
    ("write", "tail", "n", "start"),
    ("read", "cause", "c", "when `irq` is 1"),
    ("write", "cause", "c", "clears `irq`"),
    ("read", "status", "", "if `failed` is 0, the program is done"),
    ("read", "error", "", "if `failed` is 1; `error_index` has the descriptor"),
    ("write", "control", bit_mask("control", "reset"), "after an error; repeat all but `queue_base` and `queue_size`"),
)
"""The accesses that run one program, and recover from an error: kind, register, value and meaning."""


def bits_of(field: Field) -> str:
    """Return a field's word and its bits in the word; both words, the lower first, if the field lies in two.

    >>> bits_of(Field(name="add", low=14, width=1, doc="")), bits_of(Field(name="count_2", low=408, width=12, doc=""))
    ('`0[14]`', '`12[31:24]`+`13[3:0]`')
    """
    word, low = divmod(field.low, 32)
    high = low + field.width - 1
    if high > 31:
        return f"`{word}[31:{low}]`+`{word + 1}[{high - 32}:0]`"
    return f"`{word}[{low}]`" if field.width == 1 else f"`{word}[{high}:{low}]`"


def places(bits: list[str]) -> str:
    """Join the places of fields; the same bits of more than two consecutive words share a place.

    >>> places(["`5[15:0]`", "`6[15:0]`", "`7[15:0]`"]), places(["`11[15:0]`", "`11[31:16]`"])
    ('`5[15:0]` to `7[15:0]`', '`11[15:0]`, `11[31:16]`')
    """
    word, _, ones = bits[0].strip("`").partition("[")
    if len(bits) > 2 and bits == [f"`{int(word) + k}[{ones}`" for k in range(len(bits))]:
        return f"{bits[0]} to {bits[-1]}"
    return ", ".join(bits)


def limits(field: Field, doc: str) -> str:
    """Return the values that a field may have.

    It returns nothing if its meaning has them, or if it is unsigned and every pattern of its bits is allowed.
    """
    if field.minimum < 0:
        return "signed"
    if field.greatest:
        limit = f"{field.minimum} to {field.greatest}"
        return "" if limit in doc else limit
    return "not 0" if field.minimum else ""


def rows(fields: tuple[Field, ...]) -> Iterator[tuple[str, str, str]]:
    """Yield name, bits with values, and meaning of fields in bit order.

    Fields that differ only in the loop share a row, and both halves of an address.
    """
    groups: dict[str, list[Field]] = {}
    for field in sorted(fields, key=lambda each: each.low):
        loop = re.fullmatch(r"(\w+)_\d", field.name)
        name = field.name.removesuffix("_high")
        groups.setdefault(f"{loop[1]} {_without_loop(field.doc)}" if loop else name, []).append(field)
    for members in groups.values():
        first, last = members[0], members[-1]
        shown = [first.name] if len(members) == 1 else [first.name, last.name]
        name = (" ... " if len(members) > 2 else ", ").join(f"`{each}`" for each in shown)
        bits = places([bits_of(each) for each in members])
        doc = _without_loop(first.doc) if len(members) > 1 else first.doc
        yield name, ", ".join(filter(None, (bits, limits(first, doc)))), both_halves(doc) if len(members) == 2 else doc


def shared(operation: Operation) -> str:
    """Return which of the operation's fields the page has before. They all belong to the same operation."""
    fields = tuple(field for field in operation.fields if _first_with(field) != operation.name)
    if not fields:
        return ""
    (owner,) = {_first_with(field) for field in fields}
    if fields == OPERATIONS[owner].fields:
        return f" It has the fields of `{owner}`."
    return f" {', '.join(name for name, _, _ in rows(fields))} are as in `{owner}`."


def own(operation: Operation) -> tuple[Field, ...]:
    """Return the operation's fields that no earlier operation has at the same place with the same meaning."""
    return tuple(field for field in operation.fields if _first_with(field) == operation.name)


def _first_with(field: Field) -> str:
    return next(name for name, operation in OPERATIONS.items() if field in operation.fields)


def _without_loop(doc: str) -> str:
    return re.sub(r"loop \d", "loop k", doc)


def both_halves(doc: str) -> str:
    """Return the meaning of an address from the meaning of its low half."""
    return doc.replace("low half", "low and high half")


def register_rows(registers: tuple[Register, ...]) -> Iterator[tuple[str, str]]:
    """Yield address, name and access of registers, and their meaning. Both halves of a number share a row."""
    names = {register.name for register in registers}
    for register in registers:
        low_name = register.name.removesuffix("_high")
        if low_name != register.name and low_name in names:
            continue
        halves = [each for each in registers if each.name in (register.name, f"{register.name}_high")]
        places = ", ".join(f"0x{each.offset:02x} `{each.name}`" for each in halves)
        doc = register.doc.removeprefix("copied counter: ")
        parts = "; ".join(
            f"`{each.name}{_bit_range(each)}`" + f": {each.doc}" * (each.doc != each.name) for each in register.bits
        )
        access = "" if register.access == "ro" else f" ({register.access})"
        yield places + access, ". ".join(filter(None, (both_halves(doc), parts)))


def _bit_range(bits: Bits) -> str:
    return f"[{bits.low}]" if bits.width == 1 else f"[{bits.low + bits.width - 1}:{bits.low}]"


def access_rows() -> Iterator[tuple[str, str, str]]:
    """Yield kind and register, value, and meaning of each access that runs a program."""
    for kind, register, value, doc in ACCESSES:
        yield f"{kind} 0x{named(register).offset:02x} `{register}`", str(value), doc


def example_rows() -> Iterator[tuple[str, str, str, str]]:
    """Yield offset, bytes in memory and value of the example's words that are not zero, and their fields."""
    bits = encode(EXAMPLE, EXAMPLE_VALUES)
    encoded = bits.to_bytes(BYTES, "little")
    for offset in range(0, BYTES, 4):
        word = encoded[offset : offset + 4]
        fields = [each for each in (*HEADER, *EXAMPLE.fields) if each.low // 32 == offset // 4 and each.get(bits)]
        if fields:
            values = ", ".join(f"`{each.name}` = {_number(each.get(bits))}" for each in fields)
            yield f"0x{offset:02x}", word.hex(" "), f"0x{int.from_bytes(word, 'little'):08x}", values


def _number(value: int) -> str:
    return f"0x{value:x}" if value > 0xFFFF else str(value)


def with_tables(text: str) -> str:
    """Return the page with current tables."""
    for name, values in (
        ("descriptors", {"header": HEADER, "operations": OPERATIONS, "rows": rows, "shared": shared, "own": own}),
        ("example", {"rows": example_rows(), "values": EXAMPLE_VALUES}),
        ("registers", {"rows": register_rows(REGISTERS)}),
        ("accesses", {"rows": access_rows()}),
    ):
        tables = render(f"core_{name}", **values)
        text = replace_between(text, f"<!-- {name} -->", f"<!-- end of {name} -->", tables)
    return text


def main() -> int:
    """Write the page, or check that it is up to date."""
    parser = argument_parser(__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the page would change")
    check = parser.parse_args().check
    text = PAGE.read_text(encoding="utf-8")
    updated = with_tables(text)
    if check:
        if updated != text:
            print("docs/core.md is out of date: run bench/core_page.py", file=sys.stderr)
        return int(updated != text)
    PAGE.write_text(updated, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
