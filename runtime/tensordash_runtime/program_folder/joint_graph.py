"""Capture the forward and backward pass of a PyTorch model (its joint graph) as a step graph. Needs torch."""

from collections.abc import Callable
from copy import deepcopy

from torch import Tensor, nn
from torch._functorch.aot_autograd import aot_export_module
from torch._subclasses.fake_tensor import FakeCopyMode, FakeTensorMode
from torch.fx import GraphModule

from tensordash.configuration.core_config import CoreConfig

from ..errors import ProgramFolderError
from .lowering import Lowering
from .operations import lower_node
from .step_graph import LossScale, StepGraph

__all__ = ["capture_step"]

LossFunction = Callable[..., Tensor]


class _WithLoss(nn.Module):
    """A model with its loss, the function to differentiate."""

    def __init__(self, model: nn.Module, loss: LossFunction) -> None:
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, *example: Tensor) -> tuple[Tensor]:
        """Return the loss; the last tensor is the target."""
        *inputs, target = example
        return (self.loss(self.model(*inputs), target),)


def capture_step(
    model: nn.Module, loss: LossFunction, example: tuple[Tensor, ...], config: CoreConfig, scale: LossScale
) -> tuple[StepGraph, dict[str, str]]:
    """Trace the forward and backward pass of a model on an example.

    Parameters
    ----------
    model : nn.Module
        The model, with float32 parameters that all get gradients.
    loss : callable
        A function of the model's result and the target, such as ``torch.nn.functional.cross_entropy``.
    example : tuple of Tensor
        The model's inputs, then the target.
    config : CoreConfig
        The core, whose features determine which operations are fused.
    scale : LossScale
        Factor of the loss's gradient.

    Returns
    -------
    StepGraph
        The step without the optimizer.
    dict of str to str
        Name of each parameter's gradient, by the parameter's name.

    Raises
    ------
    ProgramFolderError
        If neither the core nor the host computes an operation, which the message names, or layers share a parameter.
    """
    module = _WithLoss(model, loss)
    parameters, buffers = dict(module.named_parameters()), dict(module.named_buffers())
    for name, _ in model.named_parameters(remove_duplicate=False):
        if f"model.{name}" not in parameters:
            raise ProgramFolderError(f"{name} must not also be the parameter of another layer")
    try:
        # Tracing would compute the step with real tensors. Fake tensors have only shapes.
        with FakeCopyMode(FakeTensorMode(allow_non_fake_inputs=True)):
            copied, sample = deepcopy((module, example))
        traced, signature = aot_export_module(copied, sample, trace_joint=True, output_loss_index=0)
    except Exception as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise ProgramFolderError(f"model cannot be traced with its backward pass: {reason}") from error
    lowering = Lowering(config, scale)
    assert isinstance(traced, GraphModule)
    for node in traced.graph.nodes:
        if node.op == "placeholder" and node.name in signature.inputs_to_parameters:
            parameter = signature.inputs_to_parameters[node.name]
            lowering.add_initial(node, parameter.removeprefix("model."), "parameter", parameters[parameter])
        elif node.op == "placeholder" and node.name in signature.inputs_to_buffers:
            buffer = signature.inputs_to_buffers[node.name]
            lowering.add_buffer(node, buffer.removeprefix("model."), buffers[buffer])
        elif node.op == "placeholder":
            place = signature.user_inputs.index(node.name)
            is_target = place == len(example) - 1
            name = "target" if is_target else f"input{place}" if len(example) > 2 else "input"
            lowering.add_initial(node, name, "integer" if is_target else "input", example[place])
        elif node.op == "get_attr":
            raise ProgramFolderError(f"forward must not create constant tensors, such as {node.target}")
        elif node.op == "call_function":
            lower_node(lowering, node)
    backward = signature.backward_signature
    assert backward is not None
    gradients = {
        name.removeprefix("model."): lowering.value_of(node) for node, name in backward.gradients_to_parameters.items()
    }
    (loss_output,) = signature.user_outputs  # `backward.loss_output` does not count updated buffers.
    lowering.graph.outputs.append(lowering.value_of(loss_output))
    lowering.remove_unused(set(gradients.values()))
    return lowering.graph, lowering.name_gradients(gradients)
