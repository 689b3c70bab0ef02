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


def limits(field: Field) -> str:
    """Return the values that a field may have."""
    return f"{field.minimum} to {field.maximum}" if field.width < 32 else f"{field.width} bits"


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
        yield name, "; ".join(map(bits_of, (first, *others))), limits(first), doc


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
