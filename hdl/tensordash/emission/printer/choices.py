"""Registers without enables: what a register is next, as one choice, its own value among what it may be."""

from collections.abc import Iterable

from .collect import ModuleModel, Registers, assignments
from .expression import Expressions, Net, Node
from .lowering import Assignment, Statement

__all__ = ["without_enables"]


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
