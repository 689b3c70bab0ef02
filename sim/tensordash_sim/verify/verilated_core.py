"""A core's Verilog at speed: Verilator's model and a memory in one library, which Python calls once for a program."""

import ctypes
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import BYTES
from tensordash.configuration.registers import COUNTERS, ERRORS, IDENTITY, named
from tensordash.movers.axi import PAGE

from ..golden.core.golden_core import Outcome
from .core_library import CoreState, VerilatedError, core_library, verilog_of

__all__ = ["CHANNELS", "CoreRun", "SilentMemoryError", "VerilatedCore", "VerilatedError"]

CHANNELS = {
    "ar": "taken the address of a read",
    "r": "answered a read",
    "aw": "taken the address of a write",
    "w": "taken data of a write",
    "b": "answered a write",
}
"""AXI4's channels, and what a memory that is silent on one has not done."""
PATIENCE = 100_000
"""Cycles in which a memory answers, besides its latency."""

STOP_CHECK_CYCLES = 50_000
"""Cycles between two checks for an interrupt by the user."""
MAX_RESET_CYCLES = 1_000_000
"""Cycles after which a soft reset hangs."""
MIN_POLL_CYCLES = 16
"""Fewest cycles between two reads of a counter, each of which takes about eight."""


class SilentMemoryError(VerilatedError):
    """A memory that has owed the core something for too long; the message names it."""


@dataclass(frozen=True, kw_only=True)
class CoreRun:
    """What a program did.

    Parameters
    ----------
    outcome : Outcome
        As registers say.
    cycles : int
        From the write of `tail` to the interrupt.
    span : (int, int)
        Of those, when the first multiply began and when the last one was done, to within `every` cycles or so;
        (0, `cycles`) if that was not asked for.
    counters : dict of str to int
        All counters.
    """

    outcome: Outcome
    cycles: int
    span: tuple[int, int]
    counters: dict[str, int]


class VerilatedCore:
    """A core that runs its emitted Verilog, and a memory.

    It is built once for a configuration, which takes half a minute, and kept in the user's cache. Use it in a `with`
    statement, or `close` it.

    Parameters
    ----------
    config : CoreConfig
        The core.
    size : int
        Bytes of memory; what is beyond answers with an error.
    base : int
        Address of the first one.
    latency : (int, int)
        Cycles from an address (or the last data) to the first data (or the answer).
    pause : float
        How often a channel of the memory does not move though it could.
    seed : int
        Of what is random in the memory.
    quick : bool
        Build it in half the time, to run at a tenth of the speed.
    waves : bool
        Build it so that `run` can write waves; it is slower then, even without them.
    patience : int, optional
        Cycles after which a memory that owes the core something is found silent; 100,000 and its latency if left out.
        0: never.
    verilog : str
        The core's Verilog, if it is not what is emitted for it. Its top is ``tensordash_core``.

    Attributes
    ----------
    memory : array of uint8
        The memory itself.

    Raises
    ------
    VerilatedError
        If Verilator or the compiler fails.
    """

    def __init__(
        self,
        config: CoreConfig,
        size: int,
        *,
        base: int = 0,
        latency: tuple[int, int] = (50, 50),
        pause: float = 0.0,
        seed: int = 0,
        quick: bool = False,
        waves: bool = False,
        patience: int | None = None,
        verilog: str = "",
    ) -> None:
        self.config, self.base = config, base
        self._library = core_library(verilog or verilog_of(config), quick, waves)
        self._device = self._library.core_new(base, size, *latency, pause, seed)
        self.memory: NDArray[np.uint8] = np.ctypeslib.as_array(self._library.core_memory(self._device), (size,))
        self._patience = patience
        self._library.core_patience(self._device, PATIENCE + latency[1] if patience is None else patience)
        if self.read("identity") != IDENTITY:
            raise VerilatedError(f"identity must be {IDENTITY:#x}, not {self.read('identity'):#x}")

    def __enter__(self) -> "VerilatedCore":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Give back what it holds; `memory` is gone with it."""
        if self._device is not None:
            self._library.core_delete(self._device)
            self._device = None
            self.memory = np.zeros(0, np.uint8)

    def behave(self, *, latency: tuple[int, int], pause: float, unruly: bool = False) -> None:
        """Change how the memory behaves; `unruly`: data of different IDs come in any order, errors of any kind."""
        self._library.core_behave(self._device, *latency, pause, unruly)
        if self._patience is None:
            self._library.core_patience(self._device, PATIENCE + latency[1])

    def fail(self, lines: Iterable[int]) -> None:
        """Have these lines answer with an error, and no others: an address divided by the bytes of a beat."""
        places = np.array(sorted(lines), np.uint64)
        self._library.core_faults(self._device, places, len(places))

    def restrict(self, base: int = 0, limit: int | None = None) -> None:
        """Set the bounds of what the core may use: the lowest and the highest address; every one if left out.

        Raises
        ------
        ValueError
            If they are no whole pages of 4 KiB.
        """
        limit = (1 << self.config.address_bits) - 1 if limit is None else limit
        if base % PAGE or (limit + 1) % PAGE:
            raise ValueError(f"base and limit + 1 must be multiples of {PAGE}, not {base:#x} and {limit + 1:#x}")
        for name, value in (("bounds_base", base), ("bounds_limit", limit)):
            self.write(name, value % (1 << 32))
            self.write(f"{name}_high", value >> 32)

    def write(self, register: str, value: int) -> None:
        if not self._library.core_write(self._device, named(register).offset, value):
            raise VerilatedError(f"no answer to a write of {register}")

    def read(self, register: str) -> int:
        value = ctypes.c_uint32()
        if not self._library.core_read(self._device, named(register).offset, ctypes.byref(value)):
            raise VerilatedError(f"no answer to a read of {register}")
        return int(value.value)

    @property
    def idle(self) -> bool:
        """Whether nothing is on its way on the bus."""
        return bool(self._library.core_idle(self._device))

    def reset(self) -> None:
        """Reset softly, and wait until that is over."""
        if not self.read("status") & 2:
            self.write("control", 2)
        began = self.cycle
        while self.read("status") & 2:
            if self.cycle - began > MAX_RESET_CYCLES:
                raise VerilatedError(f"a soft reset is not over after {MAX_RESET_CYCLES} cycles: {self._owed()}")

    @property
    def cycle(self) -> int:
        """Cycles since it was made."""
        return int(self._library.core_cycle(self._device))

    def run(
        self,
        program: Sequence[int],
        ring: int,
        *,
        most: int = 100_000_000,
        every: int = 0,
        causes: int = 3,
        waves: Path | None = None,
        command: int | None = None,
    ) -> CoreRun:
        """Reset softly, execute a program, and wait for its end or its error.

        Parameters
        ----------
        program : sequence of int
            Descriptors, with one `end`, the last of them.
        ring : int
            Address of the ring, a multiple of 64. It has as many places as the program needs, a power of two.
        most : int
            Cycles after which it is given up.
        every : int
            If not 0: cycles, at least 16, between two looks at how many multiplies have begun.
        causes : int
            Which interrupts end it: 1, an `end`; 2, an error; 3, either.
        waves : Path, optional
            A VCD file to write; two of its time steps are a cycle. For that the core is built with `waves`.
        command : int, optional
            The descriptor that waves are of, counted from 0: from about where the one before it is fetched until it
            and all before it are done. All of the program if left out. Looking for it, the core's registers are read.

        Raises
        ------
        SilentMemoryError
            If the memory does not answer.
        VerilatedError
            If it does not end, or waves cannot be written.
        IndexError
            If the program has no such descriptor.
        """
        if command is not None and not 0 <= command < len(program):
            raise IndexError(f"command must be from 0 to {len(program) - 1}, not {command}")
        self.put(program, ring)
        self.reset()
        self.begin(ring, len(program), causes=causes)
        if waves is not None:
            self._draw(waves, command)
        began = self.cycle
        first, last, seen = 0, 0, 0
        while not self.wait(max(every, MIN_POLL_CYCLES) if every else min(STOP_CHECK_CYCLES, most)):
            if every:
                self.write("snapshot", 1)
                multiplying, now = self.read("multiplying"), self.cycle - began
                if multiplying > seen:
                    first, last, seen = first or now - every, now, multiplying
            if self.cycle - began >= most:
                raise VerilatedError(f"no interrupt in {most} cycles: {self._standing()}")
        cycles = self.cycle - began
        self.write("snapshot", 1)
        counters = {name: self.read(name) for name, _ in COUNTERS}
        if every and counters["multiplying"] > seen:
            last = cycles
        if waves is not None:
            self._library.core_waves(self._device, None)
        span = (first, last) if every else (0, cycles)
        return CoreRun(outcome=self.outcome(), cycles=cycles, span=span, counters=counters)

    def put(self, program: Sequence[int], ring: int) -> None:
        """Write descriptors to memory; drop those beyond its end."""
        data = b"".join(bits.to_bytes(BYTES, "little") for bits in program)
        region = self.memory[ring - self.base :][: len(data)]
        region[:] = np.frombuffer(data, np.uint8)[: len(region)]

    def begin(self, ring: int, tail: int, *, size: int | None = None, causes: int = 3) -> None:
        """Have a core that was reset execute descriptors.

        Parameters
        ----------
        ring : int
            Address of the ring, a multiple of 64.
        tail : int
            How many.
        size : int, optional
            Logarithm to base 2 of the ring's places; as many as it takes if left out.
        causes : int
            As of `run`.
        """
        self.write("cause", 3)
        self.write("snapshot", 2)
        self.write("queue_base", ring % (1 << 32))
        self.write("queue_base_high", ring >> 32)
        self.write("queue_size", max(0, (tail - 1).bit_length()) if size is None else size)
        self.write("interrupt_enable", causes)
        self.write("control", 1)
        self.write("tail", tail)

    def wait(self, most: int) -> bool:
        """Run for at most `cycles`; return whether there is the interrupt.

        Raises
        ------
        SilentMemoryError
            If the memory owes the core something for more than `patience` cycles: the core itself would wait for ever.
        """
        raised = self._library.core_run(self._device, most)
        if raised != 2:
            return bool(raised)
        raise SilentMemoryError(f"{self._owed()}: {self._standing()}")

    def _owed(self) -> str:
        """Return the transfer that the memory has owed for the longest time."""
        waited = self._library.core_waited(self._device)
        place = max(range(len(CHANNELS)), key=lambda each: waited[each])
        if not waited[place]:
            return "memory owes nothing"
        channel, action = list(CHANNELS.items())[place]
        of = "a descriptor" if self._library.core_fetching(self._device, place) else "tensors"
        action += f" of {of}" if channel in ("ar", "r") else ""
        return f"memory has not {action} for {waited[place]} cycles"

    def outcome(self) -> Outcome:
        """Return the program's outcome from the registers."""
        code = self.read("error")
        name = next((name for name, each in ERRORS.items() if each == code), "")
        index = self.read("error_index") if code else 0
        return Outcome(done=self.read("done"), error=name, index=index, ends=self.read("cause") & 1)

    @property
    def at_reset(self) -> tuple[int, int]:
        """When the last soft reset began: states, as `core_states` lists them, and the bus."""
        return int(self._library.core_at_reset(self._device)), int(self._library.core_bus_at_reset(self._device))

    @property
    def errors(self) -> list[int]:
        """How often the memory has answered with an error: ID 0, 1, writes; SLVERR, DECERR; a burst's only beat, its
        first, one between, its last."""
        return list(self._library.core_errors(self._device)[:24])

    @property
    def moved(self) -> dict[str, int]:
        """Transfers on each of `CHANNELS` since `silence`."""
        return dict(zip(CHANNELS, self._library.core_moved(self._device)[: len(CHANNELS)], strict=True))

    def until(self, state: CoreState, value: int, most: int) -> bool:
        """Run until a state has a value, an interrupt comes, or `cycles` are over; return whether it has the value."""
        mask = (1 << state.width) - 1
        return bool(self._library.core_until(self._device, state.low, mask, value, most))

    def sow(self, seed: int) -> None:
        """Begin anew with what is random in the memory."""
        self._library.core_seed(self._device, seed)

    def _standing(self) -> str:
        """Return how far a program is."""
        return f"{self.read('done')} of {self.read('tail')} descriptors are done"

    def silence(self, channel: str, after: int = 0) -> None:
        """Silence the memory on one of `CHANNELS` after `transfers` transfers; on none, if it is empty.

        What it owes by then it gives when it may speak again.
        """
        place = list(CHANNELS).index(channel) if channel else -1
        self._library.core_silence(self._device, place, after)

    def _draw(self, waves: Path, command: int | None) -> None:
        """Write waves of a command, or begin to write those of all."""
        while command is not None and self.read("head") < command and not self.read("error"):
            self._library.core_run(self._device, MIN_POLL_CYCLES)
        if not self._library.core_waves(self._device, str(waves).encode()):
            raise VerilatedError(f"{waves} cannot be written, or the core was not built with waves = true")
        while command is not None and self.read("done") <= command and not self.read("error"):
            self._library.core_run(self._device, MIN_POLL_CYCLES)
        if command is not None:
            self._library.core_waves(self._device, None)
