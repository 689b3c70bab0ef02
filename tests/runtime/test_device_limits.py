"""Test that a device refuses wrong operands and settings, and every use after it is closed."""

import os
import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tensordash import TileConfig, load_preset
from tensordash_runtime import Device, DeviceError, NoRoomError
from tensordash_sim.verify.verilated_core import VerilatedError


@pytest.mark.parametrize(
    ("a", "b", "error", "message"),
    [
        (torch.ones(2, 3).double(), torch.ones(3, 2).double(), TypeError, "both be float32, or float16 and float16"),
        (torch.ones(2, 3).bfloat16(), torch.ones(3, 2).bfloat16(), TypeError, "not A bfloat16 and W bfloat16"),
        (np.ones((2, 3), int), np.ones((3, 2), int), TypeError, "not A int64 and W int64"),
        (torch.ones(2, 3).half(), torch.ones(3, 2), TypeError, "not A float16 and W float32"),
        ([[1.0]], torch.ones(1, 1), TypeError, "a must be an array of NumPy or a tensor of PyTorch, not a list"),
        (torch.ones(2, 3), torch.ones(2, 3), ValueError, r"\(\.\.\., n, k\) and \(\.\.\., k, m\), not \(2, 3\)"),
        (torch.ones(3), torch.ones(3, 1), ValueError, r"\(\.\.\., n, k\)"),
        (torch.ones(2, 1, 3), torch.ones(3, 3, 1), ValueError, "leading axes"),
        (torch.ones(0, 3), torch.ones(3, 1), ValueError, "samples must be an integer of at least 1"),
    ],
)
def test_invalid_operands(a: Any, b: Any, error: type[Exception], message: str) -> None:
    with Device("core") as device, pytest.raises(error, match=message):
        device.matmul(a, b)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("kore",), ValueError, "preset must be one of paper"),
        ((3,), TypeError, "preset must be a preset's name, a CoreConfig or a TileConfig, not 3"),
        (("core", "vhdl"), ValueError, "backend must be one of emulator, golden, mmio, verilator, not 'vhdl'"),
        (("paper", "golden"), ValueError, "backend must be emulator for a tile, which has no programs, not golden"),
        (("mxfp8", "verilator"), ValueError, "backend must be emulator for a tile, which has no programs"),
        (
            (load_preset("paper", ['tile.format="int8"']),),
            ValueError,
            "or be a core, not a tile in int8",
        ),
        (
            (load_preset("paper", ["tile.format=tf32", "tile.accumulator=ampere"]),),
            ValueError,
            r"operands that tensors hold \(fp16, .*\), not tf32",
        ),
    ],
)
def test_invalid_device_arguments(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Device(*arguments)


def test_invalid_convolutions() -> None:
    with Device(TileConfig()) as device:
        with pytest.raises(ValueError, match="a must have the 4 channels of w and groups = 2, not 3"):
            device.convolution(torch.ones(1, 3, 4, 4), torch.ones(2, 2, 3, 3), groups=2)
        with pytest.raises(ValueError, match="3 or 4 axes, not 5 and 5"):
            device.convolution(torch.ones(1, 1, 2, 2, 2), torch.ones(1, 1, 2, 2, 2))
        with pytest.raises(ValueError, match=r"G must have the shape \(1, 1, 2, 2\), not \(1, 1, 3, 3\)"):
            device.convolution_input((1, 1, 4, 4), torch.ones(1, 1, 3, 3), torch.ones(1, 1, 3, 3))


def test_a_closed_device() -> None:
    device = Device("core")
    device.close()
    device.close()
    with pytest.raises(DeviceError, match="the device is closed"):
        device.matmul(torch.ones(1, 1), torch.ones(1, 1))


def test_another_thread_and_another_process() -> None:
    messages: list[str] = []

    def use() -> None:
        try:
            shared.matmul(torch.ones(1, 1), torch.ones(1, 1))
        except DeviceError as error:
            messages.append(str(error))

    with Device("core") as shared:
        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
        shared._place = os.getpid() + 1, threading.get_ident()
        use()
    assert "the thread that made it" in messages[0]
    assert "the process that made it" in messages[1]


@pytest.mark.parametrize("backend", ["emulator", "golden"])
def test_out_of_device_memory(backend: str) -> None:
    with Device("core", backend, memory_bytes=1 << 13) as device:
        assert device.matmul(torch.ones(8, 8), torch.ones(8, 8))[0, 0] == 8
        with pytest.raises(NoRoomError, match="out of device memory"):
            device.matmul(torch.ones(64, 64), torch.ones(64, 64))


def test_program_needs_memory() -> None:
    """Operands and result fit into memory, but the descriptors after them do not."""
    device = Device("core", "golden", memory_bytes=(1 << 12) + 256)
    with pytest.raises(NoRoomError, match="with the program"):
        device.matmul(torch.ones(4, 4), torch.ones(4, 4))


def counts_of(vcd: str, name: str) -> list[int]:
    """Return the successive values of the only 32-bit signal with a name."""
    (code,) = set(re.findall(rf"\$var wire +32 (\S+) {name} ", vcd))
    return [int(bits, 2) for bits in re.findall(rf"^b([01]+) {re.escape(code)}$", vcd, re.MULTILINE)]


@pytest.mark.slow
def test_waves_of_one_command(tmp_path: Path) -> None:
    """The waves begin before the chosen command and end when it has finished."""
    a, b = np.full((9, 40), 0.5, np.float16), np.full((40, 9), 2.0, np.float16)
    signals, done, times = [], [], []
    with Device("core", "verilator", memory_bytes=1 << 20, quick=True, waves=True) as device:
        plain = device.matmul(a, b)
        for command in (None, 0, 1, 2, 3, 4):
            path = tmp_path / f"{command}.vcd"
            device.draw_waves(path, command)
            np.testing.assert_array_equal(device.matmul(a, b), plain)
            text = path.read_text()
            signals.append(text[text.index("$scope") : text.index("$enddefinitions")])
            done.append(counts_of(text, "done"))
            times.append([int(line[1:]) for line in text.splitlines() if line.startswith("#")])
        every = done[0][-1]
        device.draw_waves(tmp_path / "none.vcd", every)
        with pytest.raises(DeviceError, match=f"command must be from 0 to {every - 1}, not {every}"):
            device.matmul(a, b)
        device.draw_waves(tmp_path / "missing" / "folder.vcd")
        with pytest.raises(VerilatedError, match="folder.vcd cannot be written"):
            device.matmul(a, b)
        np.testing.assert_array_equal(device.matmul(a, b), plain)
    assert len(set(signals)) == 1
    assert "m_axi_rdata" in signals[0]
    assert done[0] == sorted(done[0])
    assert (done[0][0], every) == (0, 8)
    assert [counts[-1] for counts in done[1:]] == [1, 2, 3, 4, 5]
    assert all(counts[0] <= command for command, counts in enumerate(done[1:]))
    whole, *others = (each[-1] - each[0] for each in times)
    assert all(20 < each < whole * 0.7 for each in others)


def test_waves_are_refused_without_verilator() -> None:
    with pytest.raises(ValueError, match="waves must be false on the emulator"):
        Device("core", waves=True)
    with Device("core") as device, pytest.raises(DeviceError, match="waves need Device"):
        device.draw_waves("x.vcd")
