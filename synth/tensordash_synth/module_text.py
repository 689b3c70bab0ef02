"""Verilog text of one module, as it is mapped and as the modules around it see it."""

import re

__all__ = ["interface", "normalised"]

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
# A statement begins two spaces in; what is further in, and these, goes on with it. Attributes stand in front of theirs.
BEGIN = re.compile(r"^  (?=\S)(?!end\b|else\b|[)}])", re.MULTILINE)
# What must stand in front of what uses it.
ORDER = ("localparam", "reg", "wire")


def normalised(text: str) -> str:
    """Return a module without comments and with its statements sorted.

    What ABC makes of equal gates depends on their order, by some percent. Sorted, a figure does not depend on the order
    in which a module is written, nor on its prose.

    >>> one = "module m(\\n  input wire a\\n);\\n  // A sum.\\n  wire c = ~b;\\n  wire b = ~a;\\nendmodule\\n"
    >>> print(normalised(one), end="")
    module m(
      input wire a
    );
      wire b = ~a;
      wire c = ~b;
    endmodule
    """
    head, statements = _statements(text)
    return "\n".join([head, *sorted(statements, key=_place), "endmodule", ""])


def interface(text: str) -> str:
    """Return a module with nothing but its ports, as a black box for the modules around it.

    >>> print(interface("module m(\\n  input wire a,\\n  output wire b\\n);\\n  assign b = ~a;\\nendmodule"), end="")
    (* blackbox *)
    module m(
      input wire a,
      output wire b
    );
    endmodule
    """
    head, _ = _statements(text)
    return f"(* blackbox *)\n{head}\nendmodule\n"


def _statements(text: str) -> tuple[str, list[str]]:
    """Return the head, up to its semicolon, and the statements of a module, without comments and empty lines."""
    head, _, body = COMMENT.sub("", text).partition(";")
    statements: list[str] = []
    attributes = ""
    for piece in BEGIN.split(body.rsplit("endmodule", 1)[0])[1:]:
        lines = _without_empty_lines(piece)
        if lines.startswith("(*") and lines.endswith("*)"):
            attributes += f"  {lines}\n"
        else:
            statements.append(f"{attributes}  {lines}")
            attributes = ""
    return f"{_without_empty_lines(head)};", statements


def _without_empty_lines(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip())


def _place(statement: str) -> tuple[int, str]:
    found = re.search(r"^  (\w+)", statement, re.MULTILINE)
    return ORDER.index(found[1]) if found and found[1] in ORDER else len(ORDER), statement
