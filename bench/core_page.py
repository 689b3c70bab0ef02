"""Writes the tables of docs/core.md from the descriptions of descriptors and registers; `--check` writes nothing."""

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tensordash.configuration.descriptors import HEADER, OPERATIONS, Field
from tensordash.configuration.registers import REGISTERS

PAGE = Path(__file__).parents[1] / "docs" / "core.md"


def bits_of(field: Field) -> str:
    """Where a field is: word, and bits in it; of one across two words, both."""
    word, low = divmod(field.low, 32)
    high = low + field.width - 1
    if high > 31:
        return f"{word}: 31..{low}, {word + 1}: {high - 32}..0"
    return f"{word}: {low}" if field.width == 1 else f"{word}: {high}..{low}"


def field_rows(fields: tuple[Field, ...]) -> Iterator[str]:
    """A row for each field, by place; those of loops, which differ in a number, in one."""
    loops: dict[str, list[Field]] = {}
    for field in fields:
        if stem := re.fullmatch(r"(\w+)_\d", field.name):
            loops.setdefault(f"{stem[1]} {re.sub(r'loop [0-9]', 'loop k', field.doc)}", []).append(field)
    alike = {group[0].name: group for group in loops.values() if len(group) > 1}
    skipped = {field.name for group in alike.values() for field in group[1:]}
    for field in sorted(fields, key=lambda each: each.low):
        if field.name in alike:
            group = alike[field.name]
            places, doc = "; ".join(bits_of(each) for each in group), re.sub(r"loop \d", "loop k", field.doc)
            yield row([f"{field.name}` ... `{group[-1].name}", places, limits(field), doc])
        elif field.name not in skipped:
            yield row([field.name, bits_of(field), limits(field), field.doc])


def limits(field: Field) -> str:
    """What a field may be."""
    return f"{field.minimum} to {field.maximum}" if field.width < 32 else f"{field.width} bits"


def row(cells: list[str]) -> str:
    """A row of a table."""
    name, *rest = cells
    return f"| `{name}` | {' | '.join(rest)} |"


def descriptor_tables() -> Iterator[str]:
    """All operations."""
    yield "Bits are given as word: bits, in words of 32 bits. Of every descriptor:\n"
    yield "| field | bits | values | what |\n|---|---|---|---|"
    yield from field_rows(HEADER)
    shown: list[tuple[Field, ...]] = []
    for operation in OPERATIONS.values():
        unit = f"unit `{operation.unit}`" if operation.unit else "the sequencer"
        yield f"\n**`{operation.name}`** ({operation.code}, {unit}): {operation.doc}.\n"
        if operation.fields in shown:
            yield "Fields as above."
        elif operation.fields:
            shown.append(operation.fields)
            yield "| field | bits | values | what |\n|---|---|---|---|"
            yield from field_rows(operation.fields)


def register_tables() -> Iterator[str]:
    """All registers, and their bits."""
    yield "| address | register | access | what |\n|---|---|---|---|"
    for register in REGISTERS:
        bits = "; ".join(
            f"`{each.name}` ({each.low if each.width == 1 else f'{each.low + each.width - 1}..{each.low}'}): {each.doc}"
            for each in register.bits
        )
        text = register.doc + (f". {bits}" if bits else "")
        yield f"| 0x{register.offset:02x} | `{register.name}` | {register.access} | {text} |"


def with_tables(text: str) -> str:
    """The page with its tables as they should be."""
    for name, lines in (("descriptors", descriptor_tables()), ("registers", register_tables())):
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        text = before + begin + "\n".join(lines) + "\n" + end + after
    return text


def main() -> int:
    """Write the page, or say that it should be written."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the page would change")
    check = parser.parse_args().check
    text = PAGE.read_text(encoding="utf-8")
    made = with_tables(text)
    if check:
        if made != text:
            print("docs/core.md is not what bench/core_page.py makes of the descriptions", file=sys.stderr)
        return int(made != text)
    PAGE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
