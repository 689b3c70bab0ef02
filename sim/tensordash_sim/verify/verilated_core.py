"""Fast simulation of a core's Verilog: Verilator's model and a memory in one library, called once per program."""

import ctypes
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

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
"""AXI4's channels, and what a memory has not done if it is silent on that channel."""
PATIENCE = 100_000
"""Default cycles, besides the latency, after which a memory that owes a transfer counts as silent."""

STOP_CHECK_CYCLES = 50_000
"""Cycles between two checks for an interrupt by the user."""
MAX_RESET_CYCLES = 1_000_000
"""Cycles after which a soft reset is taken to hang."""
MIN_POLL_CYCLES = 16
"""Fewest cycles between two reads of a counter; a read takes about eight."""


class SilentMemoryError(VerilatedError):
    """The memory has owed a transfer for too long; the message names it."""


@dataclass(frozen=True, kw_only=True)
class CoreRun:
    """Result of a program's run.

    Parameters
    ----------
    outcome : Outcome
        The program's outcome, read from the registers.
    cycles : int
        Cycles from the write of `tail` to the interrupt.
    span : (int, int)
        Cycles in which the first multiply began and the last one ended, to within about `every` cycles;
        (0, `cycles`) if `every` was 0.
    counters : dict of str to int
        All counters.
    """

    outcome: Outcome
    cycles: int
    span: tuple[int, int]
    counters: dict[str, int]


class VerilatedCore:
    """A simulated core and a memory.

    The library is built once per configuration, which takes half a minute, and cached in the user's cache folder.
    Use the core in a `with` statement, or `close` it.

    Parameters
    ----------
    config : CoreConfig
        The core.
    size : int
        Bytes of memory; an address outside the memory gets an error response.
    base : int
        Address of the first byte.
    latency : (int, int)
        Least and most cycles from a read address to its first data, and from the last write data to its response.
    pause : float
        Probability that a channel of the memory pauses in a cycle.
    seed : int
        Seed of the memory's random decisions.
    quick : bool
        Build in half the time, for a tenth of the speed.
    waves : bool
        Build such that `run` can write waveforms; the simulation is slower then, even without them.
    patience : int, optional
        Cycles after which a memory that owes a transfer counts as silent: by default 100,000 plus the latency, or
        never if 0.
    verilog : str
        The core's Verilog with the top ``tensordash_core``; emitted if empty.

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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Free the simulation, including `memory`."""
        if self._device is not None:
            self._library.core_delete(self._device)
            self._device = None
            self.memory = np.zeros(0, np.uint8)

    def behave(self, *, latency: tuple[int, int], pause: float, unruly: bool = False) -> None:
        """Change the memory's behaviour; with `unruly`, it reorders data of different IDs and returns both errors."""
        self._library.core_behave(self._device, *latency, pause, unruly)
        if self._patience is None:
            self._library.core_patience(self._device, PATIENCE + latency[1])

    def fail(self, lines: Iterable[int]) -> None:
        """Make exactly these lines respond with an error; a line is an address divided by the bytes of a beat."""
        places = np.array(sorted(lines), np.uint64)
        self._library.core_faults(self._device, places, len(places))

    def restrict(self, base: int = 0, limit: int | None = None) -> None:
        """Set the lowest and the highest address that the core may access; by default, all addresses.

        Raises
        ------
        ValueError
            If the bounds are not on boundaries of 4 KiB pages.
        """
        limit = (1 << self.config.address_bits) - 1 if limit is None else limit
        if base % PAGE or (limit + 1) % PAGE:
            raise ValueError(f"base and limit + 1 must be multiples of {PAGE}, not {base:#x} and {limit + 1:#x}")
        for name, value in (("bounds_base", base), ("bounds_limit", limit)):
            self.write(name, value % (1 << 32))
            self.write(f"{name}_high", value >> 32)

    def write(self, register: str, value: int) -> None:
        if not self._library.core_write(self._device, self._address(register), value):
            raise VerilatedError(f"no answer to a write of {register}")

    def read(self, register: str) -> int:
        value = ctypes.c_uint32()
        if not self._library.core_read(self._device, self._address(register), ctypes.byref(value)):
            raise VerilatedError(f"no answer to a read of {register}")
        return int(value.value)

    def _address(self, register: str) -> int:
        """Return the address of a register."""
        return named(register).offset

    @property
    def idle(self) -> bool:
        """Whether no transfer is outstanding on the bus."""
        return bool(self._library.core_idle(self._device))

    def reset(self) -> None:
        """Issue a soft reset, and wait for its end.

        Raises
        ------
        VerilatedError
            If the soft reset does not end.
        """
        if not self.read("status") & 2:
            self.write("control", 2)
        began = self.cycle
        while self.read("status") & 2:
            if self.cycle - began > MAX_RESET_CYCLES:
                raise VerilatedError(f"a soft reset is not over after {MAX_RESET_CYCLES} cycles: {self._owed()}")

    @property
    def cycle(self) -> int:
        """Cycles since the simulation started."""
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
        """Issue a soft reset, execute a program, and wait for its end or its error.

        Parameters
        ----------
        program : sequence of int
            Descriptors; the last one, and no other, is an `end`.
        ring : int
            Address of the ring, a multiple of 64. The number of places is the least power of two that fits the program.
        most : int
            Cycles after which the run fails.
        every : int
            If not 0, cycles (at least 16) between two reads of the number of started multiplies.
        causes : int
            Interrupts that end the run: 1 is an `end`, 2 an error, 3 both.
        waves : Path, optional
            A VCD file to write, with two time steps per cycle. The core must be built with `waves`.
        command : int, optional
            Index of the descriptor to write waveforms of, or None for the full program. Waveforms start about when the
            previous descriptor is fetched and end when this descriptor and all earlier ones are done. To find the
            descriptor, the host reads the core's registers.

        Raises
        ------
        SilentMemoryError
            If the memory does not respond.
        VerilatedError
            If the program does not end, or waveforms cannot be written.
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
        """Make a core execute descriptors after a reset.

        Parameters
        ----------
        ring : int
            Address of the ring, a multiple of 64.
        tail : int
            Number of descriptors.
        size : int, optional
            Logarithm to base 2 of the ring's places; by default the least that fits the descriptors.
        causes : int
            See `run`.
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
        """Run for at most `most` cycles; return whether the interrupt is raised.

        Raises
        ------
        SilentMemoryError
            If the memory owes a transfer for more than `patience` cycles; the core itself would wait for ever.
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
            return "no transfer of memory is pending"
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
        """States, in the order of `core_states`, and bits of the bus when the last soft reset began."""
        return int(self._library.core_at_reset(self._device)), int(self._library.core_bus_at_reset(self._device))

    @property
    def errors(self) -> list[int]:
        """Error responses of the memory so far, with shape (3, 2, 4) flattened.

        The axes are reads of ID 0, reads of ID 1, writes; SLVERR, DECERR; and the only, first, middle or last beat of
        a burst.
        """
        return list(self._library.core_errors(self._device)[:24])

    @property
    def moved(self) -> dict[str, int]:
        """Transfers on each of `CHANNELS` since `silence`."""
        return dict(zip(CHANNELS, self._library.core_moved(self._device)[: len(CHANNELS)], strict=True))

    def until(self, state: CoreState, value: int, most: int) -> bool:
        """Run until a state has a value, an interrupt, or `most` cycles; return whether the state has the value."""
        mask = (1 << state.width) - 1
        return bool(self._library.core_until(self._device, state.low, mask, value, most))

    def sow(self, seed: int) -> None:
        """Set the seed of the memory's random decisions."""
        self._library.core_seed(self._device, seed)

    def _standing(self) -> str:
        """Return a program's progress, for messages."""
        return f"{self.read('done')} of {self.read('tail')} descriptors are done"

    def silence(self, channel: str, after: int = 0) -> None:
        """Silence the memory on one of `CHANNELS` after `after` transfers, or on none if `channel` is empty.

        The memory makes all pending transfers once it is no longer silenced.
        """
        place = list(CHANNELS).index(channel) if channel else -1
        self._library.core_silence(self._device, place, after)

    def _draw(self, waves: Path, command: int | None) -> None:
        """Write waveforms of a command, or start to write those of the full program."""
        while command is not None and self.read("head") < command and not self.read("error"):
            self._library.core_run(self._device, MIN_POLL_CYCLES)
        if not self._library.core_waves(self._device, str(waves).encode()):
            raise VerilatedError(f"{waves} cannot be written, or the core was not built with waves = true")
        while command is not None and self.read("done") <= command and not self.read("error"):
            self._library.core_run(self._device, MIN_POLL_CYCLES)
        if command is not None:
            self._library.core_waves(self._device, None)
