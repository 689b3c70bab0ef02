"""`tensordash map`: how a core computes a layer: the compiler's stages, the bytes moved, and the busiest unit."""

from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from tensordash import TensorDashError
from tensordash.configuration.core_config import MAX_CORES, CoreConfig
from tensordash.configuration.descriptors import decode

from .console import core_options, json_option, print_json
from .layer_options import checked_rows, geometry_of, layer_options

if TYPE_CHECKING:
    from tensordash_sim.compiler.problem import Problem

__all__ = ["command"]


@click.command("map")
@core_options
@layer_options
@click.option(
    "--speedup", type=click.FloatRange(min=1.0), default=2.0, show_default=True, help="Assumed speedup of the tile."
)
@click.option(
    "--cores",
    type=click.IntRange(1, MAX_CORES),
    default=1,
    show_default=True,
    help="Also estimate the operation on up to this number of cores at one memory port.",
)
@click.option("--nvfp4", is_flag=True, help="Both operands are NVFP4 tensors in memory, and results are FP32.")
@click.option("--listing", is_flag=True, help="Also print all descriptors.")
@json_option
def command(config: CoreConfig, as_json: bool, **options: Any) -> None:
    """Print the tiling and the schedule of a convolution or matrix product, its moved bytes and its estimated cycles.

    For instance: tensordash map --preset core --channels 128 --filters 128 --size 8 --kernel 3 --padding 1
    """
    document = _map(config, **options)
    if as_json:
        print_json(document)
        return
    listing = document.pop("listing", ())
    width = max(map(len, document))
    for name, value in document.items():
        text = ", ".join(f"{key} {each}" for key, each in value.items()) if isinstance(value, dict) else value
        click.echo(f"{name.replace('_', ' '):{width}}  {text}")
    for line in listing:
        click.echo(line)


def _map(
    config: CoreConfig,
    *,
    operation: str,
    rows: str | None,
    speedup: float,
    cores: int,
    nvfp4: bool,
    listing: bool,
    **shape: Any,
) -> dict[str, Any]:
    """Return the results of each stage of the compiler for a problem."""
    from tensordash_runtime.programs import moved_bytes, space_of
    from tensordash_sim.compiler.emission import emit
    from tensordash_sim.compiler.layer import OPERANDS, Layer
    from tensordash_sim.compiler.problem import Problem
    from tensordash_sim.compiler.program import program_with_record
    from tensordash_sim.compiler.schedule import schedule_tiling
    from tensordash_sim.compiler.search import search_tilings
    from tensordash_sim.compiler.timing import timing

    rows = checked_rows(operation, rows) or OPERANDS[operation][0]
    try:
        layer = Layer.of(geometry_of(**shape))
        problem = Problem(layer=layer, operation=operation, rows=rows, speedup=speedup, nvfp4=nvfp4, fp32=nvfp4)
        space = space_of(config, problem)
        search = search_tilings(space)
    except (TypeError, ValueError) as error:
        raise TensorDashError(str(error)) from error
    schedule, tiling = search.schedule, search.schedule.tiling
    program, dense_program = (
        program_with_record(emit(each), 0)
        for each in (schedule, schedule_tiling(space_of(config.baseline, problem), tiling))
    )
    estimate = timing(config, program.descriptors, speedup=speedup)
    cycles, dense = estimate.cycles, timing(config.baseline, dense_program.descriptors).cycles
    # The output unit is busy while it waits for its multiply.
    busy = {unit: taken for unit, taken in estimate.busy.items() if unit != "output"}
    operations = (kind.name for kind, _ in map(decode, program.descriptors) if kind is not None)
    return {
        "layer": repr(problem.layer),
        "operation": operation,
        "row_side": problem.rows,
        "dense_steps": space.total_steps,
        "tilings": {"tried": search.tried, "fitting": search.fitting, "estimated": search.estimated},
        "tile_of_results": {side: list(each) for side, each in tiling.tiles.items()},
        "streams_of_a_multiply": {side: list(each) for side, each in tiling.sets.items()},
        "chunk_of_the_reduction": list(tiling.chunk),
        "parts_of_the_first_multiplies": tiling.first_parts,
        "multiplies": len(schedule.multiplies),
        "schedule": schedule.counts,
        "descriptors": dict(Counter(operations)),
        "bytes_moved": moved_bytes(program, config),
        "cycles": cycles,
        "dense_core": dense,
        "speedup": round(dense / cycles, 3),
        "busy": {unit: round(taken / cycles, 3) for unit, taken in busy.items()},
        "limited_by": max(busy, key=lambda unit: busy[unit]),
        **({"several_cores": _several(problem, config, cores)} if cores > 1 else {}),
        **({"listing": program.listing().splitlines()} if listing else {}),
    }


def _several(problem: "Problem", config: CoreConfig, cores: int) -> dict[str, Any]:
    """Estimate several cores at one memory port, which read the shared operand once, or apart: each on its own."""
    from tensordash_sim.performance.chip import simulate_cores

    together, apart = (simulate_cores(problem, config, cores, shares=shares) for shares in (True, False))
    return {
        "parts": together.division.count,
        "divided": together.division.size,
        "shared": together.division.shared or "nothing",
        "cycles": together.cycles,
        "bytes_moved": together.traffic,
        "cycles_apart": apart.cycles,
        "bytes_moved_apart": apart.traffic,
    }
