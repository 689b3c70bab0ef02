"""Compare the backend `mmio`, over a socket and Linux's files, with the emulator, and test its errors."""

import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash_runtime import Device, DeviceError
from tensordash_runtime.compare import comparison
from tensordash_runtime.mmio.addresses import SocketAddress, UioAddress, parse_address
from tensordash_runtime.mmio.golden_registers import GoldenRegisters
from tensordash_runtime.mmio.ports import UioPort
from tensordash_runtime.mmio.protocol import GREETING, MAGIC, REQUEST, receive
from tensordash_runtime.mmio.server import NAMES, SimulatedCore, listen, serve_core, serve_request
from tensordash_runtime.program_folder.compiling import compile_task
from tensordash_runtime.program_folder.folder import run_folder
from tensordash_runtime.tasks import load_task
from tensordash_runtime.training import Trainer
from tensordash_sim.verify.verilated_core import VerilatedCore

CONFIG = cast(CoreConfig, load_any_preset("core"))
SIZE = 1 << 20
BASE = 6 << 30
"""An address above 4 GiB, for the high halves of address registers."""
CORES = {"golden": GoldenRegisters, "verilator": VerilatedCore}


@contextmanager
def serving(address: str, serve: Callable[[socket.socket], Any]) -> Iterator[str]:
    """Serve an address in a thread."""
    place = parse_address(address)
    assert isinstance(place, SocketAddress)
    listener = listen(place)
    thread = threading.Thread(target=serve, args=(listener,))
    thread.start()
    try:
        yield address
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def serving_core(core: SimulatedCore, folder: Path) -> AbstractContextManager[str]:
    """Serve a core at a socket in a folder."""
    return serving(f"unix:{folder}/core", lambda listener: serve_core(core, listener))


@pytest.fixture(scope="module", params=CORES)
def core(request: pytest.FixtureRequest) -> Iterator[SimulatedCore]:
    served = CORES[request.param](CONFIG, SIZE, base=BASE)
    yield served
    served.close()


@pytest.fixture
def address(core: SimulatedCore, tmp_path: Path) -> Iterator[str]:
    with serving_core(core, tmp_path) as address:
        yield address


@pytest.fixture
def golden(tmp_path: Path) -> Iterator[str]:
    with serving_core(GoldenRegisters(CONFIG, SIZE, base=BASE), tmp_path) as address:
        yield address


def connect(address: str, **options: Any) -> Device:
    return Device(CONFIG, "mmio", **{"memory_bytes": SIZE, "timeout": 20.0, "address": address, **options})


def operands() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(1)
    a, b = (random.standard_normal(shape).astype(np.float16) for shape in ((9, 30), (30, 7)))
    a[random.random(a.shape) < 0.5] = 0
    return a, b


def assert_is_right(device: Device) -> None:
    a, b = operands()
    with Device(CONFIG) as emulator:
        assert device.matmul(a, b).tobytes() == emulator.matmul(a, b).tobytes()


def test_matmul(address: str) -> None:
    """The server serves one client at a time."""
    for _ in range(2):
        with connect(address) as device:
            assert_is_right(device)
            assert_is_right(device)


def test_results_match_the_emulator(core: SimulatedCore, address: str) -> None:
    """Results change with the operands, so they are not left from the operation before."""
    a, b = operands()
    with connect(address) as device, Device(CONFIG) as emulator:
        right = device.matmul(a, b)
        a[0, 0] += 1
        assert not np.array_equal(device.matmul(a, b), right)
        assert np.array_equal(device.matmul(a, b), emulator.matmul(a, b))
    assert core.read("bounds_base_high") == BASE >> 32
    assert core.read("bounds_limit") == (BASE + SIZE - 1) & 0xFFFFFFFF


def test_a_training_step_of_digits(address: str) -> None:
    with connect(address) as device, Device(CONFIG) as emulator:
        trainer = Trainer(load_task("mlp", 0, 2), device, watcher=comparison(emulator))
        trainer.train(1)
        assert device.operations == 8
        assert emulator.operations == 8


def test_a_program_folder(core: SimulatedCore, address: str) -> None:
    """A training step with host calls, in the middle of memory; the core may access only the folder's memory."""
    folder = compile_task("mlp", CONFIG, seed=0, batch=2, base=BASE + 0x10000)
    assert run_folder(folder, "mmio", address=address, timeout=20.0) == ([None] * 2, "")
    assert core.read("bounds_base") == BASE % (1 << 32) + 0x10000
    for base, message in (
        (BASE - 4096, "memory must begin at 0x17ffff000 or below"),
        (BASE + SIZE, "at most 0, the memory of"),
    ):
        moved = compile_task("mlp", CONFIG, seed=0, batch=2, base=base)
        with pytest.raises(DeviceError, match=message):
            run_folder(moved, "mmio", address=address, timeout=20.0)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_the_server_in_another_process_by_tcp(tmp_path: Path) -> None:
    address = f"tcp:127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "tensordash_runtime.mmio", address, "--on", "golden", "--memory-bytes", str(SIZE)]
    with subprocess.Popen([*command, "--base", str(BASE)], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            started = f"{address}: the core {CONFIG.digest}, {SIZE} bytes of memory from {BASE:#x}\n"
            assert server.stdout.readline() == started
            with connect(address) as device:
                assert_is_right(device)
        finally:
            server.terminate()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["uio:/dev/uio0,/dev/x,0"], "ADDRESS must be unix:PATH or tcp:HOST:PORT, not uio:"),
        (["core.sock"], "address must be unix:PATH, "),
        (["unix:{missing}/core"], "No such file or directory"),
        (["unix:{tmp_path}/core", "--preset", "paper"], "--preset must be a core's, not the tile paper"),
    ],
)
def test_a_server_that_cannot_start(arguments: list[str], message: str, tmp_path: Path) -> None:
    filled = [each.format(tmp_path=tmp_path, missing=tmp_path / "missing") for each in arguments]
    ran = subprocess.run(
        [sys.executable, "-m", "tensordash_runtime.mmio", *filled], capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 2
    assert message in ran.stderr
    assert "Traceback" not in ran.stderr


# Errors


@pytest.mark.parametrize(
    "text", ["", "core.sock", "unix:", "tcp:localhost", "tcp:localhost:x", "tcp:a:70000", "uio:/dev/uio0", "uio:a,b,c"]
)
def test_invalid_addresses(text: str) -> None:
    with pytest.raises(ValueError, match=f"address must be unix:PATH, tcp:HOST:PORT or uio:.*, not {text!r}"):
        connect(text)


def test_invalid_options() -> None:
    with pytest.raises(ValueError, match="address must be left out on the golden, not 'unix:x'"):
        Device(CONFIG, "golden", address="unix:x")
    for timeout in (0, "1"):
        with pytest.raises(ValueError, match=f"timeout must be a number of seconds above 0, not {timeout!r}"):
            connect("unix:x", timeout=timeout)
    with pytest.raises(ValueError, match="memory_bytes must be a multiple of 4096, not 5000"):
        connect("unix:x", memory_bytes=5000)


def test_a_refused_connection(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="address tcp:127.0.0.1:.*: cannot connect to .*: Connection refused"):
        connect(f"tcp:127.0.0.1:{free_port()}")
    with pytest.raises(DeviceError, match="address unix:.*: cannot connect to .*: No such file or directory"):
        connect(f"unix:{tmp_path}/missing")


def test_configuration_digest_mismatch(golden: str) -> None:
    other = load_any_preset("core-wide")
    with pytest.raises(DeviceError, match=f"digest must be {other.digest}, the configuration's, not {CONFIG.digest}"):
        Device(other, "mmio", memory_bytes=SIZE, address=golden)


def test_memory_that_is_too_small(golden: str) -> None:
    message = f"memory_bytes must be at most {SIZE}, the memory of unix:.*, not {2 * SIZE}"
    with pytest.raises(DeviceError, match=message):
        connect(golden, memory_bytes=2 * SIZE)


@pytest.mark.parametrize("base", [0x800, (1 << 40) - 4096])
def test_unusable_memory_base(base: int, tmp_path: Path) -> None:
    core = GoldenRegisters(CONFIG, SIZE, base=base)
    message = f"multiple of 4096 and end at 0x10000000000 .*, not {base:#x}"
    with serving_core(core, tmp_path) as address, pytest.raises(DeviceError, match=message):
        connect(address)


def test_identity_mismatch(tmp_path: Path) -> None:
    core = GoldenRegisters(CONFIG, SIZE)
    core.read = lambda register: 7  # type: ignore[method-assign]
    message = "identity must be 0x54440001, a core's, not 0x7"
    with serving_core(core, tmp_path) as address, pytest.raises(DeviceError, match=message):
        connect(address)


def test_greeting_mismatch(tmp_path: Path) -> None:
    def greet(listener: socket.socket) -> None:
        with listener.accept()[0] as connection:
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n")

    message = "must be a core's server, which begins with b'TDCORE 1', not b'HTTP/1.1'"
    with serving(f"unix:{tmp_path}/core", greet) as address, pytest.raises(DeviceError, match=message):
        connect(address)


def serve_some(count: int, then: Callable[[], Any]) -> Callable[[socket.socket], None]:
    """Return a server that sends `count` answers, including the greeting, and calls `then` during a request."""
    core = GoldenRegisters(CONFIG, SIZE)

    def serve(listener: socket.socket) -> None:
        with listener.accept()[0] as connection:
            if count:
                connection.sendall(GREETING.pack(MAGIC, 0, SIZE))
                for _ in range(count - 1):
                    serve_request(core, connection)
                receive(connection, 1)
            then()

    return serve


@pytest.mark.parametrize("count", [0, 1, 4, 12, 30])
def test_a_server_that_closes(count: int, tmp_path: Path) -> None:
    with (
        serving(f"unix:{tmp_path}/core", serve_some(count, lambda: None)) as address,
        pytest.raises(DeviceError, match=f"address {address}: the connection ended in the middle of (a|the) .*: Conn"),
        connect(address) as device,
    ):
        assert_is_right(device)


@pytest.mark.parametrize("count", [0, 1, 12])
def test_a_server_that_is_silent(count: int, tmp_path: Path) -> None:
    over = threading.Event()
    with serving(f"unix:{tmp_path}/core", serve_some(count, lambda: over.wait(20))) as address:
        with (
            pytest.raises(DeviceError, match=f"address {address}: no answer to (a|the) .* within timeout = 0.3 s"),
            connect(address, timeout=0.3) as device,
        ):
            assert_is_right(device)
        over.set()


def test_a_program_without_an_end(core: SimulatedCore, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The core never receives `tail`. The device works after the next reset."""
    original = core.write
    with connect(address, timeout=1.0) as device:
        monkeypatch.setattr(core, "write", lambda name, value: name == "tail" or original(name, value))
        with pytest.raises(DeviceError, match="0 of .* descriptors are done after timeout = 1.0 s"):
            device.matmul(*operands())
        monkeypatch.setattr(core, "write", original)
        assert_is_right(device)


def test_an_error_of_the_core(core: SimulatedCore, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The processor overwrites the program."""
    original = core.write

    def write(name: str, value: int) -> None:
        if name == "tail":
            ring = core.read("queue_base_high") << 32 | core.read("queue_base")
            core.memory[ring - BASE + 64 : ring - BASE + 128] = 255
        original(name, value)

    monkeypatch.setattr(core, "write", write)
    with connect(address) as device:
        with pytest.raises(DeviceError, match="error operation in descriptor 1"):
            device.matmul(*operands())
        monkeypatch.setattr(core, "write", original)
        assert_is_right(device)


def test_requests_that_a_server_refuses(golden: str) -> None:
    with socket.socket(socket.AF_UNIX) as raw:
        raw.connect(golden.removeprefix("unix:"))
        assert GREETING.unpack(receive(raw, GREETING.size)) == (MAGIC, BASE, SIZE)
        for code, at, count, message in (
            (9, 0, 0, "9 is not a valid Operation"),
            (0, 3, 4, "a register must be one of docs/core.md"),
            (2, BASE - 1, 4, "bytes must be in the 1048576 bytes of memory"),
            (2, BASE + SIZE - 3, 4, "bytes must be in the 1048576 bytes of memory"),
        ):
            raw.sendall(REQUEST.pack(code, at, count))
            header = receive(raw, 5)
            failed, length = header[0], int.from_bytes(header[1:], "little")
            assert failed
            assert message in receive(raw, length).decode()


# Linux's files


@pytest.fixture
def files(tmp_path: Path) -> str:
    (tmp_path / "uio0").write_bytes(bytes(4096))
    (tmp_path / "udmabuf0").write_bytes(bytes(SIZE))
    return f"uio:{tmp_path}/uio0,{tmp_path}/udmabuf0,{BASE:#x}"


class Registers:
    """A golden core whose registers are accessed through a mapped page.

    The first read of `cause` after a write of `tail` returns 0 and raises the interrupt.
    """

    def __init__(self, page: memoryview, interrupt: socket.socket) -> None:
        self._page, self._interrupt = page, interrupt
        self.core = GoldenRegisters(CONFIG, SIZE, base=BASE)
        self._is_early = False

    def __getitem__(self, word: int) -> int:
        name = NAMES[4 * word]
        if self._is_early and name == "cause":
            self._is_early = False
            self._interrupt.send(bytes(4))
            return 0
        self._page[word] = self.core.read(name)
        return self._page[word]

    def __setitem__(self, word: int, value: int) -> None:
        self._page[word] = value
        self.core.write(NAMES[4 * word], self._page[word])
        self._is_early = NAMES[4 * word] == "tail"

    def release(self) -> None:
        self._page.release()


@pytest.mark.parametrize("is_wired", [True, False])
def test_linux_devices(is_wired: bool, files: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files replace registers and memory, and a pair of sockets replaces the interrupt of /dev/uio0."""
    ours, theirs = socket.socketpair()
    unwired = os.open(os.devnull, os.O_RDONLY)  # A read-only file: the write that enables the interrupt fails.
    registers: list[Registers] = []

    def open_devices(port: UioPort, place: UioAddress, memory_bytes: int) -> None:
        original(port, place, memory_bytes)
        assert port._memory[:] == bytes(SIZE)
        registers.append(Registers(port._registers, theirs))
        monkeypatch.setattr(registers[0].core._core.memory, "bytes", port._memory)
        monkeypatch.setattr(port, "_registers", registers[0])
        monkeypatch.setattr(port, "_interrupt", ours.fileno() if is_wired else unwired)

    original = UioPort.__init__
    monkeypatch.setattr(UioPort, "__init__", open_devices)
    with ours, theirs, connect(files) as device:
        assert_is_right(device)
        if is_wired:
            assert theirs.recv(8, socket.MSG_DONTWAIT) == (1).to_bytes(4, "little")  # enables the interrupt
        assert bool(select.select([ours], [], [], 0)[0]) != is_wired
    os.close(unwired)


def test_linux_devices_that_cannot_be_used(files: str, tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="identity must be 0x54440001, a core's, not 0x0"):
        connect(files)
    with pytest.raises(DeviceError, match=f"cannot map {2 * SIZE} bytes of {tmp_path}/udmabuf0"):
        connect(files, memory_bytes=2 * SIZE)
    (tmp_path / "udmabuf0").unlink()
    with pytest.raises(DeviceError, match=f"cannot open {tmp_path}/udmabuf0: No such file"):
        connect(files)
    assert not [each for each in Path("/proc/self/fd").iterdir() if str(tmp_path) in os.path.realpath(each)]
