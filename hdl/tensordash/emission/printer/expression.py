"""Expressions of one module: bit vectors, each made once and simplified as it is made."""

from collections.abc import Iterable, Sequence

from .nodes import COMMUTATIVE, COMPARISONS, Net, Node

__all__ = ["Expressions"]


class Expressions:
    """Makes the expressions of a module. Equal expressions are the same object."""

    def __init__(self) -> None:
        self._made: dict[tuple, Node] = {}
        self.location: tuple[str, int] | None = None

    def _make(self, kind: str, width: int, args: Sequence[Node] = (), value=None) -> Node:
        args = tuple(args)
        key = (kind, width, tuple(map(id, args)), id(value) if isinstance(value, Net) else value)
        if key not in self._made:
            self._made[key] = Node(kind, width, args, value, self.location)
        return self._made[key]

    # Leaves

    def const(self, value: int, width: int) -> Node:
        return self._make("const", width, (), value & ((1 << width) - 1))

    def net(self, net: Net) -> Node:
        return self._make("net", net.width, (), net)

    # Wiring

    def slice(self, x: Node, low: int, width: int) -> Node:
        """Return bits of an expression."""
        if width == x.width:
            return x
        if width == 0:
            return self.const(0, 0)
        if x.kind == "const":
            return self.const(x.value >> low, width)
        if x.kind == "slice":
            return self.slice(x.args[0], x.value + low, width)
        if x.kind == "cat":
            parts, at = [], 0
            for part in x.args:
                start, stop = max(low, at), min(low + width, at + part.width)
                if start < stop:
                    parts.append(self.slice(part, start - at, stop - start))
                at += part.width
            return self.cat(parts)
        if x.kind == "repeat" and x.args[0].width == 1:
            return self.repeat(x.args[0], width)
        if low == 0 and x.kind in ("+", "-", "*", "<<"):
            operands = x.args[1:] if x.kind == "<<" else ()
            narrow = [self.slice(arg, 0, width) for arg in (x.args[:1] if x.kind == "<<" else x.args)]
            return self._arithmetic(x.kind, width, [*narrow, *operands])
        pushed = self._pushed(x, low, width)
        return pushed if pushed is not None else self._make("slice", width, (x,), low)

    def _pushed(self, x: Node, low: int, width: int) -> Node | None:
        """Return the operator of sliced operands, if that takes no more operators."""
        if x.kind not in ("~", "?:", *COMMUTATIVE):
            return None
        skip = 1 if x.kind == "?:" else 0
        args = [self.slice(arg, low, width) for arg in x.args[skip:]]
        if any(arg.kind == "slice" and arg.args[0].kind not in ("net",) for arg in args):
            return None
        if any(arg.kind not in ("const", "net", "slice", "cat", "repeat") for arg in args):
            return None
        if x.kind == "~":
            return self.invert(args[0])
        if x.kind == "?:":
            return self.choose(x.args[0], *args)
        return self.bitwise(x.kind, args)

    def cat(self, parts: Iterable[Node]) -> Node:
        """Return a concatenation, lowest bits first."""
        flat: list[Node] = []
        for part in parts:
            for piece in part.args if part.kind == "cat" else (part,):
                if piece.width == 0:
                    continue
                flat.append(piece)
                while len(flat) > 1 and (merged := self._merged(flat[-2], flat[-1])) is not None:
                    flat[-2:] = [merged]
        if not flat:
            return self.const(0, 0)
        if _is_whole(flat):
            return flat[0].args[0]
        if len(flat) == 1:
            return flat[0]
        if len(flat) > 1 and all(piece is flat[0] for piece in flat):
            return self.repeat(flat[0], len(flat))
        return self._make("cat", sum(piece.width for piece in flat), flat)

    def _merged(self, low: Node, high: Node) -> Node | None:
        if low.kind == high.kind == "const":
            return self.const(low.value | high.value << low.width, low.width + high.width)
        if low.kind == high.kind == "slice" and low.args == high.args and low.value + low.width == high.value:
            return None if _are_fields(low, high) else self.slice(low.args[0], low.value, low.width + high.width)
        (bit, count), (other, others) = _repeated(low), _repeated(high)
        return self.repeat(bit, count + others) if bit is other else self._alongside(low, high)

    def _alongside(self, low: Node, high: Node) -> Node | None:
        """Return one vector expression for two with the same operator on neighbouring bits."""
        if low.kind != high.kind or low.kind not in ("~", "?:", *COMMUTATIVE) or len(low.args) != len(high.args):
            return None
        skip = 1 if low.kind == "?:" else 0
        if skip and low.args[0] is not high.args[0]:
            return None
        pairs = zip(low.args[skip:], high.args[skip:], strict=True)
        merged = [self._merged(a, b) or self._repeated(a, b) for a, b in pairs]
        if any(each is None for each in merged):
            return None
        args = [each for each in merged if each is not None]
        if low.kind == "~":
            return self.invert(args[0])
        return self.choose(low.args[0], *args) if skip else self.bitwise(low.kind, args)

    def _repeated(self, low: Node, high: Node) -> Node | None:
        """Return a repetition that is one bit longer, if `high` is the repeated bit."""
        bit, times = (low.args[0], low.value) if low.kind == "repeat" else (low, 1)
        return self.repeat(bit, times + 1) if high is bit and bit.width == 1 else None

    def repeat(self, x: Node, count: int) -> Node:
        """Return a concatenation of `count` copies of an expression."""
        if x.kind == "const":
            return self.const(sum(x.value << x.width * i for i in range(count)), x.width * count)
        if count == 1:
            return x
        if x.kind == "repeat":
            return self.repeat(x.args[0], count * x.value)
        return self._make("repeat", x.width * count, (x,), count)

    def resize(self, x: Node, width: int, signed: bool) -> Node:
        """Return an expression of another width: truncated, or extended with its sign or zeros."""
        if width <= x.width:
            return self.slice(x, 0, width)
        if signed and x.width:
            return self.cat([x, self.repeat(self.slice(x, x.width - 1, 1), width - x.width)])
        return self.cat([x, self.const(0, width - x.width)])

    # Bits

    def invert(self, x: Node) -> Node:
        if x.kind == "const":
            return self.const(~x.value, x.width)
        if x.kind == "~":
            return x.args[0]
        if x.kind in COMPARISONS:
            return self._make(COMPARISONS[x.kind], 1, x.args)
        if x.kind == "repeat":
            return self.repeat(self.invert(x.args[0]), x.value)
        return self._make("~", x.width, (x,))

    def bitwise(self, kind: str, args: Iterable[Node]) -> Node:
        """Return ``&``, ``|`` or ``^`` of several operands."""
        flat: list[Node] = []
        for arg in args:
            flat += arg.args if arg.kind == kind else (arg,)
        width = flat[0].width
        ones, zeros = self.const(-1, width), self.const(0, width)
        absorbing, neutral = {"&": (zeros, ones), "|": (ones, zeros), "^": (None, zeros)}[kind]
        if any(arg is absorbing for arg in flat):
            assert absorbing is not None
            return absorbing
        flat = [arg for arg in flat if arg is not neutral]
        if kind == "^":
            inverted = sum(arg is ones for arg in flat) % 2
            flat = [arg for arg in flat if arg is not ones]
            if inverted:
                return self.invert(self.bitwise("^", flat or [zeros]))
        else:
            flat = list(dict.fromkeys(flat))
            if any(arg.kind == "~" and arg.args[0] in flat for arg in flat):
                assert absorbing is not None
                return absorbing
        if not flat:
            return neutral
        used = max((min if kind == "&" else max)(arg.used_bits for arg in flat), 1)
        if used < width and len(flat) > 1:
            low = self.bitwise(kind, [self.slice(arg, 0, used) for arg in flat])
            return self.cat([low, self.const(0, width - used)])
        return flat[0] if len(flat) == 1 else self._make(kind, width, flat)

    def reduce(self, kind: str, x: Node) -> Node:
        """Return ``r&``, ``r|`` or ``r^``, the reduction of all bits to one."""
        operator = kind[1]
        if x.width == 0:
            return self.const(kind == "r&", 1)
        if x.width == 1:
            return x
        if x.kind == "repeat" and operator != "^":
            return self.reduce(kind, x.args[0])
        if x.kind == "cat" and (all(part.width == 1 or part.kind == "const" for part in x.args) or len(x.args) == 2):
            return self.bitwise(operator, [self.reduce(kind, part) for part in x.args])
        if x.kind == "const":
            bits = x.value.bit_count()
            return self.const({"&": x.is_ones, "|": bits > 0, "^": bits % 2}[operator], 1)
        if x.kind == "~" and operator != "^":
            return self.invert(self.reduce("r|" if operator == "&" else "r&", x.args[0]))
        return self._make(kind, 1, (x,))

    # Numbers

    def _arithmetic(self, kind: str, width: int, args: Sequence[Node]) -> Node:
        if kind == "+":
            return self.add(*args)
        if kind == "-":
            return self.subtract(*args)
        return self.multiply(*args) if kind == "*" else self.shift_left(*args)

    def add(self, a: Node, b: Node) -> Node:
        """Return the sum, in the operands' width."""
        if a.kind == b.kind == "const":
            return self.const(a.value + b.value, a.width)
        if a.is_zero or b.is_zero:
            return b if a.is_zero else a
        if a.kind == "const":
            a, b = b, a
        if b.kind == "const" and b.value > 1 << (b.width - 1) and b.width > 1:
            return self.subtract(a, self.const(-b.value, b.width))
        return self._make("+", a.width, (a, b))

    def subtract(self, a: Node, b: Node) -> Node:
        """Return the difference, in the operands' width."""
        if a.kind == b.kind == "const":
            return self.const(a.value - b.value, a.width)
        if b.is_zero:
            return a
        return self._make("-", a.width, (a, b)) if not a.is_zero else self._make("neg", a.width, (b,))

    def multiply(self, a: Node, b: Node) -> Node:
        """Return the product, in the operands' width."""
        if a.kind == b.kind == "const":
            return self.const(a.value * b.value, a.width)
        return self._make("*", a.width, (a, b))

    def shift_left(self, x: Node, by: Node) -> Node:
        """Return the operand shifted left, in its own width."""
        if by.kind == "const":
            low = min(by.value, x.width)
            return self.cat([self.const(0, low), self.slice(x, 0, x.width - low)])
        return x if x.is_zero else self._make("<<", x.width, (x, by))

    def shift_right(self, x: Node, by: Node, signed: bool) -> Node:
        """Return the operand shifted right, in its own width."""
        if by.kind == "const":
            low = min(by.value, x.width)
            if signed and low == x.width:
                low -= 1
            return self.resize(self.slice(x, low, x.width - low), x.width, signed)
        return x if x.is_zero else self._make("s>>" if signed else ">>", x.width, (x, by))

    def compare(self, kind: str, a: Node, b: Node) -> Node:
        """Return a comparison. It is unsigned unless `kind` begins with s."""
        if a.kind == "const" and b.kind != "const":
            mirrored = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
            return self.compare(_mirrored(kind, mirrored), b, a)
        signed = kind[0] == "s"
        if signed and a.is_nonnegative and b.is_nonnegative:
            kind, signed = kind[1:], False
        if not signed:
            used = max(a.used_bits, b.used_bits, 1)
            if used < a.width:
                if kind in ("==", "!=") and b.kind == "const" and b.value >> a.used_bits:
                    return self.const(kind == "!=", 1)
                a, b = self.slice(a, 0, used), self.slice(b, 0, used)
        if a.kind == b.kind == "const":
            return self.const(_compared(kind, a, b), 1)
        if a is b:
            return self.const(kind[-1] == "=" and kind != "!=", 1)
        if kind in ("==", "!="):
            if a.width == 1:
                return self._of_bits(kind, a, b)
            if b.is_zero:
                return self._is_zero(kind, a)
            if b.is_ones and a.kind in ("cat", "repeat"):
                found = self.reduce("r&", a)
                return found if kind == "==" else self.invert(found)
        if kind == "s<" and b.is_zero and a.kind in ("net", "slice", "cat", "repeat"):
            return self.slice(a, a.width - 1, 1)
        if kind == "s>=" and b.is_zero and a.kind in ("net", "slice", "cat", "repeat"):
            return self.invert(self.slice(a, a.width - 1, 1))
        if kind in ("<", ">=") and b.kind == "const" and b.value == 1:
            return self._is_zero("==" if kind == "<" else "!=", a)
        if kind in (">", "<=") and b.is_zero:
            return self._is_zero("!=" if kind == ">" else "==", a)
        return self._make(kind, 1, (a, b))

    def _is_zero(self, kind: str, x: Node) -> Node:
        if x.width == 1 or x.kind in ("cat", "repeat"):
            found = self.reduce("r|", x)
            return found if kind == "!=" else self.invert(found)
        return self._make(kind, 1, (x, self.const(0, x.width)))

    def _of_bits(self, kind: str, a: Node, b: Node) -> Node:
        if b.kind == "const":
            return a if (kind == "==") == bool(b.value) else self.invert(a)
        different = self.bitwise("^", [a, b])
        return different if kind == "!=" else self.invert(different)

    # Choices

    def choose(self, condition: Node, then: Node, otherwise: Node) -> Node:
        """Return `then` if the condition, a bit, holds, and `otherwise` if not."""
        if condition.kind == "const":
            return then if condition.value else otherwise
        if then is otherwise:
            return then
        if condition.kind == "~" or condition.kind == "!=":
            condition, then, otherwise = self.invert(condition), otherwise, then
        used = max(then.used_bits, otherwise.used_bits, 1)
        if used < then.width:
            low = self.choose(condition, self.slice(then, 0, used), self.slice(otherwise, 0, used))
            return self.cat([low, self.const(0, then.width - used)])
        if then.kind == "?:" and then.args[0] is condition:
            then = then.args[1]
        if otherwise.kind == "?:" and otherwise.args[0] is condition:
            otherwise = otherwise.args[2]
        if then.width == 1:
            if then.is_ones or then is condition:
                return self.bitwise("|", [condition, otherwise])
            if otherwise.is_zero or otherwise is condition:
                return self.bitwise("&", [condition, then])
            if then.is_zero:
                return self.bitwise("&", [self.invert(condition), otherwise])
            if otherwise.is_ones:
                return self.bitwise("|", [self.invert(condition), then])
        return self._make("?:", then.width, (condition, then, otherwise))

    def select(self, test: Node, arms: Sequence[tuple[tuple[int, ...], Node]], default: Node) -> Node:
        """Return the arm whose values include `test`, or the default. No value is in two arms."""
        if test.kind == "const":
            return next((value for values, value in arms if test.value in values), default)
        used = max(default.used_bits, 1, *(value.used_bits for _, value in arms))
        if used < default.width:
            arms = [(values, self.slice(value, 0, used)) for values, value in arms]
            low = self.select(test, arms, self.slice(default, 0, used))
            return self.cat([low, self.const(0, default.width - used)])
        grouped: dict[Node, tuple[int, ...]] = {}
        for values, value in arms:
            grouped[value] = grouped.get(value, ()) + values
        if sum(map(len, grouped.values())) == 1 << test.width:  # the arms cover every value of `test`
            default = max(grouped, key=lambda value: len(grouped[value]))
        grouped.pop(default, None)
        if not grouped:
            return default
        if len(grouped) <= 2 or (default.width == 1 and len(grouped) <= 3):
            result = default
            for value, values in reversed(grouped.items()):
                matches = [self.compare("==", test, self.const(each, test.width)) for each in values]
                result = self.choose(self.bitwise("|", matches), value, result)
            return result
        return self._make("case", default.width, (test, *grouped, default), tuple(grouped.values()))

    def index(self, x: Node, place: Node, width: int) -> Node:
        """Return word `place` of a net that has a word for each value of `place`."""
        if place.kind == "const":
            return self.slice(x, place.value * width, width)
        return self._make("index", width, (x, place))


def _repeated(node: Node) -> tuple[Node, int]:
    """Return the node that a node repeats, and the number of repetitions."""
    return (node.args[0], node.value) if node.kind == "repeat" else (node, 1)


def _are_fields(low: Node, high: Node) -> bool:
    """Return whether neighbouring slices belong to different fields of a structure."""
    inner = low.args[0]
    if inner.kind != "net":
        return False
    starts = {at for _, at, _ in inner.value.fields}
    return high.value in starts and (low.value + low.width) in {at + width for _, at, width in inner.value.fields}


def _is_whole(parts: list[Node]) -> bool:
    """Return whether slices are all bits of one expression, in order."""
    inner, at = parts[0].args[0] if parts[0].kind == "slice" else None, 0
    for part in parts:
        if inner is None or part.kind != "slice" or part.args[0] is not inner or part.value != at:
            return False
        at += part.width
    return inner is not None and at == inner.width


def _mirrored(kind: str, mirrored: dict[str, str]) -> str:
    return "s" + mirrored[kind[1:]] if kind[0] == "s" else mirrored.get(kind, kind)


def _compared(kind: str, a: Node, b: Node) -> bool:
    x, y = a.value, b.value
    if kind[0] == "s":
        x, y = ((v ^ 1 << a.width - 1) - (1 << a.width - 1) for v in (x, y))
    return {
        "==": x == y, "!=": x != y, "<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y
    }[kind.removeprefix("s")]  # fmt: skip
