"""Inlining of wires that are read once after naming, and whose expressions are short enough."""

from collections import Counter

from .collect import ModuleModel, Wire
from .inlining import SHORT, Substitution, is_field
from .nodes import Net, Node
from .text import Text
from .uses import roots

__all__ = ["drop_single_uses"]

ROUNDS = 8


def drop_single_uses(model: ModuleModel, names: dict[Node, Net]) -> dict[Node, Net]:
    """Inline the expressions of such wires. Return the nets of shared expressions."""
    for _ in range(ROUNDS):
        chosen = _chosen(model, names)
        if not chosen:
            break
        model.items = [item for item in model.items if not (isinstance(item, Wire) and item.net in chosen)]
        names = {node: net for node, net in names.items() if net not in chosen}

        def replaced(node: Node, chosen: dict[Net, Node] = chosen) -> Node | None:
            return chosen.get(node.value) if node.kind == "net" else None

        substitution = Substitution(model.make, replaced)
        for item in model.items:
            substitution.item(item)
        names = {substitution(node): net for node, net in names.items()}
    return names


def _chosen(model: ModuleModel, names: dict[Node, Net]) -> dict[Net, Node]:
    """Return the wires to inline in this round, with their expressions. None of them reads another one."""
    uses: Counter[Net] = Counter()
    shared: set[Net] = set()
    readers: dict[Net, Net | None] = {}
    for item in model.items:
        own = item.net if isinstance(item, Wire) else None
        for root in roots(item):
            stack = [(root, "")]
            while stack:
                node, parent = stack.pop()
                defines = parent == "" and own is not None and names.get(node) is own
                net = node.value if node.kind == "net" else None if defines else names.get(node)
                if net is None:
                    stack.extend((arg, f"{node.kind}{place}") for place, arg in enumerate(node.args))
                    continue
                uses[net] += 1
                readers[net] = own
                if parent in ("slice0", "index0") or (parent[:3] == "cat" and _is_part(net, own)):
                    shared.add(net)
    text = Text(names)
    found: dict[Net, Node] = {}
    for item in model.items:
        if not isinstance(item, Wire) or item.net.kind != "wire" or uses[item.net] != 1 or item.net in shared:
            continue
        node = model.make.cat(piece for _, piece in item.pieces)
        if node.width < item.net.width or node.kind == "case" or is_field(item.net, node):
            continue
        inner = Text({key: net for key, net in names.items() if net is not item.net}) if node in names else text
        if readers[item.net] not in found and len(inner.flat(node)) <= SHORT:
            found[item.net] = node
    return {net: node for net, node in found.items() if readers[net] not in found}


def _is_part(net: Net, whole: Net | None) -> bool:
    """Return whether a wire names a field of a structure that is assembled."""
    return whole is not None and net.name.startswith(f"{whole.name}_")
