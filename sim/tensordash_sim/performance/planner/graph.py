"""A training step as a graph of tensors, and of nodes that read and write them."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from tensordash.configuration.parameters import require_choice

__all__ = ["BIT", "HALF", "KINDS", "SINGLE", "Graph", "Node", "Tensor"]

HALF = 2.0
"""Bytes of a value of fp16."""
SINGLE = 4.0
"""Bytes of a value of FP32."""
BIT = 0.125
"""Bytes of a value of a mask."""

KINDS = ("product", "element-wise", "sums", "row-wise", "update")
"""Kinds of nodes. Tiles compute products; element-wise units compute the others. Sums can be read when they are
complete. A row-wise node, such as a softmax, needs complete rows. An update belongs to the optimizer."""


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """A tensor.

    Attributes
    ----------
    name : str
        Unique name in the graph.
    values : int
        Number of values.
    value_bytes : float
        Bytes of a value; 1/8 for a bit of a mask.
    density : float
        Share of values that are not zero.
    axes : frozenset of str
        Axes along which it can be processed part by part, such as "samples"; a weight has none.
    has_mask : bool
        Whether its compressed form has its own mask. A tensor whose zeros follow a static mask has none.
    max_parts : int
        Maximum of parts if the axis has more: each part of a head, for instance, needs all of the head's keys. 0 for no
        limit.
    is_input, wanted : bool
        Whether it is in DRAM before the step, and must be there after it.
    becomes : str
        For a wanted tensor: the input that it becomes in the next step; "" for none.

    Examples
    --------
    >>> half = Tensor(name="A", values=800, value_bytes=2, density=0.5)
    >>> half.bytes, half.packed
    (1600.0, 900.0)
    """

    name: str
    values: int
    value_bytes: float = 2.0
    density: float = 1.0
    axes: frozenset[str] = frozenset()
    has_mask: bool = True
    max_parts: int = 0
    is_input: bool = False
    wanted: bool = False
    becomes: str = ""

    @property
    def bytes(self) -> float:
        """Bytes on the chip, and uncompressed in DRAM."""
        return float(self.values * self.value_bytes)

    @property
    def packed(self) -> float:
        """Bytes in DRAM, compressed if that is smaller: a bit for each value, and the non-zero values."""
        return min(self.bytes, self.has_mask * self.values / 8 + self.values * self.density * self.value_bytes)

    def part(self, parts: int) -> float:
        """Return the bytes on the chip for one of `parts` parts."""
        return self.bytes / min(parts, self.max_parts or parts)


@dataclass(frozen=True, kw_only=True)
class Node:
    """A computation.

    The first tensor that a product reads is one of its operands; all others form the other operand.

    A node with an axis works part by part along it. It needs tensors without that axis completely for every part. A
    tensor that it writes without that axis is a sum over all parts, and complete after the last one.

    Attributes
    ----------
    name : str
        Unique name in the graph.
    kind : str
        One of `KINDS`.
    reads, writes : tuple of str
        Tensors.
    axis : str
        The axis of its parts; "" for none, as for an update.
    max_parts : int
        Maximum of parts if its axis has more, since a part must fill the tiles. 0 for no limit.
    cycles : int
        Cycles of the chip's tiles, without DRAM.
    apart : int
        Cycles if it is cut into parts; 0 if they are the same.
    values : int
        Values that the element-wise units process.
    phase : int
        All nodes of a phase run before all nodes of the next one. Work between phases, such as later blocks of the
        network, is not in the graph.
    """

    name: str
    kind: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    axis: str = ""
    max_parts: int = 0
    cycles: int = 0
    apart: int = 0
    values: int = 0
    phase: int = 0

    def __post_init__(self) -> None:
        require_choice("kind", self.kind, KINDS)


class Graph:
    """A training step: nodes in an order in which they can be computed.

    Parameters
    ----------
    tensors : iterable of Tensor
        All tensors.
    nodes : iterable of Node
        The nodes in order.
    axes : mapping of str to int
        Maximum of parts along each axis.

    Raises
    ------
    ValueError
        If names repeat, an axis or a tensor is unknown, or a tensor is read before it is written, written twice or
        neither an input nor written.

    Examples
    --------
    >>> tensors = [Tensor(name="x", values=8, is_input=True), Tensor(name="y", values=8, wanted=True)]
    >>> graph = Graph(tensors, [Node(name="copy", kind="update", reads=("x",), writes=("y",))], {})
    >>> graph.writer["y"], graph.readers["x"]
    ('copy', ('copy',))
    >>> Graph(tensors[1:], [], {})
    Traceback (most recent call last):
    ValueError: tensor y must be an input or be written by a node
    """

    def __init__(self, tensors: Iterable[Tensor], nodes: Iterable[Node], axes: Mapping[str, int]) -> None:
        listed, ordered = list(tensors), list(nodes)
        self.tensors = {tensor.name: tensor for tensor in listed}
        self.nodes = {node.name: node for node in ordered}
        self.axes = dict(axes)
        for kind, names in (("tensor", [each.name for each in listed]), ("node", [each.name for each in ordered])):
            for name, times in Counter(names).items():
                if times > 1:
                    raise ValueError(f"{kind} {name} must have a name of its own")
        self._check()

    def _check(self) -> None:
        available = {name for name, tensor in self.tensors.items() if tensor.is_input}
        for node in self.nodes.values():
            if node.axis and node.axis not in self.axes:
                raise ValueError(f"axis of {node.name} must be one of {', '.join(self.axes)}, not {node.axis}")
            for name in (*node.reads, *node.writes):
                if name not in self.tensors:
                    raise ValueError(f"tensors of {node.name} must be the graph's, not {name}")
            for name in node.reads:
                if name not in available:
                    raise ValueError(f"tensor {name} must be written before {node.name} reads it")
            for name in node.writes:
                if name in available:
                    raise ValueError(f"tensor {name} must not be written again by {node.name}")
                available.add(name)
                if (old := self.tensors[name].becomes) and not (old in self.tensors and self.tensors[old].is_input):
                    raise ValueError(f"tensor {name} must become an input of the graph, not {old}")
        for name in self.tensors:
            if name not in available:
                raise ValueError(f"tensor {name} must be an input or be written by a node")

    @cached_property
    def writer(self) -> dict[str, str]:
        """The node that writes each tensor that is written."""
        return {tensor: node.name for node in self.nodes.values() for tensor in node.writes}

    @cached_property
    def readers(self) -> dict[str, tuple[str, ...]]:
        """The nodes that read each tensor."""
        found: dict[str, list[str]] = {name: [] for name in self.tensors}
        for node in self.nodes.values():
            for tensor in dict.fromkeys(node.reads):
                found[tensor].append(node.name)
        return {name: tuple(nodes) for name, nodes in found.items()}

    def needed_after(self, tensor: str, inside: Iterable[str]) -> bool:
        """Return whether a tensor is wanted, or read by a node that is not in `inside`."""
        return self.tensors[tensor].wanted or not set(self.readers[tensor]) <= set(inside)

    def with_copy(self, node: str, readers: Collection[str]) -> "Graph":
        """Return the graph in which a node is computed a second time, for some of its readers.

        The copy's results have new names. The node itself is removed if nothing needs its results any more.
        """
        old, suffix = self.nodes[node], f" for {min(readers)}"
        mine = [name for name in old.writes if any(name in self.nodes[reader].reads for reader in readers)]
        renamed = {name: name + suffix for name in mine}
        phase = self.nodes[min(readers)].phase
        copy = replace(old, name=node + suffix, writes=tuple(renamed.values()), phase=phase)
        nodes: list[Node] = []
        is_made = False
        for each in self.nodes.values():
            if each.name in readers:
                if not is_made:
                    nodes.append(copy)
                    is_made = True
                nodes.append(replace(each, reads=tuple(renamed.get(name, name) for name in each.reads)))
            else:
                nodes.append(each)
        tensors = dict(self.tensors)
        for name, new in renamed.items():
            tensors[new] = replace(tensors[name], name=new, wanted=False)
        read = {name for each in nodes for name in each.reads}
        if not any(name in read or tensors[name].wanted for name in old.writes):
            nodes = [each for each in nodes if each.name != node]
            tensors = {name: each for name, each in tensors.items() if name not in old.writes}
        made = object.__new__(Graph)  # consistent by construction, so `_check` is not needed
        made.tensors, made.nodes, made.axes = tensors, {each.name: each for each in nodes}, self.axes
        changed = {*old.reads, *old.writes, *renamed.values()} & tensors.keys()
        made.readers = {name: found for name, found in self.readers.items() if name in tensors}
        made.readers |= dict.fromkeys(changed, ())
        for each in nodes:
            for name in changed.intersection(each.reads):
                made.readers[name] = (*made.readers[name], each.name)
        made.writer = {name: found for name, found in self.writer.items() if name in tensors}
        made.writer |= dict.fromkeys(renamed.values(), copy.name)
        return made
