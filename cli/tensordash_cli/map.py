"""`tensordash map`: how a core computes a layer: what is loaded when, how many bytes move, and what limits."""

from typing import Any

import click

from tensordash import TensorDashError
from tensordash.configuration.core_config import CoreConfig

from .console import WholeRange, core_options, json_option, print_json

__all__ = ["command"]


@click.command("map")
@core_options
@click.option("--samples", type=WholeRange(min=1), default=1, show_default=True, help="Images, or rows of a product.")
@click.option(
    "--channels", type=WholeRange(min=1), required=True, help="Channels of the input, or input features of a product."
)
@click.option(
    "--filters", type=WholeRange(min=1), required=True, help="Channels of the output, or output features of a product."
)
@click.option(
    "--size", type=WholeRange(min=1), help="Height and width of the image; without it, the layer is a matrix product."
)
@click.option("--kernel", type=WholeRange(min=1), default=1, show_default=True, help="Height and width of the kernel.")
@click.option("--stride", type=WholeRange(min=1), default=1, show_default=True, help="Stride in both directions.")
@click.option("--padding", type=WholeRange(min=0), default=0, show_default=True, help="Padding on all sides.")
@click.option("--op", "operation", type=click.Choice(("AxW", "WxG", "AxG")), default="AxW", show_default=True)
@click.option("--rows", type=click.Choice(("A", "W", "G")), help="The operand whose zeros are skipped.")
@click.option(
    "--speedup", type=click.FloatRange(min=1.0), default=2.0, show_default=True, help="Assumed speedup of the tile."
)
@json_option
def command(config: CoreConfig, as_json: bool, **options: Any) -> None:
    """Print the tiling of a convolution or matrix product, the bytes that it moves, and the estimated cycles.

    For instance: tensordash map --preset core --channels 128 --filters 128 --size 8 --kernel 3 --padding 1
    """
    document = _mapped(config, **options)
    if as_json:
        print_json(document)
        return
    width = max(map(len, document))
    for name, value in document.items():
        text = ", ".join(f"{key} {each}" for key, each in value.items()) if isinstance(value, dict) else value
        click.echo(f"{name.replace('_', ' '):{width}}  {text}")


def _mapped(config: CoreConfig, *, operation: str, rows: str | None, speedup: float, **shape: Any) -> dict[str, Any]:
    from tensordash_runtime.expected import Expectations
    from tensordash_runtime.jobs import Work
    from tensordash_sim.compiler.layer import OPERANDS, Layer

    pair = OPERANDS[operation]
    if rows is not None and rows not in pair:
        raise click.UsageError(f"--rows must be one of {', '.join(pair)} in {operation}, not {rows}")
    size = shape.pop("size")
    kernel = shape.pop("kernel")
    try:
        if size is None:
            if (kernel, shape["stride"], shape["padding"]) != (1, 1, 0):
                raise click.UsageError("--kernel, --stride and --padding go with --size")
            layer = Layer(samples=1, channels=shape["channels"], filters=shape["filters"], size=(1, shape["samples"]))
        else:
            layer = Layer(size=(size, size), kernel=(kernel, kernel), **shape)
        work = Work(layer=layer, operation=operation, rows=rows or pair[0], fp32=False)
        expected = Expectations(config)
        contraction, blocking, _ = expected.compile(work)
    except (TypeError, ValueError) as error:
        raise TensorDashError(str(error)) from error
    found, dense = expected.times(work, speedup), expected.dense_cycles(work)
    cycles = found.cycles
    busy = {unit: taken for unit, taken in found.busy.items() if unit != "output"}  # which waits for its multiply
    return {
        "layer": repr(layer),
        "operation": operation,
        "row_side": work.rows,
        "multiplies": sum(1 for _ in contraction.multiplies(blocking)),
        "tile_of_results": {side: list(each) for side, each in blocking.tiles.items()},
        "streams_of_a_multiply": {side: list(each) for side, each in blocking.sets.items()},
        "chunk_of_the_reduction": list(blocking.chunk),
        "bytes_moved": expected.traffic(work),
        "cycles": cycles,
        "dense_core": dense,
        "speedup": round(dense / cycles, 3),
        "busy": {unit: round(taken / cycles, 3) for unit, taken in busy.items()},
        "limited_by": max(busy, key=lambda unit: busy[unit]),
    }
