"""Write the tables of docs/core.md from the descriptions of descriptors and registers; `--check` writes nothing."""

import re
import sys
from collections.abc import Iterator

from common import DOCS, argument_parser, render, replace_between
from tensordash.configuration.descriptors import HEADER, OPERATIONS, Field
from tensordash.configuration.registers import REGISTERS

PAGE = DOCS / "core.md"


def bits_of(field: Field) -> str:
    """Return a field's word and its bits in the word; both words if the field lies in two."""
    word, low = divmod(field.low, 32)
    high = low + field.width - 1
    if high > 31:
        return f"{word}: 31..{low}, {word + 1}: {high - 32}..0"
    return f"{word}: {low}" if field.width == 1 else f"{word}: {high}..{low}"


def places(bits: list[str]) -> str:
    """Join the places of fields; the same bits of consecutive words share a place.

    >>> places(["5: 15..0", "6: 15..0", "7: 15..0"]), places(["11: 15..0", "11: 31..16"])
    ('5 to 7: 15..0', '11: 15..0; 11: 31..16')
    """
    first, last = bits[0].partition(": "), bits[-1].partition(": ")
    if len(bits) > 1 and bits == [f"{int(first[0]) + k}: {first[2]}" for k in range(len(bits))]:
        return f"{first[0]} to {last[0]}: {first[2]}"
    return "; ".join(bits)


def limits(field: Field) -> str:
    """Return the values that a field may have; nothing if it is unsigned and every pattern of its bits is allowed."""
    if field.minimum < 0:
        return "signed"
    most = field.greatest or field.maximum
    return "" if (field.minimum, most) == (0, (1 << field.width) - 1) else f"{field.minimum} to {most}"


def rows(fields: tuple[Field, ...]) -> Iterator[tuple[str, str, str, str]]:
    """Yield name, bits, values and meaning of fields in bit order. Fields that differ only in the loop share a row."""
    groups: dict[str, list[Field]] = {}
    for field in sorted(fields, key=lambda each: each.low):
        loop = re.fullmatch(r"(\w+)_\d", field.name)
        groups.setdefault(f"{loop[1]} {_without_loop(field.doc)}" if loop else field.name, []).append(field)
    for first, *others in groups.values():
        name, doc = (
            (f"{first.name}` ... `{others[-1].name}", _without_loop(first.doc)) if others else (first.name, first.doc)
        )
        yield name, places([bits_of(field) for field in (first, *others)]), limits(first), doc


def _without_loop(doc: str) -> str:
    return re.sub(r"loop \d", "loop k", doc)


def with_tables(text: str) -> str:
    """Return the page with current tables."""
    for name, values in (
        ("descriptors", {"header": HEADER, "operations": OPERATIONS, "rows": rows}),
        ("registers", {"registers": REGISTERS}),
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
