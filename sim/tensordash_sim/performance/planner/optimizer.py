"""What an optimizer does to the weights of a layer, as a node of a graph."""

from .graph import SINGLE, Node, Tensor

__all__ = ["optimizer_update"]


def optimizer_update(
    name: str, weights: Tensor, gradient: str, states: int, *, density: float = 1.0, mask: Tensor | None = None
) -> tuple[Node, list[Tensor]]:
    """Update of weights: reads their gradient, they in full precision and its states; writes all but the gradient.

    Parameters
    ----------
    name : str
        Of the layer: the node is `name`.update.
    weights : Tensor
        As products read them.
    gradient : str
        Their gradient.
    states : int
        Tensors that the optimizer keeps for each of weights.
    density : float
        Of the weights in full precision and of the states.
    mask : Tensor, optional
        The static one of the weights: it is read, and never written.

    Returns
    -------
    Node
    list of Tensor
        All that come with it: those that it reads, but for the gradient, and those that it writes.
    """
    state = [
        Tensor(name=f"{name}.{what}", values=weights.values, value_bytes=SINGLE, density=density, is_input=True)
        for what in ("master", *(f"state{number}" for number in range(states)))
    ]
    made = [
        Tensor(
            name=f"{name}.W.new" if before is weights else f"{before.name}.new",
            values=weights.values,
            value_bytes=before.value_bytes,
            density=before.density,
            wanted=True,
            becomes=before.name,
        )
        for before in (*state, weights)
    ]
    read = [*([] if mask is None else [mask]), *state]
    node = Node(
        name=f"{name}.update",
        kind="update",
        reads=(gradient, *(each.name for each in read)),
        writes=tuple(each.name for each in made),
        values=weights.values,
    )
    return node, [*read, *made]
