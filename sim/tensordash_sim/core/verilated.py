"""A core's Verilog at speed: Verilator's model and a memory in one library, which Python calls once for a program."""

import ctypes
import hashlib
import re
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from tensordash import TensorDashError
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import BYTES
from tensordash.configuration.registers import COUNTERS, ERRORS, IDENTITY, named
from tensordash.emission.core_files import core_verilog

from ..verify.builds import build_key, fetch_kept, keep_built, verilator_environment
from .golden import Outcome

__all__ = ["CoreRun", "VerilatedCore", "VerilatedError"]

HARNESS = Path(__file__).with_name("core_harness.cpp")
SHARED = ("pe", "row_scheduler", "staging_ring", "result_pipeline")
"""Modules that stand in a core many times: their code is run many times then, not copied, and stays in the cache."""
SPLIT = (
    ("scheduler", "select"),
    ("row_scheduler", "scheduler__select"),
    ("bias_fetch", "read_enable"),
    ("output", "bias_fetch__read_enable"),
)
"""Signals of which a bit depends on another one: taken as a whole, they would be evaluated until they settle."""
AT_ONCE = 50_000
"""Cycles between two looks at whether the user wants to stop."""
LONGEST_RESET = 1_000_000
"""Cycles in which a soft reset is over, whatever is on its way."""
LEAST_EVERY = 16
"""Cycles between two readings of a counter, which take about eight themselves."""


class VerilatedError(TensorDashError, RuntimeError):
    """A core that cannot be built, or a program that does not end; the message is one line."""


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
        verilog: str = "",
    ) -> None:
        self.config, self.base = config, base
        self._library = _library(verilog or _verilog(config), quick, waves)
        self._device = self._library.core_new(base, size, *latency, pause, seed)
        self.memory: NDArray[np.uint8] = np.ctypeslib.as_array(self._library.core_memory(self._device), (size,))
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

    def fail(self, lines: Iterable[int]) -> None:
        """Have these lines answer with an error, and no others: an address divided by the bytes of a beat."""
        places = np.array(sorted(lines), np.uint64)
        self._library.core_faults(self._device, places, len(places))

    def write(self, register: str, value: int) -> None:
        """Write a register."""
        if not self._library.core_write(self._device, named(register).offset, value):
            raise VerilatedError(f"no answer to a write of {register}")

    def read(self, register: str) -> int:
        """Read a register."""
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
        self.write("control", 2)
        began = self.cycle
        while self.read("status") & 2:
            if self.cycle - began > LONGEST_RESET:
                raise VerilatedError(f"a soft reset is not over after {LONGEST_RESET} cycles")

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
        VerilatedError
            If it does not end, or waves cannot be written.
        IndexError
            If the program has no such descriptor.
        """
        if command is not None and not 0 <= command < len(program):
            raise IndexError(f"command must be from 0 to {len(program) - 1}, not {command}")
        data = b"".join(bits.to_bytes(BYTES, "little") for bits in program)
        there = self.memory[ring - self.base :][: len(data)]  # a ring may go beyond the end
        there[:] = np.frombuffer(data, np.uint8)[: len(there)]
        self.reset()
        self.write("cause", 3)
        self.write("snapshot", 2)
        self.write("queue_base", ring % (1 << 32))
        self.write("queue_base_high", ring >> 32)
        self.write("queue_size", max(0, (len(program) - 1).bit_length()))
        self.write("interrupt_enable", causes)
        self.write("control", 1)
        self.write("tail", len(program))
        if waves is not None:
            self._draw(waves, command)
        began = self.cycle
        first, last, seen = 0, 0, 0
        at_once = max(every, LEAST_EVERY) if every else min(AT_ONCE, most)
        while not self._library.core_run(self._device, at_once):
            if every:
                self.write("snapshot", 1)
                multiplying, now = self.read("multiplying"), self.cycle - began
                if multiplying > seen:
                    first, last, seen = first or now - every, now, multiplying
            if self.cycle - began >= most:
                raise VerilatedError(
                    f"no interrupt in {most} cycles: {self.read('done')} of {len(program)} descriptors are done"
                )
        cycles = self.cycle - began
        self.write("snapshot", 1)
        counters = {name: self.read(name) for name, _ in COUNTERS}
        if every and counters["multiplying"] > seen:
            last = cycles
        if waves is not None:
            self._library.core_waves(self._device, None)
        code = self.read("error")
        name = next((name for name, each in ERRORS.items() if each == code), "")
        outcome = Outcome(
            done=self.read("done"),
            error=name,
            index=self.read("error_index") if code else 0,
            ends=self.read("cause") & 1,
        )
        return CoreRun(outcome=outcome, cycles=cycles, span=(first, last) if every else (0, cycles), counters=counters)

    def _draw(self, waves: Path, command: int | None) -> None:
        """Write waves of a command, or begin to write those of all."""
        while command is not None and self.read("head") < command and not self.read("error"):
            self._library.core_run(self._device, LEAST_EVERY)
        if not self._library.core_waves(self._device, str(waves).encode()):
            raise VerilatedError(f"{waves} cannot be written, or the core was not built with waves = true")
        while command is not None and self.read("done") <= command and not self.read("error"):
            self._library.core_run(self._device, LEAST_EVERY)
        if command is not None:
            self._library.core_waves(self._device, None)


@cache
def _verilog(config: CoreConfig) -> str:
    return core_verilog(config)


@cache
def _library(verilog: str, quick: bool, waves: bool) -> ctypes.CDLL:
    """The library of a core's Verilog."""
    with tempfile.TemporaryDirectory(prefix="tensordash-core-") as scratch:
        made = Path(scratch) / f"core-{hashlib.sha256(verilog.encode()).hexdigest()[:16]}.so"
        key = build_key(f"core {quick=} {waves=}", _hints(verilog) + verilog + _clocked(verilog), HARNESS.read_bytes())
        if not fetch_kept(key, made, link=False):
            _build(verilog, Path(scratch), made.name, quick=quick, waves=waves)
            keep_built(key, made)
        library = ctypes.CDLL(str(made))
    device, number, word = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32
    for name, result, arguments in (
        ("core_new", device, [number, number, ctypes.c_uint, ctypes.c_uint, ctypes.c_double, number]),
        ("core_delete", None, [device]),
        ("core_memory", ctypes.POINTER(ctypes.c_uint8), [device]),
        ("core_cycle", number, [device]),
        ("core_write", ctypes.c_int, [device, word, word]),
        ("core_read", ctypes.c_int, [device, word, ctypes.POINTER(word)]),
        ("core_idle", ctypes.c_int, [device]),
        ("core_behave", None, [device, ctypes.c_uint, ctypes.c_uint, ctypes.c_double, ctypes.c_int]),
        ("core_faults", None, [device, np.ctypeslib.ndpointer(np.uint64, flags="C"), ctypes.c_size_t]),
        ("core_run", ctypes.c_int, [device, number]),
        ("core_waves", ctypes.c_int, [device, ctypes.c_char_p]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def _hints(verilog: str) -> str:
    """What Verilator is told of a core's modules."""
    lines = [f'no_inline -module "tensordash_{name}"' for name in SHARED]
    lines += [f'split_var -module "tensordash_{module}" -var "{signal}"' for module, signal in SPLIT]
    there = set(re.findall(r"^module (\w+)", verilog, flags=re.MULTILINE))
    return "\n".join(["`verilator_config", *(line for line in lines if line.split('"')[1] in there), ""])


def _clocked(verilog: str) -> str:
    """A module around the core in which what is driven comes from registers.

    Verilator evaluates what follows from a model's inputs whenever it is called, that is before a clock edge and again
    after it: from AXI's ready that is the tile. As registers, inputs change with the clock, and all is evaluated once.
    """
    header = re.search(r"^module tensordash_core\(\n(.*?)^\);", verilog, flags=re.MULTILINE | re.DOTALL)
    if header is None:
        raise VerilatedError("the Verilog must have a module tensordash_core")
    ports = re.findall(r"(input|output) wire (\[\d+:0\] )?(\w+)", header[1])
    driven = [(bits, name) for kind, bits, name in ports if kind == "input" and name != "clk"]
    at = {name: f"{name}_at_clock" for _, name in driven}
    lines = [
        f"module tensordash_clocked(\n{header[1]});",
        *(f"  reg {bits}{at[name]} = {1 if name == 'rst' else 0};" for bits, name in driven),
        "  always @(posedge clk) begin",
        *(f"    {at[name]} <= {name};" for _, name in driven),
        "  end",
        f"  tensordash_core core({', '.join(f'.{name}({at.get(name, name)})' for _, _, name in ports)});",
        "endmodule",
    ]
    return "\n".join([*lines, ""])


def _build(verilog: str, folder: Path, name: str, *, quick: bool, waves: bool) -> None:
    """Verilator's model and the harness in a library."""
    (folder / "core.v").write_text(verilog + _clocked(verilog), encoding="utf-8")
    (folder / "core.vlt").write_text(_hints(verilog), encoding="utf-8")
    log = folder / "build.log"
    verilate = [
        *("verilator", "-cc", "--exe", "--prefix", "Vcore", "--top-module", "tensordash_clocked", "-o", name),
        *("-Mdir", ".", "-Wno-fatal", "--x-initial", "fast", "-O3", "-CFLAGS", "-fPIC", "-LDFLAGS", "-shared"),
        *(("--trace",) if waves else ()),
        *("core.vlt", "core.v", str(HARNESS)),
    ]
    # What runs in every cycle as fast as it gets; the rest is run once.
    make = [
        "make",
        "-j2",
        "-f",
        "Vcore.mk",
        f"OPT_FAST={'-O0' if quick else '-O3 -fno-semantic-interposition'}",
        "OPT_SLOW=-O0",
        f"OPT_GLOBAL={'-O0' if quick else '-O1'}",
    ]
    with log.open("w", encoding="utf-8") as file:
        for command in (verilate, make):
            ran = subprocess.run(
                command, cwd=folder, env=verilator_environment(), stdout=file, stderr=subprocess.STDOUT
            )
            if ran.returncode:
                words = " ".join(log.read_text(encoding="utf-8", errors="replace").split()[-40:])
                raise VerilatedError(f"{command[0]} ended with {ran.returncode}: {words}")
