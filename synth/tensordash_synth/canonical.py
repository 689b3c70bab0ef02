"""One text for a module, whatever numbers Yosys gave to its own wires and in which order it wrote its statements.

Both depend on the rest of the file, and what synthesis makes of a module depends on them. So this text, and no other,
is what is mapped, and what a kept mapping is found by.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping

__all__ = ["canonical", "interface"]

# A statement begins two spaces in; what is further in, and these, goes on with it. Attributes stand in front of theirs.
BEGIN = re.compile(r"^  (?=\S)(?!end\b|endfunction\b|else\b|[)}])", re.MULTILINE)
# Comments, but for those that synthesis reads.
COMMENT = re.compile(r"/\*.*?\*/|//(?! synopsys )[^\n]*", re.DOTALL)
NUMBERED = re.compile(r"(?<![\w$])_\d+_(?![\w$])")
# What must stand in front of what uses it.
ORDER = ("input", "output", "inout", "parameter", "localparam", "reg", "wire", "integer")


def canonical(text: str) -> str:
    """A module with its numbered wires named by what they are and what they are for, and its statements in order.

    >>> one = "module m(a);\\n  wire _1_;\\n  wire _2_;\\n  assign _1_ = a;\\n  assign _2_ = ~_1_;\\nendmodule"
    >>> other = "module m(a);\\n  wire _7_;\\n  wire _5_;\\n  assign _5_ = ~_7_;\\n  assign _7_ = a;\\nendmodule"
    >>> canonical(one) == canonical(other)
    True
    >>> canonical(one) == canonical(other.replace("~", ""))
    False
    """
    head, statements = _statements(text)
    names = _names(statements)
    renamed = [NUMBERED.sub(lambda found: names[found[0]], statement) for statement in statements]
    return "\n".join([head, *sorted(renamed, key=_place), "endmodule", ""])


def interface(text: str) -> str:
    """A module with nothing but its ports: what a module around it has to know.

    >>> print(interface("module m(a, b);\\n  input a;\\n  output b;\\n  assign b = ~a;\\nendmodule"))
    (* blackbox *)
    module m(a, b);
      input a;
      output b;
    endmodule
    <BLANKLINE>
    """
    head, statements = _statements(text)
    ports = [statement for statement in statements if _keyword(statement) in ("input", "output", "inout")]
    return "\n".join(["(* blackbox *)", head, *sorted(ports, key=_place), "endmodule", ""])


def _statements(text: str) -> tuple[str, list[str]]:
    """The head, up to its semicolon, and the statements of a module, without comments."""
    text = COMMENT.sub("", text)
    head, _, body = text.partition(";")
    pieces = BEGIN.split(body.rsplit("endmodule", 1)[0])[1:]
    statements: list[str] = []
    attributes = ""
    for piece in pieces:
        lines = "\n".join(line.rstrip() for line in piece.splitlines() if line.strip())
        if lines.startswith("(*") and lines.endswith("*)"):
            attributes += f"  {lines}\n"
        else:
            statements.append(f"{attributes}  {lines}")
            attributes = ""
    return f"{head.strip()};", statements


def _keyword(statement: str) -> str:
    found = re.search(r"^  (\w+)", statement, re.MULTILINE)
    return found[1] if found else ""


def _place(statement: str) -> tuple[int, str]:
    keyword = _keyword(statement)
    return ORDER.index(keyword) if keyword in ORDER else len(ORDER), statement


def _names(statements: Iterable[str]) -> Mapping[str, str]:
    """A number for each numbered wire, by the statements that it stands in: the same ones give the same number.

    Colours are refined: a wire's is that of its statements, in which others stand as their colours, until no two more
    can be told apart. Those that are left are alike in everything, and keep the order that they had.
    """
    colours: dict[str, str] = {}
    uses: dict[str, list[list[str]]] = {}
    for statement in statements:
        parts = re.split(f"({NUMBERED.pattern})", statement)  # text and wires in turn
        for wire in dict.fromkeys(parts[1::2]):
            colours.setdefault(wire, "_")
            uses.setdefault(wire, []).append(parts)
    count = 0
    while len(set(colours.values())) > count:
        count = len(set(colours.values()))
        colours = {
            wire: _hash(sorted(_shown(parts, wire, colours) for parts in places)) for wire, places in uses.items()
        }
    order = sorted(colours, key=lambda wire: colours[wire])
    return {wire: f"_{number}_" for number, wire in enumerate(order)}


def _shown(parts: list[str], wire: str, colours: Mapping[str, str]) -> str:
    return "".join(
        part if place % 2 == 0 else "@" if part == wire else colours[part] for place, part in enumerate(parts)
    )


def _hash(texts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()
