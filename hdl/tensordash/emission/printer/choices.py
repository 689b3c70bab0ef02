"""Registers with and without enables: an ``if`` or a conditional expression keeps a register's value."""

from collections.abc import Iterable

from .collect import ModuleModel, Registers, assignments
from .expression import Expressions
from .lowering import Assignment, Branch, Statement
from .nodes import Net, Node

__all__ = ["with_enables", "without_enables"]


def with_enables(model: ModuleModel) -> None:
    """Turn choices between a new value and the register's own into conditions, where nothing was assigned before."""
    for item in model.items:
        if isinstance(item, Registers):
            item.statements = _conditions(model.make, item.statements, set())


def _conditions(make: Expressions, statements: Iterable[Statement], assigned: set[Net]) -> list[Statement]:
    found: list[Statement] = []
    for statement in statements:
        if isinstance(statement, Branch):
            arms = [(condition, _conditions(make, body, assigned), place) for condition, body, place in statement.arms]
            found.append(Branch(statement.test, arms, statement.location))
            continue
        net, _, width = statement.targets[0]
        value = statement.value
        if value.kind == "?:" and width == net.width and net not in assigned and make.net(net) in value.args[1:]:
            condition, then, otherwise = value.args
            if then is make.net(net):
                condition, then = make.invert(condition), otherwise
            body: list[Statement] = [Assignment(statement.targets, then, statement.location)]
            statement = Branch(None, [(condition, body, statement.location)], statement.location)
            body[:] = _conditions(make, body, assigned)
        else:
            assigned.update(each for each, _, _ in statement.targets)
        assigned.add(net)
        found.append(statement)
    return found


def without_enables(model: ModuleModel) -> None:
    """Assign every register of a module in every cycle."""
    for item in model.items:
        if isinstance(item, Registers):
            nets = dict.fromkeys(net for each in assignments(item.statements) for net, _, _ in each.targets)
            values = {net: model.make.net(net) for net in nets}
            _run(model.make, item.statements, values)
            item.statements = [Assignment([(net, 0, net.width)], value, item.location) for net, value in values.items()]


def _run(make: Expressions, statements: Iterable[Statement], values: dict[Net, Node]) -> None:
    for statement in statements:
        if isinstance(statement, Assignment):
            at = 0
            for net, low, width in statement.targets:
                before, top = values[net], low + width
                above = make.slice(before, top, net.width - top)
                values[net] = make.cat([make.slice(before, 0, low), make.slice(statement.value, at, width), above])
                at += width
            continue
        result = dict(values)
        for condition, body, _ in reversed(statement.arms):
            branch = dict(values)
            _run(make, body, branch)
            if condition is None:
                result = branch
                continue
            if statement.test is None:
                holds = condition
            else:
                test = statement.test
                holds = make.bitwise(
                    "|", [make.compare("==", test, make.const(value, test.width)) for value in condition]
                )
            result = {net: make.choose(holds, branch[net], result[net]) for net in values}
        values.update(result)
