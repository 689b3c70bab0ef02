"""A module on the page: declarations beside what they belong to, statements in the source's order, its comments."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from .collect import Cell, Item, Memory, ModuleModel, Registers, Wire, assignments
from .expression import Net, Node
from .inlining import LEAVES, driven, roots
from .lowering import Assignment, Branch, Statement
from .source import comment_above, comment_after, comment_of_state, purpose_of
from .text import LINE, Text, broken, constant, select

__all__ = ["Page"]

SHARED = 12
"""Statements of a block of registers that others join."""


def _trailing_comment(comment: str) -> str:
    return f"  // {comment}" if 0 < len(comment) < 60 else ""


class Page:
    """Writes one module.

    Parameters
    ----------
    name : str
        Of the module.
    model : ModuleModel
        What is in it, every net with a name.
    names : dict of Node to Net
        Expressions that are wires.
    """

    def __init__(self, name: str, model: ModuleModel, names: dict[Node, Net]) -> None:
        self.name, self.model = name, model
        self.text = Text(names)
        self.names = names
        self.lines: list[str] = []
        self.declared: dict[Net, None] = dict.fromkeys(model.ports)
        self.declared.update((net, None) for net in (model.clock, model.reset) if net is not None)
        self.commented: set[tuple[str, int]] = set()
        self.always: set[Net] = {
            item.net
            for item in model.items
            if isinstance(item, Wire) and len(item.pieces) == 1 and item.pieces[0][1].kind == "case"
        }
        self.registers = {
            net for item in model.items if isinstance(item, Registers | Memory) for net in driven(item)
        } | self.always
        self.clocked = frozenset(self._clocked())

    def module(self, notes: Mapping[str, str] = {}) -> str:
        """Return the module, from ``module`` to ``endmodule``; `notes` stand beside ports, by name."""
        ports = [net for net in (self.model.clock, self.model.reset) if net is not None and net.name in self.clocked]
        ports += self.model.ports
        head = "\n".join(self._port(net, "," * (net is not ports[-1]), notes.get(net.name, "")) for net in ports)
        self._states()
        previous: Item | None = None
        self._join_registers()
        for item in self.model.items:
            self._item(item, previous)
            previous = item
        while self.lines and not self.lines[0]:
            self.lines.pop(0)
        body = "\n".join(self.lines)
        return f"module {self.name}(\n{head}\n);\n{body}\nendmodule\n"

    def _port(self, net: Net, comma: str, note: str) -> str:
        line = f"  {self._declaration(net)}{comma}"
        noted = f"{line}  // {note}"
        return noted if note and len(noted) <= LINE else line

    def partly_unused(self) -> tuple[str, ...]:
        """Inputs and nets of which nobody reads all bits, but for those that are called unused."""
        read: dict[Net, int] = {net: (1 << net.width) - 1 for net in self.model.ports if net.kind == "output"}
        seen: set[Node] = set()
        stack: list[Node] = []
        for item in self.model.items:
            for root in roots(item):
                defines = isinstance(item, Wire) and self.names.get(root) is item.net
                stack.extend(root.args if defines else (root,))
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            inner = node.args[0] if node.kind == "slice" else node
            net = inner.value if inner.kind == "net" else self.names.get(inner)
            if net is not None:
                low = node.value if node.kind == "slice" else 0
                read[net] = read.get(net, 0) | ((1 << node.width) - 1) << low
            elif node.args:
                stack.extend(node.args)
        return tuple(
            net.name
            for net in dict.fromkeys([*self.model.ports, *self.declared])
            if net.name not in ("clk", "rst") and read.get(net, 0) != (1 << net.width) - 1 and "unused" not in net.name
        )

    def _join_registers(self) -> None:
        """Registers that follow one another without a comment between them share a block."""
        joined: list[Item] = []
        for item in self.model.items:
            last = joined[-1] if joined else None
            if (
                isinstance(item, Registers)
                and isinstance(last, Registers)
                and not comment_above(item.statements[0].location)
                and len(last.statements) < SHARED
            ):
                joined[-1] = Registers([*last.statements, *item.statements], last.location)
            else:
                joined.append(item)
        self.model.items = joined

    def _clocked(self) -> Iterator[str]:
        """Yield which of clk and rst the module has."""
        items = self.model.items
        if any(isinstance(item, Registers | Memory) for item in items):
            yield "clk"
        if any(net.resets for item in items if isinstance(item, Registers) for net in driven(item)):
            yield "rst"
        read = set(self._read_nets())
        yield from (net.name for net in (self.model.clock, self.model.reset) if net in read)

    def _declaration(self, net: Net) -> str:
        kind = "reg" if net in self.registers else "wire"
        direction = f"{net.kind} " if net.kind in ("input", "output") else ""
        bits = f" [{net.width - 1}:0]" if net.width > 1 else ""
        return f"{direction}{kind}{bits} {net.name}"

    def _states(self) -> None:
        """Names of states and of values of enumerations."""
        written: dict[str, str] = {}
        paths = dict.fromkeys(item.location[0] for item in self.model.items if item.location)
        for net in dict.fromkeys(self._read_nets()):
            for value, name in net.states.items():
                line = f"  localparam [{net.width - 1}:0] {name} = {net.width}'d{value};"
                written[name] = line + _trailing_comment(comment_of_state(paths, name))
        if written:
            self.lines += [*written.values(), ""]

    def _read_nets(self) -> Iterator[Net]:
        for item in self.model.items:
            yield from driven(item)
            for root in roots(item):
                stack, seen = [root], set()
                while stack:
                    node = stack.pop()
                    if node not in seen:
                        seen.add(node)
                        if node.kind == "net":
                            yield node.value
                        stack.extend(node.args)

    # Items

    def _item(self, item: Item, previous: Item | None) -> None:
        heading = self._heading(item)
        block = isinstance(item, Registers | Cell | Memory)
        if heading or block or isinstance(previous, Registers | Cell | Memory):
            self._blank()
        self.lines += heading
        self._declare(item)
        if isinstance(item, Wire):
            self._wire(item)
        elif isinstance(item, Registers):
            self._registers(item)
        elif isinstance(item, Cell):
            self._cell(item)
        else:
            self._memory(item)

    def _blank(self) -> None:
        if self.lines and self.lines[-1]:
            self.lines.append("")

    def _heading(self, item: Item) -> list[str]:
        location = item.location
        if isinstance(item, Registers):
            location = item.statements[0].location
        found = []
        if location is not None:
            line, purpose = purpose_of(location)
            if purpose and (location[0], line) not in self.commented:
                self.commented.add((location[0], line))
                found += [f"  // {text}" for text in textwrap.wrap(purpose, LINE - 5, break_on_hyphens=False)]
            for line, text in comment_above(location):
                if (location[0], line) not in self.commented:
                    self.commented.add((location[0], line))
                    found.append(f"  // {text}")
        return found

    def _declare(self, item: Item) -> None:
        """Declare what is met for the first time, but for a wire that is declared where it gets its value."""
        own = item.net if isinstance(item, Wire) and self._is_initialised(item) else None
        line, before = "", ("", "")
        for net in self._nets(item):
            if net is own or net in self.declared:
                continue
            self.declared[net] = None
            declaration, remark = self._declaration(net), self._remark(net)
            kind = declaration.removesuffix(net.name), remark
            if line and kind == before and len(f"{line}, {net.name};{remark}") <= LINE:
                line += f", {net.name}"
                continue
            if line:
                self.lines.append(f"{line};{before[1]}")
            line, before = f"  {declaration}", kind
        if line:
            self.lines.append(f"{line};{before[1]}")

    def _remark(self, net: Net) -> str:
        return _trailing_comment(comment_after(net.location))

    def _is_initialised(self, item: Wire) -> bool:
        return item.net not in self.declared and item.net not in self.always and self._as_one(item) is not None

    def _nets(self, item: Item) -> Iterator[Net]:
        own = list(driven(item))
        read: list[Net] = []
        for root in roots(item):
            stack, seen = [(root, True)], set()
            while stack:
                node, is_root = stack.pop()
                if node in seen:
                    continue
                seen.add(node)
                if node in self.names and not (is_root and isinstance(item, Wire) and self.names[node] in own):
                    read.append(self.names[node])
                    continue
                if node.kind == "net":
                    read.append(node.value)
                stack.extend((arg, False) for arg in reversed(node.args))
        yield from dict.fromkeys([*read, *own])

    def _as_one(self, item: Wire) -> Node | None:
        """Return the value of all of a wire, if it fits on a line or comes from one expression."""
        if sum(node.width for _, node in item.pieces) < item.net.width:
            return None  # an instance drives the rest
        if len(item.pieces) == 1:
            return item.pieces[0][1]
        whole = self.model.make.cat(node for _, node in item.pieces)
        leaves = all(part.kind in LEAVES for part in whole.args)
        short = leaves or len(self.text.flat(whole)) < LINE - 20 - len(item.net.name)
        return whole if whole.kind != "cat" or short else None

    def _wire(self, item: Wire) -> None:
        net, whole = item.net, self._as_one(item)
        if net in self.always:
            self._choice(net, item.pieces[0][1])
            return
        if whole is None:
            for low, node in item.pieces:
                target = select(net.name, low, node.width, net.width)
                self.lines += self.text.lines(f"assign {target} = ", node, ";", 2)
            return
        head = f"assign {net.name} = "
        remark = ""
        if net not in self.declared:
            self.declared[net] = None
            head = f"{self._declaration(net)} = "
            remark = self._remark(net)
        lines = self.text.lines(head, whole, ";", 2, net.states, defines=self._defines(net, whole))
        if remark and len(lines) == 1 and len(lines[0]) + len(remark) <= LINE:
            lines[0] += remark
        elif remark:
            lines.insert(0, "  " + remark.strip())
        self.lines += lines

    def _defines(self, net: Net, node: Node) -> bool:
        return self.names.get(node) in (net, None)

    def _choice(self, net: Net, node: Node) -> None:
        """A choice by the values of an expression."""
        test, *values, default = node.args
        self.lines.append("  always @*")
        self.lines += self.text.lines("case (", test, ")", 4)
        names = test.value.states if test.kind == "net" else {}
        for matches, value in zip(node.value, values, strict=True):
            label = ", ".join(names.get(each) or constant(each, test.width) for each in matches)
            self.lines += self.text.lines(f"{label}: {net.name} = ", value, ";", 6, net.states)
        self.lines += self.text.lines(f"default: {net.name} = ", default, ";", 6, net.states)
        self.lines.append("    endcase")

    def _registers(self, item: Registers) -> None:
        body = [line for statement in item.statements for line in self._statement(statement, 4)]
        resets = dict.fromkeys(net for each in assignments(item.statements) for net, _, _ in each.targets if net.resets)
        if resets:
            rows = [f"{net.name} <= {net.states.get(net.init) or constant(net.init, net.width)};" for net in resets]
            body += (
                [f"    if (rst) {rows[0]}"]
                if len(rows) == 1
                else ["    if (rst) begin", *(f"      {row}" for row in rows), "    end"]
            )
        simple = len(item.statements) == 1 and not resets
        self.lines.append("  always @(posedge clk)" if simple else "  always @(posedge clk) begin")
        self.lines += body
        if not simple:
            self.lines.append("  end")

    def _statement(self, statement: Statement, indent: int) -> Iterator[str]:
        if isinstance(statement, Assignment):
            yield from self._assignment(statement, indent)
        elif statement.test is None:
            yield from self._conditional(statement, indent)
        else:
            yield from self._case(statement, indent)

    def _assignment(self, statement: Assignment, indent: int) -> list[str]:
        names = [select(net.name, low, width, net.width) for net, low, width in statement.targets]
        target = names[0] if len(names) == 1 else "{" + ", ".join(reversed(names)) + "}"
        states = statement.targets[0][0].states if len(names) == 1 else {}
        return self.text.lines(f"{target} <= ", statement.value, ";", indent, states)

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
        for statement in body:
            for line, text in comment_above(statement.location):
                assert statement.location is not None
                if (statement.location[0], line) not in self.commented:
                    self.commented.add((statement.location[0], line))
                    yield f"{' ' * indent}// {text}"
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

    def _cell(self, item: Cell) -> None:
        connections = {}
        for port in item.ports:
            if port in item.inputs:
                connections[port] = self.text.operand(item.inputs[port])
                continue
            targets = item.outputs[port]
            names = [select(net.name, low, width, net.width) for net, low, width in targets]
            connections[port] = names[0] if len(names) == 1 else "{" + ", ".join(reversed(names)) + "}"
        self.lines.append(f"  {item.module} {item.name} (")
        rows: list[str] = []
        for port, text in connections.items():
            first, *rest = broken(f".{port}({text})", LINE - 5)
            if rows and not rest and len(rows[-1]) + len(first) + 3 <= LINE and rows[-1].startswith("    ."):
                rows[-1] += f", {first}"
                continue
            rows += [f"    {line}" for line in (first, *rest)]
            if len(rows) > 1 + len(rest):
                rows[-2 - len(rest)] += ","
        self.lines += [*rows, "  );"]

    def _memory(self, item: Memory) -> None:
        name, flat = item.name, self.text.flat
        self.lines.append(f"  reg [{item.width - 1}:0] {name} [0:{item.depth - 1}];")
        self.lines.append("  always @(posedge clk) begin")
        for enable, address, data in item.writes:
            part = item.width // enable.width
            for k in range(enable.width):
                make = self.model.make
                bits = f"[{part * (k + 1) - 1}:{part * k}]" if enable.width > 1 else ""
                value = make.slice(data, part * k, part)
                self.lines.append(f"    if ({flat(make.slice(enable, k, 1))})")
                self.lines.append(f"      {name}[{flat(address)}]{bits} <= {flat(value)};")
        for enable, address, net in item.reads:
            self.lines.append(f"    if ({flat(enable)})")
            self.lines.append(f"      {net.name} <= {name}[{flat(address)}];")
        self.lines.append("  end")
