"""Compare products of recorded operands of recurrent layers with PyTorch's gradients."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from .recording import close, results, traced, uncaptured

pytestmark = pytest.mark.filterwarnings("ignore:.*LSTM with projections")
Arguments = dict[str, Any]


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


RECURRENT: dict[str, tuple[type[nn.Module], Arguments]] = {
    "lstm": (nn.LSTM, {}),
    "lstm, both directions": (nn.LSTM, {"bidirectional": True, "num_layers": 2}),
    "lstm, batch first": (nn.LSTM, {"batch_first": True}),
    "lstm without bias": (nn.LSTM, {"bias": False}),
    "lstm, projected": (nn.LSTM, {"proj_size": 2}),
    "gru": (nn.GRU, {"bidirectional": True}),
    "rnn": (nn.RNN, {"num_layers": 2}),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("case", RECURRENT)
def test_recurrent_layer(case: str, dtype: torch.dtype, tmp_path: Path) -> None:
    kind, arguments = RECURRENT[case]
    layer = kind(5, 4, **arguments).to(dtype)
    x: Any = torch.randn(3, 2, 5, dtype=dtype).relu().requires_grad_()
    trace = traced(tmp_path, lambda: total(layer(x)).backward(), model=layer)
    assert not uncaptured(trace)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-11
    found = results(trace)
    name = kind.__name__
    for path, weight in layer.named_parameters():
        if weight.dim() == 2:
            close(sum(found[f"{name}.{path}", "AxG"]), weight.grad, tolerance)
    if not arguments.get("bidirectional"):
        to_input = np.concatenate([array[0] for array in found[f"{name}.weight_ih_l0", "WxG"]])
        by_time = x.grad.transpose(0, 1) if arguments.get("batch_first") else x.grad
        close(to_input.reshape(by_time.shape), by_time, tolerance)
    times = 3 if not arguments.get("batch_first") else 2
    assert len(found[f"{name}.weight_hh_l0", "AxW"]) == times
    assert len(found[f"{name}.weight_hh_l0", "WxG"]) == times - 1  # No operation needs the first state's gradient.


def total(output: Any) -> Any:
    """Return a loss of all outputs of a recurrent layer."""
    return output.square().sum() if isinstance(output, torch.Tensor) else sum(map(total, output))


@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
def test_cell(kind: type[nn.Module], tmp_path: Path) -> None:
    cell: Any = kind(5, 4).double()
    x = torch.randn(3, 2, 5, dtype=torch.float64)

    def run() -> None:
        state = None
        for time in x:
            state = cell(time, state)
        total(state).backward()

    found = results(traced(tmp_path, run, model=cell))
    for path in ("weight_ih", "weight_hh"):
        close(sum(found[f"{kind.__name__}.{path}", "AxG"]), getattr(cell, path).grad)


def test_lstm_with_an_initial_state(tmp_path: Path) -> None:
    layer: Any = nn.LSTM(5, 4)
    x, h, c = (torch.randn(shape, dtype=torch.float32).requires_grad_() for shape in ((3, 2, 5), (1, 2, 4), (1, 2, 4)))
    trace = traced(tmp_path, lambda: total(layer(x, (h, c))[0]).backward(), model=layer)
    found = results(trace)
    close(found["LSTM.weight_hh_l0", "WxG"][-1], h.grad, 1e-5)
    close(sum(found["LSTM.weight_hh_l0", "AxG"]), layer.weight_hh_l0.grad, 1e-5)
