"""Record functions, and multiply the recorded operands."""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from tensordash_sim.trace import Record, Trace, record

from ..lowering.reference import multiply_out

torch.set_num_threads(1)  # see ../networks/conftest.py


def traced(path: Path, run: Callable[[], Any], **options: Any) -> Trace:
    """Record a function with values; return the trace."""
    with record(path / "run.trace", **{"values": True, "overwrite": True} | options):
        run()
    trace = Trace.open(path / "run.trace")
    assert trace.complete
    return trace


def result(record: Record) -> NDArray:
    """Multiply a record's operands as the tiles do."""
    values = {name: record.values(name) for name in record.operands}
    return multiply_out(record.geometry, record.operation, values, lanes=4)


def results(trace: Trace) -> dict[tuple[str, str], list[NDArray]]:
    """Return the products of all records by layer and operation."""
    found = defaultdict(list)
    for entry in trace.records:
        found[entry.layer, str(entry.operation)].append(result(entry))
    return found


def single_result(found: dict[tuple[str, str], list[NDArray]], layer: str, operation: str) -> NDArray:
    (array,) = found[layer, operation]
    return array


def close(array: Any, tensor: Any, tolerance: float = 1e-11) -> None:
    """Require equal arrays, except for rounding and dimensions of extent 1."""
    np.testing.assert_allclose(
        array.squeeze(), tensor.detach().double().numpy().squeeze(), rtol=tolerance, atol=tolerance
    )


def operations(trace: Trace) -> list[str]:
    return [f"{entry.layer} {entry.operation}" for entry in trace.records]


def uncaptured(trace: Trace) -> list[str]:
    return [what for step in trace.steps for what in step.uncaptured]


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))


def train(model: nn.Module, x: torch.Tensor, steps: int = 3, after: Callable[[int], Any] = lambda step: None) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        after(step)


class Cnn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 8, 3, stride=2, groups=2)
        self.up = nn.ConvTranspose2d(8, 4, 2)
        self.fc = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.conv2(torch.relu(self.norm(self.conv1(x)))))
        return self.fc(nn.functional.dropout(self.up(x).flatten(1), 0.2))
