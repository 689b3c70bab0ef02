"""Bits that Yosys gives names to though nobody reads them: dropped, or called unused, which linters understand."""

import re
from collections.abc import Iterator, Mapping

from .expressions import items, references, width

__all__ = ["partly_unused", "without_unused"]

PRIVATE = re.compile(r"_\d+_")
ASSIGN = re.compile(r"  assign (.*?) = (.*);")
INSTANCE = re.compile(r"  (\w+) (\w+) \(")
CONNECTION = re.compile(r"    \.(\w+)\((.*)\),?")
MODULE = re.compile(r"^module (\w+)\(.*?^endmodule$", re.MULTILINE | re.DOTALL)
DECLARED = re.compile(r"^  (input |output |)(?:wire|reg)( signed|)(?: \[(\d+):0\])? (\w+)[;,]?$", re.MULTILINE)
NEXT = re.compile(r"    (?:else )?(?:if \((.*?)\) )?(\S.*?) <= (.*);")


def without_unused(
    lines: list[str], widths: dict[str, int], outputs: Mapping[str, frozenset[str]]
) -> tuple[list[str], dict[str, int]]:
    """A module's statements without assignments to bits that nobody reads.

    Parameters
    ----------
    lines : list of str
        The statements.
    widths : dict of str to int
        Of everything that is declared.
    outputs : mapping of str to frozenset of str
        Of every module, its outputs.

    Returns
    -------
    (list of str, dict of str to int)
        The statements, and what is declared now. Carries that nobody reads and outputs of instances that nobody
        connects have names that say so.
    """
    while True:
        read = dict.fromkeys(widths, 0)
        for expression in _read(lines, outputs):
            for name, high, low in references(expression, widths):
                read[name] |= (2 << high) - (1 << low)
        kept = [line for line in lines if not _is_idle(line, widths, read)]
        if kept == lines:
            break
        lines = kept
    return _renamed(lines, widths, read, outputs)


def partly_unused(text: str, beside: str = "") -> list[str]:
    """Every signal of a Verilog file of which a module leaves bits unread, but for outputs and those called unused.

    Parameters
    ----------
    text : str
        The file.
    beside : str
        Other files, whose modules it has instances of.

    Examples
    --------
    >>> partly_unused("module m(\\n  input wire [1:0] a,\\n  output wire y\\n);\\n  assign y = a[1];\\nendmodule\\n")
    ['a']
    """
    modules = {found[1]: found[0] for found in MODULE.finditer(text)}
    outputs = {
        name: frozenset(found[4] for found in DECLARED.finditer(module) if found[1] == "output ")
        for name, module in {found[1]: found[0] for found in MODULE.finditer(text + beside)}.items()
    }
    names: dict[str, None] = {}
    for module, body in modules.items():
        widths = {found[4]: int(found[3] or 0) + 1 for found in DECLARED.finditer(body)}
        read = dict.fromkeys(widths, 0)
        for expression in _read(_statements(DECLARED.sub("", body.partition(");\n")[2])), outputs):
            for name, high, low in references(expression, widths):
                read[name] |= (2 << high) - (1 << low)
        for name, bits in widths.items():
            if read[name] != (1 << bits) - 1 and name not in outputs[module] and "unused" not in name:
                names[name] = None
    return list(names)


def _statements(body: str) -> list[str]:
    """The lines of a module, those put together again that were too long."""
    lines = [""]
    for line in body.splitlines():
        before = lines[-1]
        stripped = before.strip()
        whole = stripped.count("(") == stripped.count(")") if stripped.startswith((".", "always")) else True
        if not stripped or stripped.endswith((";", " (")) or (stripped.startswith((".", "always")) and whole):
            lines.append(line)
        else:
            lines[-1] = f"{before} {line.strip()}"
    return lines[1:]


def _read(lines: list[str], outputs: Mapping[str, frozenset[str]]) -> Iterator[str]:
    """Every expression that is read."""
    driven: frozenset[str] = frozenset()
    for line in lines:
        if found := ASSIGN.fullmatch(line):
            yield found[2]
        elif found := INSTANCE.fullmatch(line):
            driven = outputs[found[1]]
        elif found := CONNECTION.fullmatch(line):
            if found[1] not in driven:
                yield found[2]
        elif found := NEXT.fullmatch(line):
            yield f"{found[1] or ''} {found[3]}"
        else:
            yield line


def _is_idle(line: str, widths: Mapping[str, int], read: Mapping[str, int]) -> bool:
    found = ASSIGN.fullmatch(line)
    return found is not None and all(_is_unread(item, widths, read) for item in items(found[1]))


def _is_unread(item: str, widths: Mapping[str, int], read: Mapping[str, int]) -> bool:
    """Whether a name or part of one is Yosys' own, and of no use."""
    ((name, high, low),) = references(item, widths)
    return PRIVATE.fullmatch(name) is not None and not read[name] >> low & ((2 << high - low) - 1)


def _renamed(
    lines: list[str], widths: dict[str, int], read: dict[str, int], outputs: Mapping[str, frozenset[str]]
) -> tuple[list[str], dict[str, int]]:
    declared = dict(widths)
    result = []
    instance, driven = "", frozenset[str]()

    def unused(bits: int, name: str = "") -> str:
        number = 0
        while not name or name in declared:
            name, number = f"unused_{number}", number + 1
        declared[name] = bits
        return name

    for line in lines:
        if found := ASSIGN.fullmatch(line):
            targets = items(found[1])
            parts = [unused(width(each, widths)) if _is_unread(each, widths, read) else each for each in targets]
            if len(targets) == 1 and PRIVATE.fullmatch(found[1]) and read[found[1]]:
                bits = read[found[1]].bit_length()
                if bits < widths[found[1]]:
                    parts.insert(0, unused(widths[found[1]] - bits))
            # A shift is as wide as what is shifted.
            left, shifts, _ = found[2].partition(" >> ")
            if shifts and (rest := width(left, widths) - width(found[1], widths)) > 0:
                parts.insert(0, unused(rest))
            target = parts[0] if len(parts) == 1 else f"{{ {', '.join(parts)} }}"
            result.append(f"  assign {target} = {found[2]};")
        elif found := INSTANCE.fullmatch(line):
            instance, driven = found[2], outputs[found[1]]
            result.append(line)
        elif (found := CONNECTION.fullmatch(line)) and found[1] in driven and PRIVATE.fullmatch(found[2]):
            if not read[found[2]]:
                line = line.replace(f"({found[2]})", f"({unused(widths[found[2]], f'{instance}__{found[1]}_unused')})")
            result.append(line)
        else:
            result.append(line)
    named = {name for line in result for name, _, _ in references(line, declared)}
    for name in widths:
        if PRIVATE.fullmatch(name):
            if name not in named:
                del declared[name]
            elif read[name]:
                declared[name] = min(declared[name], read[name].bit_length())
    single = {name for name, bits in declared.items() if bits == 1 < widths.get(name, 1)}
    return [
        re.sub(r"\b(_\d+_)\[0\]", lambda found: found[1] if found[1] in single else found[0], line) for line in result
    ], declared
