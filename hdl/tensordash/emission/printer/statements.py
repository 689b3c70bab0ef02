"""Printing of registers: an `always` block of assignments, conditions and cases, with the reset last."""

from collections.abc import Iterator, Sequence

from .collect import Registers, assignments
from .expression import Expressions
from .lowering import Assignment, Branch, Statement
from .nodes import Net, Node
from .source import comment_above
from .text import LINE, Text, comment_lines, constant, target

__all__ = ["Statements"]


class Statements:
    """Writes blocks of registers.

    Parameters
    ----------
    make : Expressions
        Makes the conditions of the reset.
    reset : Net
        ``rst``.
    text : Text
        Renders expressions.
    commented : set of (str, int)
        Lines of the source whose comments are printed already. Lines printed here are added.
    """

    def __init__(self, make: Expressions, reset: Net, text: Text, commented: set[tuple[str, int]]) -> None:
        self.make, self.reset, self.text, self.commented = make, reset, text, commented

    def block(self, item: Registers) -> Iterator[str]:
        """Yield the lines of an ``always`` block."""
        statements = self._merged([*item.statements, *self._reset(item)])
        body = [line for statement in statements for line in self._statement(statement, 4)]
        if len(statements) == 1:
            yield from ("  always @(posedge clk)", *body)
        else:
            yield from ("  always @(posedge clk) begin", *body, "  end")

    def _reset(self, item: Registers) -> Iterator[Branch]:
        """Yield the statement that resets the registers with a reset."""
        nets = dict.fromkeys(net for each in assignments(item.statements) for net, _, _ in each.targets if net.resets)
        values: list[Statement] = [
            Assignment([(net, 0, net.width)], self.make.const(net.init, net.width), None) for net in nets
        ]
        if values:
            yield Branch(None, [(self.make.net(self.reset), values, None)], None)

    def _merged(self, statements: Sequence[Statement]) -> list[Statement]:
        """Join neighbouring conditions with the same body into one condition."""
        found: list[Statement] = []
        for statement in statements:
            last = found[-1] if found else None
            if isinstance(last, Branch) and isinstance(statement, Branch) and _have_same_body(last, statement):
                (condition, body, place), (other, _, _) = last.arms[0], statement.arms[0]
                combined = self.make.bitwise("|", map(self._named, (condition, other)))
                found[-1] = Branch(None, [(combined, body, place)], last.location)
            else:
                found.append(statement)
        return found

    def _named(self, node: Node) -> Node:
        return self.make.net(self.text.names[node]) if node in self.text.names else node

    def _statement(self, statement: Statement, indent: int) -> Iterator[str]:
        if isinstance(statement, Assignment):
            yield from self._assignment(statement, indent)
        elif statement.test is None:
            yield from self._conditional(statement, indent)
        else:
            yield from self._case(statement, indent)

    def _assignment(self, statement: Assignment, indent: int) -> list[str]:
        states = statement.targets[0][0].states if len(statement.targets) == 1 else {}
        head = f"{target(statement.targets)} <= "
        lines = self.text.lines(head, statement.value, ";", indent, states)
        if max(map(len, lines)) <= LINE:
            return lines
        return [" " * indent + head.rstrip(), *self.text.lines("", statement.value, ";", indent + 4, states)]

    def _conditional(self, statement: Branch, indent: int) -> Iterator[str]:
        pad = " " * indent
        before = ""
        for number, (condition, body, _) in enumerate(statement.arms):
            last = number + 1 == len(statement.arms)
            word = f"{before}else " if number else ""
            inner = list(self._body(body, indent + 2))
            block = len(body) != 1 or len(inner) != 1 or (not last and isinstance(body[0], Branch))
            if condition is None:
                head = [f"{pad}{word.rstrip()}"]
            else:
                head = self.text.lines(f"{word}if (", condition, ") begin" if block else ")", indent)
            if block and condition is None:
                head[-1] += " begin"
            if not block and len(head) == 1 and len(head[0]) + 1 + len(inner[0].lstrip()) <= LINE:
                yield f"{head[0]} {inner[0].lstrip()}"
            else:
                yield from head
                yield from inner
            before = "end " if block else ""
            if block and last:
                yield f"{pad}end"

    def _body(self, body: Sequence[Statement], indent: int) -> Iterator[str]:
        for statement in self._merged(body):
            for line, text in comment_above(statement.location):
                assert statement.location is not None
                if (statement.location[0], line) not in self.commented:
                    self.commented.add((statement.location[0], line))
                    yield from comment_lines(text, indent)
            yield from self._statement(statement, indent)

    def _case(self, statement: Branch, indent: int) -> Iterator[str]:
        assert statement.test is not None
        pad = " " * indent
        names = statement.test.value.states if statement.test.kind == "net" else {}
        width = statement.test.width
        yield from self.text.lines("case (", statement.test, ")", indent)
        count = 0
        for values, body, _ in statement.arms:
            label = "default"
            if values is not None:
                count += len(values)
                label = ", ".join(names.get(each) or constant(each, width) for each in values)
            inner = list(self._body(body, indent + 4))
            if not inner:
                yield f"{pad}  {label}: ;"
            elif len(inner) == 1 and len(inner[0].strip()) + len(label) + indent + 4 <= LINE:
                yield f"{pad}  {label}: {inner[0].strip()}"
            else:
                yield f"{pad}  {label}: begin"
                yield from inner
                yield f"{pad}  end"
        if all(values is not None for values, _, _ in statement.arms) and count < 1 << width:
            yield f"{pad}  default: ;"
        yield f"{pad}endcase"


def _have_same_body(a: Branch, b: Branch) -> bool:
    """Return whether two branches have one condition each and the same assignments, in any order."""
    bodies = []
    for branch in (a, b):
        condition, body, _ = branch.arms[0]
        if branch.test is not None or len(branch.arms) > 1 or condition is None:
            return False
        if not all(isinstance(each, Assignment) for each in body):
            return False
        bodies.append([(tuple(each.targets), each.value) for each in assignments(body)])
    nets = [net for targets, _ in bodies[0] for net, _, _ in targets]
    is_ordered = len(nets) > len(set(nets))
    return bodies[0] == bodies[1] or (not is_ordered and set(bodies[0]) == set(bodies[1]))
