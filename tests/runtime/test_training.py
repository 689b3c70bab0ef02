"""Compare training with plain PyTorch on rounded products, and resumed runs with uninterrupted runs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tensordash_runtime import Device, DeviceError
from tensordash_runtime.compare import DifferenceError, comparison
from tensordash_runtime.jobs import DeviceResult
from tensordash_runtime.products import Product
from tensordash_runtime.tasks import load_task
from tensordash_runtime.training import Trainer

from ..processor import has_bf16_lstm


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("digits", 20),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in (("mlp", 120), ("gpt", 8), ("lstm", 8))),
    ],
)
def test_losses_follow_pytorch(name: str, count: int) -> None:
    with Device("core") as device:
        trainer = Trainer(load_task(name, seed=1), device)
        run = trainer.train(count)
    assert run.missed == []
    assert run.steps == count
    losses = np.array([(step.loss, step.plain_loss) for step in trainer.history])
    assert losses[-3:].mean() < losses[:3].mean()
    assert losses[:, 0] == pytest.approx(losses[:, 1], rel=0.02)
    assert not np.array_equal(losses[:, 0], losses[:, 1])
    assert all(0 < step.zeros < 1 and step.cycles <= step.dense_cycles for step in trainer.history)
    *_, (steps, accuracy, plain) = trainer.accuracies
    assert steps == count
    assert 0 <= accuracy <= 1
    assert accuracy == pytest.approx(plain, abs=0.2)


@pytest.mark.parametrize(
    ("preset", "name", "count"),
    [
        ("core-bf16", "digits", 20),
        pytest.param("core", "mlp", 60, marks=pytest.mark.slow),
        pytest.param("core-bf16", "gpt", 8, marks=pytest.mark.slow),
        pytest.param("core-bf16", "lstm", 8, marks=pytest.mark.slow),
    ],
)
def test_losses_follow_autocast(preset: str, name: str, count: int) -> None:
    with Device(preset) as device:
        trainer = Trainer(load_task(name, seed=1), device, reference="autocast")
        if name == "lstm" and not has_bf16_lstm():
            with pytest.raises(DeviceError, match="reference must be float32: PyTorch has no kernel in torch.bfloat16"):
                trainer.train(1)
            return
        run = trainer.train(count)
    assert run.missed == []
    losses = np.array([(step.loss, step.plain_loss) for step in trainer.history])
    assert losses[:, 0] == pytest.approx(losses[:, 1], rel=0.01)
    assert losses[:, 0].mean() == pytest.approx(losses[:, 1].mean(), rel=0.005)
    task = load_task(name, seed=1)
    assert losses[0, 1] != task.loss(task.model, next(task.order(0))).item()


def test_wrong_references() -> None:
    with Device("core-fp8") as device:
        with pytest.raises(ValueError, match="reference must be one of autocast, float32, not 'fp16'"):
            Trainer(load_task("mlp"), device, reference="fp16")
        with pytest.raises(ValueError, match="reference must be float32 for float8_e4m3fn, which autocast lacks"):
            Trainer(load_task("mlp"), device, reference="autocast")


@pytest.mark.parametrize(
    ("name", "batch", "steps"), [("digits", 64, 24), ("mlp", 1540, 1), ("gpt", 2, 500), ("lstm", 3, 500)]
)
def test_batch_size_option(name: str, batch: int, steps: int) -> None:
    """SGD's rate for digits is proportional to the batch; Adam's for texts is constant."""
    task, usual = load_task(name, batch=batch), load_task(name)
    first = next(task.order(0))
    of_text = name in ("gpt", "lstm")
    assert len(first if of_text else first[0]) == batch
    assert task.steps_per_epoch == steps == len(list(task.order(0)))
    rates = [each.optimizer(each.model.parameters()).param_groups[0]["lr"] for each in (task, usual)]
    assert rates[0] == pytest.approx(rates[1] * (1 if of_text else batch / 16))
    for wrong in (0, 1541):
        with pytest.raises(ValueError, match=r"batch must be an integer from 1 to \d+, not"):
            load_task(name, batch=wrong)


@pytest.mark.parametrize(
    ("preset", "steps"),
    [("nvfp4", 60), *(pytest.param(name, 300, marks=pytest.mark.slow) for name in ("nvfp4", "mxfp8", "mxfp4"))],
)
def test_losses_fall_with_scales_and_stochastic_gradients(preset: str, steps: int) -> None:
    with Device(preset, rounding="stochastic") as device:
        trainer = Trainer(load_task("mlp", seed=1), device)
        run = trainer.train(steps)
    assert run.missed == []
    losses = np.array([(step.loss, step.plain_loss) for step in trainer.history])
    first, last = losses[:20].mean(axis=0), losses[-20:].mean(axis=0)
    assert last[0] - last[1] < 0.15 * (first[1] - last[1])  # The right side is the progress of plain PyTorch.
    assert not np.array_equal(losses[:, 0], losses[:, 1])


@pytest.mark.parametrize("rounding", ["nearest", pytest.param("stochastic", marks=pytest.mark.slow)])
def test_resumed_run_is_bit_identical(tmp_path: Path, rounding: str) -> None:
    batch = 64  # It makes short epochs.

    def train(folder: Path | None, *stops: int) -> Trainer:
        for steps in stops:
            with Device("core", rounding=rounding) as device:
                trainer = Trainer(load_task("mlp", batch=batch), device, settings={"model": "mlp"}, folder=folder)
                assert trainer.resume() == (folder is not None and steps != stops[0])
                trainer.train(steps)
        return trainer

    task = load_task("mlp", batch=batch)
    end = task.steps_per_epoch + 3
    uninterrupted, resumed = train(None, end), train(tmp_path, 2, task.steps_per_epoch, end)
    assert uninterrupted.history == resumed.history
    for one, other in zip(uninterrupted.model.parameters(), resumed.model.parameters(), strict=True):
        assert torch.equal(one, other)
    assert resumed.accuracies[-1] == uninterrupted.accuracies[-1]


def test_wrong_checkpoints(tmp_path: Path) -> None:
    with Device("core") as device:
        trainer = Trainer(load_task("mlp"), device, settings={"seed": 0}, folder=tmp_path)
        trainer.train(1)
        trainer.settings = {"seed": 1}
        with pytest.raises(DeviceError, match="has seed = 0, not 1: use another folder"):
            trainer.resume()
        (tmp_path / "checkpoint.pt").write_bytes(b"nothing")
        with pytest.raises(DeviceError, match="cannot be read as a checkpoint"):
            trainer.resume()


@pytest.mark.parametrize("wrong", [0x40000001, 0x3FFFFFFF])
def test_difference_between_devices_is_an_error(wrong: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with Device("core") as device, Device("core", "golden") as other:
        a, b = torch.ones(3, 2), torch.ones(2, 5)
        from tensordash_runtime import offload

        with offload(device, watcher=comparison(other)) as run:
            a @ b
        assert len(run.contractions) == 1
        backend = other.require_usable()
        original_run = backend.run

        def broken(job: Any) -> Any:
            ran = original_run(job)
            ran.bits[..., 4, 0, 1] = wrong
            return ran

        monkeypatch.setattr(backend, "run", broken)
        with (
            pytest.raises(
                DifferenceError, match=rf"AxW of mm 1x5x2: element \(0, 1, 4\) of .* 0x40000000 and {wrong:#010x}"
            ),
            offload(device, watcher=comparison(other)),
        ):
            a @ b


@pytest.mark.parametrize(
    ("preset", "steps"),
    [
        ("core", 2),
        pytest.param("core-bf16", 2, marks=pytest.mark.slow),
        *(pytest.param(name, None, id=f"an epoch on {name}", marks=pytest.mark.slow) for name in ("core", "core-bf16")),
    ],
)
def test_verilog_matches_the_emulator_in_training(preset: str, steps: int | None) -> None:
    """Every product has the same bits, and the core takes at least the tile's cycles."""
    task = load_task("digits")
    with Device(preset) as device, Device(preset, "verilator", latency=(20, 60), pause=0.05, seed=1) as verilog:
        compared: list[tuple[int, int]] = []
        same = comparison(verilog)

        def watcher(product: Product, done: DeviceResult) -> None:
            ran = same(product, done)
            assert ran.executed.cycles is not None
            compared.append((ran.executed.cycles, round(ran.executed.dense / ran.executed.speedup)))

        run = Trainer(task, device, watcher=watcher).train(steps or task.steps_per_epoch)
    assert run.missed == []
    assert len(compared) == len(run.contractions) == 11 * (steps or task.steps_per_epoch)
    assert all(cycles > tile for cycles, tile in compared)


@pytest.mark.slow
def test_digits_accuracy_matches_pytorch() -> None:
    """Three seeds reach a test accuracy of at least 97%, on average at most half a point below PyTorch."""
    found = []
    for seed in range(3):
        task = load_task("digits", seed)
        with Device("core") as device:
            trainer = Trainer(task, device)
            trainer.train(10 * task.steps_per_epoch)
        found.append(trainer.accuracies[-1][1:])
    accuracy, plain = np.mean(found, axis=0)
    assert accuracy >= 0.97
    assert abs(accuracy - plain) <= 0.005
