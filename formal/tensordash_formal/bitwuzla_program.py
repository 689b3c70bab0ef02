"""Run Bitwuzla from its Python package as `yosys-smtbmc` runs the program: commands of SMT-LIB come from stdin.

The package on PyPI has the solver's library, but not the program.
"""

import re
import sys
from collections.abc import Iterable, Iterator

__all__ = ["split_commands"]

HELP = "usage: bitwuzla --lang smt2"
"""What `yosys-smtbmc` looks for: versions whose help names `--lang` solve several queries in one run."""
UNCOUNTED = re.compile(r'\|[^|]*\||"[^"]*"|;.*')
"""Text whose parentheses belong to no command: quoted symbols, strings and comments."""


def split_commands(lines: Iterable[str]) -> Iterator[str]:
    """Yield each command of SMT-LIB as soon as its last line has been read, and an incomplete one at the end.

    Examples
    --------
    >>> list(split_commands(["(assert\\n", "  |a)|) ; (b\\n", "(check-sat)\\n"]))
    ['(assert\\n  |a)|) ; (b\\n', '(check-sat)\\n']
    """
    command, depth = "", 0
    for line in lines:
        counted = UNCOUNTED.sub("", line)
        depth += counted.count("(") - counted.count(")")
        command += line
        if depth == 0 and counted.strip():
            yield command
            command = ""
    if command:
        yield command


def main(arguments: list[str]) -> None:
    """Print the help, or answer the commands on stdin until `(exit)` or its end."""
    if "--help" in arguments:
        print(HELP)
        return
    from bitwuzla import Option, Options, Parser, TermManager

    options = Options()
    options.set(Option.PRODUCE_MODELS, True)
    parser = Parser(TermManager(), options)
    for command in split_commands(sys.stdin):
        if command.strip() == "(exit)":
            return
        parser.parse(command, parse_file=False)


if __name__ == "__main__":
    main(sys.argv[1:])
