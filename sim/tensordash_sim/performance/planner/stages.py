"""Nodes that run together, part by part: what passes between them never leaves the chip."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import ceil

from .graph import Graph, Node, Tensor

__all__ = ["Stage", "best_stage"]

SUM_BYTES = 4
"""Of a sum that is not complete: FP32."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Nodes that run together.

    Attributes
    ----------
    nodes : tuple of str
        In the order in which each part passes them.
    axis : str
        Of its nodes; "" for updates alone.
    around : str
        "": each part passes all nodes. Or what lies on the chip while everything else passes by: the operand that all
        products share, or the sums of the only one.
    parts : int
        Into how many the axis is cut; or what lies on the chip, if it does not fit: an operand passes by for each.
    held : frozenset of str
        Tensors without parts that stay on the chip for all parts. What is needed whole and is not among them is loaded
        for every part; a sum over parts that is not is stored and loaded again for every part.
    loads, stores : mapping of str to float
        Bytes from and to DRAM, by tensor.
    space : float
        Bytes on the chip at the fullest moment, without tensors that are kept for other stages.
    cycles, element_cycles : int
        Of the tiles, and of the element-wise units, which work at the same time.
    """

    nodes: tuple[str, ...]
    axis: str
    parts: int
    around: str = ""
    held: frozenset[str] = frozenset()
    loads: Mapping[str, float]
    stores: Mapping[str, float]
    space: float
    cycles: int
    element_cycles: int

    @property
    def dram(self) -> float:
        """Bytes between DRAM and the chip."""
        return sum(self.loads.values()) + sum(self.stores.values())


@dataclass(frozen=True)
class _Touched:
    """What the nodes of a stage read and write."""

    parts: list[Node]
    updates: list[Node]
    inputs: list[Tensor]
    made: list[Tensor]
    leaving: frozenset[str]


def best_stage(
    graph: Graph,
    nodes: Sequence[str],
    *,
    capacity: float,
    elements_per_cycle: int,
    resident: Collection[str] = (),
    packed: bool = True,
) -> Stage | None:
    """The stage of these nodes with the fewest bytes to and from DRAM; of such the one that needs the least space.

    Parameters
    ----------
    graph : Graph
        The step.
    nodes : sequence of str
        In the graph's order.
    capacity : float
        Bytes of the chip's memories that it may use.
    elements_per_cycle : int
        Values that the element-wise units take in a cycle.
    resident : collection of str
        Tensors that are on the chip as a whole, before or after it: their space is not counted, and they are neither
        loaded nor, unless they are wanted, stored.
    packed : bool
        Whether results leave compressed.

    Returns
    -------
    Stage or None
        None if they cannot run together: different axes or phases, a sum over all parts that is read part by part, or
        no room.
    """
    touched = _touched(graph, nodes, resident)
    if touched is None:
        return None
    choices = [
        *_by_parts(graph, touched, capacity, resident, packed),
        *_around(graph, touched, capacity, resident, packed),
    ]
    if not choices:
        return None
    best = min(choices, key=lambda choice: (choice.dram, choice.space))
    members = [graph.nodes[name] for name in nodes]
    is_cut = best.parts > 1 and not best.around
    return Stage(
        nodes=tuple(nodes),
        axis=touched.parts[0].axis if touched.parts else "",
        **vars(best),
        cycles=sum(node.apart if is_cut and node.apart else node.cycles for node in members),
        element_cycles=ceil(sum(node.values for node in members) / elements_per_cycle),
    )


@dataclass(frozen=True)
class _Choice:
    """How nodes could run together: see `Stage`."""

    parts: int
    around: str
    held: frozenset[str]
    loads: dict[str, float]
    stores: dict[str, float]
    space: float

    @property
    def dram(self) -> float:
        return sum(self.loads.values()) + sum(self.stores.values())


def _touched(graph: Graph, nodes: Sequence[str], resident: Collection[str]) -> _Touched | None:
    members = [graph.nodes[name] for name in nodes]
    axes = {node.axis for node in members if node.axis}
    if len(axes) > 1 or len({node.phase for node in members}) > 1:
        return None
    made: dict[str, Node] = {}
    inputs: dict[str, Tensor] = {}
    for node in members:
        for name in node.reads:
            tensor = graph.tensors[name]
            if name not in made:
                inputs[name] = tensor
            elif node.axis and node.axis not in tensor.axes:
                return None  # a sum over all parts, which this part does not have yet
            elif not node.axis and tensor.axes & axes:
                return None  # an update comes after the last part, and has none
        made |= dict.fromkeys(node.writes, node)
    if axes:
        # Updates come after the parts: nothing that they write is there for these.
        written = {name for node in members if not node.axis for name in node.writes}
        if any(name in written for node in members if node.axis for name in node.reads):
            return None
    leaving = frozenset(
        name
        for name in made
        if graph.tensors[name].wanted or (name not in resident and graph.needed_after(name, nodes))
    )
    return _Touched(
        parts=[node for node in members if node.axis],
        updates=[node for node in members if not node.axis],
        inputs=list(inputs.values()),
        made=[graph.tensors[name] for name in made],
        leaving=leaving,
    )


def _counts(most: int) -> list[int]:
    """Return the numbers of parts to try: powers of two, and the maximum."""
    return [*(1 << exponent for exponent in range(most.bit_length()) if 1 << exponent < most), most]


def _by_parts(
    graph: Graph, touched: _Touched, capacity: float, resident: Collection[str], packed: bool
) -> Iterator[_Choice]:
    """Yield all choices in which each part passes all nodes."""
    axis = touched.parts[0].axis if touched.parts else ""
    loads = {tensor.name: tensor.packed for tensor in touched.inputs if tensor.name not in resident}
    stores = {
        tensor.name: tensor.packed if packed else tensor.bytes
        for tensor in touched.made
        if tensor.name in touched.leaving
    }
    if not axis:  # values pass one by one
        yield _Choice(1, "", frozenset(), loads, stores, 0.0)
        return
    fullest = _fullest(graph, touched, axis, resident)
    in_parts = {name for node in touched.parts for name in node.reads}
    full = [each for each in touched.inputs if axis not in each.axes and each.name in loads and each.name in in_parts]
    by_parts = {name for node in touched.parts for name in node.writes}
    sums = [each for each in touched.made if axis not in each.axes and each.name in by_parts]
    read_here = {name for node in touched.updates for name in node.reads}
    most = min([graph.axes[axis], *(node.max_parts for node in touched.parts if node.max_parts)])
    for parts in _counts(most):
        room = capacity - fullest(parts)
        if room < 0:
            continue
        # What holding saves, for each that could be held.
        saved = {tensor.name: (parts - 1) * tensor.packed for tensor in full}
        for tensor in sums:
            stays = tensor.name in touched.leaving
            moved = (2 * parts - 1) + (tensor.name in read_here)
            saved[tensor.name] = (moved - stays) * tensor.bytes if parts > 1 else 0.0
        held: set[str] = set()
        by_worth = sorted(
            (each for each in (*full, *sums) if saved[each.name] > 0), key=lambda t: -saved[t.name] / t.bytes
        )
        for tensor in by_worth:
            if tensor.bytes <= room:
                held.add(tensor.name)
                room -= tensor.bytes
        chosen_loads, chosen_stores = dict(loads), dict(stores)
        for tensor in full:
            if tensor.name not in held:
                chosen_loads[tensor.name] = parts * tensor.packed
        for tensor in sums:
            if parts > 1 and tensor.name not in held and tensor.name not in resident:
                chosen_stores[tensor.name] = parts * tensor.bytes
                chosen_loads[tensor.name] = (parts - 1 + (tensor.name in read_here)) * tensor.bytes
        yield _Choice(parts, "", frozenset(held), chosen_loads, chosen_stores, capacity - room)


def _fullest(graph: Graph, touched: _Touched, axis: str, resident: Collection[str]) -> Callable[[int], float]:
    """Return bytes of a part that are on the chip at the fullest moment, by the number of parts."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for place, node in enumerate(touched.parts):
        for name in (*node.reads, *node.writes):
            if axis in graph.tensors[name].axes and name not in resident:
                first.setdefault(name, place)
                last[name] = place
    tensors = [(graph.tensors[name], place, last[name] + 1) for name, place in first.items()]

    def fullest(parts: int) -> float:
        changes = [0.0] * (len(touched.parts) + 1)
        for tensor, begin, end in tensors:
            size = tensor.part(parts)
            changes[begin] += size
            changes[end] -= size
        return max(accumulate(changes))

    full = fullest(1)
    if any(tensor.max_parts for tensor, _, _ in tensors):
        return fullest
    return lambda parts: full / parts


def _around(
    graph: Graph, touched: _Touched, capacity: float, resident: Collection[str], packed: bool
) -> Iterator[_Choice]:
    """Yield one tensor lies on the chip, everything else passes by.

    It may be an operand that all products share: results are made whole, one by one. Or the only product's result, as
    sums of FP32 to which each piece of the operands adds. What does not fit is cut into pieces, if there is one product
    only: one operand passes by for each of them. No product can take what another one gives, and nothing needs a row at
    hand.

    Source: `chip.traffic.dram_traffic`, for the operands of one product.
    """
    products = [node for node in touched.parts if node.kind == "product"]
    if not products or any(node.kind == "row-wise" for node in touched.parts):
        return
    from_products: set[str] = set()
    sums: set[str] = set()
    for node in touched.parts:
        if sums & set(node.reads) or (node.kind == "product" and from_products & set(node.reads)):
            return
        if node.kind == "product" or from_products & set(node.reads):
            from_products |= set(node.writes)
        if node.kind == "sums":
            sums |= set(node.writes)
    inputs = {tensor.name for tensor in touched.inputs}
    loads = {tensor.name: tensor.packed for tensor in touched.inputs if tensor.name not in resident}
    stores = {
        tensor.name: tensor.packed if packed else tensor.bytes
        for tensor in touched.made
        if tensor.name in touched.leaving
    }
    # What stays, its size, and what passes by again for each of its pieces.
    operands = (products[0].reads[:1], products[0].reads[1:])
    choices = [
        (one[0], 0.0 if one[0] in resident else graph.tensors[one[0]].bytes, other)
        for one, other in (operands, operands[::-1])
        if len(one) == 1 and all(one[0] in node.reads for node in products)
    ]
    if len(products) == 1 and len(products[0].writes) == 1:
        result = products[0].writes[0]
        choices += [(result, float(graph.tensors[result].values * SUM_BYTES), operand) for operand in operands]
    for name, size, operand in choices:
        pieces = max(1, ceil(size / capacity))
        if pieces > 1 and (len(products) > 1 or not set(operand) <= inputs):
            continue  # what is made here is made once
        more = {each: loads[each] * pieces for each in operand if each in loads}
        yield _Choice(pieces, name, frozenset(), loads | more, stores, min(size, capacity))
