"""Run every product of a training step on a core's Verilog, for `tensordash demo`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
import numpy as np

if TYPE_CHECKING:
    from tensordash_sim.trace import Record

__all__ = ["print_core_step", "run_core_step"]

PRESET = "core"


def run_core_step(records: Sequence["Record"]) -> list[dict[str, Any]]:
    """Run recorded products on the emitted Verilog of a core and on the emulator, and compare the bits.

    The core's cycles are measured; the dense core's cycles are the mapper's estimate.
    """
    from tensordash_runtime import Device

    reports = []
    with Device(PRESET, "verilator", quick=True) as core, Device(PRESET) as emulator:
        assert core.expectations is not None
        for record in records:
            operation = str(record.operation)
            operands = {name: record.values(name).astype(np.float16) for name in "AWG" if name in operation}
            result, emulated = (each.contract(record.geometry, operation, operands) for each in (core, emulator))
            cycles, dense = result.executed.cycles, core.expectations.dense_cycles(result.executed.problem)
            assert cycles is not None
            reports.append(
                {
                    "layer": record.layer,
                    "operation": operation,
                    "scheduled": result.executed.problem.rows,
                    "zeros": result.executed.zeros[result.executed.problem.rows],
                    "cycles": cycles,
                    "dense_cycles_expected": dense,
                    "speedup": dense / cycles,
                    "equal": np.array_equal(result.result.view(np.uint16), emulated.result.view(np.uint16)),
                }
            )
    return reports


def print_core_step(reports: Sequence[dict[str, Any]]) -> None:
    """Print a line for each product, and the sum."""
    click.echo(
        f"\nAll products of that step on the Verilog of a whole core ({PRESET}): memory, loads, layouts and stores"
    )
    click.echo("included. Dense: the mapper's estimate for the core around the dense tile.\n")
    click.echo("layer      operation  row side   zeros     dense   cycles  speedup  Verilog = emulator")
    for each in reports:
        click.echo(
            f"{each['layer']:9}  {each['operation']:9}  {each['scheduled']:8}  {each['zeros']:6.1%}"
            f"  {each['dense_cycles_expected']:8,}  {each['cycles']:7,}  {each['speedup']:6.2f}x"
            f"  {'yes, bit for bit' if each['equal'] else 'NO'}"
        )
    cycles, dense = (sum(each[name] for each in reports) for name in ("cycles", "dense_cycles_expected"))
    click.echo(f"{'all':39}{dense:10,}  {cycles:7,}  {dense / cycles:6.2f}x")
