"""Golden core with registers, for use without hardware and Verilator."""

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.registers import IDENTITY, bit_mask, named
from tensordash_sim.golden.core.golden_core import GoldenCore, Memory

from ..errors import DeviceError

__all__ = ["GoldenRegisters"]

CLEARED_AT_RESET = ("tail", "head", "done", "status", "error", "error_index", "cause", "control")
"""Registers that a soft reset clears."""


class GoldenRegisters:
    """Registers and memory of a golden core.

    A write of `tail` executes all descriptors immediately, and is allowed once per reset. Counters are 0.

    Parameters
    ----------
    config : CoreConfig
        The core.
    size, base : int
        Bytes of memory, and the address of the first one.

    Attributes
    ----------
    memory : array of uint8
        The memory.
    """

    def __init__(self, config: CoreConfig, size: int, *, base: int = 0) -> None:
        image = Memory(size, base)
        self.base = base
        self.memory: NDArray[np.uint8] = np.frombuffer(image.bytes, np.uint8)
        self._core = GoldenCore(config, image)
        digest = int(config.digest, 16)
        last = (1 << config.address_bits) - 1
        self._values = {"identity": IDENTITY, "digest": digest & 0xFFFFFFFF, "digest_high": digest >> 32}
        self._values |= {"bounds_limit": last & 0xFFFFFFFF, "bounds_limit_high": last >> 32}

    def read(self, register: str) -> int:
        """Read a register."""
        return self._values.get(register, 0)

    def write(self, register: str, value: int) -> None:
        """Write a register.

        Raises
        ------
        DeviceError
            If `tail` was already written since the last reset.
        """
        if register == "control" and value & bit_mask("control", "reset"):
            self._values |= dict.fromkeys(CLEARED_AT_RESET, 0)
        elif register == "cause":
            self._values["cause"] = self.read("cause") & ~value
        elif register == "tail":
            self._execute(value)
        elif named(register).access == "rw":
            self._values[register] = value

    def wait(self, cycles: int) -> bool:
        """Return whether the interrupt is raised."""
        return bool(self.read("cause") & self.read("interrupt_enable"))

    def close(self) -> None:
        """Do nothing: a golden core has no files or processes."""

    def _execute(self, tail: int) -> None:
        if self.read("tail"):
            raise DeviceError("the golden core must get all descriptors by one write of tail after a reset")
        self._core.bounds = self._address("bounds_base"), self._address("bounds_limit")
        outcome = self._core.run_queue(self._address("queue_base"), tail)
        failed = bool(outcome.error)
        cause = bit_mask("cause", "end") * bool(outcome.ends) | bit_mask("cause", "error") * failed
        self._values |= {"tail": tail, "head": tail, "done": outcome.done, "error": outcome.code, "cause": cause}
        self._values |= {"error_index": outcome.index, "status": bit_mask("status", "failed") * failed}

    def _address(self, register: str) -> int:
        return self.read(f"{register}_high") << 32 | self.read(register)
