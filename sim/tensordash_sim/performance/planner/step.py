"""Builds the graph of a training step by differentiating a forward pass."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

from ...lowering import Geometry, MatrixProduct, Operation
from .graph import BIT, HALF, SINGLE, Graph, Node, Tensor
from .optimizer import optimizer_update

__all__ = ["Cycles", "GraphWriter", "Value"]

Cycles = Callable[[Geometry, Operation, str], tuple[int, int]]
"""Function that returns the cycles of the chip's tiles for an operation, without DRAM: uncut, and cut into parts (0 if
the same). The last argument is the kind of its layer: "convolution", "linear", or a contraction's name."""
MIN_ROWS = 64
"""Minimum of rows in a part of a linear layer; fewer would leave tiles without work."""


@dataclass(frozen=True)
class Value:
    """A value of a forward pass: its tensor, and whether its gradient is needed."""

    tensor: str
    needs_gradient: bool = True


class GraphWriter:
    """Collects the nodes of a forward pass and of its backward pass.

    Operands are fp16. Gradients of weights, master weights and optimizer states are FP32. The update writes new master
    weights and their fp16 copies. Biases, gains and the loss are small and not in the graph.

    Parameters
    ----------
    axes : dict of str to int
        Maximum of parts along each axis of tensors.
    cycles : Cycles
        Cycles of products.
    states : int
        FP32 tensors that the optimizer has for each weight tensor: 1 with momentum, 2 for Adam.
    gradient_density : float
        Share of non-zero values in gradients that products read, unless a layer has its own.

    Examples
    --------
    >>> writer = GraphWriter({"samples": 4}, lambda *_: (1, 0))
    >>> layer = MatrixProduct(batch=1, samples=4, in_features=8, out_features=2)
    >>> x = writer.add_input("x", 32, axes={"samples"})
    >>> y = writer.product("fc", layer, x, axis="samples", density=1.0)
    >>> graph = writer.finish(y, axis="samples")
    >>> list(graph.nodes)
    ['fc.AxW', 'loss', 'fc.AxG', 'fc.update']
    """

    def __init__(self, axes: dict[str, int], cycles: Cycles, *, states: int = 1, gradient_density: float = 1.0) -> None:
        self.axes, self.cycles, self.states, self.gradient_density = axes, cycles, states, gradient_density
        self.tensors: dict[str, Tensor] = {}
        self._forward: list[Node] = []
        self._backward: list[Node] = []
        self._tape: list[Callable[[], list[Node]]] = []
        self._gradients: dict[str, list[str]] = {}

    def add_input(
        self, name: str, values: int, *, axes: set[str], density: float = 1.0, needs_gradient: bool = False
    ) -> Value:
        """Add a tensor that is in DRAM before the step: a batch, or the result of an earlier block with a gradient."""
        self._tensor(name, values, HALF, density, axes, is_input=True)
        return Value(name, needs_gradient)

    def product(
        self,
        name: str,
        geometry: Geometry,
        x: Value,
        *,
        axis: str,
        density: float,
        kind: str = "linear",
        weight_density: float = 1.0,
        axes: set[str] | None = None,
    ) -> Value:
        """Add a layer with weights; `density` and `axes` describe its result."""
        return self.products(
            name,
            geometry,
            x,
            axis=axis,
            density=density,
            kind=kind,
            weight_density=weight_density,
            axes=axes or {axis},
            into=("Y",),
        )[0]

    def products(
        self,
        name: str,
        geometry: Geometry,
        x: Value,
        *,
        axis: str,
        density: float,
        kind: str,
        weight_density: float,
        axes: set[str],
        into: Sequence[str],
    ) -> list[Value]:
        """Add a layer as `product` does, with several results of equal size, such as attention's Q, K and V."""
        values = {operand: prod(shape) for operand, shape in geometry.shapes.items()}
        w, ys, dw = f"{name}.W", tuple(f"{name}.{each}" for each in into), f"{name}.dW"
        self._tensor(w, values["W"], HALF, weight_density, set(), is_input=True)
        for y in ys:
            self._tensor(y, values["G"] // len(ys), HALF, density, axes)
        self._forward.append(self._product(name, geometry, Operation.FORWARD, kind, (x.tensor, w), ys, axis))

        def back() -> list[Node]:
            gradients = tuple(self._gradient(y) for y in ys)
            nodes = []
            if x.needs_gradient:
                like, dx = self.tensors[x.tensor], f"{name}.dX"
                self._tensor(dx, like.values, HALF, self.gradient_density, set(like.axes))
                reads = (w, *gradients)
                nodes.append(self._product(name, geometry, Operation.INPUT_GRADIENT, kind, reads, (dx,), axis))
                self._gradients.setdefault(x.tensor, []).append(dx)
            self._tensor(dw, values["W"], SINGLE, weight_density, set())
            reads = (x.tensor, *gradients)
            nodes.append(self._product(name, geometry, Operation.WEIGHT_GRADIENT, kind, reads, (dw,), axis))
            return [*nodes, self._update(name, weight_density)]

        self._tape.append(back)
        return [Value(y) for y in ys]

    def contraction(
        self, name: str, geometry: Geometry, a: Value, b: Value, *, axis: str, density: float, axes: set[str]
    ) -> Value:
        """Add a product of two activations, as in attention; `a` is the operand A, `b` the operand W.

        Each part of A in a batch element, such as a head, needs all of the element's W.
        """
        y = f"{name}.Y"
        elements = geometry.shapes["W"][0]
        self.tensors[b.tensor] = replace(self.tensors[b.tensor], max_parts=elements)
        self._tensor(y, prod(geometry.shapes["G"]), HALF, density, axes)
        self._forward.append(self._product(name, geometry, Operation.FORWARD, name, (a.tensor, b.tensor), (y,), axis))

        def back() -> list[Node]:
            gradient, nodes = self._gradient(y), []
            for operation, operand, of in (
                (Operation.INPUT_GRADIENT, b, a),
                (Operation.WEIGHT_GRADIENT, a, b),
            ):
                like, made = self.tensors[of.tensor], f"{name}.d{'A' if of is a else 'W'}"
                self._tensor(made, like.values, HALF, like.density, set(like.axes))
                self.tensors[made] = replace(self.tensors[made], max_parts=like.max_parts)
                reads = (operand.tensor, gradient)
                nodes.append(self._product(name, geometry, operation, name, reads, (made,), axis))
                self._gradients.setdefault(of.tensor, []).append(made)
            return nodes

        self._tape.append(back)
        return Value(y)

    def element_wise(
        self,
        name: str,
        inputs: Sequence[Value],
        *,
        axis: str,
        density: float = 1.0,
        values: int | None = None,
        saved: Sequence[str] = (),
        mask_bytes: float = 0.0,
        gradient_density: float = 1.0,
        keeps_size: bool = True,
        row_wise: bool = False,
    ) -> Value:
        """Add an element-wise or row-wise node.

        Parameters
        ----------
        name, inputs, axis
            Name, inputs and axis of the node.
        density : float
            Density of its result.
        values : int, optional
            Number of values of its result; by default the number of the first input.
        saved : sequence of str
            Tensors of the forward pass that its backward pass reads.
        mask_bytes : float
            Bytes of the mask that it writes for its backward pass, for each value of the result: 1/8 for a bit, 0 for
            no mask.
        gradient_density : float
            Density of its inputs' gradients.
        keeps_size : bool
            Whether the backward pass computes a gradient for each input; for a sum, it is the result's gradient.
        row_wise : bool
            Whether it needs complete rows.
        """
        like = self.tensors[inputs[0].tensor]
        count = like.values if values is None else values
        y, writes = f"{name}.Y", [f"{name}.Y"]
        self._tensor(y, count, HALF, density, set(like.axes))
        read_back = list(saved)
        if mask_bytes:
            mask = f"{name}.mask"
            self._tensor(mask, count, mask_bytes, 1.0, set(like.axes))
            writes.append(mask)
            read_back.append(mask)
        reads = tuple(each.tensor for each in inputs)
        size = max(count, *(self.tensors[each].values for each in reads))
        kind = "row-wise" if row_wise else "element-wise"
        self._forward.append(replace(self._element(name, reads, tuple(writes), axis, size), kind=kind))

        def back() -> list[Node]:
            gradient, nodes = self._gradient(y), list[Node]()
            for number, each in enumerate(inputs):
                if not each.needs_gradient:
                    continue
                element_gradient = gradient
                if keeps_size:
                    element_gradient = f"{name}.d{number}"
                    of = self.tensors[each.tensor]
                    self._tensor(element_gradient, of.values, HALF, gradient_density, set(of.axes))
                    node = self._element(
                        f"{name}.back{number}", (gradient, *read_back), (element_gradient,), axis, size
                    )
                    nodes.append(replace(node, kind=kind))
                self._gradients.setdefault(each.tensor, []).append(element_gradient)
            return nodes

        self._tape.append(back)
        return Value(y)

    def add(self, name: str, first: Value, second: Value, *, axis: str) -> Value:
        """Add a sum; both inputs get its gradient."""
        return self.element_wise(name, [first, second], axis=axis, keeps_size=False)

    def norm(self, name: str, x: Value, *, sums: int, over: set[str], axis: str) -> Value:
        """Add a normalisation: sums, then an element-wise node, in both passes.

        Parameters
        ----------
        name, x, axis
            Name, input and axis of the node.
        sums : int
            Number of normalised channels or rows.
        over : set of str
            Axes along which the sums can be cut; none for a batch normalisation.
        """
        like = self.tensors[x.tensor]
        found, y = f"{name}.sums", f"{name}.Y"
        self._tensor(found, 2 * sums, SINGLE, 1.0, over)
        self._tensor(y, like.values, HALF, 1.0, set(like.axes))
        self._forward.append(self._sums(f"{name}.sum", (x.tensor,), (found,), axis, like.values))
        self._forward.append(self._element(name, (x.tensor, found), (y,), axis, like.values))

        def back() -> list[Node]:
            gradient, back_sums, dx = self._gradient(y), f"{name}.dsums", f"{name}.dX"
            self._tensor(back_sums, 2 * sums, SINGLE, 1.0, over)
            self._tensor(dx, like.values, HALF, self.gradient_density, set(like.axes))
            self._gradients.setdefault(x.tensor, []).append(dx)
            reads = (gradient, x.tensor, found)
            return [
                self._sums(f"{name}.back.sum", reads, (back_sums,), axis, like.values),
                self._element(f"{name}.back", (*reads, back_sums), (dx,), axis, like.values),
            ]

        self._tape.append(back)
        return Value(y)

    def finish(self, y: Value, *, axis: str, is_block: bool = False) -> Graph:
        """Add the backward pass from a result; return the graph.

        Parameters
        ----------
        y : Value
            The result for which the loss, or the next block, supplies a gradient.
        axis : str
            Axis of the loss, and of sums of a tensor's gradients.
        is_block : bool
            Whether further blocks follow. The result is then wanted, and the gradient is an input in another phase.
        """
        last = self.tensors[y.tensor]
        self._tensor("loss.gradient", last.values, HALF, 1.0, set(last.axes), is_input=is_block)
        self._gradients[y.tensor] = ["loss.gradient"]
        if is_block:
            self.tensors[y.tensor] = replace(last, wanted=True)
        else:
            loss = self._element("loss", (y.tensor,), ("loss.gradient",), axis, last.values)
            self._forward.append(replace(loss, kind="row-wise"))
        self._axis = axis
        for back in reversed(self._tape):
            nodes = back()
            self._backward += nodes
        for name in [name for name, tensor in self.tensors.items() if tensor.is_input and name in self._gradients]:
            gradient = self._gradient(name)
            self.tensors[gradient] = replace(self.tensors[gradient], wanted=True)
        backward = [replace(node, phase=int(is_block)) for node in self._backward]
        return Graph(self.tensors.values(), [*self._forward, *backward], self.axes)

    def _tensor(
        self, name: str, values: int, value_bytes: float, density: float, axes: set[str], *, is_input: bool = False
    ) -> None:
        self.tensors[name] = Tensor(
            name=name, values=values, value_bytes=value_bytes, density=density, axes=frozenset(axes), is_input=is_input
        )

    def _product(
        self,
        name: str,
        geometry: Geometry,
        operation: Operation,
        kind: str,
        reads: tuple[str, ...],
        writes: tuple[str, ...],
        axis: str,
    ) -> Node:
        cycles, apart = self.cycles(geometry, operation, kind)
        most = 0
        if isinstance(geometry, MatrixProduct) and geometry.batch == 1:
            most = max(1, geometry.samples // MIN_ROWS)
        return Node(
            name=f"{name}.{operation}",
            kind="product",
            reads=reads,
            writes=writes,
            axis=axis,
            max_parts=most,
            cycles=cycles,
            apart=apart,
        )

    def _element(self, name: str, reads: tuple[str, ...], writes: tuple[str, ...], axis: str, values: int) -> Node:
        return Node(name=name, kind="element-wise", reads=reads, writes=writes, axis=axis, values=values)

    def _sums(self, name: str, reads: tuple[str, ...], writes: tuple[str, ...], axis: str, values: int) -> Node:
        return replace(self._element(name, reads, writes, axis, values), kind="sums")

    def _update(self, name: str, density: float) -> Node:
        """Return the optimizer's node. Weights with zeros have a static mask, which it reads and never writes."""
        gradient, weights = self.tensors[f"{name}.dW"], self.tensors[f"{name}.W"]
        masked = density < 1
        mask = Tensor(name=f"{name}.mask", values=weights.values, value_bytes=BIT, is_input=True) if masked else None
        node, tensors = optimizer_update(name, weights, gradient.name, self.states, density=density, mask=mask)
        for each in (gradient, *tensors):
            self.tensors[each.name] = replace(each, has_mask=not masked)
        return node

    def _gradient(self, y: str) -> str:
        """Return the gradient of a tensor; add up the gradients of several readers."""
        gradients = self._gradients[y]
        while len(gradients) > 1:
            first, second = gradients[:2]
            like, total = self.tensors[first], f"{first} + {second}"
            density = max(like.density, self.tensors[second].density)
            self._tensor(total, like.values, HALF, density, set(like.axes))
            self._backward.append(self._element(total, (first, second), (total,), self._axis, like.values))
            gradients[:2] = [total]
        return gradients[0]
