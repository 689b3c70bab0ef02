"""How the Verilog stands on the page: ports in the head, a comment above each module, no line too long."""

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping

from ..block import Block
from .expressions import fitted, width
from .memories import named_reads
from .shared_bits import with_bits_apart
from .unused import ASSIGN, without_unused

__all__ = ["LINE", "document", "module_texts"]

LINE = 160
"""Characters of the longest line."""

COMMENT = 120
DECLARATION = re.compile(r"  (input|output|wire|reg) (signed )?(\[\d+:0\] )?(\w+);")
ITEM = r"\w+(?:\[\d+(?::\d+)?\])?"
REPEATED = re.compile(rf"(?<=[{{ ])({ITEM})(?:, \1(?=[ ,])){{2,}}")
WORDS = ("Timing:", "Source:")
PARTIAL = re.compile(r"\\(\w+)\[(\d+)(?::(\d+))?\] ")


def module_texts(text: str, blocks: Mapping[str, Block]) -> dict[str, str]:
    """Every module as one reads it, a comment above it, by name.

    Parameters
    ----------
    text : str
        As Yosys wrote it.
    blocks : mapping of str to Block
        The component of every module, by the module's name.
    """
    found = re.findall(r"^module (\w+)\((.*?)\);\n(.*?)^endmodule$", text, re.MULTILINE | re.DOTALL)
    found = [(name, ports, named_reads(_plain_parts(body))) for name, ports, body in found]
    outputs = {
        name: frozenset(declared[4] for declared in DECLARATION.finditer(body) if declared[1] == "output")
        for name, _, body in found
    }
    return {
        name: _comment(blocks[name]) + _module(name, re.split(r"\s*,\s*", ports.strip()), body, outputs)
        for name, ports, body in found
    }


def document(modules: Iterable[str]) -> str:
    """Modules as a file, in which no net is declared by its use: directives at its begin and end say so."""
    return "`default_nettype none\n\n" + "\n".join(modules) + "\n`default_nettype wire\n"


def _plain_parts(body: str) -> str:
    """A module's body in which registers that are parts of a signal have plain names, not ``\\valid_reg[0]``."""
    words = set(re.findall(r"\w+", body))

    def plain(found: re.Match[str]) -> str:
        name = "_".join(part for part in found.groups() if part)
        while name in words:
            name += "_part"
        return name

    return PARTIAL.sub(plain, body)


def _comment(block: Block) -> str:
    """Summary, timing and source of a component."""
    paragraphs = {word: text for kind in reversed(type(block).__mro__) for word, text in _paragraphs(kind)}
    lines = [
        line
        for text in (paragraphs[word] for word in ("", *WORDS) if word in paragraphs)
        for line in textwrap.wrap(text, COMMENT - 3, break_on_hyphens=False)
    ]
    return "".join(f"// {line}\n" for line in lines)


def _paragraphs(kind: type) -> Iterator[tuple[str, str]]:
    """The first paragraph of a block's docstring, under the empty word, and those that begin with one of `WORDS`."""
    if not (issubclass(kind, Block) and kind is not Block and kind.__doc__):
        return
    for number, paragraph in enumerate(re.split(r"\n\s*\n", kind.__doc__.strip())):
        text = " ".join(paragraph.split()).replace("``", "`")
        word = text.partition(" ")[0]
        if number == 0 or word in WORDS:
            yield ("" if number == 0 else word), text


def _module(name: str, ports: list[str], body: str, outputs: Mapping[str, frozenset[str]]) -> str:
    declared: dict[str, list[str]] = {}
    rest = []
    for line in body.splitlines():
        found = DECLARATION.fullmatch(line)
        if found:
            declared.setdefault(found[4], []).append(line.strip().removesuffix(f" {found[4]};"))
        else:
            rest.append(line)
    head = ",\n".join(f"  {_merged(declared[port])} {port}" for port in ports)
    vectors = [name for name, kinds in declared.items() if kinds[0].startswith("output") and _bits(kinds[-1]) > 1]
    rest, apart = with_bits_apart(rest, vectors)
    declared |= {wire: ["wire"] for wire in apart}
    before = {name: _bits(kinds[-1]) for name, kinds in declared.items()}
    rest, widths = without_unused(rest, before, outputs)
    for port in ports:
        del declared[port], widths[port]
    lines = [f"  {_resized(declared.get(wire, ['wire'])[0], bits)} {wire};" for wire, bits in widths.items()]
    for line in rest:
        assign = ASSIGN.fullmatch(line)
        if assign:
            target = width(assign[1], before | widths)
            line = f"  assign {assign[1]} = {fitted(target, assign[2], before | widths)};"
        lines += _wrapped(re.sub(r"\{ (\{\d+\{[^{}]*\}\}) \}", r"\1", REPEATED.sub(_replication, line)))
    return f"module {name}(\n{head}\n);\n" + "".join(f"{line}\n" for line in lines) + "endmodule\n"


def _bits(declaration: str) -> int:
    found = re.search(r"\[(\d+):0\]", declaration)
    return int(found[1]) + 1 if found else 1


def _resized(declaration: str, bits: int) -> str:
    kind = re.sub(r" ?\[\d+:0\]", "", declaration)
    return f"{kind} [{bits - 1}:0]" if bits > 1 else kind


def _merged(declarations: list[str]) -> str:
    """``input [3:0]`` and ``wire [3:0]`` in one: ``input wire [3:0]``."""
    direction, net = (each.partition(" ") for each in declarations)
    return f"{direction[0]} {net[0]} {net[2]}".rstrip()


def _replication(found: re.Match[str]) -> str:
    return f"{{{len(found[0].split(', '))}{{{found[1]}}}}}"


def _wrapped(line: str) -> list[str]:
    """A statement on lines that are short enough, broken between words."""
    if len(line) <= LINE:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()))
    return textwrap.wrap(
        line.strip(),
        LINE,
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
