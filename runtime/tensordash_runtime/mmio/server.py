"""Serve a simulated core's registers and memory to the backend `mmio` of other processes."""

import socket
import time
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tensordash import TensorDashError
from tensordash.configuration.registers import REGISTERS

from .addresses import SocketAddress
from .protocol import ANSWER, GREETING, MAGIC, REQUEST, Operation, receive

__all__ = ["NAMES", "SimulatedCore", "listen", "serve_core", "serve_request"]

WAIT_CYCLES = 10_000
"""Cycles to simulate between two checks of the deadline."""
NAMES = {register.offset: register.name for register in REGISTERS}
"""Names of registers by offset."""


class SimulatedCore(Protocol):
    """Interface of a served core: a `VerilatedCore` or `GoldenRegisters`."""

    base: int
    memory: NDArray[np.uint8]

    def read(self, register: str) -> int:
        """Read a register."""

    def write(self, register: str, value: int) -> None:
        """Write a register."""

    def wait(self, cycles: int) -> bool:
        """Run until the interrupt for at most `cycles`; return whether it is raised."""


def listen(address: SocketAddress) -> socket.socket:
    """Return a socket that listens at an address.

    Raises
    ------
    OSError
        If the path or the port is in use or forbidden.
    """
    listener = socket.socket(socket.AF_UNIX if isinstance(address.place, str) else socket.AF_INET)
    try:
        if not isinstance(address.place, str):
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address.place)
        listener.listen()
    except BaseException:
        listener.close()
        raise
    return listener


def serve_core(core: SimulatedCore, listener: socket.socket) -> None:
    """Serve one client at a time, until the listener is closed."""
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            try:
                connection.sendall(GREETING.pack(MAGIC, core.base, len(core.memory)))
                while True:
                    serve_request(core, connection)
            except ConnectionError:
                continue


def serve_request(core: SimulatedCore, connection: socket.socket) -> None:
    """Receive a request and answer it.

    Raises
    ------
    OSError
        If the client closed the connection.
    """
    code, address, count = REQUEST.unpack(receive(connection, REQUEST.size))
    failed, answer = 0, b""
    try:
        answer = _execute(core, connection, code, address, count)
    except (TensorDashError, ValueError) as error:
        failed, answer = 1, str(error).encode()
    connection.sendall(ANSWER.pack(failed, len(answer)) + answer)


def _execute(core: SimulatedCore, connection: socket.socket, code: int, address: int, count: int) -> bytes:
    operation = Operation(code)
    if operation is Operation.WAIT:
        return bytes([_wait(core, address / 1000)])
    if operation in (Operation.READ_REGISTER, Operation.WRITE_REGISTER):
        data = receive(connection, 4) if operation is Operation.WRITE_REGISTER else b""
        name = NAMES.get(address)
        if name is None or count != 4:
            raise ValueError(f"a register must be one of docs/core.md and have 4 bytes, not {count} at {address:#x}")
        if operation is Operation.READ_REGISTER:
            return core.read(name).to_bytes(4, "little")
        core.write(name, int.from_bytes(data, "little"))
        return b""
    begin, size = address - core.base, len(core.memory)
    is_inside = 0 <= begin <= begin + count <= size
    data = receive(connection, count) if operation is Operation.WRITE_MEMORY else b""
    if not is_inside:
        raise ValueError(
            f"bytes must be in the {size} bytes of memory from {core.base:#x}, not {count} at {address:#x}"
        )
    if operation is Operation.READ_MEMORY:
        return core.memory[begin : begin + count].tobytes()
    core.memory[begin : begin + count] = np.frombuffer(data, np.uint8)
    return b""


def _wait(core: SimulatedCore, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not (raised := core.wait(WAIT_CYCLES)) and time.monotonic() < deadline:
        pass
    return raised
