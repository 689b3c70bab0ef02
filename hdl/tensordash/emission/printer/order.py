"""Order of a module's items: the source's, except that a wire precedes its readers where possible."""

from .collect import Item, ModuleModel, Wire
from .nodes import Net, Node
from .uses import driven, roots

__all__ = ["arrange"]


def arrange(model: ModuleModel, names: dict[Node, Net]) -> None:
    """Move items that no other item reads after the wires that they read, and wires before their readers."""
    wires = {item.net: item for item in model.items if isinstance(item, Wire)}
    reads = {id(item): [wires[net] for net in _nets(item, names) if net in wires] for item in model.items}
    place = {id(item): number for number, item in enumerate(model.items)}
    read = {id(wire) for found in reads.values() for wire in found}
    for item in model.items:
        if id(item) not in read:
            place[id(item)] = max([place[id(item)], *(place[id(wire)] for wire in reads[id(item)])])
    # Wires precede other items with the same place.
    ordered = sorted(model.items, key=lambda item: (place[id(item)], not isinstance(item, Wire)))
    done: list[Item] = []
    state: set[int] = set()

    def put(item: Item) -> None:
        state.add(id(item))
        for wire in reads[id(item)]:
            if id(wire) not in state:
                put(wire)
        done.append(item)

    for item in ordered:
        if id(item) not in state:
            put(item)
    model.items = done


def _nets(item: Item, names: dict[Node, Net]) -> list[Net]:
    own = set(driven(item))
    found: dict[Net, None] = {}
    for root in roots(item):
        stack: list[tuple[Node, bool]] = [(root, True)]
        seen: set[Node] = set()
        while stack:
            node, is_root = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            if node in names and not (is_root and names[node] in own):
                found[names[node]] = None
                continue
            if node.kind == "net":
                found[node.value] = None
            stack.extend((arg, False) for arg in reversed(node.args))
    return [net for net in found if net not in own]
