"""Results of a trace, simulated operation by operation and stored in a file."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import tensordash
from tensordash_storage import files
from tensordash_storage.journal import Journal

from ...trace import Record, Trace
from .energy import ENERGY_PARTS
from .machine import Machine
from .operation import ratio, simulate_operation

__all__ = ["Results", "code_digest", "totals"]


@cache
def code_digest() -> str:
    """Return a hash of all code that affects results."""
    here = Path(__file__).parent
    package = here.parents[1]
    # `tensordash` has the connectivities, of which a machine's mapping has only the names, and their levels.
    return files.code_digest(here, package / "cycles", package / "lowering", Path(tensordash.__file__).parent)


class Results:
    """Results of a trace on a machine, in a file that a later run continues.

    The file has a line for each operation. Its name is a hash of the trace's content, the machine and the code, so that
    different results never share a file.

    Parameters
    ----------
    folder : Path
        Folder of result files; created with the first result.
    trace : Trace
        The trace.
    machine : Machine
        The machine.
    """

    def __init__(self, folder: Path, trace: Trace, machine: Machine) -> None:
        key = json.dumps([trace.digest, machine.to_mapping(), code_digest()], sort_keys=True)
        self.path = folder / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.jsonl"
        self.machine = machine
        self._journal = Journal(self.path, lambda line: (tuple(line["place"]), line["result"]))
        self._done: dict[tuple[int, str, str, int], dict[str, Any]] = dict(self._journal.entries())

    def run(self, records: Iterable[Record]) -> Iterator[tuple[Record, dict[str, Any]]]:
        """Yield operations with their results; simulate operations that the file does not have yet.

        Parameters
        ----------
        records : iterable of Record
            Operations of the trace, in its order. Records that share step, layer and operation must be complete.

        Yields
        ------
        Record, dict
            The operation, and `OperationResult.to_json` of its result.
        """
        seen: dict[tuple[int, str, str], int] = {}
        for record in records:
            name = (record.step, record.layer, str(record.operation))
            seen[name] = seen.get(name, -1) + 1  # a layer may be used several times in a step
            place = (*name, seen[name])
            if place not in self._done:
                self._done[place] = self._simulate(record)
                self._journal.append({"place": place, "result": self._done[place]})
            yield record, self._done[place]

    def _simulate(self, record: Record) -> dict[str, Any]:
        operation = record.operation
        masks = {name: record.mask(name) for name in (operation.left, operation.right)}
        return simulate_operation(record.geometry, operation, masks, self.machine).to_json()


def totals(results: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return sums over operations, and ratios of sums; a ratio is None if its divisor is 0.

    The ideal speedup is the ratio of all multiplications to the effectual ones. Energy ratios are for active tiles
    ("core"), active and idle tiles ("logic"), and the complete chip.

    Parameters
    ----------
    results : iterable of dict
        At least one `OperationResult.to_json`.
    """
    results = list(results)
    pairs = ("compute", "shared", "cycles")
    has_dropped = all("dropped" in result for result in results)
    counts = ["macs", "dense_unpadded", "dense_busy", "busy", *pairs, *(f"dense_{name}" for name in pairs)]
    counts += ["dropped"] * has_dropped
    added: dict[str, Any] = {name: sum(result[name] for result in results) for name in counts}
    remaining = sum(result["macs"] / result["ideal_speedup"] for result in results if result["ideal_speedup"])
    for name in ("dense_energy", "energy"):
        added[name] = {part: sum(result[name][part] for result in results) for part in ENERGY_PARTS}
    dense_logic, logic = (added[name]["core"] + added[name]["idle"] for name in ("dense_energy", "energy"))
    dropped = {"dropped_speedup": ratio(added["dense_compute"], added["dropped"])} if has_dropped else {}
    return added | {
        "ideal_speedup": ratio(added["macs"], remaining),
        "compute_speedup": ratio(added["dense_compute"], added["compute"]),
        "unpadded_speedup": ratio(added["dense_unpadded"], added["compute"]),
        "shared_speedup": ratio(added["dense_shared"], added["shared"]),
        "speedup": ratio(added["dense_cycles"], added["cycles"]),
        "core_energy_ratio": ratio(added["dense_energy"]["core"], added["energy"]["core"]),
        "logic_energy_ratio": ratio(dense_logic, logic),
        "energy_ratio": ratio(sum(added["dense_energy"].values()), sum(added["energy"].values())),
        **dropped,
    }
