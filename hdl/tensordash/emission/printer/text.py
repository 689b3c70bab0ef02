"""Text of expressions: brackets for clarity, names of states, and line breaks."""

import textwrap
from collections.abc import Mapping, Sequence

from .nodes import COMPARISONS, Net, Node

__all__ = ["LINE", "Text", "broken", "comment_lines", "constant", "select", "target"]

LINE = 100
"""Maximum length of a line in characters."""

FILL, ROW = 0xE000, 0xE800
"""Marks of possible line breaks, by depth: after as many operands as fit, or after each operand."""

UNARY, PRODUCT, SUM, SHIFT, ORDER, EQUAL, AND, XOR, OR, CHOICE = range(10, 0, -1)
STRENGTH = {"*": PRODUCT, "+": SUM, "-": SUM, "<<": SHIFT, ">>": SHIFT, "s>>": SHIFT, "==": EQUAL, "!=": EQUAL}
STRENGTH |= {kind: ORDER for kind in COMPARISONS if kind not in STRENGTH} | {"&": AND, "^": XOR, "|": OR}


def constant(value: int, width: int) -> str:
    """Return a number as a literal."""
    if width == 1:
        return f"1'b{value}"
    if value == (1 << width) - 1 and width > 4:
        return f"{{{width}{{1'b1}}}}"
    return f"{width}'d{value}" if value < 16 else f"{width}'h{value:x}"


def select(name: str, low: int, width: int, whole: int) -> str:
    """Return bits of a vector."""
    if width == whole:
        return name
    return f"{name}[{low}]" if width == 1 else f"{name}[{low + width - 1}:{low}]"


def target(parts: Sequence[tuple[Net, int, int]]) -> str:
    """Return the left side of an assignment, from parts of nets (net, lowest bit, width), lowest first."""
    names = [select(net.name, low, width, net.width) for net, low, width in parts]
    return names[0] if len(names) == 1 else "{" + ", ".join(reversed(names)) + "}"


def comment_lines(text: str, indent: int) -> list[str]:
    """Return the lines of a comment, wrapped."""
    pad = f"{' ' * indent}// "
    return [pad + line for line in textwrap.wrap(text, LINE - len(pad), break_on_hyphens=False)]


class Text:
    """Renders the expressions of a module.

    Parameters
    ----------
    names : Mapping
        Nets that replace expressions, by expression.
    """

    def __init__(self, names: Mapping[Node, Net]) -> None:
        self.names = names

    def flat(self, node: Node) -> str:
        """Return an expression on one line."""
        return _flat(self._render(node, 0)[0])

    def lines(
        self, head: str, node: Node, tail: str, indent: int, states: Mapping[int, str] = {}, *, defines: bool = False
    ) -> list[str]:
        """Return the lines of a statement with an expression. `defines`: it defines the expression's name."""
        text = self._signed_sum(node, defines) or self._render(node, 0, root=defines, states=states)[0]
        return [" " * indent + line for line in broken(f"{head}{text}{tail}", LINE - indent)]

    def _signed_sum(self, node: Node, defines: bool) -> str:
        """Return a sum of signed numbers, which the statement extends, or an empty string for other expressions."""
        terms: list[tuple[str, Node]] = []
        while node.kind in ("+", "-") and (defines or node not in self.names):
            terms.append((node.kind, node.args[1]))
            node, defines = node.args[0], False
        terms.append(("", node))
        numbers = [term for _, term in terms]
        if len(terms) == 1 or any(term.kind == "const" for term in numbers) or not any(map(_is_extended, numbers)):
            return ""
        text = ""
        for sign, term in reversed(terms):
            text += f" {sign}{chr(FILL)}" * bool(sign) + f"$signed({self._render(term, 2)[0]})"
        return text

    def operand(self, node: Node) -> str:
        """Return an expression with marks of possible line breaks."""
        return self._render(node, 0)[0]

    def _render(self, node: Node, depth: int, *, root: bool = False, states: Mapping[int, str] = {}) -> tuple[str, int]:
        """Return the text of an expression, and the precedence of its operator."""
        if not root and node in self.names:
            return self.names[node].name, 99
        kind = node.kind
        if kind == "const":
            return states.get(node.value) or constant(node.value, node.width), 99
        if kind == "net":
            return node.value.name, 99
        if kind == "slice":
            inner = node.args[0]
            return select(self._name(inner), node.value, node.width, inner.width), 99
        if kind == "index":
            word, place = node.args
            if node.width == 1:
                return f"{self._name(word)}[{_flat(self._render(place, 0)[0])}]", 99
            zeros = (node.width - 1).bit_length()
            return f"{self._name(word)}[{{{_flat(self._render(place, 0)[0])}, {zeros}'d0}} +: {node.width}]", 99
        if kind == "cat":
            mark = chr(FILL + depth)
            return "{" + f",{mark}".join(self._piece(part, depth + 1) for part in _gathered(node)) + "}", 99
        if kind == "repeat":
            inner = node.args[0]
            text, _ = self._render(inner, depth + 1)
            if inner.kind == "cat" and inner not in self.names:
                text = text[1:-1]
            return f"{{{node.value}{{{text}}}}}", 99
        if kind == "~":
            return self._inverted(node.args[0], depth)
        if kind in ("r|", "r&", "r^"):
            return kind[1] + self._in(node.args[0], UNARY + 1, depth + 1), UNARY
        if kind == "neg":
            return "-" + self._in(node.args[0], UNARY + 1, depth + 1), UNARY
        if kind == "?:":
            return self._choice(node, depth, states), CHOICE
        if kind == "case":
            return self._chain(node, depth, states), CHOICE
        return self._binary(node, depth), STRENGTH[kind]

    def _name(self, node: Node) -> str:
        if node.kind == "net":
            return node.value.name
        return self.names[node].name if node in self.names else f"({self.flat(node)})"  # measured before it has a name

    def _piece(self, part: Node | tuple[Node, int], depth: int) -> str:
        if isinstance(part, tuple):
            return f"{{{part[1]}{{{self._render(part[0], depth)[0]}}}}}"
        return self._render(part, depth)[0]

    def _in(self, node: Node, strength: int, depth: int) -> str:
        text, bound = self._render(node, depth)
        return text if bound >= strength else f"({text})"

    def _inverted(self, inner: Node, depth: int) -> tuple[str, int]:
        if inner.kind in ("r|", "r&", "r^") and inner not in self.names:
            return f"~{self._render(inner, depth)[0]}", UNARY
        return "~" + self._in(inner, UNARY + 1, depth + 1), UNARY

    def _binary(self, node: Node, depth: int) -> str:
        kind, mark = node.kind, chr(FILL + depth)
        if kind in ("&", "|", "^"):
            terms = [self._in(arg, UNARY, depth + 1) for arg in node.args]
            if kind == "|" and len(terms) > 2 and all("&" in term for term in terms):
                mark = chr(ROW + depth)
            return f" {kind}{mark}".join(terms)
        a, b = node.args
        states = a.value.states if a.kind == "net" else {}
        if kind[0] == "s":
            left = f"$signed({_flat(self._render(a, 0)[0])})"
            if kind == "s>>":
                return f"$unsigned({left} >>> {self._in(b, UNARY, depth + 1)})"
            right = f"$signed({_flat(self._render(b, 0)[0])})"
        else:
            chained = kind in ("+", "-", "*")
            left = self._in(a, STRENGTH[kind] if chained else UNARY, depth + (not chained or a.kind != kind))
            right = self._in(b, UNARY, depth + 1)
            if b.kind == "const" and b.value in states:
                right = states[b.value]
        return f"{left} {kind.removeprefix('s')}{mark}{right}"

    def _choice(self, node: Node, depth: int, states: Mapping[int, str]) -> str:
        condition, then, otherwise = node.args
        mark = chr(ROW + depth)
        head = self._in(condition, UNARY, depth + 1)
        chosen, bound = self._render(then, depth + 1, states=states)
        if bound == CHOICE:
            chosen = f"({chosen})"
        chained = otherwise.kind in ("?:", "case") and otherwise not in self.names
        rest = self._render(otherwise, depth if chained else depth + 1, states=states)[0]
        return f"{head} ? {chosen} :{mark}{rest}"

    def _chain(self, node: Node, depth: int, states: Mapping[int, str]) -> str:
        test, *values, default = node.args
        mark, rows = chr(ROW + depth), []
        names = test.value.states if test.kind == "net" else {}
        name = self._in(test, UNARY, depth + 1)
        for matches, value in zip(node.value, values, strict=True):
            tests = [f"{name} == {names.get(each) or constant(each, test.width)}" for each in matches]
            condition = f"({tests[0]})" if len(tests) == 1 else "(" + " | ".join(f"({each})" for each in tests) + ")"
            chosen, bound = self._render(value, depth + 1, states=states)
            rows.append(f"{condition} ? " + (f"({chosen})" if bound == CHOICE else chosen))
        rows.append(self._render(default, depth + 1, states=states)[0])
        return f" :{mark}".join(rows)


def _is_extended(node: Node) -> bool:
    """Return whether the upper bits of a number are copies of its sign."""
    if node.kind != "cat":
        return False
    *_, part, top = node.args
    bit, count = (top.args[0], top.value) if top.kind == "repeat" else (top, 1)
    if bit.width == 1 and count > 1:
        return True
    low = part.value if part.kind == "slice" else 0
    is_bit = bit.kind == "slice" and bit.width == 1
    return is_bit and bit.args[0] is _sliced(part) and bit.value == low + part.width - 1


def _sliced(node: Node) -> Node:
    return node.args[0] if node.kind == "slice" else node


def _gathered(node: Node) -> list[Node | tuple[Node, int]]:
    """Return the parts of a concatenation, highest first, with equal neighbours counted."""
    parts: list[Node | tuple[Node, int]] = []
    for part in reversed(node.args):
        last = parts[-1] if parts else None
        if last is part:
            parts[-1] = (part, 2)
        elif isinstance(last, tuple) and last[0] is part:
            parts[-1] = (part, last[1] + 1)
        else:
            parts.append(part)
    return [part[0] if isinstance(part, tuple) and part[1] < 2 else part for part in parts]


def _is_mark(letter: str) -> bool:
    return FILL <= ord(letter) < 0xF000


def _flat(text: str) -> str:
    return "".join(" " if _is_mark(letter) else letter for letter in text)


def broken(text: str, width: int) -> list[str]:
    """Break a text into lines of at most `width` characters, at the marks of least depth first."""
    if len(text) <= width:
        return [_flat(text)]
    marks = [letter for letter in text if _is_mark(letter)]
    if not marks:
        return [text]
    depth = min((ord(letter) - FILL) % (ROW - FILL) for letter in marks)
    pieces, row = [], False
    piece = ""
    for letter in text:
        if _is_mark(letter) and (ord(letter) - FILL) % (ROW - FILL) == depth:
            row |= ord(letter) >= ROW
            pieces.append(piece)
            piece = ""
        else:
            piece += letter
    pieces.append(piece)
    if row and len(pieces) > 1:
        pieces = _after_head(pieces)
        rest = " ".join(map(_flat, pieces[1:]))
        if len(pieces[0]) + 1 < width and 4 + len(rest) <= width and pieces[0].endswith("="):
            return [_flat(pieces[0]), "    " + rest]
    lines: list[str] = []
    for number, each in enumerate(pieces):
        inner = width - 4 * (number > 0)
        joined = f"{lines[-1]} {_flat(each)}" if lines else ""
        if lines and not row and len(joined) <= width:
            lines[-1] = joined
        else:
            rows = broken(each, inner)
            lines += ["    " * (number > 0) + line for line in rows]
    return lines


def _after_head(pieces: list[str]) -> list[str]:
    """Move the first row to a line of its own, below the statement's head."""
    head, equals, first = pieces[0].partition(" = " if " = " in pieces[0] else " <= ")
    return [head + equals.rstrip(), first, *pieces[1:]] if equals else pieces
