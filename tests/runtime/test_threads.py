"""Test that a run lists products of other threads, and that they raise an error in strict mode."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from tensordash_runtime import Device, OffloadError, Run, offload
from tensordash_runtime.compiled import tensordash  # noqa: F401  registers the backend

ELSEWHERE = "a thread other than the device's"


def in_a_thread(work: Callable[[], Any]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def missed(run: Run) -> list[tuple[str, str, int | None]]:
    assert {each.reason for each in run.missed} == {ELSEWHERE}
    return [(each.operation, each.layer, each.macs) for each in run.missed]


def test_every_operation_is_listed(device: Device) -> None:
    x, y, model = torch.ones(3, 4, requires_grad=True), torch.ones(4, 5), nn.Linear(4, 2)

    def work() -> None:
        (x @ y).sum().backward()
        model(x.detach())
        torch.mm(y.T, y, out=torch.empty(5, 5))
        torch.ones(1, 5).addmm_(torch.ones(1, 4), y)
        nn.functional.conv2d(torch.ones(1, 1, 4, 4), torch.ones(1, 1, 3, 3))

    with offload(device, model=model) as run:
        in_a_thread(work)
        torch.ones(2, 3) @ torch.ones(3, 2)
    assert missed(run) == [
        ("aten::mm", "", 60),
        ("aten::mm", "", 60),
        ("aten::addmm", "Linear", 24),
        ("aten::mm", "", 100),
        ("aten::addmm", "", 20),
        ("aten::convolution", "", 36),
    ]
    assert len(run.contractions) == 1
    assert torch.equal(x.grad, torch.full((3, 4), 5.0))  # type: ignore[arg-type]


def test_threads_started_before_the_run(device: Device) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()
        with offload(device) as run:
            pool.submit(torch.mm, torch.ones(2, 3), torch.ones(3, 2)).result()
        pool.submit(torch.mm, torch.ones(2, 3), torch.ones(3, 2)).result()
    assert missed(run) == [("aten::mm", "", 12)]


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_threads_of_torchscript(device: Device) -> None:
    def forked(x: torch.Tensor) -> torch.Tensor:
        return torch.jit.wait(torch.jit.fork(torch.mm, x, x))

    def plain(x: torch.Tensor) -> torch.Tensor:
        return torch.mm(x, x)

    x = torch.ones(3, 3)
    scripted = torch.jit.script(forked), torch.jit.script(plain)
    with offload(device) as run:
        outputs = [each(x) for each in scripted]
    assert torch.equal(outputs[0], 3 * x)
    assert torch.equal(outputs[1], 3 * x)
    assert missed(run) == [("aten::mm", "", 27)]
    assert [each.macs for each in run.contractions] == [27]


def test_strict_mode_raises_in_the_thread(device: Device) -> None:
    """The product's thread gets the error. If the thread drops it, the `offload` block raises it at its end."""
    messages: list[str] = []

    def work() -> None:
        try:
            torch.ones(2, 3) @ torch.ones(3, 2)
        except OffloadError as error:
            messages.append(str(error))

    with pytest.raises(OffloadError, match=f"12 MACs: {ELSEWHERE}"), offload(device, strict=True):
        in_a_thread(work)
    assert len(messages) == 1
    with offload(device, strict=True):
        in_a_thread(lambda: torch.ones(3) + 1)


def test_modules_in_parallel(device: Device) -> None:
    """Run replicas as `nn.DataParallel` does, which uses the calling thread if there is only one processor."""
    models, x = [nn.Linear(2, 2), nn.Linear(2, 3)], torch.ones(1, 2)
    with offload(device) as run, ThreadPoolExecutor(2) as pool:
        outputs = list(pool.map(lambda model: model(x), models))
    assert [tuple(each.shape) for each in outputs] == [(1, 2), (1, 3)]
    assert sorted(macs or 0 for _, _, macs in missed(run)) == [4, 6]
    with pytest.raises(OffloadError, match=ELSEWHERE), offload(device, strict=True), ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda model: model(x), models))
    with offload(device, strict=True) as run:
        nn.DataParallel(models[0])(x)
    assert len(run.contractions) == 1


class Products(Dataset[torch.Tensor]):
    """A data set whose samples are products."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((2, 2), float(index)) @ torch.ones(2, 2)


def test_data_loader_processes_are_ignored(device: Device) -> None:
    with offload(device, strict=True) as run:
        batches = list(DataLoader(Products(), batch_size=2, num_workers=1))
    assert [batch[:, 0, 0].tolist() for batch in batches] == [[0, 2], [4, 6]]
    assert not run.contractions
    assert not run.missed


def test_two_devices_in_two_threads(device: Device) -> None:
    """Each thread has its own `offload` block, which lists only its own products."""
    runs: list[Run] = []
    both = threading.Barrier(2)

    def work() -> None:
        with Device("core") as other:
            with offload(other, strict=True) as run:
                both.wait(20)
                torch.ones(2, 3) @ torch.ones(3, 2)
            torch.ones(2, 3) @ torch.ones(3, 2)
            runs.append(run)
            both.wait(20)

    thread = threading.Thread(target=work)
    with offload(device, strict=True) as run:
        thread.start()
        both.wait(20)
        torch.ones(4, 3) @ torch.ones(3, 2)
        both.wait(20)
    thread.join()
    assert [each.macs for each in (*run.contractions, *runs[0].contractions)] == [24, 12]


def test_compiled_graph_runs_on_the_calling_thread(device: Device) -> None:
    run = Run(device)
    options: Any = {"device": device, "run": run, "strict": True}
    compiled = torch.compile(lambda x: x @ x, backend="tensordash", options=options)
    stop, begun = threading.Event(), threading.Event()

    def work() -> None:
        while not stop.wait(0.005):
            torch.ones(2, 3) @ torch.ones(3, 2)
            begun.set()

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait(20)
    try:
        compiled(torch.ones(3, 3))
    finally:
        stop.set()
        thread.join()
    assert len(run.contractions) == 1
    assert run.missed == []
