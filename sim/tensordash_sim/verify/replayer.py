"""Run a user's own operands through emitted Verilog."""

import math
import tempfile
import time
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensordash import TileConfig
from tensordash.emission.verilog import generate
from tensordash_storage.files import annotate_oserror, atomic_copy, atomic_path

from ..golden import checked_operands
from .job import JOB_VARIABLE, BenchJob
from .lockstep import COUNTERS
from .run import PREFIX, VerificationError, read_results
from .simulators import Simulation, SimulatorError, choose_simulator, quicker_simulator

__all__ = ["ReplayResult", "Replayer", "load_operands", "replay", "save_results"]


@dataclass(frozen=True, kw_only=True)
class ReplayResult:
    """Results of the Verilog, with a leading batch axis if the operands have one.

    Parameters
    ----------
    c_bits : array of uint32, (rows, columns) or (batch, rows, columns)
        Bits of the results.
    result : "fp32" or "int32"
        The results' format.
    counters : dict of str to array of int64, scalar or (batch,)
        The tile's counters of each stream; `cycles` counts schedules, without latency, drain and stalls. If the tile
        has no counter outputs, or only snapshots, the values are the golden model's.
    row_wait : array of int64, (rows,) or (batch, rows)
        Counters of the rows, the side of `b`.
    non_finite, overflow, result_non_finite : bool
        The tile's flags at the end.
    elapsed : int
        Clock cycles of the run.
    mismatches : tuple of str
        Differences between Verilog and golden model; if there are any, the arrays are empty.
    simulator : str
        The simulator.
    seconds : float
        Duration of the call, which may include other replays.
    """

    c_bits: NDArray[np.uint32]
    result: str
    counters: Mapping[str, NDArray[np.int64]]
    row_wait: NDArray[np.int64]
    non_finite: bool
    overflow: bool
    result_non_finite: bool
    elapsed: int
    mismatches: tuple[str, ...]
    simulator: str
    seconds: float

    @property
    def c(self) -> NDArray:
        """The results as float32, or as int32 for int8 operands."""
        return self.c_bits.view(np.int32 if self.result == "int32" else np.float32)

    @property
    def non_finite_results(self) -> int:
        """Number of results that are infinity or NaN."""
        return int((~np.isfinite(self.c)).sum())


def load_operands(path: Path, config: TileConfig) -> dict[str, NDArray]:
    """Read a tile's operands from an .npz file: the arrays a and b, and c if and only if the tile has a C input.

    Raises
    ------
    VerificationError
        If the file cannot be read, or has other arrays than these.
    """
    try:
        # NumPy leaves a file open that is not an archive, so open the file here.
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except OSError as error:
        raise VerificationError(f"cannot read the operands {path}: {error.strerror or 'not an .npz file'}") from None
    except (TypeError, ValueError, EOFError, RuntimeError, MemoryError, zipfile.BadZipFile, zlib.error):
        # Damaged and foreign files raise various errors in NumPy and zipfile. An .npy array is not a context manager.
        raise VerificationError(f"cannot read the operands {path}: not an .npz file of plain arrays") from None
    if set(arrays) != ({"a", "b", "c"} if config.initial else {"a", "b"}):
        wanted = "a, b and c (tile.initial = true)" if config.initial else "a and b (tile.initial = false)"
        raise VerificationError(
            f"{path}: operands must be the arrays {wanted}, not {', '.join(sorted(arrays)) or 'none'}"
        )
    return arrays


class Replayer:
    """A simulation of a tile's emitted Verilog, built once for any number of replays.

    Parameters
    ----------
    config : TileConfig
        The tile.
    folder : Path
        Folder to build and run in; must outlive the replays.
    verilog : Path, optional
        Folder that `tensordash.generate` wrote for the tile; if None, the Verilog is emitted.
    simulator : str
        "auto", "verilator" or "icarus".
    waves : bool
        Dump each run to ``folder / "run" / "dump.vcd"``.
    steps : int, optional
        Number of steps of all replays, by which "auto" chooses the quicker simulator; unlimited if None.

    Raises
    ------
    SimulatorError
        If the simulator cannot build the tile.
    """

    def __init__(
        self,
        config: TileConfig,
        folder: Path,
        *,
        verilog: Path | None = None,
        simulator: str = "auto",
        waves: bool = False,
        steps: int | None = None,
    ) -> None:
        self.config, self.folder = config, folder.resolve()
        choose_simulator(simulator)  # Report errors before the long work.
        if verilog is None:
            verilog = self.folder / "verilog"
            generate(config, verilog, PREFIX)
        sources = [verilog / f"{PREFIX}.vlt", verilog / f"{PREFIX}.v"]
        top, positions = f"{PREFIX}_tile", config.multipliers
        cycles = math.inf if steps is None else steps
        chosen = quicker_simulator(simulator, top, sources, cycles=cycles, positions=positions, waves=waves)
        self._simulation = Simulation(chosen, top, sources, self.folder / "run", waves=waves)

    def run(self, a: ArrayLike, b: ArrayLike, c: ArrayLike | None = None) -> ReplayResult:
        """Run operands through the Verilog, compared with the golden model in every cycle.

        Parameters
        ----------
        a : array, (columns, T, lanes) or (batch, columns, T, lanes)
        b : array, (rows, T, lanes) or (batch, rows, T, lanes)
        c : array, (rows, columns) or (batch, rows, columns)
            See `tensordash_sim.golden.matmul`; `c` is required if and only if the tile has a C input. A batch is a
            sequence of back-to-back streams.

        Raises
        ------
        TypeError, ValueError
            For operands that do not fit; see `matmul`.
        SimulatorError
            If the simulator cannot run.
        """
        return self.run_each([(a, b) if c is None else (a, b, c)])[0]

    def run_each(self, operands: Sequence[tuple[ArrayLike, ...]]) -> list[ReplayResult]:
        """Run each operand tuple, (a, b) or (a, b, c) as in `run`, after a reset; the simulator starts once."""
        began = time.monotonic()
        checked = [checked_operands(one[0], one[1], self.config, *one[2:]) for one in operands]
        job = self.folder / "job.json"
        places = [
            {name: str(self.folder / f"{name}-{i}.npz") for name in ("operands", "results")}
            for i in range(len(operands))
        ]
        with annotate_oserror(self.folder, if_nameless=True):
            for place, bits in zip(places, checked, strict=True):
                Path(place["results"]).unlink(missing_ok=True)
                np.savez(place["operands"], **_batch(bits))  # type: ignore[arg-type]
            BenchJob(config=self.config, seed=0, options={"replays": places}).write(job)
            report = self._simulation.run(f"{__package__}.benches.replay", {JOB_VARIABLE: str(job)}, 0)
        tests, failures = read_results(report)
        if tests != 1:
            raise SimulatorError(f"{self._simulation.simulator} ran {tests} tests, not 1")
        if failures and all(Path(place["results"]).exists() for place in places):
            raise SimulatorError(f"{self._simulation.simulator} failed: {failures[0]}")
        seconds = time.monotonic() - began
        return [
            self._result(Path(place["results"]), failures, seconds, single=bits[0].ndim == 3)
            for place, bits in zip(places, checked, strict=True)
        ]

    def _result(self, path: Path, failures: list[str], seconds: float, *, single: bool) -> ReplayResult:
        found: dict[str, NDArray] = {}
        if path.exists():  # A replay with a mismatch writes no file.
            with np.load(path) as file:
                found = {name: file[name] for name in file.files}
        rows = self.config.rows
        c_bits = found.get("c_bits", np.zeros((0, rows, self.config.columns), np.uint32))
        counted = found.get("counters", np.zeros((0, len(COUNTERS) + rows), np.int64))
        if single and found:
            c_bits, counted = c_bits[0], counted[0]
        return ReplayResult(
            c_bits=c_bits,
            result=self.config.numerics.result,
            counters={name: counted[..., i] for i, name in enumerate(COUNTERS)},
            row_wait=counted[..., len(COUNTERS) :],
            non_finite=bool(found.get("non_finite", False)),
            overflow=bool(found.get("overflow", False)),
            result_non_finite=bool(found.get("result_non_finite", False)),
            elapsed=int(found.get("elapsed", 0)),
            mismatches=() if found else tuple(failures or ["replay: no results"]),
            simulator=self._simulation.simulator,
            seconds=seconds,
        )


def _batch(bits: Sequence[NDArray | None]) -> dict[str, NDArray]:
    """Return operands by name, with a leading axis."""
    return {
        name: one[np.newaxis] if bits[0] is not None and bits[0].ndim == 3 else one
        for name, one in zip("abc", bits, strict=True)
        if one is not None
    }


def replay(
    a: ArrayLike,
    b: ArrayLike,
    config: TileConfig,
    *,
    c: ArrayLike | None = None,
    simulator: str = "auto",
    waves: Path | None = None,
) -> ReplayResult:
    """Emit a tile's Verilog and run operands through it once, with a `Replayer`.

    Parameters
    ----------
    a, b, c : array
        See `Replayer.run`.
    config, simulator
        See `Replayer`.
    waves : Path, optional
        VCD file for the waveforms.
    """
    _, rows, _ = checked_operands(a, b, config, c)  # Report errors before the long work.
    steps = rows.size // (config.rows * config.lanes)
    with tempfile.TemporaryDirectory(prefix="tensordash-") as scratch:
        replayer = Replayer(config, Path(scratch), simulator=simulator, waves=waves is not None, steps=steps)
        result = replayer.run(a, b, c)
        if waves is not None:
            atomic_copy(Path(scratch) / "run" / "dump.vcd", waves)
        return result


def save_results(result: ReplayResult, path: Path) -> None:
    """Write `c`, `c_bits`, the counters and the flags to an .npz file, atomically."""
    arrays: dict[str, NDArray] = {"c": result.c, "c_bits": result.c_bits, "row_wait": result.row_wait}
    arrays |= {"non_finite": np.array(result.non_finite), "overflow": np.array(result.overflow)}
    with atomic_path(path) as place, place.open("wb") as file:  # NumPy would append .npz to a file's name.
        np.savez(file, **arrays, **result.counters)  # type: ignore[arg-type]
