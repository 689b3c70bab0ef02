"""Lowering of Amaranth's values and statements to vector expressions: every width is explicit, every choice a value."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from amaranth.hdl import ClockSignal, Const, ResetSignal, Shape, Signal, Value
from amaranth.hdl._ast import Assign, Concat, Format, Operator, Part, Slice, SwitchValue

from .amaranth_values import fields_of, is_power_of_two, names_value, operands_of
from .expression import Expressions
from .nodes import Net, Node

__all__ = ["Assignment", "Branch", "Lowering", "Statement"]


@dataclass(eq=False)
class Assignment:
    """The next value of registers' bits: ``(net, lowest bit, width)`` of each target, lowest first."""

    targets: list[tuple[Net, int, int]]
    value: Node
    location: tuple[str, int] | None


@dataclass(eq=False)
class Branch:
    """Statements under conditions.

    Without a `test`, each arm has a condition, and the first one that holds counts. A condition of None always holds.
    With a `test`, each arm has values of the test, no value is in two arms, and None is for all others.
    """

    test: Node | None
    arms: list[tuple[Any, list["Statement"], tuple[str, int] | None]]
    location: tuple[str, int] | None


Statement = Assignment | Branch


class Lowering:
    """Turns values and statements of one module into expressions.

    Parameters
    ----------
    expressions : Expressions
        Makes the expressions.
    """

    def __init__(self, expressions: Expressions) -> None:
        self.make = expressions
        self.nets: dict[int, Net] = {}
        self.signals: list[Signal] = []
        self.clock = Net("clk", 1, "input")
        self.reset = Net("rst", 1, "input")
        self._lowered: dict[tuple[int, int], Node] = {}
        self._alive: list[Value] = []  # so that no other value gets the `id` of a lowered one
        self._uses: dict[int, int] = {}

    def net(self, signal: Signal) -> Net:
        """Return the net of a signal."""
        if id(signal) not in self.nets:
            made = Net(
                signal.name, len(signal), init=signal.init, resets=not signal.reset_less, location=signal.src_loc
            )
            made.init &= (1 << made.width) - 1
            form = signal._format
            if isinstance(form, Format.Struct):
                made.fields = list(fields_of(form))
            elif isinstance(form, Format.Enum) and form._variants:
                made.states = {value: name.upper() for value, name in form._variants.items()}
            elif signal.decoder is not None:
                made.states = {
                    value: signal.decoder(value).rpartition("/")[0].upper()
                    for value in range(1 << made.width)
                    if names_value(signal.decoder, value)
                }
            self.nets[id(signal)] = made
            self.signals.append(signal)
        return self.nets[id(signal)]

    def count_uses(self, value: Value) -> None:
        """Count the uses of each operator. A shared operator is lowered at its own width."""
        self._uses[id(value)] = self._uses.get(id(value), 0) + 1
        self._alive.append(value)
        if self._uses[id(value)] == 1:
            for inner in operands_of(value):
                self.count_uses(inner)

    # Values

    def bits(self, value: Value, width: int | None = None) -> Node:
        """Return a value, truncated or extended to a width as in Amaranth's assignments."""
        width = len(value) if width is None else width
        key = id(value), width
        if key not in self._lowered:
            outer, self.make.location = self.make.location, value.src_loc or self.make.location
            self._lowered[key] = self._bits(value, width)
            self._alive.append(value)
            self.make.location = outer
        return self._lowered[key]

    def _bits(self, value: Value, width: int) -> Node:
        make, shape = self.make, value.shape()
        if isinstance(value, Const):
            return make.const(value.value, width)
        if isinstance(value, Signal):
            return make.resize(make.net(self.net(value)), width, shape.signed)
        if isinstance(value, ClockSignal | ResetSignal):
            return make.resize(make.net(self.clock if isinstance(value, ClockSignal) else self.reset), width, False)
        if isinstance(value, Slice):
            if isinstance(value.value, Operator) and self._uses.get(id(value.value), 1) == 1:
                inner = self.bits(value.value, value.stop)
            else:
                inner = self.bits(value.value)
            return make.resize(make.slice(inner, value.start, value.stop - value.start), width, False)
        if isinstance(value, Concat):
            return make.resize(make.cat([self.bits(part) for part in value.parts]), width, False)
        if isinstance(value, Part):
            return make.resize(self._part(value), width, False)
        if isinstance(value, SwitchValue):
            if width != shape.width and self._uses.get(id(value), 1) > 1:
                return make.resize(self.bits(value), width, shape.signed)
            return self._choice(value, width)
        if isinstance(value, Operator):
            if width != shape.width and self._uses.get(id(value), 1) > 1:
                return make.resize(self.bits(value), width, shape.signed)
            return self._operator(value, width, shape)
        raise TypeError(f"a value without a form in Verilog: {value!r}")

    def _part(self, value: Part) -> Node:
        make, inner, offset = self.make, self.bits(value.value), self.bits(value.offset)
        if value.stride == value.width and inner.width == value.width << offset.width and inner.kind == "net":
            return make.index(inner, offset, value.width)
        wide = make.cat([make.const(0, (value.stride - 1).bit_length()), offset])
        if value.stride & (value.stride - 1):
            bits = offset.width + value.stride.bit_length()
            wide = make.multiply(make.resize(offset, bits, False), make.const(value.stride, bits))
        extended = make.resize(inner, max(inner.width, value.width), False)
        return make.slice(make.shift_right(extended, wide, False), 0, value.width)

    def _choice(self, value: SwitchValue, width: int) -> Node:
        arms = [(patterns, self.bits(arm, width)) for patterns, arm in value.cases]
        return self._merged(value.test, arms, self.make.const(0, width))

    def _operator(self, value: Operator, width: int, shape: Shape) -> Node:
        make, kind = self.make, value.operator
        operands = value.operands
        a = operands[0]
        if len(operands) == 1:
            if kind in ("s", "u"):
                inner = self.bits(a, min(width, len(a)))
                return make.resize(inner, width, shape.signed)
            if kind in ("b", "r|", "r&", "r^"):
                return make.resize(make.reduce("r|" if kind == "b" else kind, self.bits(a)), width, False)
            if kind == "-":
                return make.subtract(make.const(0, width), self.bits(a, width))
            if kind == "~":
                inner_width = width if shape.signed else min(width, shape.width)
                return make.resize(make.invert(self.bits(a, inner_width)), width, False)
            if kind == "+":
                return self.bits(a, width)
        b = operands[-1]
        if kind in ("&", "|", "^"):
            inner_width = width if shape.signed else min(width, shape.width)
            both = [self.bits(a, inner_width), self.bits(b, inner_width)]
            return make.resize(make.bitwise(kind, both), width, False)
        if kind == "+":
            return make.add(self.bits(a, width), self._addend(b, width))
        if kind == "-":
            return make.subtract(self.bits(a, width), self._addend(b, width))
        if kind == "*":
            inner_width = min(width, shape.width)
            product = make.multiply(self.bits(a, inner_width), self.bits(b, inner_width))
            return make.resize(product, width, shape.signed)
        if kind == "<<":
            return make.shift_left(self.bits(a, width), self.bits(b))
        if kind == ">>":
            inner_width = max(width, len(a)) if shape.signed else len(a)
            return make.resize(
                make.shift_right(self.bits(a, inner_width), self.bits(b), shape.signed), width, shape.signed
            )
        if kind in ("//", "%") and isinstance(b, Const) and is_power_of_two(b.value) and not a.shape().signed:
            low = min(b.value.bit_length() - 1, len(a))
            start, bits = (low, len(a) - low) if kind == "//" else (0, low)
            return make.resize(make.slice(self.bits(a), start, bits), width, False)
        if kind in ("==", "!=", "<", "<=", ">", ">="):
            unified = Shape._unify((a.shape(), b.shape()))
            signed = "s" if unified.signed and kind not in ("==", "!=") else ""
            both = [self.bits(a, unified.width), self.bits(b, unified.width)]
            return make.resize(make.compare(signed + kind, *both), width, False)
        raise TypeError(f"the operator {kind}, which has no form in Verilog here")

    def _addend(self, value: Value, width: int) -> Node:
        """Return the right operand of a sum. An inner sum keeps its width, so that synthesis makes a narrow adder."""
        shape = value.shape()
        is_sum = isinstance(value, Operator) and value.operator == "+" and len(value.operands) == 2
        if is_sum and not shape.signed and shape.width < width:
            return self.make.resize(self.bits(value), width, False)
        return self.bits(value, width)

    def condition(self, test: Value, patterns: Iterable[str | int]) -> Node:
        """Return whether a test matches one of some patterns."""
        found = [self._matches(test, _as_text(pattern, len(test))) for pattern in patterns]
        return self.make.bitwise("|", found) if found else self.make.const(0, 1)

    def _matches(self, test: Value, pattern: str) -> Node:
        make, node = self.make, self.bits(test)
        if "-" not in pattern:
            return make.compare("==", node, make.const(int(pattern or "0", 2), len(pattern)))
        bits = [
            make.slice(node, i, 1) if bit == "1" else make.invert(make.slice(node, i, 1))
            for i, bit in enumerate(reversed(pattern))
            if bit != "-"
        ]
        return make.bitwise("&", bits) if bits else make.const(1, 1)

    def _merged(self, test: Value, arms: Sequence[tuple[tuple[str | int, ...] | None, Node]], fallback: Node) -> Node:
        """Return the value of the first arm that matches."""
        exact = _exact(test, [patterns for patterns, _ in arms])
        if exact is None or len(test) == 1:
            result = fallback
            for patterns, value in reversed(arms):
                result = value if patterns is None else self.make.choose(self.condition(test, patterns), value, result)
            return result
        default = next((value for values, (_, value) in zip(exact, arms, strict=True) if values is None), fallback)
        pairs = [(values, value) for values, (_, value) in zip(exact, arms, strict=True) if values]
        return self.make.select(self.bits(test), pairs, default)

    # Statements

    def assigned(self, statements: Iterable[Any]) -> Iterator[tuple[Net, int, int]]:
        """Yield every target of combinational statements, with repetition."""
        for statement in statements:
            if isinstance(statement, Assign):
                yield from self.targets(statement.lhs)
            else:
                for _, inner, _ in statement.cases:
                    yield from self.assigned(inner)

    def targets(self, value: Value) -> list[tuple[Net, int, int]]:
        """Return net, lowest bit and width of each part of an assignment's left side, the lowest part first."""
        if isinstance(value, Signal):
            return [(self.net(value), 0, len(value))] if len(value) else []
        if isinstance(value, Operator) and value.operator in ("u", "s"):
            return self.targets(value.operands[0])
        if isinstance(value, Concat):
            return [target for part in value.parts for target in self.targets(part)]
        if isinstance(value, Slice):
            found, at = [], 0
            for net, low, width in self.targets(value.value):
                start, stop = max(value.start, at), min(value.stop, at + width)
                if start < stop:
                    found.append((net, low + start - at, stop - start))
                at += width
            return found
        raise TypeError(f"an assignment without a form in Verilog, to {value!r}")

    def combinational(
        self, statements: Iterable[Any], values: dict[tuple[int, int, int], Node], cuts: dict[int, list[int]]
    ) -> None:
        """Execute statements on `values`, whose keys are pieces of nets: (`id` of the net, lowest bit, width)."""
        for statement in statements:
            self.make.location = statement.src_loc
            if isinstance(statement, Assign):
                value, at = self.bits(statement.rhs, len(statement.lhs)), 0
                for net, low, width in self.targets(statement.lhs):
                    for start, stop in _pieces(cuts[id(net)], low, low + width):
                        values[id(net), start, stop - start] = self.make.slice(value, at + start - low, stop - start)
                    at += width
                continue
            branches = []
            for patterns, inner, _ in statement.cases:
                branch = dict(values)
                self.combinational(inner, branch, cuts)
                branches.append((patterns, branch))
            changed = dict.fromkeys(key for _, branch in branches for key in branch if branch[key] is not values[key])
            self.make.location = statement.src_loc
            before = {key: values[key] for key in changed}
            for key in changed:
                arms = [(patterns, branch[key]) for patterns, branch in branches]
                values[key] = self._merged(statement.test, arms, before[key])

    def synchronous(self, statements: Iterable[Any]) -> list[Statement]:
        """Return the statements of registers, with their conditions."""
        found: list[Statement] = []
        for statement in statements:
            self.make.location = statement.src_loc
            if isinstance(statement, Assign):
                found += self._assignments(statement)
                continue
            arms = [(patterns, self.synchronous(inner), place) for patterns, inner, place in statement.cases]
            exact = _exact(statement.test, [patterns for patterns, _, _ in arms])
            if exact is not None and len(statement.test) > 1:
                pairs = list(zip(exact, arms, strict=True))
                rest = next((body for values, (_, body, _) in pairs if values is None), None)
                branches: list[tuple[Any, list[Statement], Any]] = [
                    (values, body, place) for values, (_, body, place) in pairs if values and (body or rest)
                ]
                if rest:
                    branches.append((None, rest, next(place for values, (_, _, place) in pairs if values is None)))
                if branches:
                    found.append(Branch(self.bits(statement.test), branches, statement.src_loc))
                continue
            tested: list[tuple[Any, list[Statement], Any]] = []
            for patterns, body, place in arms:
                condition = self.make.const(1, 1) if patterns is None else self.condition(statement.test, patterns)
                if condition.is_zero:
                    continue
                tested.append((None if condition.is_ones else condition, body, place))
                if condition.is_ones:
                    break
            while tested and not tested[-1][1]:
                tested.pop()
            if tested and tested[0][0] is None:
                found += tested[0][1]
            elif tested:
                found.append(Branch(None, tested, statement.src_loc))
        return _joined(found)

    def _assignments(self, statement: Assign) -> Iterator[Assignment]:
        if isinstance(statement.lhs, Part | SwitchValue):
            raise TypeError(f"an assignment without a form in Verilog, to {statement.lhs!r}")
        value, at = self.bits(statement.rhs, len(statement.lhs)), 0
        targets = self.targets(statement.lhs)
        split = value.kind in ("cat", "const", "net", "slice", "repeat")
        if not split or len(targets) == 1:
            if targets:
                yield Assignment(targets, value, statement.src_loc)
            return
        for net, low, width in targets:
            yield Assignment([(net, low, width)], self.make.slice(value, at, width), statement.src_loc)
            at += width


def _joined(statements: list[Statement]) -> list[Statement]:
    """Join consecutive statements with the same condition under one ``if``."""
    found: list[Statement] = []
    for statement in statements:
        last = found[-1] if found else None
        if (
            isinstance(statement, Branch)
            and isinstance(last, Branch)
            and statement.test is last.test is None
            and len(statement.arms) == len(last.arms) == 1
            and statement.arms[0][0] is last.arms[0][0]
        ):
            condition, body, place = last.arms[0]
            found[-1] = Branch(None, [(condition, body + statement.arms[0][1], place)], last.location)
        else:
            found.append(statement)
    return found


def _as_text(pattern: str | int, width: int) -> str:
    return pattern if isinstance(pattern, str) else format(pattern & ((1 << width) - 1), f"0{width}b")


def _exact(test: Value, cases: Sequence[tuple[str | int, ...] | None]) -> list[tuple[int, ...] | None] | None:
    """Return the values of each case without those of earlier cases, or None if a case has don't-care bits."""
    if len(test) == 0:
        return None
    found: list[tuple[int, ...] | None] = []
    taken: set[int] = set()
    for patterns in cases:
        if patterns is None:
            found.append(None)
            return found + [()] * (len(cases) - len(found))
        texts = [_as_text(pattern, len(test)) for pattern in patterns]
        if any("-" in text for text in texts):
            return None
        values = [int(text, 2) for text in texts]
        found.append(tuple(value for value in dict.fromkeys(values) if value not in taken))
        taken |= set(values)
    return found


def _pieces(cuts: Sequence[int], low: int, high: int) -> Iterator[tuple[int, int]]:
    inside = [cut for cut in cuts if low <= cut <= high]
    yield from pairwise(inside)
