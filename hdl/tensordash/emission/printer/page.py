"""Printing of a module: declarations next to their statements, statements in the source's order, its comments."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, groupby

from .collect import Cell, Item, Memory, ModuleModel, Registers, Wire
from .inlining import LEAVES
from .instances import gathered, instance
from .nodes import Net, Node
from .source import comment_above, comment_after, comment_of_state, purpose_of
from .statements import Statements
from .text import LINE, Text, comment_lines, constant, select
from .uses import driven, roots

__all__ = ["Page"]

SHARED = 12
"""Maximum number of statements in an ``always`` block that further registers may join."""
AXI_PORT = re.compile(
    r"(?P<channel>\w+_(?:aw|ar|w|r|b|t))"
    r"(?:addr|burst|cache|data|id|keep|last|len|lock|prot|qos|ready|region|resp|size|strb|user|valid)"
)


def _shared(entries: Iterable[tuple[str, str, str]]) -> list[tuple[str, str]]:
    """Return declarations and their remarks. Neighbours with the same kind and remark share a declaration."""
    rows: list[tuple[str, str, str]] = []
    for kind, name, remark in entries:
        if rows and rows[-1][::2] == (kind, remark) and len(f"  {rows[-1][1]}, {name};{remark}") <= LINE:
            rows[-1] = kind, f"{rows[-1][1]}, {name}", remark
        else:
            rows.append((kind, f"{kind} {name}", remark))
    return [(text, remark) for _, text, remark in rows]


def _channel(name: str) -> str:
    """Return the bus and the AXI channel of a port, such as "m_axi_aw", or an empty string."""
    found = AXI_PORT.fullmatch(name)
    return found["channel"] if found else ""


def _pin(name: str) -> str:
    return name.rpartition("__")[2]


def _trailing_comment(comment: str) -> str:
    return f"  // {comment}" if 0 < len(comment) < 60 else ""


class Page:
    """Writes one module.

    Parameters
    ----------
    name : str
        Name of the module.
    model : ModuleModel
        Its contents, with all nets named.
    names : dict of Node to Net
        Expressions with a wire of their own.
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
        assert model.reset is not None
        self.statements = Statements(model.make, model.reset, self.text, self.commented)

    def module(self, notes: Mapping[str, str] = {}) -> str:
        """Return the module, from ``module`` to ``endmodule``. `notes` are comments beside ports, by name."""
        ports = [net for net in (self.model.clock, self.model.reset) if net is not None and net.name in self.clocked]
        ports += self.model.ports
        head = "\n".join(self._ports(ports, notes))
        self._states()
        previous: Item | None = None
        self._join_registers()
        self._split_concatenations()
        for run in gathered(self.model.items, self._belongs):
            self._run(run, previous)
            previous = run[-1]
        while self.lines and not self.lines[0]:
            self.lines.pop(0)
        body = "\n".join(self.lines)
        return f"module {self.name}(\n{head}\n);\n{body}\nendmodule\n"

    def _ports(self, ports: Sequence[Net], notes: Mapping[str, str]) -> list[str]:
        """Return the lines of the ports. Equal neighbours of one channel share a line, unless a port has a note."""
        clocks = (self.model.clock, self.model.reset)
        rows = [
            row
            for _, alike in groupby(
                ports, lambda net: (net in clocks, _channel(net.name), net if notes.get(net.name) else None)
            )
            for row in _shared((self._kind(net), net.name, notes.get(net.name, "")) for net in alike)
        ]
        lines = []
        for number, (text, note) in enumerate(rows, 1):
            line = f"  {text}," if number < len(rows) else f"  {text}"
            noted = f"{line}  // {note}"
            lines.append(noted if note and len(noted) <= LINE else line)
        return lines

    def partly_unused(self) -> tuple[str, ...]:
        """Return inputs and nets with bits that are never read, except those with "unused" in their name."""
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
        """Join consecutive registers without a comment in between to one block."""
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

    def _split_concatenations(self) -> None:
        """Assign the parts of a vector one by one if one of them is a sum of products on several lines."""
        for item in self.model.items:
            if isinstance(item, Wire) and len(item.pieces) == 1 and item.pieces[0][1].kind == "cat":
                parts = item.pieces[0][1].args
                if any(part not in self.names and self._needs_rows(part) for part in parts):
                    lows = accumulate((part.width for part in parts), initial=0)
                    item.pieces = list(zip(lows, parts, strict=False))

    def _needs_rows(self, node: Node) -> bool:
        return node.kind == "|" and len(node.args) > 2 and len(self.text.flat(node)) > LINE - 8

    def _clocked(self) -> Iterator[str]:
        """Yield which of clk and rst the module has."""
        items = self.model.items
        if any(isinstance(item, Registers | Memory) for item in items):
            yield "clk"
        if any(net.resets for item in items if isinstance(item, Registers) for net in driven(item)):
            yield "rst"
        read = set(self._read_nets())
        yield from (net.name for net in (self.model.clock, self.model.reset) if net in read)

    def _kind(self, net: Net) -> str:
        kind = "reg" if net in self.registers else "wire"
        direction = f"{net.kind} " if net.kind in ("input", "output") else ""
        bits = f" [{net.width - 1}:0]" if net.width > 1 else ""
        return f"{direction}{kind}{bits}"

    def _states(self) -> None:
        """Print the names of states and of enumerations' values."""
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

    def _run(self, run: list[Item], previous: Item | None) -> None:
        """Print an item, or neighbouring instances of one module."""
        heading = self._heading(run[0])
        block = isinstance(run[0], Registers | Cell | Memory)
        if heading or block or isinstance(previous, Registers | Cell | Memory):
            self._blank()
        self.lines += heading
        self._declare(run)
        for item in run:
            if isinstance(item, Wire):
                self._wire(item)
            elif isinstance(item, Registers):
                self.lines += self.statements.block(item)
            elif isinstance(item, Cell):
                self.lines += instance(item, self.text)
            else:
                self._memory(item)

    def _belongs(self, first: Item, other: Item) -> bool:
        """Return whether all comments of an item are also comments of an earlier one."""
        return set(self._comments(other)) <= set(self._comments(first))

    def _blank(self) -> None:
        if self.lines and self.lines[-1]:
            self.lines.append("")

    def _heading(self, item: Item) -> list[str]:
        comments = self._comments(item)
        self.commented.update(place for place, _ in comments)
        return [line for _, lines in comments for line in lines]

    def _comments(self, item: Item) -> list[tuple[tuple[str, int], tuple[str, ...]]]:
        """Return an item's comments that are not printed yet: their places in the source, and their lines."""
        location = item.statements[0].location if isinstance(item, Registers) else item.location
        if location is None:
            return []
        line, purpose = purpose_of(location)
        found = [(line, tuple(comment_lines(purpose, 2)))] if purpose else []
        above = comment_above(location)
        # A wire has comments above its declaration, above its assignment, or above both.
        if isinstance(item, Wire) and item.net.location and item.net.location[0] == location[0]:
            above = sorted({*above, *comment_above(item.net.location)})
        found += [(line, tuple(comment_lines(text, 2))) for line, text in above]
        return [((location[0], line), texts) for line, texts in found if (location[0], line) not in self.commented]

    def _declare(self, items: list[Item]) -> None:
        """Declare nets at their first use, except a wire that is declared with its value."""
        own = [item.net for item in items if isinstance(item, Wire) and self._is_initialised(item)]
        nets = dict.fromkeys(net for item in items for net in self._nets(item))
        entries = [
            (self._kind(net), net.name, self._remark(net))
            for net in nets
            if net not in self.declared and net not in own
        ]
        self.declared.update((net, None) for net in nets if net not in own)
        if isinstance(items[0], Cell):
            kinds = list(dict.fromkeys(kind for kind, _, _ in entries))
            pins = list(dict.fromkeys(_pin(name) for _, name, _ in entries))
            entries.sort(key=lambda entry: (kinds.index(entry[0]), pins.index(_pin(entry[1]))))
        self.lines += [f"  {text};{remark}" for text, remark in _shared(entries)]

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
        """Return the value of a complete wire, if it fits on a line or comes from one expression."""
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
            head = f"{self._kind(net)} {net.name} = "
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
        """Print a choice by the values of an expression."""
        test, *values, default = node.args
        self.lines.append("  always @*")
        self.lines += self.text.lines("case (", test, ")", 4)
        names = test.value.states if test.kind == "net" else {}
        for matches, value in zip(node.value, values, strict=True):
            label = ", ".join(names.get(each) or constant(each, test.width) for each in matches)
            self.lines += self.text.lines(f"{label}: {net.name} = ", value, ";", 6, net.states)
        self.lines += self.text.lines(f"default: {net.name} = ", default, ";", 6, net.states)
        self.lines.append("    endcase")

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
