"""Python driver of a core's registers. docs/driver.md describes the C driver."""

import time

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.registers import COUNTERS, ERRORS, IDENTITY, PAGE_BITS, REGISTERS, bit_mask, named
from tensordash_sim.golden.core.golden_core import Outcome

from ..errors import DeviceError
from .ports import open_port

__all__ = ["MappedCore"]

PAGE_BYTES = 1 << PAGE_BITS
OFFSETS = {register.name: register.offset for register in REGISTERS}
MAX_DESCRIPTORS = 1 << (1 << named("queue_size").bits[0].width) - 1
END = bit_mask("cause", "end")
CAUSES = END | bit_mask("cause", "error")
MAX_WAIT_SECONDS = 1.0
"""Maximum wait for the interrupt before the driver polls the core, as the interrupt may not be wired."""


class MappedCore:
    """A core at an address, confined to a range of its memory.

    Parameters
    ----------
    config : CoreConfig
        The core's configuration, which must have the core's digest.
    memory_bytes : int
        Size of the range, for programs and tensors: a multiple of 4 KiB.
    address : str
        The core's address, for `parse_address`.
    timeout : float
        Time limit of a program, a reset and a server's answer, in seconds.
    start : int, optional
        Memory address of the range's first byte; by default the first byte of memory.

    Attributes
    ----------
    base : int
        Memory address of the range's first byte.

    Raises
    ------
    ValueError
        If the address or the size is invalid.
    DeviceError
        If the address has no core, or a core of another configuration.
    """

    def __init__(
        self, config: CoreConfig, memory_bytes: int, *, address: str, timeout: float, start: int | None = None
    ) -> None:
        if memory_bytes % PAGE_BYTES:
            raise ValueError(f"memory_bytes must be a multiple of {PAGE_BYTES}, not {memory_bytes}")
        self._address, self._timeout = address, timeout
        self._port = open_port(address, memory_bytes, timeout, start)
        self.base = self._port.base if start is None else start
        try:
            self._check(config, memory_bytes)
            self._reset()
        except BaseException:
            self.close()
            raise
        self._write_address("bounds_base", self.base)
        self._write_address("bounds_limit", self.base + memory_bytes - 1)

    def close(self) -> None:
        """Release sockets and files."""
        self._port.close()

    def read(self, address: int, count: int) -> bytes:
        """Read bytes of memory."""
        return self._port.read(address, count)

    def write(self, address: int, data: bytes | memoryview) -> None:
        """Write bytes of memory."""
        self._port.write(address, bytes(data))

    def run(self, ring: int, count: int) -> tuple[Outcome, dict[str, int]]:
        """Issue a soft reset, execute descriptors in memory, and wait for their end or an error.

        Parameters
        ----------
        ring : int
            Memory address of the first descriptor.
        count : int
            Number of descriptors, at most `MAX_DESCRIPTORS`; the last one is the only `end`.

        Returns
        -------
        Outcome, dict of str to int
            The outcome, and all counters.

        Raises
        ------
        DeviceError
            If the program is too long, or the core does not finish in time or does not answer.
        """
        if count > MAX_DESCRIPTORS:
            raise DeviceError(f"a program must have at most {MAX_DESCRIPTORS} descriptors, not {count}")
        self._reset()
        self._write("cause", CAUSES)
        self._write_address("queue_base", ring)
        self._write("queue_size", (count - 1).bit_length())
        self._write("interrupt_enable", CAUSES)
        self._write("snapshot", bit_mask("snapshot", "clear"))
        self._write("control", bit_mask("control", "enable"))
        self._write("tail", count)
        deadline = time.monotonic() + self._timeout
        while not (causes := self._read("cause")):
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise DeviceError(
                    f"address {self._address}: {self._read('done')} of {count} descriptors are done "
                    f"after timeout = {self._timeout} s"
                )
            self._port.wait(min(remaining, MAX_WAIT_SECONDS))
        self._write("cause", causes)
        self._write("snapshot", bit_mask("snapshot", "take"))
        counters = {name: self._read(name) for name, _ in COUNTERS}
        code = self._read("error")
        error = next((name for name, each in ERRORS.items() if each == code), "")
        index = self._read("error_index") if code else 0
        return Outcome(done=self._read("done"), error=error, index=index, ends=causes & END), counters

    def _check(self, config: CoreConfig, memory_bytes: int) -> None:
        identity = self._read("identity")
        if identity != IDENTITY:
            raise DeviceError(f"address {self._address}: identity must be {IDENTITY:#x}, a core's, not {identity:#x}")
        digest = f"{self._read('digest_high'):08x}{self._read('digest'):08x}"
        if digest != config.digest:
            raise DeviceError(
                f"address {self._address}: the core's digest must be {config.digest}, the configuration's, not {digest}"
            )
        end = self.base + memory_bytes
        if self.base % PAGE_BYTES or end > 1 << config.address_bits:
            raise DeviceError(
                f"address {self._address}: memory must begin at a multiple of {PAGE_BYTES} and end at "
                f"{1 << config.address_bits:#x} (core.address_bits = {config.address_bits}), "
                f"not {self.base:#x} and {end:#x}"
            )

    def _reset(self) -> None:
        self._write("control", bit_mask("control", "reset"))
        deadline = time.monotonic() + self._timeout
        while self._read("status") & bit_mask("status", "resetting"):
            if time.monotonic() > deadline:
                raise DeviceError(
                    f"address {self._address}: a soft reset is not over after timeout = {self._timeout} s: "
                    "memory does not answer"
                )

    def _read(self, register: str) -> int:
        return self._port.read_register(OFFSETS[register])

    def _write(self, register: str, value: int) -> None:
        self._port.write_register(OFFSETS[register], value)

    def _write_address(self, register: str, value: int) -> None:
        self._write(register, value & 0xFFFFFFFF)
        self._write(f"{register}_high", value >> 32)
