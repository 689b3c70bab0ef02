"""Results of a trace on the chip, as JSON, CSV and tables."""

import csv
import io
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tensordash_storage.files import atomic_write

if TYPE_CHECKING:
    from rich.table import Table

    from tensordash_sim.trace import Record, Trace

__all__ = ["Result", "format_ratio", "print_results", "print_uncaptured", "results_document", "write_csv"]

Result = tuple["Record", dict[str, Any]]


def _uncaptured(trace: "Trace") -> list[dict[str, Any]]:
    """Return the operations that the recorder could not record, and their steps."""
    steps: dict[str, list[int]] = {}
    for step in trace.steps:
        for operation in step.uncaptured:
            steps.setdefault(operation, []).append(step.index)
    return [{"what": operation, "steps": indices} for operation, indices in steps.items()]


def print_uncaptured(trace: "Trace") -> None:
    """Print which operations the recorder could not record."""
    notes = _uncaptured(trace)
    if notes:
        click.echo("\nnot captured, and in no number above:")
    for note in notes:
        count = len(note["steps"])
        click.echo(f"  in {count} step{'s' * (count != 1)}: {note['what']}")


def _place(record: "Record") -> dict[str, Any]:
    return {"step": record.step, "layer": record.layer, "operation": str(record.operation)}


def _totals(results: list[Result]) -> dict[str, dict[str, Any]]:
    """Return the totals of each operation, and of all."""
    from tensordash_sim.performance.chip import totals

    names = dict.fromkeys(str(record.operation) for record, _ in results)
    added = {name: totals(result for record, result in results if record.operation == name) for name in names}
    return added | {"all": totals(result for _, result in results)}


def _bandwidths(results: list[Result], machine: Any) -> dict[str, Any]:
    """Return speedups and energy ratios with other DRAM."""
    from tensordash_sim.performance.chip import BANDWIDTHS, at_bandwidth, energy_at_bandwidth, sufficient_bandwidth

    every, clock_mhz = [result for _, result in results], machine.chip.clock_mhz
    return {
        "bandwidths": [
            at_bandwidth(every, gbps, clock_mhz) | energy_at_bandwidth(every, gbps, machine) for gbps in BANDWIDTHS
        ],
        "sufficient_gbps": sufficient_bandwidth(every, clock_mhz),
    }


def _layers(results: list[Result]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return `_totals` of each layer, over all steps."""
    found: dict[str, list[Result]] = {}
    for record, result in results:
        found.setdefault(record.layer, []).append((record, result))
    return {layer: _totals(group) for layer, group in found.items()}


def results_document(trace: "Trace", machine: Any, results: list[Result], natural: list[Result]) -> dict[str, Any]:
    """Return the document of `simulate --json`; `natural` has the results in the natural row order."""
    document = {
        "trace": {"path": str(trace.path), "digest": trace.digest, "conditions": dict(trace.conditions)},
        "machine": machine.to_mapping(),
        "operations": [_place(record) | result for record, result in results],
        "layers": _layers(results),
        "totals": _totals(results),
        **_bandwidths(results, machine),
        "uncaptured": _uncaptured(trace),
    }
    return document | ({"natural_totals": _totals(natural)} if natural is not results else {})


def write_csv(path: Path, results: list[Result]) -> None:
    """Write a row for each operation."""
    lines = [_place(record) | dict(_flat(result)) for record, result in results]
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(lines[0]))
    writer.writeheader()
    writer.writerows(lines)
    atomic_write(path, text.getvalue())


def _flat(document: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Return columns of a table; a nested entry's name is `energy.core`."""
    pairs: list[tuple[str, Any]] = []
    for key, value in document.items():
        pairs += _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else [(f"{prefix}{key}", value)]
    return pairs


def print_results(results: list[Result], natural: list[Result], machine: Any) -> None:
    """Print the table, and the effects of other DRAM and of idle tiles."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    counts = Counter(layer for _, layer in {(record.step, record.layer) for record, _ in results})
    has_steps = len({record.step for record, _ in results}) > 1
    has_order = natural is not results
    numbers = (
        "ideal",
        "dense compute",
        "compute",
        "speedup",
        *(["natural"] if has_order else []),
        *(["drop steps"] if machine.drop_steps else []),
        "shared",
        "with memory",
    )
    for header in (*(["step"] if has_steps else []), "layer", "operation"):
        table.add_column(header, no_wrap=True)
    for header in ("row side", "zeros", "padding", *numbers):
        table.add_column(header, justify="right")
    table.add_column("limit")
    lines = zip(_merged(results).items(), _merged(natural).values(), strict=True)
    for ((step, layer, operation), result), in_order in lines:
        calls = f" x{result['calls']}" if result["calls"] > 1 else ""
        cells = ([str(step)] if has_steps else []) + [escape(layer), operation + calls]
        shares = [result["scheduled"], f"{result['zeros']:.1%}", f"{result['padding_share']:.1%}"]
        table.add_row(*cells, *shares, *_numbers(result, in_order if has_order else None), result["limit"])
    if has_steps:
        table.add_section()
        sums, natural_sums = _layers(results), _layers(natural)
        for layer, of_layer in sums.items():
            for name, added in of_layer.items():
                cells = [f"{counts[layer]} steps", escape(layer), name, "", "", ""]
                table.add_row(*cells, *_numbers(added, natural_sums[layer][name] if has_order else None), "")
    totals, natural_totals = _totals(results), _totals(natural)
    for name, added in totals.items():
        cells = ([""] if has_steps else []) + ["total", name, "", "", ""]
        table.add_row(*cells, *_numbers(added, natural_totals[name] if has_order else None), "", style="bold")
    # The width of the terminal would truncate names.
    Console(highlight=False, width=_width(table)).print(table)
    found = _bandwidths(results, machine)
    at = ", ".join(f"{format_ratio(each['speedup'])} at {each['gbps']:g}" for each in found["bandwidths"])
    click.echo(
        f"\nwith memory: {at} GB/s; from {found['sufficient_gbps']:g} GB/s on, DRAM adds no more than 1%\n"
        f"over a baseline that skips steps of padding: {format_ratio(totals['all']['unpadded_speedup'])} tiles"
    )
    provisional = " (provisional: power of the paper's Table IV)" if machine.chip.power.provisional else ""
    added = totals["all"]
    at = ", ".join(f"{format_ratio(each['energy_ratio'])} at {each['gbps']:g}" for each in found["bandwidths"])
    tiles, waiting, system = (format_ratio(added[f"{name}energy_ratio"]) for name in ("core_", "logic_", ""))
    click.echo(
        f"energy efficiency over the baseline{provisional}: {tiles} tiles at work, {waiting} with waiting tiles, "
        f"{system} with SRAM and DRAM ({at} GB/s)"
    )


def _width(table: "Table") -> int:
    from rich.console import Console
    from rich.measure import Measurement

    console = Console(width=1 << 16)
    return Measurement.get(console, console.options, table).maximum


def _merged(results: list[Result]) -> dict[tuple[int, str, str], dict[str, Any]]:
    """Merge the records of each step, layer and operation: a recurrent layer has one for each time step."""
    from tensordash_sim.performance.chip import totals

    calls: dict[tuple[int, str, str], list[dict[str, Any]]] = {}
    for record, result in results:
        calls.setdefault((record.step, record.layer, str(record.operation)), []).append(result)
    return {key: _sum(group) | totals(group) for key, group in calls.items()}


def _sum(calls: list[dict[str, Any]]) -> dict[str, Any]:
    """Merge the results that `totals` leaves out: weighted shares, and the limit that determines the most cycles."""
    limits: Counter[str] = Counter()
    for result in calls:
        limits[result["limit"]] += result["cycles"]
    return {
        "calls": len(calls),
        "scheduled": "/".join(dict.fromkeys(result["scheduled"] for result in calls)),
        "zeros": _mean(calls, "zeros", "macs"),
        "padding_share": _mean(calls, "padding_share", "dense_compute"),
        "limit": limits.most_common(1)[0][0],
    }


def _mean(calls: list[dict[str, Any]], share: str, weight: str) -> float:
    weights = sum(result[weight] for result in calls)
    return sum(result[share] * result[weight] for result in calls) / weights if weights else 0.0


def _numbers(result: dict[str, Any], in_order: dict[str, Any] | None) -> list[str]:
    cycles = [f"{result['dense_compute']:,}", f"{result['compute']:,}"]
    natural = [in_order["compute_speedup"]] if in_order else []
    dropped = [result["dropped_speedup"]] if "dropped_speedup" in result else []
    speedups = [result["compute_speedup"], *natural, *dropped, result["shared_speedup"], result["speedup"]]
    return [format_ratio(result["ideal_speedup"]), *cycles, *(format_ratio(speedup) for speedup in speedups)]


def format_ratio(ratio: float | None, digits: int = 2) -> str:
    """Return a speedup as text; "-" if there is none."""
    return "-" if ratio is None else f"{ratio:.{digits}f}x"
