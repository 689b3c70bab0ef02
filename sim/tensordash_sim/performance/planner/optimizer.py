"""An optimizer's update of a layer's weights, as a node of a graph."""

from .graph import SINGLE, Node, Tensor

__all__ = ["optimizer_update"]


def optimizer_update(
    name: str, weights: Tensor, gradient: str, states: int, *, density: float = 1.0, mask: Tensor | None = None
) -> tuple[Node, list[Tensor]]:
    """Return the update of weights and its tensors.

    The update reads the gradient, the FP32 master weights and the optimizer's states. It writes master weights, states
    and the products' weights.

    Parameters
    ----------
    name : str
        Name of the layer; the node's name is `name`.update.
    weights : Tensor
        The weights that products read.
    gradient : str
        Their gradient.
    states : int
        Number of state tensors that the optimizer has for the weights.
    density : float
        Density of master weights and states.
    mask : Tensor, optional
        A static mask of the weights, which the update reads and never writes.

    Returns
    -------
    Node
    list of Tensor
        The tensors that it reads, except the gradient, and the tensors that it writes.
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
