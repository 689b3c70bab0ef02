"""Verilog text of one module: normalised for mapping, and as a black box."""

import re

__all__ = ["interface", "normalised"]

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
# A statement begins after two spaces. Lines that are indented further, or begin with these words, continue it.
# Attributes precede their statement.
BEGIN = re.compile(r"^  (?=\S)(?!end\b|else\b|[)}])", re.MULTILINE)
# Declarations, which must precede their uses.
ORDER = ("localparam", "reg", "wire")


def normalised(text: str) -> str:
    """Return a module without comments and with its statements sorted.

    ABC's result depends on the order of equal gates, by some percent. With sorted statements, a figure depends on
    neither the order of a module's statements nor its comments.

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
    """Return a module with its ports only, as a black box for the modules around it.

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
