"""Information from the Python source about a line: the variable that it assigns, and its comments."""

import ast
import io
import tokenize
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import amaranth

from .nodes import Node

__all__ = ["comment_above", "comment_after", "comment_of_state", "purpose_of", "variable"]

AMARANTH = str(Path(amaranth.__file__).parent)
METHODS = {"any": "r|", "bool": "r|", "all": "r&", "xor": "r^"}
OPERATORS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<",
    ast.RShift: ">>", ast.Invert: "~", ast.USub: "neg",
}  # fmt: skip


@cache
def _assignments(path: str) -> dict[int, list[tuple[str, ast.expr]]]:
    """Return for each line the variables that its statement assigns, with the values."""
    found: dict[int, list[tuple[str, ast.expr]]] = {}
    for node in ast.walk(ast.parse(_text(path))):
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        target, value = node.targets[0], node.value
        pairs = [(target, value)]
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = list(zip(target.elts, value.elts, strict=True))
        named = [(each.id, of) for each, of in pairs if isinstance(each, ast.Name)]
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
            found.setdefault(line, []).extend(named)
    return found


@cache
def _text(path: str) -> str:
    """Return the text of a source file, or an empty string for code from a prompt or a notebook."""
    file = Path(path)
    return file.read_text(encoding="utf-8") if file.is_file() else ""


@cache
def _comments(path: str) -> tuple[dict[int, str], dict[int, str]]:
    """Return comments on lines of their own, and comments after code, by line."""
    own: dict[int, str] = {}
    behind: dict[int, str] = {}
    for token in tokenize.generate_tokens(io.StringIO(_text(path)).readline):
        if token.type == tokenize.COMMENT:
            text = token.string.lstrip("# ").rstrip()
            if not text.startswith(("noqa", "type:", "fmt:", "pragma")):
                (own if not token.line[: token.start[1]].strip() else behind)[token.start[0]] = text
    return own, behind


def comment_above(location: tuple[str, int] | None) -> list[tuple[int, str]]:
    """Return the lines of comment right above a line, with their numbers."""
    if location is None:
        return []
    own, _ = _comments(location[0])
    line, found = location[1] - 1, []
    while line in own:
        found.append((line, own[line]))
        line -= 1
    return found[::-1]


@cache
def _functions(path: str) -> list[tuple[int, int, str]]:
    """Return first line, last line and first paragraph of the docstring of every function, outer functions first."""
    return [
        (
            node.lineno,
            node.end_lineno or node.lineno,
            " ".join((ast.get_docstring(node) or "").partition("\n\n")[0].split()),
        )
        for node in ast.walk(ast.parse(_text(path)))
        if isinstance(node, ast.FunctionDef)
    ]


def purpose_of(location: tuple[str, int] | None) -> tuple[int, str]:
    """Return the first line of the function that a line is in, and its docstring's first paragraph."""
    if location is None or location[0].startswith(AMARANTH):
        return 0, ""
    inside = [each for each in _functions(location[0]) if each[0] <= location[1] <= each[1]]
    return (inside[-1][0], inside[-1][2]) if inside else (0, "")


def comment_after(location: tuple[str, int] | None) -> str:
    """Return the comment after the code of a line."""
    return "" if location is None else _comments(location[0])[1].get(location[1], "")


@cache
def _state_lines(path: str) -> dict[str, int]:
    """Return the lines of `with m.State(NAME):`, by NAME."""
    return {
        call.args[0].value: call.lineno
        for call in ast.walk(ast.parse(_text(path)))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "State"
        if isinstance(call.args[0], ast.Constant) and isinstance(call.args[0].value, str)
    }


def comment_of_state(paths: Iterable[str], name: str) -> str:
    """Return the comment after the line of a state, from the first file that has one."""
    lines = ((path, _state_lines(path).get(name, 0)) for path in paths)
    return next((text for each in lines if (text := comment_after(each))), "")


def variable(node: Node) -> str:
    """Return the variable that the source assigns this expression to, or an empty string."""
    if node.location is None:
        return ""
    return next(
        (name for name, value in _assignments(node.location[0]).get(node.location[1], []) if _makes(value, node)), ""
    )


def _makes(value: ast.expr, node: Node) -> bool:
    """Return whether the operator of a value in the source makes an expression."""
    if isinstance(value, ast.IfExp):
        return _makes(value.body, node) or _makes(value.orelse, node)
    if isinstance(value, ast.Compare):
        return node.kind.removeprefix("s") in ("==", "!=", "<", "<=", ">", ">=", "r|", "~")
    if isinstance(value, ast.BinOp | ast.UnaryOp):
        kind = OPERATORS.get(type(value.op))
        return kind == node.kind.removeprefix("s") or (kind == "+" and node.kind == "-")
    if isinstance(value, ast.Call):
        function = value.func
        if isinstance(function, ast.Attribute):
            return METHODS.get(function.attr, "") in (node.kind, *(("|",) if node.kind == "|" else ()))
        name = function.id if isinstance(function, ast.Name) else ""
        return {"Mux": "?:", "reduce": "|", "one_hot_mux": "|", "Cat": "cat"}.get(name) == node.kind
    return False
