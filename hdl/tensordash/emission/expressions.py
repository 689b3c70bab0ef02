"""What Yosys writes as expressions: names, parts of them, constants and lists of those, around one operator."""

import re
from collections.abc import Iterator, Mapping

__all__ = ["fitted", "items", "references", "width"]

CONSTANT = re.compile(r"(\d+)'(s?[hdb])([0-9a-fxz?_]+)")
REFERENCE = re.compile(r"(?<![\w'$])([A-Za-z_]\w*)(?:\[(\d+)(?::(\d+))?\])?")
SIGNED = re.compile(r"\$signed\((.*)\)")
ARITHMETIC = frozenset("+-")
COMPARISONS = frozenset({"<", "<=", ">", ">=", "==", "!="})
LOGIC = frozenset("&|^")


def references(expression: str, widths: Mapping[str, int]) -> Iterator[tuple[str, int, int]]:
    """Every (name, highest bit, lowest bit) that an expression holds.

    >>> list(references("{ 2'h0, a[3:1] } + b", {"a": 4, "b": 2}))
    [('a', 3, 1), ('b', 1, 0)]
    """
    for name, high, low in REFERENCE.findall(CONSTANT.sub("", expression)):
        if name in widths:
            top = int(high) if high else widths[name] - 1
            yield name, top, int(low) if low else (int(high) if high else 0)


def items(expression: str) -> list[str]:
    """The parts of a list in braces, or the expression itself.

    >>> items("{ a, { b, c }, d }")
    ['a', '{ b, c }', 'd']
    """
    if not (expression.startswith("{") and _closing(expression) == len(expression) - 1):
        return [expression]
    return _split(expression[1:-1].strip(), ",")


def width(expression: str, widths: Mapping[str, int]) -> int:
    """Bits of a name, a part of one, a constant, or a list of those.

    >>> width("{ a, {3{b[1]}}, 2'h0 }", {"a": 4, "b": 2})
    9
    """
    signed = SIGNED.fullmatch(expression)
    if signed:
        return width(signed[1], widths)
    constant = CONSTANT.fullmatch(expression)
    if constant:
        return int(constant[1])
    repeated = re.fullmatch(r"\{(\d+)\{(.*)\}\}", expression)
    if repeated:
        return int(repeated[1]) * width(repeated[2], widths)
    if expression.startswith("{"):
        return sum(width(item, widths) for item in items(expression))
    ((_, high, low),) = references(expression, widths)
    return high - low + 1


def fitted(target: int, expression: str, widths: Mapping[str, int]) -> str:
    """The right side of an assignment to `target` bits, with operands as wide as Verilog takes them to be.

    >>> fitted(4, "a + b", {"a": 4, "b": 2})
    "a + { 2'h0, b }"
    >>> fitted(1, "a > 1'h1", {"a": 4})
    "a > 4'h1"
    >>> fitted(4, "$signed(a) + $signed({ b, c })", {"a": 4, "b": 1, "c": 1})
    '$signed(a) + $signed({ {2{b}}, b, c })'
    """
    words = _split(expression, " ")
    if len(words) == 2 and words[0] == "!" and width(words[1], widths) > 1:
        return f"~| {words[1]}"
    if len(words) == 3 and words[1] == "<<" and width(words[0], widths) < target:
        return f"{_extended(words[0], target - width(words[0], widths), widths)} << {words[2]}"
    if len(words) != 3 or words[1] not in ARITHMETIC | COMPARISONS | LOGIC:
        return expression
    left, operator, right = words
    bits = [width(left, widths), width(right, widths)]
    wanted = max(bits) if operator in COMPARISONS else max(target, *bits)
    # The carry of a sum is one bit more than its operands have.
    least = wanted - 1 if operator in ARITHMETIC else wanted
    fit = [
        _extended(each, wanted - has, widths) if has < least else each
        for each, has in zip((left, right), bits, strict=True)
    ]
    return f"{fit[0]} {operator} {fit[1]}"


def _extended(operand: str, more: int, widths: Mapping[str, int]) -> str:
    """An operand with `more` bits at its top: copies of its sign, or zeros."""
    signed = SIGNED.fullmatch(operand)
    parts = items(signed[1] if signed else operand)
    constant = CONSTANT.fullmatch(parts[0])
    if constant and (not signed or _is_positive(constant)):
        parts[0] = f"{int(constant[1]) + more}'{constant[2]}{constant[3]}"
    elif signed:
        parts.insert(0, f"{{{more}{{{_top_bit(parts[0], widths)}}}}}")
    else:
        parts.insert(0, f"{more}'h0")
    joined = parts[0] if len(parts) == 1 else f"{{ {', '.join(parts)} }}"
    return f"$signed({joined})" if signed else joined


def _is_positive(constant: re.Match[str]) -> bool:
    value = int(constant[3].replace("_", ""), {"h": 16, "d": 10, "b": 2}[constant[2][-1]])
    return not value >> (int(constant[1]) - 1)


def _top_bit(item: str, widths: Mapping[str, int]) -> str:
    constant = CONSTANT.fullmatch(item)
    if constant:
        return f"1'h{int(not _is_positive(constant))}"
    repeated = re.fullmatch(r"\{\d+\{(.*)\}\}", item)
    if item.startswith("{"):
        return _top_bit(repeated[1] if repeated else items(item)[0], widths)
    ((name, high, _),) = references(item, widths)
    return name if widths[name] == 1 else f"{name}[{high}]"


def _closing(text: str) -> int:
    """Where the bracket that begins a text ends."""
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter in "{([") - (letter in "})]")
        if not depth:
            return place
    return -1


def _split(text: str, separator: str) -> list[str]:
    """The parts of a text between separators that stand in no bracket."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "{([") - (letter in "})]")
        if letter == separator and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]
