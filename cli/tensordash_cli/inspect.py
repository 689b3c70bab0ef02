"""`tensordash inspect`: the contents of a trace, and a check of its arrays."""

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .console import json_option, print_json, progress

if TYPE_CHECKING:
    from tensordash_sim.trace import Trace

__all__ = ["command"]


@click.command("inspect")
@click.argument("trace", metavar="RUN.trace", type=Path)
@click.option("--check", is_flag=True, help="Also read every array and verify its checksum.")
@json_option
def command(trace: Path, check: bool, as_json: bool) -> None:
    """Show the contents of a trace: its conditions, and the operands' shapes and zeros of every layer and operation.

    A damaged trace is wrong input: exit status 2. docs/trace.md describes the format.
    """
    from tensordash_sim.trace import Trace

    opened = Trace.open(trace)
    checked = None
    if check:
        with progress.status("checking"):
            checked = opened.check()
    document = _document(opened, checked)
    if as_json:
        print_json(document)
    else:
        _print(document)


def _document(trace: "Trace", checked: int | None) -> dict[str, Any]:
    values: Counter[str] = Counter()
    nonzeros: Counter[str] = Counter()
    for record in trace.records:
        for name, operand in record.operands.items():
            values[name] += operand.size
            nonzeros[name] += operand.nonzeros
    return {
        "path": str(trace.path),
        "version": list(trace.version),
        "created": dict(trace.created),
        "complete": trace.complete,
        "digest": trace.digest,
        "conditions": dict(trace.conditions),
        "bytes": sum(file.stat().st_size for file in trace.path.rglob("*") if file.is_file()),
        "checked_arrays": checked,
        "zeros": {name: 1 - nonzeros[name] / values[name] for name in sorted(values)},
        "steps": [
            {
                "index": step.index,
                "epoch": step.epoch,
                "uncaptured": list(step.uncaptured),
                "records": [
                    {
                        "layer": record.layer,
                        "operation": str(record.operation),
                        "geometry": record.geometry.to_json(),
                        "operands": {
                            name: {
                                "shape": list(operand.shape),
                                "dtype": operand.dtype,
                                "nonzeros": operand.nonzeros,
                                "zeros": operand.zeros,
                                "values": operand.values is not None,
                            }
                            for name, operand in record.operands.items()
                        },
                    }
                    for record in step.records
                ],
            }
            for step in trace.steps
        ],
    }


def _print(document: dict[str, Any]) -> None:
    steps = document["steps"]
    records = [record for step in steps for record in step["records"]]
    with_values = any(operand["values"] for record in records for operand in record["operands"].values())
    click.echo(
        f"{document['path']}: {_number(steps, 'step')}, {_number(records, 'record')}, "
        f"{'masks and values' if with_values else 'masks'}, {document['bytes'] / 1e6:.1f} MB on disk"
    )
    if not document["complete"]:
        click.echo("The recording was interrupted, or still runs: these are its complete steps.")
    if document["checked_arrays"] is not None:
        click.echo(f"All {document['checked_arrays']} arrays are sound.")
    about = {**document["conditions"], "recorded": " ".join(document["created"].values()), "digest": document["digest"]}
    width = max(map(len, about))
    for key, value in about.items():
        click.echo(f"{key:{width}}  {value}")
    for step in steps:
        epoch = "" if step["epoch"] is None else f" (epoch {step['epoch']})"
        click.echo(f"\nstep {step['index']}{epoch}")
        _print_records(step["records"])
        for operation in step["uncaptured"]:
            click.echo(f"not captured: {operation}")
    if document["zeros"]:
        totals = ", ".join(f"{name} {zeros:.1%}" for name, zeros in document["zeros"].items())
        click.echo(f"\nzeros over all records: {totals}")


def _number(items: list[Any], name: str) -> str:
    return f"{len(items)} {name}{'s' * (len(items) != 1)}"


def _print_records(records: list[dict[str, Any]]) -> None:
    """Print a table with columns as narrow as their contents allow."""
    if not records:
        click.echo("no records")
        return
    lines = [["layer", "operation", "geometry", "left", "zeros", "right", "zeros"]]
    for calls in _group_calls(records):
        record = calls[0]
        times = f" x{len(calls)}" if len(calls) > 1 else ""
        line = [record["layer"], record["operation"] + times, _brief(record["geometry"])]
        for name, operand in record["operands"].items():
            zeros = sum(call["operands"][name]["zeros"] for call in calls) / len(calls)
            line += [f"{name} {'x'.join(map(str, operand['shape']))}", f"{zeros:.1%}"]
        lines.append(line)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = [
            f"{cell:{'>' if column in (4, 6) else '<'}{width}}"
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        click.echo("  ".join(cells).rstrip())


def _group_calls(records: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Group records of the same layer, operation and shapes: a recurrent layer has one for each time step."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        groups.setdefault(json.dumps([record["layer"], record["operation"], record["geometry"]]), []).append(record)
    return list(groups.values())


def _brief(geometry: dict[str, Any]) -> str:
    """Describe the parts of a geometry that the operands' shapes do not show."""
    if geometry["kind"] != "convolution":
        return geometry["kind"].replace("_", " ")
    parts = ["x".join(map(str, geometry["kernel"]))]
    for name, default in (("stride", 1), ("padding", 0), ("dilation", 1)):
        extents = geometry[name]
        if any(extent != default for extent in extents):
            parts.append(f"{name} {'x'.join(map(str, extents)) if len(set(extents)) > 1 else extents[0]}")
    if ends := geometry.get("end_padding"):
        parts.append(f"{'x'.join(map(str, ends))} at the end")
    if geometry["groups"] > 1:
        parts.append(f"groups {geometry['groups']}")
    return f"convolution {', '.join(parts)}"
