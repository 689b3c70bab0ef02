"""Access a core's registers and memory through a server's socket or Linux devices."""

import mmap
import os
import select
import socket
import struct
import time
from typing import Protocol

from ..errors import DeviceError
from .addresses import SocketAddress, UioAddress, parse_address
from .protocol import ANSWER, GREETING, MAGIC, REQUEST, Operation, receive

__all__ = ["Port", "SocketPort", "UioPort", "open_port"]

REGISTER_BYTES = 4096
POLL_SECONDS = 1e-3
WORD = struct.Struct("<I")


class Port(Protocol):
    """Interface to the registers and memory of a core.

    Attributes
    ----------
    base : int
        The core's address of the first byte of memory.
    """

    base: int

    def read_register(self, offset: int) -> int:
        """Read a register of 32 bits."""

    def write_register(self, offset: int, value: int) -> None:
        """Write a register of 32 bits."""

    def read(self, address: int, count: int) -> bytes:
        """Read bytes of memory at one of the core's addresses."""

    def write(self, address: int, data: bytes) -> None:
        """Write bytes of memory at one of the core's addresses."""

    def wait(self, seconds: float) -> None:
        """Wait for an interrupt for at most `seconds`. Return earlier if the port only polls."""

    def close(self) -> None:
        """Release sockets and files."""


def open_port(address: str, memory_bytes: int, timeout: float, start: int | None = None) -> Port:
    """Open a port to the core at an address (`parse_address`).

    Parameters
    ----------
    address : str
        The core's address.
    memory_bytes : int
        Size of the memory to use.
    timeout : float
        Time limit of a server's answer, in seconds.
    start : int, optional
        The core's address of the first byte to use; by default the first byte of memory.

    Raises
    ------
    ValueError
        If the address is invalid.
    DeviceError
        If there is no answer, a device cannot be opened, or memory is too small.
    """
    place = parse_address(address)
    if isinstance(place, UioAddress):
        _require_start(address, place.physical, start)
        return UioPort(place, memory_bytes + (start or place.physical) - place.physical)
    port = SocketPort(place, address, timeout)
    try:
        _require_start(address, port.base, start)
        room = port.size - ((start or port.base) - port.base)
        if room < memory_bytes:
            raise DeviceError(f"memory_bytes must be at most {room}, the memory of {address}, not {memory_bytes}")
    except DeviceError:
        port.close()
        raise
    return port


def _require_start(address: str, base: int, start: int | None) -> None:
    if start is not None and start < base:
        raise DeviceError(f"address {address}: memory must begin at {start:#x} or below, not at {base:#x}")


class SocketPort:
    """Port to a core that `tensordash_runtime.mmio.server` serves at a socket."""

    def __init__(self, place: SocketAddress, name: str, timeout: float) -> None:
        self._name, self._timeout = name, timeout
        family = socket.AF_UNIX if isinstance(place.place, str) else socket.AF_INET
        self._socket = socket.socket(family)
        self._socket.settimeout(timeout)
        try:
            try:
                self._socket.connect(place.place)
            except OSError as error:
                raise DeviceError(
                    f"address {name}: cannot connect to a core's server: {error.strerror or error}"
                ) from None
            magic, self.base, self.size = GREETING.unpack(self._receive(GREETING.size, "the greeting"))
            if magic != MAGIC:
                raise DeviceError(
                    f"address {name}: must be a core's server, which begins with {MAGIC!r}, not {magic!r}"
                )
        except BaseException:
            self.close()
            raise

    def read_register(self, offset: int) -> int:
        data = self._ask(Operation.READ_REGISTER, offset, WORD.size, f"a read of register {offset:#x}")
        return int(WORD.unpack(data)[0])

    def write_register(self, offset: int, value: int) -> None:
        what = f"a write of register {offset:#x}"
        self._ask(Operation.WRITE_REGISTER, offset, WORD.size, what, WORD.pack(value))

    def read(self, address: int, count: int) -> bytes:
        return self._ask(Operation.READ_MEMORY, address, count, f"a read of memory at {address:#x}")

    def write(self, address: int, data: bytes) -> None:
        self._ask(Operation.WRITE_MEMORY, address, len(data), f"a write of memory at {address:#x}", data)

    def wait(self, seconds: float) -> None:
        # The server waits at most half of the timeout, so that its answer is in time.
        milliseconds = int(1000 * min(seconds, self._timeout / 2))
        self._ask(Operation.WAIT, milliseconds, 1, "a wait for the interrupt")

    def close(self) -> None:
        self._socket.close()

    def _ask(self, operation: Operation, address: int, count: int, what: str, data: bytes = b"") -> bytes:
        try:
            self._socket.sendall(REQUEST.pack(operation, address, count) + data)
        except OSError as error:
            raise self._failure(error, what) from None
        failed, length = ANSWER.unpack(self._receive(ANSWER.size, what))
        answer = self._receive(length, what)
        if failed:
            raise DeviceError(f"address {self._name}: {what} failed: {answer.decode('utf-8', 'replace')}")
        return answer

    def _receive(self, count: int, what: str) -> bytes:
        try:
            return receive(self._socket, count)
        except OSError as error:
            raise self._failure(error, what) from None

    def _failure(self, error: OSError, what: str) -> DeviceError:
        """Close the connection, as later answers could belong to earlier requests, and return a `DeviceError`."""
        self.close()
        if isinstance(error, TimeoutError):
            return DeviceError(f"address {self._name}: no answer to {what} within timeout = {self._timeout} s")
        reason = error.strerror or str(error)
        return DeviceError(f"address {self._name}: the connection ended in the middle of {what}: {reason}")


class UioPort:
    """Port through Linux's userspace I/O: one device has registers and interrupt, another has memory."""

    def __init__(self, place: UioAddress, memory_bytes: int) -> None:
        self.base = place.physical
        self._descriptors: list[int] = []
        self._maps: list[mmap.mmap] = []
        try:
            self._interrupt = self._open(place.registers)
            registers = self._map(self._interrupt, REGISTER_BYTES, place.registers)
            self._memory = self._map(self._open(place.memory), memory_bytes, place.memory)
        except BaseException:
            self.close()
            raise
        self._registers = memoryview(registers).cast("I")  # Each access then has 32 bits.

    def read_register(self, offset: int) -> int:
        return self._registers[offset // WORD.size]

    def write_register(self, offset: int, value: int) -> None:
        self._registers[offset // WORD.size] = value

    def read(self, address: int, count: int) -> bytes:
        begin = address - self.base
        return self._memory[begin : begin + count]

    def write(self, address: int, data: bytes) -> None:
        begin = address - self.base
        self._memory[begin : begin + len(data)] = data

    def wait(self, seconds: float) -> None:
        try:
            os.write(self._interrupt, WORD.pack(1))  # This enables the interrupt, which Linux disables in its handler.
        except OSError:  # The device has no interrupt and is polled.
            time.sleep(min(seconds, POLL_SECONDS))
            return
        if select.select([self._interrupt], [], [], seconds)[0]:
            os.read(self._interrupt, WORD.size)

    def close(self) -> None:
        if hasattr(self, "_registers"):
            self._registers.release()
        for each in self._maps:
            each.close()
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._maps, self._descriptors = [], []

    def _open(self, path: os.PathLike) -> int:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_SYNC)  # With O_SYNC, udmabuf maps uncached memory.
        except OSError as error:
            raise DeviceError(f"address: cannot open {path}: {error.strerror}") from None
        self._descriptors.append(descriptor)
        return descriptor

    def _map(self, descriptor: int, size: int, path: os.PathLike) -> mmap.mmap:
        try:
            mapped = mmap.mmap(descriptor, size)
        except (OSError, ValueError) as error:
            raise DeviceError(f"address: cannot map {size} bytes of {path}: {error}") from None
        self._maps.append(mapped)
        return mapped
