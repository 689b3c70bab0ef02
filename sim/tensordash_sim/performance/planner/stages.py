"""Stages: nodes that run together, part by part; tensors between them never leave the chip."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import ceil

from .graph import Graph, Node, Tensor

__all__ = ["Stage", "best_stage"]

SUM_BYTES = 4
"""Bytes of an incomplete sum: FP32."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Nodes that run together.

    Attributes
    ----------
    nodes : tuple of str
        The nodes in the order in which each part passes them.
    axis : str
        Axis of its nodes; "" for updates alone.
    around : str
        "" if each part passes all nodes. Otherwise the tensor that stays on the chip while all others stream past: the
        operand that all products share, or the sums of the only product.
    parts : int
        Number of parts of the axis. With `around`, the number of pieces of that tensor; an operand streams past each.
    held : frozenset of str
        Tensors without parts that stay on the chip for all parts. Other tensors that are needed completely are loaded
        for every part; other sums over parts are stored and loaded again for every part.
    loads, stores : mapping of str to float
        Bytes from and to DRAM, by tensor.
    space : float
        Peak of bytes on the chip, without tensors that stay for other stages.
    cycles, element_cycles : int
        Cycles of the tiles, and of the element-wise units, which work at the same time.
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
    """The nodes of a stage, and the tensors that they read and write."""

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
    """Return the stage of nodes with the fewest bytes to and from DRAM; among these the one with the least space.

    Parameters
    ----------
    graph : Graph
        The step.
    nodes : sequence of str
        The nodes in the graph's order.
    capacity : float
        Bytes of the chip's memories that the stage may use.
    elements_per_cycle : int
        Values that the element-wise units process per cycle.
    resident : collection of str
        Tensors that are completely on the chip before or after the stage. Their space does not count. They are not
        loaded, and only stored if they are wanted.
    packed : bool
        Whether results leave compressed.

    Returns
    -------
    Stage or None
        None if the nodes cannot run together: they have different axes or phases, read a sum over all parts part by
        part, or do not fit.
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
    """A way to run nodes together; see `Stage`."""

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
                return None  # a sum over all parts, incomplete in this part
            elif not node.axis and tensor.axes & axes:
                return None  # an update runs after the last part, when no part is on the chip
        made |= dict.fromkeys(node.writes, node)
    if axes:
        # Updates run after all parts, so no part can read their results.
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
    if not axis:  # values are processed one by one
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
        # Bytes saved by each tensor that could be held.
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
    """Return a function from the number of parts to the peak of bytes on the chip."""
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
    """Yield all choices in which one tensor stays on the chip while all others stream past.

    The tensor may be an operand that all products share; results are then completed one by one. It may be the result of
    the only product, as FP32 sums to which each piece of the operands adds. If it does not fit, a single product cuts
    it into pieces, and one operand streams past each piece. No product can read another one's result, and no node may
    be row-wise.

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
    # The tensor that stays, its size, and the operand that streams past each of its pieces.
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
            continue  # a result of this stage is computed only once
        more = {each: loads[each] * pieces for each in operand if each in loads}
        yield _Choice(pieces, name, frozenset(), loads | more, stores, min(size, capacity))
