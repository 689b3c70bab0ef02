"""Runs nextpnr in a separate process, and reads its report of a placed and routed design."""

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

# nextpnr from PyPI is WebAssembly; without this handler, its runtime continues after an interrupt by the user.
WORKER = """\
import importlib, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
sys.exit(getattr(importlib.import_module(sys.argv[1]), sys.argv[2])(sys.argv[3:]))
"""
TARGET_MHZ = 100  # out of reach for these designs, so that nextpnr optimises every path
TIME_LIMIT = 7200.0  # seconds
CLOCK = re.compile(r"Max frequency for clock\s+'[^']*': ([\d.]+) MHz")
USED = re.compile(r"^Info:\s+(\w+): +(\d+)/ *(\d+) +\d+%$", re.MULTILINE)
PATH = re.compile(
    r"Critical path report for clock '[^']*'.*?\n(.*?)Info: [\d.]+ ns logic, [\d.]+ ns routing", re.DOTALL
)
STEP = re.compile(r"^Info:\s+(clk-to-q|logic|routing|setup)\s+(-?[\d.]+)\s+-?[\d.]+ (Source|Net) (\S+)", re.MULTILINE)
# Suffixes that Yosys appends to the name of a register or net for the cells that it maps to.
MAPPED = re.compile(r"(_(TRELLIS_|LUT\d|CCU2|FD1P3|DFF|ALU|MULT|DP16K|PDP|SDP|WIDEFN)|\[|\$).*$")


@dataclass(frozen=True, kw_only=True)
class PathDelay:
    """The longest path between registers after routing.

    Parameters
    ----------
    start, end : str
        Registers.
    logic_ns, routing_ns : float
        Delay in cells, flip-flops included, and between cells.
    cells : int
        Number of logic cells on the path, with each cell of a carry chain.
    through : tuple of str
        Instances along the path, in order.
    """

    start: str
    end: str
    logic_ns: float
    routing_ns: float
    cells: int
    through: tuple[str, ...]


@dataclass(frozen=True)
class PlacedClock:
    """Report of nextpnr.

    Parameters
    ----------
    log : str
        Its complete output.
    """

    log: str

    @cached_property
    def clocks_mhz(self) -> list[float]:
        """Highest clock by the estimate after placement and, if the design was routed, after routing."""
        return [float(each) for each in CLOCK.findall(self.log)]

    @property
    def path(self) -> PathDelay | None:
        """The longest path after routing, if the design was routed."""
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
        """Used cells, the shell's included, and available cells, by nextpnr's names."""
        return {name: (int(used), int(available)) for name, used, available in USED.findall(self.log) if int(used)}


def placed_clock(log: str, label: str) -> PlacedClock:
    """Return the report of nextpnr, which has at least a clock after placement.

    Raises
    ------
    SynthesisError
        If the report has no clock.
    """
    placed = PlacedClock(log)
    if not placed.clocks_mhz:
        raise SynthesisError(f"nextpnr reports no clock for {label}")
    return placed


def _register(name: str) -> str:
    """Return the Verilog name of a register, from the top of the tile or core on.

    >>> _register("dut.drain.beat_TRELLIS_FF_Q_1.Q")
    'drain.beat'
    """
    return MAPPED.sub("", name).removeprefix("dut.")


def _instance(net: str) -> str:
    """Return the instance of the tile or core that contains a net.

    >>> _instance("dut.pe_1_0.pe.sum_LUT4_Z_A[2]"), _instance("dut.marks"), _instance("entering[3]")
    ('pe_1_0', 'top', 'shell')
    """
    parts = MAPPED.sub("", net).split(".")
    if parts[0] != "dut":
        return "shell"
    instance, _, port = parts[1].partition("__")
    return instance if port or len(parts) > 2 else "top"


def require_nextpnr(family: Family) -> str:
    """Return the version of the package that places a family.

    Raises
    ------
    MissingExtraError
        If it is not installed.
    """
    require("--place", family.package.replace("-", "_"))
    return version(family.package)


def run_nextpnr(family: Family, part: Part, netlist: str, folder: Path, label: str, *, route: bool = True) -> str:
    """Place a netlist, and route it.

    Parameters
    ----------
    family, part
        Family and part of the FPGA.
    netlist : str
        Name of a file with Yosys' JSON in the folder.
    folder : Path
        Working folder for all temporary files.
    label : str
        Name of the design in error messages.
    route : bool
        Also route the netlist.

    Returns
    -------
    str
        The output of nextpnr.

    Raises
    ------
    SynthesisError
        If nextpnr is not installed, fails, or takes too long.
    KeyboardInterrupt
        If an interrupt ended the process.
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
        raise SynthesisError(f"placement of {label} took nextpnr more than {TIME_LIMIT:.0f} s{advice}") from None
    if code:
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        wrong = [line for line in lines if line.startswith("ERROR")]
        tail = " ".join(wrong or lines[-LAST_LINES:])
        raise SynthesisError(f"placement of {label} failed (nextpnr ended with {code}): {tail}")
    return text
