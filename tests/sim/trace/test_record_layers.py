"""Test that recorded products have the right names and roles however a module runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from .recording import Cnn, close, mlp, operations, results, traced, train, uncaptured


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def test_names_of_the_model(tmp_path: Path) -> None:
    head = nn.ModuleList([nn.Linear(10, 4), nn.Linear(4, 2)])
    model = nn.ModuleDict({"encoder": Cnn(), "head": head})

    def run() -> None:
        x = model["encoder"](torch.randn(4, 3, 8, 8))
        for layer in head:
            x = layer(x)
        x.sum().backward()

    names = {line.split()[0] for line in operations(traced(tmp_path, run, model=model))}
    assert names == {f"encoder.{name}" for name in ("conv1", "conv2", "up", "fc")} | {"head.0", "head.1"}
    assert traced(tmp_path, run, model=model).conditions["model"] == "ModuleDict"


def test_names_without_a_model(tmp_path: Path) -> None:
    first, second, alone = mlp(), mlp(), nn.Linear(3, 2)

    def run() -> None:
        y = alone(first(torch.randn(2, 6)) + second(torch.randn(2, 6)))
        (y @ torch.ones(2, 3, requires_grad=True) @ torch.ones(3, 2)).sum().backward()

    names = [line.removesuffix(" AxW") for line in operations(traced(tmp_path, run)) if line.endswith("AxW")]
    assert names == ["Sequential.0", "Sequential.2", "Sequential_2.0", "Sequential_2.2", "Linear", "mm0", "mm1"]


def test_names_of_shared_weights(tmp_path: Path) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(5, 4)
            self.head = nn.Linear(4, 5, bias=False)
            self.head.weight = self.embedding.weight
            self.shared = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.shared(self.shared(self.embedding(x))))

    model = Tied()
    trace = traced(tmp_path, lambda: model(torch.arange(3)).square().sum().backward(), model=model)
    names = ["shared", "shared", "head"]
    assert [line for line in operations(trace) if line.endswith("AxW")] == [f"{name} AxW" for name in names]
    assert operations(trace).count("shared AxG") == 2


def test_layers_that_are_computed_weights(tmp_path: Path) -> None:
    model = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)), nn.Linear(3, 2))
    trace = traced(tmp_path, lambda: model(torch.randn(2, 4)).sum().backward(), model=model)
    assert operations(trace) == ["0/mm0 AxW", "1 AxW", "1 WxG", "1 AxG", "0/mm0 AxG"]


def test_lazy_layers(tmp_path: Path) -> None:
    model = nn.Sequential(nn.LazyLinear(3), nn.Linear(3, 2))
    model[1].weight.data = torch.randn(2, 3)
    trace = traced(tmp_path, lambda: model(torch.randn(2, 4)).sum().backward(), model=model)
    assert operations(trace) == ["0 AxW", "1 AxW", "1 WxG", "1 AxG", "0 AxG"]


@pytest.mark.parametrize("way", ["copy", "data", "out"])
def test_memory_that_is_overwritten_between_two_products(way: str, tmp_path: Path) -> None:
    layer, memory = nn.Linear(4, 3).double(), torch.zeros(2, 4, dtype=torch.float64)
    inputs = [torch.randn(2, 4, dtype=torch.float64).relu() for _ in range(3)]

    def run() -> None:
        for x in inputs:
            if way == "out":
                torch.add(x, 0, out=memory)
            else:
                (memory.data if way == "data" else memory).copy_(x)
            layer(memory).square().sum().backward()

    trace = traced(tmp_path, run, model=layer)
    found = [torch.from_numpy(entry.values("A")[0]) for entry in trace.records if str(entry.operation) == "AxW"]
    assert all(torch.equal(one, other) for one, other in zip(found, inputs, strict=True))
    close(sum(results(trace)["Linear", "AxG"]), layer.weight.grad)


def test_other_ways_to_run_a_module(tmp_path: Path) -> None:
    def vectorised() -> None:
        layer = nn.Linear(4, 3)

        def loss(parameters: Any, x: torch.Tensor) -> torch.Tensor:
            return torch.func.functional_call(layer, parameters, (x[None],)).square().sum()

        torch.func.vmap(torch.func.grad(loss), (None, 0))(dict(layer.named_parameters()), torch.randn(5, 4))

    trace = traced(tmp_path, vectorised)
    assert operations(trace) == ["Linear/mm0 AxW"]
    assert uncaptured(trace) == ["aten::bmm in AddmmBackward0 (role unknown)"]

    def in_backward() -> None:
        model = mlp()
        for parameter in model.parameters():
            optimizer = torch.optim.SGD([parameter], lr=0.1)
            parameter.register_post_accumulate_grad_hook(lambda _, optimizer=optimizer: optimizer.step())
        for _ in range(2):
            model(torch.randn(2, 6)).sum().backward()

    assert len(traced(tmp_path, in_backward).steps) == 1
    assert len(operations(traced(tmp_path, in_backward))) == 10


def test_capture_errors_do_not_end_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any) -> None:
        raise RuntimeError("no idea")

    monkeypatch.setattr("tensordash_sim.trace.capture.matrix_role.geometry_of", broken)
    trace = traced(tmp_path, lambda: train(mlp(), torch.randn(2, 6), 1))
    assert uncaptured(trace) == [
        "aten::addmm (RuntimeError: no idea) (2 times)",
        "aten::mm in AddmmBackward0 (role unknown) (3 times)",
    ]


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("square", [True, False])
def test_checkpointing_records_the_forward_pass_once(reentrant: bool, square: bool, tmp_path: Path) -> None:
    width = 4 if square else 5
    model = nn.Sequential(nn.Linear(4, width), nn.Linear(width, 4), nn.Linear(4, 4)).double()
    x = torch.randn(4, 4, dtype=torch.float64, requires_grad=True)
    multiplied = nn.Sequential(model[0], nn.ReLU(), model[1], nn.ReLU())

    def inner(x: torch.Tensor) -> torch.Tensor:
        return multiplied(x) @ x.detach()

    def run() -> None:
        model[2](checkpoint(inner, x, use_reentrant=reentrant)).square().sum().backward()

    trace = traced(tmp_path, run, model=model)
    assert not uncaptured(trace)
    assert sorted(operations(trace)) == sorted(
        [f"{name} {operation}" for name in "012" for operation in ("AxW", "WxG", "AxG")] + ["mm0 AxW", "mm0 WxG"]
    )
    found = results(trace)
    for index in range(3):
        close(found[str(index), "AxG"][0], model[index].weight.grad)


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointing_with_two_backward_passes(reentrant: bool, tmp_path: Path) -> None:
    """Each pass recomputes the forward products. Gradients belong to the recorded products."""
    model = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 4)).double()
    x = torch.randn(4, 4, dtype=torch.float64, requires_grad=True)

    def run() -> None:
        y = checkpoint(lambda x: model(x) @ x.detach(), x, use_reentrant=reentrant)
        y.sum().backward(retain_graph=True)
        y.square().sum().backward()

    trace = traced(tmp_path, run, model=model)
    gradients = [f"{name} {operation}" for name in "01" for operation in ("WxG", "AxG")] + ["mm0 WxG"]
    assert sorted(operations(trace)) == sorted(["0 AxW", "1 AxW", "mm0 AxW", *gradients, *gradients])
    assert not uncaptured(trace)


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad=True")
@pytest.mark.parametrize("outer", [True, False])
@pytest.mark.parametrize("inner", [True, False])
def test_checkpointing_inside_of_checkpointing(outer: bool, inner: bool, tmp_path: Path) -> None:
    model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(3))).double()
    x = torch.randn(4, 8, dtype=torch.float64, requires_grad=True)

    def inside(x: torch.Tensor) -> torch.Tensor:
        return model[1](x).tanh() @ (x.detach().t() @ x) @ torch.ones(8, 2, dtype=torch.float64)

    def outside(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(inside, model[0](x), use_reentrant=inner).square() @ x.detach()[:2]

    trace = traced(
        tmp_path, lambda: model[2](checkpoint(outside, x, use_reentrant=outer)).square().sum().backward(), model=model
    )
    assert not uncaptured(trace)
    of_x, of_inner, of_ones, of_outer = (f"mm{number}" for number in range(4))
    both = [f"{name} {operation}" for name in (*"012", of_inner) for operation in ("AxW", "WxG", "AxG")]
    one = [f"{name} {operation}" for name in (of_x, of_ones, of_outer) for operation in ("AxW", "WxG")]
    one[1] = f"{of_x} AxG"  # Only the right factor needs a gradient.
    assert sorted(operations(trace)) == sorted(both + one)
    found = results(trace)
    for index in range(3):
        close(found[str(index), "AxG"][0], model[index].weight.grad)


def test_function_inside_of_a_function(tmp_path: Path) -> None:
    class Outer(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x, weight)
            return Square.apply(x, weight)

        @staticmethod
        def backward(ctx: Any, *grads: torch.Tensor) -> Any:
            return Square.backward(ctx, *grads)

    layer, x = nn.Linear(4, 3), torch.randn(2, 4, requires_grad=True)
    trace = traced(tmp_path, lambda: Outer.apply(x, layer.weight).square().sum().backward(), model=layer)
    assert operations(trace) == ["Linear AxW", "Linear WxG", "Linear AxG"]
    assert not uncaptured(trace)


def test_saved_tensor_hooks(tmp_path: Path) -> None:
    model, square = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 4)).double(), nn.Linear(4, 4).double()

    def run(model: nn.Module, samples: int) -> None:
        pack = torch.autograd.graph.saved_tensors_hooks(lambda x: x.clone(), lambda x: x)
        with pack:
            model(torch.randn(samples, 4, dtype=torch.float64, requires_grad=True)).square().sum().backward()

    trace = traced(tmp_path, lambda: run(model, 3), model=model)
    assert not uncaptured(trace)
    for index in (0, 1):
        close(results(trace)[str(index), "AxG"][0], model[index].weight.grad)
    trace = traced(tmp_path, lambda: run(square, 3), model=square)
    assert operations(trace) == ["Linear AxW", "Linear WxG", "Linear AxG"]
    close(results(trace)["Linear", "AxG"][0], square.weight.grad)
    trace = traced(tmp_path, lambda: run(square, 4), model=square)  # Neither shapes nor memory identify the layer.
    assert operations(trace) == ["Linear AxW"]
    assert uncaptured(trace) == ["aten::mm in AddmmBackward0 of layer Linear (role unknown) (2 times)"]


class Square(torch.autograd.Function):
    """A linear layer as a custom autograd function."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        return x @ weight.t()

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        x, weight = ctx.saved_tensors
        return grads[0] @ weight, grads[0].t() @ x


def test_function_of_the_user(tmp_path: Path) -> None:
    layer = nn.Linear(4, 4).double()
    x = torch.randn(4, 4, dtype=torch.float64, requires_grad=True)
    trace = traced(tmp_path, lambda: Square.apply(x, layer.weight).square().sum().backward(), model=layer)
    assert operations(trace) == ["Linear AxW", "Linear WxG", "Linear AxG"]
    close(results(trace)["Linear", "AxG"][0], layer.weight.grad)
    close(results(trace)["Linear", "WxG"][0], x.grad)
    with torch.no_grad():
        trace = traced(tmp_path, lambda: Square.apply(x, layer.weight))
    assert uncaptured(trace) == ["aten::mm under torch.no_grad"]


def test_second_derivatives_are_named(tmp_path: Path) -> None:
    layer, x = nn.Linear(4, 3), torch.randn(2, 4, requires_grad=True)

    def run() -> None:
        y = layer(x).tanh().sum()
        (grad,) = torch.autograd.grad(y, x, create_graph=True)
        grad.square().sum().backward()

    trace = traced(tmp_path, run, model=layer)
    assert operations(trace)[:2] == ["Linear AxW", "Linear WxG"]
    assert uncaptured(trace) == ["aten::mm in MmBackward0 (role unknown) (2 times)"]


UNCAPTURED: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "conv3d": (
        lambda: nn.Conv3d(1, 1, 2)(torch.randn(1, 1, 3, 3, 3)).sum().backward(),
        ["aten::convolution of layer Conv3d (3d)", "aten::convolution_backward in ConvolutionBackward0 (3d)"],
    ),
    "bilinear": (
        lambda: nn.Bilinear(2, 3, 4)(torch.randn(2, 2), torch.randn(2, 3)).sum().backward(),
        ["aten::_trilinear of layer Bilinear", "aten::_trilinear in TrilinearBackward0"],
    ),
    "complex": (
        lambda: torch.mm(torch.ones(2, 2, dtype=torch.complex64), torch.ones(2, 2, dtype=torch.complex64)),
        ["aten::mm (complex64)"],
    ),
    "sparse": (lambda: torch.sparse.mm(torch.eye(2).to_sparse(), torch.ones(2, 2)), ["aten::_sparse_addmm"]),
    "embedding bag": (
        lambda: nn.EmbeddingBag(3, 2, mode="sum")(torch.tensor([[0, 1]])),
        ["aten::_embedding_bag of layer EmbeddingBag"],
    ),
    "sparse gradients": (
        lambda: nn.Embedding(3, 2, sparse=True)(torch.tensor([0, 1])).sum().backward(),
        [],  # Neither do the copies multiply.
    ),
    "no_grad": (lambda: torch.no_grad()(nn.Linear(2, 2))(torch.ones(1, 2)), ["aten::addmm under torch.no_grad"]),
    "nothing multiplied": (lambda: nn.Linear(2, 2)(torch.ones(0, 2)).sum().backward(), []),
}


@pytest.mark.parametrize("case", UNCAPTURED)
def test_uncaptured_operations_are_listed(case: str, tmp_path: Path) -> None:
    run, expected = UNCAPTURED[case]
    trace = traced(tmp_path, lambda: (run(), nn.Linear(3, 3)(torch.ones(1, 3))))
    assert uncaptured(trace) == expected
    assert len(list(trace.records)) == 1
