"""Test that recordings of training runs are correct, and that training does not change."""

import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.optimizer import _global_optimizer_post_hooks

from tensordash_sim.trace import Trace, TraceError, record

from ...processor import has_bf16_lstm
from .recording import Cnn, close, mlp, operations, results, traced, train, uncaptured


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


class Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 7, num_layers=2, dropout=0.1, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(14, 5)
        self.out = nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.gru(self.lstm(x)[0])[0])


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "cnn": (Cnn, (4, 3, 8, 8)),
    "lstm": (Lstm, (3, 4, 6)),
    "transformer": (lambda: nn.TransformerEncoderLayer(8, 2, dim_feedforward=12, batch_first=True), (2, 5, 8)),
    "decoder": (lambda: Decoder(), (2, 5, 8)),
}


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerDecoderLayer(8, 2, dim_feedforward=12, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return self.layer(x, x.flip(1), tgt_mask=mask, tgt_is_causal=True)


@pytest.mark.parametrize("amp", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_weights_are_bit_identical_to_those_without_recording(name: str, amp: bool, tmp_path: Path) -> None:
    make, shape = NETWORKS[name]
    if amp and name == "lstm" and not has_bf16_lstm():
        pytest.skip("PyTorch has no LSTM in bf16 on this processor")

    def run() -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        torch.manual_seed(1)
        model, x = make(), torch.randn(shape)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        for _ in range(3):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=amp):
                loss = model(x).float().square().mean()
            loss.backward()
            optimizer.step()
        return {key: value.clone() for key, value in model.state_dict().items()}, torch.get_rng_state()

    expected, random = run()
    with record(tmp_path / "run.trace"):
        found, random_after = run()
    assert all(torch.equal(expected[key], found[key]) for key in expected)
    assert torch.equal(random, random_after)
    trace = Trace.open(tmp_path / "run.trace")
    assert [step.index for step in trace.steps] == [0, 1, 2]
    assert len({len(step.records) for step in trace.steps}) == 1
    assert not uncaptured(trace)
    assert trace.check()


def test_gradient_accumulation_is_one_step(tmp_path: Path) -> None:
    model = mlp().double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)

    def run() -> None:
        for _ in range(2):
            model(torch.randn(2, 6, dtype=torch.float64)).square().sum().backward()
        optimizer.step()

    trace = traced(tmp_path, run, model=model)
    (step,) = trace.steps
    assert len(step.records) == 10
    close(sum(results(trace)["0", "AxG"]), model[0].weight.grad)


def test_autocast_and_gradient_scaling(tmp_path: Path) -> None:
    model = mlp()
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("cpu")

    def run() -> None:
        for _ in range(2):
            with torch.autocast("cpu", torch.float16):
                loss = model(torch.randn(2, 6)).square().mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()

    trace = traced(tmp_path, run, model=model)
    assert len(trace.steps) == 2
    assert {operand.dtype for entry in trace.records for operand in entry.operands.values()} == {"float16"}
    assert operations(trace) == 2 * ["0 AxW", "2 AxW", "2 WxG", "2 AxG", "0 AxG"]


def test_bfloat16_values(tmp_path: Path) -> None:
    model = nn.Linear(4, 3).bfloat16()
    trace = traced(tmp_path, lambda: model(torch.randn(2, 4).bfloat16()).sum().backward())
    stored = next(trace.records).values("W")
    assert torch.equal(torch.from_numpy(stored.astype("int16")).view(torch.bfloat16)[0], model.weight.detach())


SAMPLES: dict[str, tuple[dict[str, Any], list[int]]] = {
    "all": ({}, [0, 1, 2, 3, 4, 5]),
    "the first": ({"steps": 2}, [0, 1]),
    "every other": ({"every": 2}, [0, 2, 4]),
    "the first of every third": ({"every": 3, "steps": 1}, [0]),
    "chosen": ({"steps": range(1, 6, 3)}, [1, 4]),
    "an epoch": ({"epochs": [1]}, [2, 3]),
}


@pytest.mark.parametrize("case", SAMPLES)
def test_sampling(case: str, tmp_path: Path) -> None:
    options, expected = SAMPLES[case]
    model, seen = mlp(), list[int]()
    with record(tmp_path / "run.trace", **options) as recorder:
        for epoch in range(3):
            recorder.epoch = epoch
            train(model, torch.randn(2, 6), 2, lambda step: seen.append(torch._C._len_torch_dispatch_stack()))
    trace = Trace.open(tmp_path / "run.trace")
    assert [step.index for step in trace.steps] == expected
    assert [step.epoch for step in trace.steps] == [index // 2 for index in expected]
    assert {len(step.records) for step in trace.steps} == {5}
    assert trace.complete
    if case != "an epoch":  # Steps that are not recorded run without the dispatch mode.
        assert seen[:-1] == [int(index + 1 in expected) for index in range(5)]


def test_sampling_of_layers(tmp_path: Path) -> None:
    trace = traced(tmp_path, lambda: train(mlp(), torch.randn(2, 6), 1), layers=["*.2", "none"])
    assert operations(trace) == ["Sequential.2 AxW", "Sequential.2 WxG", "Sequential.2 AxG"]
    message = r"run\.trace: nothing was recorded: layers must match one of Sequential\.0, Sequential\.2, not only fc\*"
    with pytest.warns(UserWarning, match=message):
        traced(tmp_path, lambda: train(mlp(), torch.randn(2, 6)), layers="fc*")


def test_explicit_ends_of_steps(tmp_path: Path) -> None:
    generator, judge = mlp(), nn.Linear(3, 1)
    optimizers = [torch.optim.SGD(part.parameters(), lr=0.1) for part in (generator, judge)]
    for options, expected in (({}, 4), ({"optimizers": optimizers[1:]}, 2), ({"optimizers": ()}, 2)):
        with record(tmp_path / "run.trace", overwrite=True, **options) as recorder:
            for _ in range(2):
                for optimizer in optimizers:
                    judge(generator(torch.randn(2, 6))).sum().backward()
                    optimizer.step()
                if options == {"optimizers": ()}:
                    recorder.step()
        assert len(Trace.open(tmp_path / "run.trace").steps) == expected == recorder.recorded


def test_interrupted(tmp_path: Path) -> None:
    def fail(step: int) -> None:
        model(torch.ones(2, 6))
        if step == 1:
            raise KeyboardInterrupt

    model, before = mlp(), dict(torch.autograd.Function.__dict__)
    with pytest.raises(KeyboardInterrupt), record(tmp_path / "run.trace"):
        train(model, torch.randn(2, 6), 3, fail)
    trace = Trace.open(tmp_path / "run.trace")
    assert [step.index for step in trace.steps] == [0, 1]
    assert not trace.complete
    assert trace.check()
    assert torch._C._len_torch_dispatch_stack() == 0
    assert dict(torch.autograd.Function.__dict__) == before
    assert not torch.nn.modules.module._global_forward_hooks
    assert not _global_optimizer_post_hooks


def test_interrupted_inside_of_the_first_step(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), record(tmp_path / "run.trace"):
        mlp()(torch.randn(2, 6)).sum().backward() or 1 / 0
    assert not (tmp_path / "run.trace").exists()


@pytest.fixture
def full() -> Iterator[Callable[[], None]]:
    """Return a function that fills the disk: no file can grow beyond some hundred bytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (400, limits[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_full_disk(tmp_path: Path, full: Callable[[], None]) -> None:
    model = mlp()
    message = r"run\.trace: recording failed in step 2: .*File too large: '.*run\.trace.*'; it holds 2 complete steps$"
    with pytest.raises(TraceError, match=message), record(tmp_path / "run.trace", values=True):
        train(model, torch.randn(2, 6), 4, lambda step: full() if step == 1 else None)
    trace = Trace.open(tmp_path / "run.trace")
    assert len(trace.steps) == 2
    assert not trace.complete
    trace.check()


def test_full_disk_in_a_script_that_continues(tmp_path: Path, full: Callable[[], None]) -> None:
    """A script may catch the error. The recording raises it again at its end."""
    caught = []

    def script() -> None:
        for step in range(4):
            try:
                train(mlp(), torch.randn(2, 6), 1)
            except TraceError as error:
                caught.append(error)
            if not step:
                full()

    message = r"recording failed in step 1: .*; it holds 1 complete step$"
    with pytest.raises(TraceError, match=message) as raised, record(tmp_path / "run.trace"):
        script()
    assert caught == [raised.value]
    assert len(Trace.open(tmp_path / "run.trace").steps) == 1


def test_full_disk_at_the_start_and_at_the_end(tmp_path: Path, full: Callable[[], None]) -> None:
    def script() -> None:
        train(mlp(), torch.randn(2, 6), 1)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))

    message = r"run\.trace cannot be completed: .*File too large: '.*run\.trace.*'; it holds 1"
    with pytest.raises(TraceError, match=message), record(tmp_path / "run.trace"):
        script()
    assert len(Trace.open(tmp_path / "run.trace").steps) == 1
    (tmp_path / "former").mkdir()
    for path in ("run2.trace", "former"):
        with pytest.raises(TraceError, match=rf"{path} cannot be written: .*File too large"), record(tmp_path / path):
            pass
    assert not (tmp_path / "run2.trace").exists()
    assert not list((tmp_path / "former").iterdir())


def test_inside_of_another_recording(tmp_path: Path) -> None:
    before = dict(torch.autograd.Function.__dict__)
    with record(tmp_path / "outer.trace", steps=2), record(tmp_path / "inner.trace", every=2):
        train(mlp(), torch.randn(2, 6), 4)
    outer, inner = Trace.open(tmp_path / "outer.trace"), Trace.open(tmp_path / "inner.trace")
    assert [step.index for step in outer.steps] == [0, 1]
    assert [step.index for step in inner.steps] == [0, 2]
    assert {len(step.records) for trace in (outer, inner) for step in trace.steps} == {5}
    assert dict(torch.autograd.Function.__dict__) == before


def test_inside_of_another_dispatch_mode(tmp_path: Path) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    with record(tmp_path / "run.trace", every=2), FlopCounterMode(display=False) as flops:
        train(mlp(), torch.randn(2, 6), 4)
    assert [step.index for step in Trace.open(tmp_path / "run.trace").steps] == [0, 2]
    assert flops.get_total_flops() > 0
    with record(tmp_path / "run.trace", overwrite=True, steps=[2]), FlopCounterMode(display=False):
        train(mlp(), torch.randn(2, 6), 4)
    (step,) = Trace.open(tmp_path / "run.trace").steps
    what = "all of the step: it began inside of another TorchDispatchMode, or in another thread"
    assert (step.index, step.records, step.uncaptured) == (2, (), (what,))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_workers_are_not_recorded(tmp_path: Path) -> None:
    class Data(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> torch.Tensor:
            return torch.ones(6, 6) @ torch.full((6,), float(index))

    loader = torch.utils.data.DataLoader(Data(), batch_size=2, num_workers=1)

    def run() -> None:
        for x in loader:
            train(mlp(), x, 1)

    trace = traced(tmp_path, run)
    assert {len(step.records) for step in trace.steps} == {5}
    assert not uncaptured(trace)


def test_threads_are_named(tmp_path: Path) -> None:
    model = mlp()

    def run() -> None:
        other = threading.Thread(target=lambda: train(model, torch.randn(2, 6), 2))
        other.start()
        other.join()
        train(model, torch.randn(2, 6), 1)

    trace = traced(tmp_path, run, model=model)
    assert [len(step.records) for step in trace.steps] == [0, 0, 5]
    assert set(uncaptured(trace)) == {
        "aten::addmm of layer 0 in another thread",
        "aten::addmm of layer 2 in another thread",
        "aten::mm in another thread (3 times)",
    }


def test_arguments(tmp_path: Path) -> None:
    for options, message in (
        ({"every": 0}, "every must be"),
        ({"steps": 0}, "steps must be"),
        ({"steps": [-1]}, "steps must be a number of steps, or their indices from 0 up"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            record(tmp_path / "run.trace", **options)
    (tmp_path / "file").touch()
    with pytest.raises(TraceError, match="a trace must be a folder"), record(tmp_path / "file"):
        pass


def test_torch_is_imported_lazily(tmp_path: Path) -> None:
    code = """
import sys, tensordash.extras, tensordash_sim.trace
assert "torch" not in sys.modules
sys.modules["torch"] = None
try:
    tensordash_sim.trace.record("run.trace")
except tensordash.extras.MissingExtraError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    needed = "recording needs the extra trace: pip install '.[trace]'"
    assert done.stdout == f"{needed}\n"
