"""Test the recorded data flow of a step: the operations that write and read each tensor."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tensordash_sim.trace import Flow, FlowTensor, Trace, TraceError, TraceWriter, Update, Work

from .conftest import record_layers, record_step
from .recording import traced


def flow_of(path: Path, model: nn.Module, *inputs: torch.Tensor, **settings) -> Flow:
    """Record the flow of one step with momentum."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step() -> None:
        model(*inputs).sum().backward()
        optimizer.step()

    (found,) = traced(path, step, **{"model": model} | settings).steps
    assert found.flow is not None
    return found.flow


def find_work(flow: Flow, name: str, phase: str = "forward") -> Work:
    (work,) = (work for work in flow.work if work.name == f"aten::{name}" and work.phase == phase)
    return work


def shapes(flow: Flow, places: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [flow.tensors[place].shape for place in places]


class TestReadsAndWrites:
    def test_a_step(self, tmp_path):
        """The flow has all operations between two layers, forward and backward, with their tensors' names."""
        model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
        flow = flow_of(tmp_path, model, torch.ones(4, 6))
        first, second = (work for work in flow.work if work.name == "aten::addmm")
        relu, back = find_work(flow, "relu"), find_work(flow, "threshold_backward", "backward")
        assert relu.reads == first.writes
        assert relu.writes[0] in second.reads
        inputs, weights = second.products[0][1]["A"], second.products[0][1]["W"]
        assert (inputs, second.products[0][0]) == (relu.writes[0], 1)
        products = {work.products[0][0]: work for work in flow.work if work.products}
        gradient = products[2].products[0][1]["G"]
        # The second layer's gradients read the same G. The first layer reads the output of ReLU's mask.
        assert dict(products[2].products[0][1]) == {"W": weights, "G": gradient}
        assert dict(products[3].products[0][1]) == {"A": inputs, "G": gradient}
        assert set(back.reads) == {products[2].writes[0], relu.writes[0]}
        assert products[4].products[0][1]["G"] == back.writes[0]
        assert {update.gradient for update in flow.updates} >= {products[3].writes[0], products[4].writes[0]}
        assert [update.states for update in flow.updates] == [1] * 4
        assert {update.parameter for update in flow.updates} >= {weights, first.products[0][1]["W"]}

    def test_a_convolution_with_normalisation(self, tmp_path):
        model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.MaxPool2d(2))
        flow = flow_of(tmp_path, model, torch.rand(2, 3, 8, 8))
        convolution, norm, pool = (
            find_work(flow, name) for name in ("convolution", "native_batch_norm", "max_pool2d_with_indices")
        )
        assert convolution.writes[0] == norm.reads[0]
        assert norm.writes[0] == pool.reads[0]
        back = find_work(flow, "native_batch_norm_backward", "backward")
        # The backward pass reads the sums and the forward pass's input.
        assert set(norm.writes[1:]) | {convolution.writes[0]} < set(back.reads)
        assert pool.writes[1] in find_work(flow, "max_pool2d_with_indices_backward", "backward").reads
        gradients = find_work(flow, "convolution_backward", "backward")
        assert back.writes[0] in gradients.reads
        assert shapes(flow, gradients.writes) == [(8, 3, 3, 3), (8,)]  # The batch needs no gradient.

    def test_two_readers_and_a_sum_of_gradients(self, tmp_path):
        class Branches(nn.Module):
            def __init__(self):
                super().__init__()
                self.left, self.right = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)

            def forward(self, x):
                x = x.relu()
                return self.left(x) + self.right(x)

        inputs = torch.rand(2, 4, requires_grad=True)
        flow = flow_of(tmp_path, Branches(), inputs)
        left, right = (work for work in flow.work if work.name == "aten::mm" and work.phase == "forward")
        assert left.reads[0] == right.reads[0] == find_work(flow, "relu").writes[0]
        assert set(find_work(flow, "add").reads) == {*left.writes, *right.writes}
        # PyTorch adds the second gradient to the first, in place or not.
        added = [work for work in flow.work if work.name.startswith("aten::add") and work.phase == "backward"]
        back = [work.writes[0] for work in flow.work if work.products and work.phase == "backward" and len(work.writes)]
        assert len(added) == 1
        assert set(added[0].reads) <= set(back)
        assert find_work(flow, "threshold_backward", "backward").reads[0] == added[0].writes[0]

    def test_in_place_operation_writes_a_new_tensor(self, tmp_path):
        model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 2))
        flow = flow_of(tmp_path, model, torch.rand(3, 4))
        first, second = (work for work in flow.work if work.name == "aten::addmm")
        relu = find_work(flow, "relu_")
        assert relu.reads == first.writes
        assert relu.writes != first.writes
        assert relu.writes[0] in second.reads
        assert first.writes[0] not in second.reads

    def test_views_and_copies_share_a_tensor(self, tmp_path):
        class Views(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.second = nn.Linear(4, 6), nn.Linear(3, 2)

            def forward(self, x):
                with torch.autocast("cpu", torch.bfloat16):
                    return self.second(self.first(x).view(-1, 3).float().clone())

        flow = flow_of(tmp_path, Views(), torch.rand(5, 4))
        first, second = (work for work in flow.work if work.name == "aten::addmm")
        assert second.products[0][1]["A"] == first.writes[0]
        # The first layer reads the parameter and the batch, not their copies in bfloat16.
        assert first.products[0][1]["W"] in {update.parameter for update in flow.updates}
        assert first.reads[1] not in {place for work in flow.work for place in work.writes}
        gradients = {update.gradient for update in flow.updates}
        assert None not in gradients
        assert gradients >= {work.writes[0] for work in flow.work if work.products and set(work.writes) & gradients}

    def test_factory_results_are_not_read(self, tmp_path):
        class Filled(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(4, 4)

            def forward(self, x):
                out = torch.zeros(3, 4)
                out[1:] = x
                return self.fc(torch.ones_like(out) + out)

        flow = flow_of(tmp_path, Filled(), torch.rand(2, 4))
        filled = find_work(flow, "copy_")
        assert shapes(flow, filled.writes) == [(3, 4)]  # Writes to parts of a tensor count as one.
        assert len(filled.reads) == 1
        assert filled.writes[0] in find_work(flow, "add").reads

    def test_attention(self, tmp_path):
        q, k, v = (torch.rand(2, 2, 5, 8, requires_grad=True) for _ in range(3))

        class Attention(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(8, 8)

            def forward(self, q, k, v):
                return nn.functional.scaled_dot_product_attention(self.fc(q), k, v)

        flow = flow_of(tmp_path, Attention(), q, k, v)
        forward, back = (work for work in flow.work if "scaled_dot_product" in work.name)
        assert [len(work.products) for work in (forward, back)] == [2, 4]
        # P and its gradient stay inside.
        assert [set(operands) for _, operands in forward.products] == [{"A", "W"}, {"W"}]

    def test_optimizer_states(self, tmp_path):
        model = nn.Linear(4, 4)
        optimizer = torch.optim.Adam(model.parameters())

        def step() -> None:
            model(torch.rand(2, 4)).sum().backward()
            optimizer.step()

        (found,) = traced(tmp_path, step, model=model).steps
        assert found.flow is not None
        assert [update.states for update in found.flow.updates] == [2, 2]


class TestExcludedOperations:
    def test_chosen_layers(self, tmp_path):
        model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
        (step,) = traced(tmp_path, lambda: model(torch.rand(2, 4)).sum().backward(), model=model, layers="0").steps
        assert step.flow is None

    def test_checkpoints(self, tmp_path):
        model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

        def step() -> None:
            x = torch.rand(2, 4, requires_grad=True)
            torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False).sum().backward()

        (step_found,) = traced(tmp_path, step, model=model).steps
        assert step_found.flow is None
        assert len(step_found.records) == 3

    def test_evaluation_is_not_recorded(self, tmp_path):
        model = nn.Linear(4, 2)

        def step() -> None:
            with torch.no_grad():
                model(torch.rand(7, 4)).relu()
            model(torch.rand(3, 4)).sum().backward()

        (found,) = traced(tmp_path, step, model=model).steps
        assert found.flow is not None
        assert all(7 not in tensor.shape for tensor in found.flow.tensors)


X = FlowTensor(shape=(3, 11), dtype="float32")
SOUND = Flow(
    tensors=(X, X),
    work=(Work(name="aten::relu", phase="forward", reads=(0,), writes=(1,), products=((2, {"A": 0}),)),),
    updates=(Update(parameter=0, gradient=1, states=2),),
)


def test_flow_round_trip(tmp_path):
    with TraceWriter(tmp_path / "run.trace") as writer:
        with writer.step(0) as step:
            record_layers(step, 0)
            step.add_flow(SOUND)
        record_step(writer, 1)
    first, second = Trace.open(tmp_path / "run.trace").steps
    assert first.flow == SOUND
    assert second.flow is None


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        (("tensors", 1, "shape"), [3, -1], r"tensors\[1\]: shape: must be integers from 0 up, not -1"),
        (("tensors", 0, "dtype"), 5, r"tensors\[0\]: dtype must be a string, not 5"),
        (("work", 0, "phase"), "sideways", r"phase must be one of forward, backward, not 'sideways'"),
        (("work", 0, "reads"), [2], r"work\[0\]: reads: must be integers from 0 up and below 2, not 2"),
        (("work", 0, "writes"), [1, 1], r"tensor 1 must be written once"),
        (("work", 0, "writes"), [True], r"must be integers from 0 up and below 2, not True"),
        (("work", 0, "products", 0, "record"), 9, r"record: must be integers from 0 up and below 6, not 9"),
        (("work", 0, "products", 0, "A"), 9, r"products\[0\]: must be integers from 0 up and below 2, not 9"),
        (("updates", 0, "states"), -1, r"states: must be integers from 0 up, not -1"),
        (("updates", 0, "gradient"), 2, r"updates\[0\]: must be integers from 0 up and below 2, not 2"),
        (("updates", 0, "parameter"), None, r"parameter must be an integer, not None"),
        (("work",), {}, r"flow: work must be a list"),
    ],
)
def test_damaged_flow_is_refused(where, value, message):
    document = SOUND.to_json()
    inner: Any = document
    for key in where[:-1]:
        inner = inner[key]
    inner[where[-1]] = value
    with pytest.raises(TraceError, match=message):
        Flow.from_json(document, 6, "flow")
