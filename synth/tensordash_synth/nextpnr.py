"""nextpnr in a process of its own, and what it prints about a design that it has placed and routed."""

import re
import subprocess
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path

from tensordash.extras import require

from .fpga_families import Family, Part
from .logged import run_logged
from .yosys import LAST_LINES, SynthesisError

__all__ = ["PathDelay", "PlacedClock", "placed_clock", "require_nextpnr", "run_nextpnr"]

# WebAssembly from PyPI; its runtime would let it go on after the user has interrupted.
WORKER = """\
import importlib, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
sys.exit(getattr(importlib.import_module(sys.argv[1]), sys.argv[2])(sys.argv[3:]))
"""
TARGET_MHZ = 100  # out of reach for these designs, so that every path is pulled at
TIME_LIMIT = 7200.0  # seconds
CLOCK = re.compile(r"Max frequency for clock\s+'[^']*': ([\d.]+) MHz")
USED = re.compile(r"^Info:\s+(\w+): +(\d+)/ *(\d+) +\d+%$", re.MULTILINE)
PATH = re.compile(
    r"Critical path report for clock '[^']*'.*?\n(.*?)Info: [\d.]+ ns logic, [\d.]+ ns routing", re.DOTALL
)
STEP = re.compile(r"^Info:\s+(clk-to-q|logic|routing|setup)\s+(-?[\d.]+)\s+-?[\d.]+ (Source|Net) (\S+)", re.MULTILINE)
# What Yosys appends to the name of a register, or of a net, to name what is mapped from it.
MAPPED = re.compile(r"(_(TRELLIS_|LUT\d|CCU2|FD1P3|DFF|ALU|MULT|DP16K|PDP|SDP|WIDEFN)|\[|\$).*$")


@dataclass(frozen=True, kw_only=True)
class PathDelay:
    """The longest path between registers after routing.

    Parameters
    ----------
    start, end : str
        Registers.
    logic_ns, routing_ns : float
        In cells, flip-flops included, and between them.
    cells : int
        Cells of logic on it, those of a carry chain each.
    through : tuple of str
        Instances in whose nets it runs, in its order.
    """

    start: str
    end: str
    logic_ns: float
    routing_ns: float
    cells: int
    through: tuple[str, ...]


@dataclass(frozen=True)
class PlacedClock:
    """What nextpnr printed.

    Parameters
    ----------
    log : str
        The whole output.
    """

    log: str

    @cached_property
    def clocks_mhz(self) -> list[float]:
        """Highest clock by its estimate after placement, and, if it was routed, after that."""
        return [float(each) for each in CLOCK.findall(self.log)]

    @property
    def path(self) -> PathDelay | None:
        """The longest path after routing, if it is there."""
        if (section := PATH.search(self.log)) is None:
            return None
        steps = [(kind, float(ns), name) for kind, ns, _, name in STEP.findall(section[1])]
        if not steps:
            return None
        nets = [_instance(name) for kind, _, name in steps if kind == "routing"]
        return PathDelay(
            start=_register(steps[0][2]),
            end=_register(steps[-1][2]),
            logic_ns=round(sum(ns for kind, ns, _ in steps if kind != "routing"), 2),
            routing_ns=round(sum(ns for kind, ns, _ in steps if kind == "routing"), 2),
            cells=sum(kind == "logic" for kind, _, _ in steps),
            through=tuple(name for at, name in enumerate(nets) if nets[at - 1 : at] != [name]),
        )

    @property
    def utilisation(self) -> dict[str, tuple[int, int]]:
        """By nextpnr's names: how many are used, the shell's among them, and how many there are."""
        return {name: (int(used), int(available)) for name, used, available in USED.findall(self.log) if int(used)}


def placed_clock(log: str, what: str) -> PlacedClock:
    """Return the clock that nextpnr printed, when at least placement is done.

    Raises
    ------
    SynthesisError
        If it names no clock.
    """
    placed = PlacedClock(log)
    if not placed.clocks_mhz:
        raise SynthesisError(f"nextpnr names no clock of {what}")
    return placed


def _register(name: str) -> str:
    """Return a register by its name in the Verilog, from the top of the tile or core on.

    >>> _register("dut.drain.beat_TRELLIS_FF_Q_1.Q")
    'drain.beat'
    """
    return MAPPED.sub("", name).removeprefix("dut.")


def _instance(net: str) -> str:
    """Return the instance in the tile or core that a net is in.

    >>> _instance("dut.pe_1_0.pe.sum_LUT4_Z_A[2]"), _instance("dut.marks"), _instance("entering[3]")
    ('pe_1_0', 'top', 'shell')
    """
    parts = MAPPED.sub("", net).split(".")
    if parts[0] != "dut":
        return "shell"
    instance, _, port = parts[1].partition("__")
    return instance if port or len(parts) > 2 else "top"


def require_nextpnr(family: Family) -> str:
    """Version of the package that places a family.

    Raises
    ------
    MissingExtraError
        If it is not installed.
    """
    require("--place", family.package.replace("-", "_"))
    return version(family.package)


def run_nextpnr(family: Family, part: Part, netlist: str, folder: Path, what: str, *, route: bool = True) -> str:
    """Place a netlist, and route it.

    Parameters
    ----------
    family, part
        What it is placed on.
    netlist : str
        Name of a file with Yosys' JSON in the folder.
    folder : Path
        Where it runs, and where all temporary files lie.
    what : str
        What error messages name.
    route : bool
        Route it, too.

    Returns
    -------
    str
        What nextpnr printed.

    Raises
    ------
    SynthesisError
        If it is not installed, fails, or takes too long.
    KeyboardInterrupt
        If the user interrupts; the process gets it too, and this may be another thread than the main one.
    """
    require_nextpnr(family)
    arguments = [*part.arguments, "--json", netlist, "--freq", str(TARGET_MHZ), "--timing-allow-fail"]
    if part.pins:
        (folder / "pins.txt").write_text(part.pins, encoding="utf-8")
        option, *start = family.pins
        arguments += [option, "".join([*start, "pins.txt"])]
    arguments += ["--no-route"] * (not route)
    program = [family.package.replace("-", "_"), family.program]
    try:
        code, text = run_logged(WORKER, [*program, *arguments], folder, "nextpnr.log", limit=TIME_LIMIT)
    except subprocess.TimeoutExpired:
        advice = ": --no-route ends after placement" if route else ""
        raise SynthesisError(f"placement of {what} took nextpnr more than {TIME_LIMIT:.0f} s{advice}") from None
    if code:
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        wrong = [line for line in lines if line.startswith("ERROR")]
        tail = " ".join(wrong or lines[-LAST_LINES:])
        raise SynthesisError(f"placement of {what} failed (nextpnr ended with {code}): {tail}")
    return text
