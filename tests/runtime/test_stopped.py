"""Test that finished work stays valid after a silent memory, Ctrl-C, SIGKILL or a full disk."""

import errno
import resource
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tensordash_runtime import Device, DeviceError
from tensordash_runtime.backends import Verilator
from tensordash_runtime.tasks import load_task
from tensordash_runtime.training import Trainer

STEPS = 3
"""Steps per epoch."""
A, B = np.eye(8, dtype=np.float16), np.arange(64, dtype=np.float16).reshape(8, 8)


@pytest.mark.parametrize(
    ("channel", "after", "event"),
    [
        ("ar", 0, "taken the address of a read of a descriptor"),
        ("r", 30, "answered a read of"),
        ("w", 1, "taken data of a write"),
        ("b", 0, "answered a write"),
    ],
)
def test_unresponsive_memory(channel: str, after: int, event: str) -> None:
    """The error names what the core waits for. The device works when memory answers again."""
    with Device("core", "verilator", memory_bytes=1 << 16) as device:
        np.testing.assert_array_equal(device.matmul(A, B), B)
        backend = device.require_usable()
        assert isinstance(backend, Verilator)
        backend._core.silence(channel, after)
        with pytest.raises(
            DeviceError, match=f"memory has not {event}.* for 100... cycles: . of . descriptors are done"
        ):
            device.matmul(A, B)
        backend._core.silence("")
        np.testing.assert_array_equal(device.matmul(A, B), B)


@pytest.mark.parametrize("backend", ["emulator", "golden", "verilator"])
def test_interrupt_during_an_operation(backend: str) -> None:
    """The operation ends soon, and the device still works."""
    size = {"emulator": 1500, "golden": 40, "verilator": 400}[backend]
    large = np.full((size, size), 0.5, np.float16)
    with Device("core", backend) as device:
        expected = device.matmul(A, B)
        before = signal.signal(signal.SIGALRM, signal.default_int_handler)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with pytest.raises(KeyboardInterrupt):
                device.matmul(large, large)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        np.testing.assert_array_equal(device.matmul(A, B), expected)


def trainer(device: Device, folder: Path | None) -> Trainer:
    """Return a trainer of a task with short epochs."""
    task = load_task("mlp", seed=2)
    order = task.order
    short = {"order": lambda epoch: list(order(epoch))[:STEPS], "steps_per_epoch": STEPS}
    return Trainer(type(task)(**{**vars(task), **short}), device, settings={"model": "mlp"}, folder=folder)


def train_and_wait(folder: str) -> None:
    """Train, then wait in a step of the second epoch until the process is killed."""
    with Device("core") as device:
        interrupted = trainer(device, Path(folder))
        products = 0

        def watcher(product: object, done: object) -> None:
            nonlocal products
            products += len(interrupted.history) == STEPS + 1
            if products == 2:
                print("in a step", flush=True)
                signal.pause()

        interrupted.watcher = watcher
        interrupted.train(2 * STEPS)


def test_kill_during_a_step(tmp_path: Path) -> None:
    """Training continues from the last checkpoint and gives the results of an uninterrupted run."""
    here = str(Path(__file__).parent)
    code = f"import sys; sys.path.insert(0, {here!r}); import test_stopped; test_stopped.train_and_wait(sys.argv[1])"
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "in a step\n"
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.pt"]
    with Device("core") as device:
        resumed = trainer(device, tmp_path)
        assert resumed.resume()
        assert len(resumed.history) == STEPS
        resumed.train(2 * STEPS)
    with Device("core") as device:
        uninterrupted = trainer(device, None)
        uninterrupted.train(2 * STEPS)
    # Plain PyTorch's order of additions may differ between runs.
    assert [replace(step, plain_loss=0.0) for step in resumed.history] == [
        replace(step, plain_loss=0.0) for step in uninterrupted.history
    ]
    for one, other in zip(resumed.model.parameters(), uninterrupted.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_checkpoint_on_a_full_disk(tmp_path: Path) -> None:
    """Only the last checkpoint stays."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Device("core") as device:
        interrupted = trainer(device, tmp_path)
        interrupted.train(1)
        checkpoint = (tmp_path / "checkpoint.pt").read_bytes()
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(checkpoint) // 2, limits[1]))
        try:
            with pytest.raises(OSError, match=r"checkpoint\.pt") as raised:
                interrupted.train(2)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert raised.value.errno == errno.EFBIG
        assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.pt"]
        assert (tmp_path / "checkpoint.pt").read_bytes() == checkpoint
        resumed = trainer(device, tmp_path)
        assert resumed.resume()
        assert len(resumed.history) == 1
