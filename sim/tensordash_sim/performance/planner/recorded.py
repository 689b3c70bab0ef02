"""A recorded training step as a graph."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import gcd, prod

from ...lowering import MatrixProduct, Operation
from ...trace import Record, Step, Update, Work
from .graph import BIT, HALF, SINGLE, Graph, Node, Tensor
from .optimizer import optimizer_update
from .step import MIN_ROWS

__all__ = ["step_graph", "unrecorded"]

SAMPLES = "samples"
INDEX_BYTES = 0.5
"""Bytes that pooling stores of each result: an index in a window of up to 16 values."""
_MASKED = {"threshold_backward", "leaky_relu_backward", "hardtanh_backward"}
"""Gradients that need only one bit of their second operand: whether it exceeds a threshold."""
_POOLED = {"max_pool2d_with_indices_backward", "_adaptive_avg_pool2d_backward", "avg_pool2d_backward"}
"""Gradients that need only the shape of their second operand."""
_NORM = re.compile(r"batch_norm")
_ROW_WISE = re.compile(r"softmax|layer_norm|group_norm|rms_norm|nll_loss|cross_entropy|sort|topk|cumsum")
_ATTENTION = "_scaled_dot_product_"
_Cycles = tuple[int, int]
"""Cycles of an uncut product, and of a cut one."""


def step_graph(step: Step, cycles: Sequence[int], apart: Sequence[int] | None = None) -> Graph:
    """Build the graph of a recorded step, for the planner.

    The assumptions are the same as in `GraphWriter`. Operands are fp16; weights, their gradients and optimizer states
    are FP32; masks of ReLU are bits. Biases, gains and scalars are left out. Tensors are cut along their first
    dimension, into at most one part per batch element.

    Parameters
    ----------
    step : Step
        A step of a trace, with its flow and every product.
    cycles : sequence of int
        Cycles of the chip's tiles, without DRAM, for each record of the step.
    apart : sequence of int, optional
        Cycles of the same records if weight gradients are cut into parts, without joined samples. By default `cycles`.

    Returns
    -------
    Graph

    Raises
    ------
    ValueError
        If the step has no flow or unrecorded products, or if the number of cycles differs from the number of records.

    Examples
    --------
    >>> import tempfile
    >>> import torch
    >>> from tensordash_sim.trace import Trace, record
    >>> model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with record(f"{folder}/run.trace", model=model, optimizers=()):
    ...         model(torch.ones(3, 8)).sum().backward()
    ...     (step,) = Trace.open(f"{folder}/run.trace").steps
    >>> graph = step_graph(step, [1] * len(step.records))
    >>> list(graph.nodes)
    ['0.AxW', 'relu', '2.AxW', '2.WxG', '2.AxG', 'threshold_backward', '0.AxG']
    """
    if why := unrecorded(step):
        raise ValueError(why)
    if len(cycles) != len(step.records):
        raise ValueError(f"cycles must have one entry for each of {len(step.records)} records, not {len(cycles)}")
    return _Recorded(step, cycles, cycles if apart is None else apart).graph()


def unrecorded(step: Step) -> str:
    """Return why a step cannot be planned; empty if it can."""
    if step.flow is None:
        return (
            f"step {step.index} must have its flow recorded: by `tensordash trace` since format 1.1, of all layers, "
            "and without forward passes that are computed anew"
        )
    missing = [name for name in step.uncaptured if "under torch.no_grad" not in name]
    return f"all products of step {step.index} must be recorded, also {missing[0]}" if missing else ""


class _Recorded:
    """Walks a flow once and adds the nodes of each work item."""

    def __init__(self, step: Step, cycles: Sequence[int], apart: Sequence[int]) -> None:
        assert step.flow is not None
        self.step, self.flow, self.cycles = step, step.flow, list(zip(cycles, apart, strict=True))
        self.names: Counter[str] = Counter()
        self.tensors: dict[str, Tensor] = {}
        self.nodes: list[Node] = []
        self.writers: dict[str, int] = {}  # index of the node that writes a tensor
        self.tensor: dict[int, str] = {}  # names, by place in the flow
        self.inside: dict[str, str] = {}  # by layer, a tensor that exists only inside a fused operation
        self.sums: dict[int, str] = {}  # names of normalisations' sums, by the flow's statistics
        parameters = {update.parameter for update in self.flow.updates}
        parameters |= {each["W"] for work in self.flow.work for _, each in work.products if "W" in each}
        self.written = {place for work in self.flow.work for place in work.writes}
        self.parameters = parameters - self.written
        self.layers = {  # the first layer that multiplies each parameter
            operands["W"]: self.step.records[record].layer
            for work in reversed(self.flow.work)
            for record, operands in reversed(work.products)
            if "W" in operands
        }
        self.gradients = {update.gradient for update in self.flow.updates if update.gradient is not None}
        small = {place for place in self.parameters if len(self.flow.tensors[place].shape) < 2}
        small |= {
            update.gradient for update in self.flow.updates if update.parameter in small and update.gradient is not None
        }
        # Scalars, and inputs with one value per channel.
        small |= {
            place
            for place, each in enumerate(self.flow.tensors)
            if not each.shape or (len(each.shape) == 1 and place not in self.written)
        }
        self.small = small
        self.density = {
            place: 1 - self.step.records[record].operands[name].zeros
            for work in self.flow.work
            for record, operands in work.products
            for name, place in operands.items()
        }
        self.samples = self._samples()
        self.learned = set(self.parameters)  # places that depend on parameters; all others are inputs

    def graph(self) -> Graph:
        for work in self.flow.work:
            self._add(work)
        for update in self.flow.updates:
            if update.gradient in self.tensor and update.parameter not in self.small:
                self._update(update)
        self._drop()
        return Graph(self.tensors.values(), self.nodes, {SAMPLES: self.samples})

    def _samples(self) -> int:
        """Return the number of batch elements: the greatest common divisor of the layers' first dimensions."""
        extents = 0
        for work in self.flow.work:
            if work.phase == "forward" and work.products:
                found = [operands["A"] for _, operands in work.products if "A" in operands] + list(work.writes[:1])
                for place in found:
                    if len(shape := self.flow.tensors[place].shape) > 1 and place not in self.parameters:
                        extents = gcd(extents, shape[0])
        return max(1, extents)

    def _add(self, work: Work) -> None:
        if work.phase == "forward" and not self.learned.intersection(work.reads):
            return  # The host prepares a batch.
        self.learned |= set(work.writes)
        name = work.name.rpartition("::")[2].rstrip("_")
        if work.products:
            self._products(name, work)
            return
        reads, writes = self._large_places(work.reads), self._large_places(work.writes)
        if name.startswith("embedding"):
            reads = [place for place in reads if place not in self.parameters]  # It reads a few rows only.
        if name in _POOLED:
            del reads[1:2]
        if _NORM.search(name):
            self._norm(name, work, reads)
            return
        if not writes:
            return
        inputs = [self._read(place) for place in reads]
        if name in _MASKED and len(reads) == 2 and reads[1] in self.written:
            inputs[1] = self._mask(inputs[1])
        own = self._unique(name)
        if not inputs:
            return  # Its results are inputs.
        sums = name.startswith("embedding") and work.phase == "backward"
        outputs = [
            self._write(place, f"{own}.{number}" if number else own, inputs, sums)
            for number, place in enumerate(writes)
        ]
        size = max(self.tensors[each].values for each in (*inputs, *outputs))
        kind = "row-wise" if _ROW_WISE.search(name) else "element-wise"
        self._node(own, kind, inputs, outputs, values=size)

    def _products(self, name: str, work: Work) -> None:
        records = [(self.step.records[record], self.cycles[record], operands) for record, operands in work.products]
        writes = self._large_places(work.writes)
        if name.startswith(_ATTENTION) and self._attention(work, records):
            return
        if len(records) <= len(writes) and all(len(operands) == 2 for _, _, operands in records):
            for (record, cycles, operands), place in zip(records, writes, strict=False):
                reads = [self._read(operands[each]) for each in (record.operation.left, record.operation.right)]
                # A further operand is a sum to which the product is added.
                added = [] if name.endswith("backward") else self._large_places(work.reads)
                reads += [self._read(each) for each in added if each not in operands.values()]
                self._product(record, cycles, reads, place)
            return
        # Several products that run as one.
        own = self._unique(f"{records[0][0].layer}.{'forward' if work.phase == 'forward' else 'backward'}")
        inputs = [self._read(place) for place in self._large_places(work.reads)]
        outputs = [self._write(place, f"{own}.{place}", inputs, place in self.gradients) for place in writes]
        self._node(own, "product", inputs, outputs, cycles=_together([cycles for _, cycles, _ in records]))

    def _product(self, record: Record, cycles: _Cycles, reads: list[str], place: int) -> None:
        own = self._unique(f"{record.layer}.{record.operation}")
        is_sum = record.operation is Operation.WEIGHT_GRADIENT and place in self.gradients
        output = self._write(place, own, reads, is_sum)
        self._node(own, "product", reads, [output], cycles=cycles, max_parts=_max_parts(record))

    def _attention(self, work: Work, records: Sequence[tuple[Record, _Cycles, Mapping[str, int]]]) -> bool:
        """Add the two products of attention and the softmax between them; return False if a product is missing."""
        parts = {(record.layer.rpartition("/")[2], record.operation): (record, cycles) for record, cycles, _ in records}
        layer = records[0][0].layer.rpartition("/")[0]
        reads = [self._read(place) for place in work.reads if place not in self.small]
        if work.phase == "forward":
            q, k, v = reads[:3]
            (qk, cycles), (pv, after) = parts["qk", Operation.FORWARD], parts["pv", Operation.FORWARD]
            scores, shares = self._within(f"{layer}.scores", qk, 1.0), self._within(f"{layer}.shares", pv, None)
            self._node(self._unique(f"{layer}/qk.AxW"), "product", [q, k], [scores], cycles=cycles)
            self._node(f"{shares}.softmax", "row-wise", [scores], [shares], values=self.tensors[scores].values)
            own = self._unique(f"{layer}/pv.AxW")
            output = self._write(work.writes[0], own, [v], False)
            self._node(own, "product", [shares, v], [output], cycles=after)
            self.small |= set(work.writes[1:])
            self.inside[layer] = shares
            return True
        wanted = [
            ("qk", Operation.INPUT_GRADIENT),
            ("qk", Operation.WEIGHT_GRADIENT),
            ("pv", Operation.WEIGHT_GRADIENT),
        ]
        present = [part for part in wanted if part in parts]
        is_known = layer in self.inside and ("pv", Operation.INPUT_GRADIENT) in parts
        if not is_known or len(work.writes) != len(present):
            return False
        places = dict(zip(present, work.writes, strict=True))
        gradient, q, k, v = reads[:4]
        shares = self.inside[layer]
        record, cycles = parts["pv", Operation.INPUT_GRADIENT]
        d_shares = self._within(f"{layer}.shares.gradient", record, None)
        self._node(self._unique(f"{layer}/pv.WxG"), "product", [v, gradient], [d_shares], cycles=cycles)
        d_scores = self._within(f"{layer}.scores.gradient", record, None)
        values = self.tensors[d_scores].values
        self._node(f"{d_scores}.softmax", "row-wise", [shares, d_shares], [d_scores], values=values)
        for part, operands in zip(wanted, ([k, d_scores], [q, d_scores], [shares, gradient]), strict=True):
            if part in places:
                record, cycles = parts[part]
                self._product(record, cycles, operands, places[part])
        return True

    def _within(self, name: str, record: Record, density: float | None) -> str:
        """Add a tensor of attention's scores, which one product writes and the other reads; return its name."""
        own = self._unique(name)
        shape = record.geometry.shapes["G" if record.layer.endswith("/qk") else "A"]
        if density is None:
            density = 1 - record.operands["A"].zeros if "A" in record.operands else 1.0
        self.tensors[own] = Tensor(name=own, values=prod(shape), density=density, axes=frozenset({SAMPLES}))
        return own

    def _norm(self, name: str, work: Work, reads: list[int]) -> None:
        """Add a normalisation: its sums, then its element-wise part. A backward pass also reads the forward sums."""
        large = [place for place in reads if place not in self.sums and len(self.flow.tensors[place].shape) > 1]
        inputs = [self._read(place) for place in large]
        inputs += list(dict.fromkeys(self.sums[place] for place in work.reads if place in self.sums))
        own = self._unique(name)
        output, *statistics = work.writes
        sums = f"{own}.sums"
        channels = self.flow.tensors[output].shape[1]
        self.tensors[sums] = Tensor(name=sums, values=2 * channels, value_bytes=SINGLE)
        size = prod(self.flow.tensors[output].shape)
        self._node(f"{own}.sum", "sums", inputs, [sums], values=size, axis=SAMPLES)
        self._node(own, "element-wise", [*inputs, sums], [self._write(output, f"{own}.0", inputs, False)], values=size)
        self.small |= set(statistics)
        if work.phase == "forward":
            self.sums |= dict.fromkeys(statistics, sums)

    def _update(self, update: Update) -> None:
        assert update.gradient is not None
        weights = self.tensors[self._read(update.parameter)]
        name = self._unique(weights.name.removesuffix(".W"))
        node, tensors = optimizer_update(name, weights, self.tensor[update.gradient], update.states)
        self.tensors |= {each.name: each for each in tensors}
        self.nodes.append(node)

    def _drop(self) -> None:
        """Remove nodes whose results nothing reads, except gradients that no optimizer reads."""
        read = {name for node in self.nodes for name in node.reads}
        for node in self.nodes:
            if node.kind == "product" and node.name.endswith(str(Operation.WEIGHT_GRADIENT)):
                for name in node.writes:
                    if name not in read:
                        self.tensors[name] = replace(self.tensors[name], wanted=True)
        needed: set[str] = set()
        reachable = []
        for node in reversed(self.nodes):
            if node.kind == "product" or any(name in needed or self.tensors[name].wanted for name in node.writes):
                reachable.append(node)
                needed |= set(node.reads)
        self.nodes = reachable[::-1]
        touched = {name for node in self.nodes for name in (*node.reads, *node.writes)}
        self.tensors = {
            name: replace(each, becomes=each.becomes if each.becomes in touched else "")
            for name, each in self.tensors.items()
            if name in touched
        }

    def _large_places(self, places: Sequence[int]) -> list[int]:
        return [place for place in places if place not in self.small]

    def _unique(self, name: str) -> str:
        self.names[name] += 1
        return name if self.names[name] == 1 else f"{name} {self.names[name]}"

    def _read(self, place: int) -> str:
        """Return the name of a place's tensor; a tensor that no node has written becomes an input."""
        if place not in self.tensor:
            name = f"given {place}"
            if place in self.parameters:
                name = self._unique(f"{self.layers.get(place, f'parameter {place}')}.W")
            shape = self.flow.tensors[place].shape
            is_cut = place not in self.parameters and len(shape) > 1 and shape[0] % self.samples == 0
            self._tensor(place, name, HALF, is_cut=is_cut, is_input=True)
        return self.tensor[place]

    def _write(self, place: int, name: str, reads: Sequence[str], is_sum: bool) -> str:
        """Add the tensor of a place that the current node writes; return its name."""
        is_sum = is_sum or place in self.gradients
        extent = (self.flow.tensors[place].shape or (1,))[0]
        is_cut = not is_sum and any(self.tensors[each].axes for each in reads) and extent % self.samples == 0
        self._tensor(place, name, SINGLE if is_sum else HALF, is_cut=is_cut, is_input=False)
        return self.tensor[place]

    def _tensor(self, place: int, name: str, value_bytes: float, *, is_cut: bool, is_input: bool) -> None:
        found = self.flow.tensors[place]
        if found.dtype == "bool":
            value_bytes = BIT
        elif found.dtype.startswith(("int", "uint")):
            value_bytes = INDEX_BYTES
        self.tensor[place] = name
        self.tensors[name] = Tensor(
            name=name,
            values=prod(found.shape),
            value_bytes=value_bytes,
            density=self.density.get(place, 1.0),
            axes=frozenset({SAMPLES} if is_cut else set()),
            is_input=is_input,
        )

    def _mask(self, name: str) -> str:
        """Return the name of a tensor's mask; the node that writes the tensor also writes the mask."""
        mask = f"{name}.mask"
        if mask not in self.tensors:
            like = self.tensors[name]
            self.tensors[mask] = Tensor(name=mask, values=like.values, value_bytes=BIT, axes=like.axes)
            at = self.writers[name]
            self.nodes[at] = replace(self.nodes[at], writes=(*self.nodes[at].writes, mask))
        return mask

    def _node(
        self,
        name: str,
        kind: str,
        reads: Sequence[str],
        writes: Sequence[str],
        *,
        values: int = 0,
        cycles: _Cycles = (0, 0),
        max_parts: int = 0,
        axis: str | None = None,
    ) -> None:
        if axis is None:
            axis = SAMPLES if any(self.tensors[each].axes for each in (*reads, *writes)) else ""
        if not axis and kind != "product":
            kind = "update"  # of weights
        self.writers |= dict.fromkeys(writes, len(self.nodes))
        self.nodes.append(
            Node(
                name=name,
                kind=kind,
                reads=tuple(dict.fromkeys(reads)),
                writes=tuple(writes),
                axis=axis,
                max_parts=max_parts,
                cycles=cycles[0],
                apart=cycles[1] if cycles[1] != cycles[0] else 0,
                values=values,
            )
        )


def _together(cycles: Sequence[_Cycles]) -> _Cycles:
    return sum(joined for joined, _ in cycles), sum(apart for _, apart in cycles)


def _max_parts(record: Record) -> int:
    geometry = record.geometry
    if isinstance(geometry, MatrixProduct) and geometry.batch == 1:
        return max(1, geometry.samples // MIN_ROWS)
    return 0
