"""Verilog text of one module, as it is mapped and as the modules around it see it."""

import re

__all__ = ["interface", "without_comments"]

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


def without_comments(text: str) -> str:
    """Return a module without comments and empty lines: a change of prose does not make it another one to map.

    >>> text = "// A sum.\\nmodule m(\\n  input wire a\\n);\\n\\n  wire b = a; // b\\nendmodule\\n"
    >>> print(without_comments(text), end="")
    module m(
      input wire a
    );
      wire b = a;
    endmodule
    """
    lines = (line.rstrip() for line in COMMENT.sub("", text).splitlines())
    return "".join(f"{line}\n" for line in lines if line)


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
    head, _, _ = without_comments(text).partition(";")
    return f"(* blackbox *)\n{head};\nendmodule\n"
