"""Options that describe one operation of a layer, and their conversion to a geometry."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from .console import WholeRange

if TYPE_CHECKING:
    from tensordash_sim.lowering import Geometry

__all__ = ["checked_rows", "geometry_of", "layer_options"]


def layer_options(command: Callable[..., Any], *, required: bool = True) -> Callable[..., Any]:
    """Add the shape of a layer, --op and --rows to a command; if not `required`, channels and filters may be absent."""
    number, padding = WholeRange(min=1), WholeRange(min=0)
    shape = "Channels of the {}put, or {}put features of a product."
    options = (
        click.option("--samples", type=number, default=1, show_default=True, help="Images, or rows of a product."),
        click.option("--channels", type=number, required=required, help=shape.format("in", "in")),
        click.option("--filters", type=number, required=required, help=shape.format("out", "out")),
        click.option(
            "--size", type=number, help="Height and width of the image; without it, the layer is a matrix product."
        ),
        click.option("--kernel", type=number, default=1, show_default=True, help="Height and width of the kernel."),
        click.option("--stride", type=number, default=1, show_default=True, help="Stride in both directions."),
        click.option("--padding", type=padding, default=0, show_default=True, help="Padding on all sides."),
        click.option(
            "--op",
            "operation",
            type=click.Choice(("AxW", "WxG", "AxG")),
            default="AxW",
            show_default=True,
            help="Forward pass, gradient of the input, or gradient of the weights.",
        ),
        click.option("--rows", type=click.Choice(("A", "W", "G")), help="The operand whose zeros are skipped."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def geometry_of(*, size: int | None, kernel: int, samples: int, **shape: int) -> "Geometry":
    """Return the convolution or matrix product that the options describe.

    Raises
    ------
    TypeError, ValueError
        If its sizes do not fit.
    """
    from tensordash_sim.lowering import Convolution, MatrixProduct

    stride, padding, channels, filters = (shape[name] for name in ("stride", "padding", "channels", "filters"))
    if size is None:
        if (kernel, stride, padding) != (1, 1, 0):
            raise click.UsageError("--kernel, --stride and --padding go with --size")
        return MatrixProduct(batch=1, samples=samples, in_features=channels, out_features=filters)
    return Convolution(
        batch=samples,
        in_channels=channels,
        out_channels=filters,
        size=(size, size),
        kernel=(kernel, kernel),
        stride=(stride, stride),
        padding=(padding, padding),
        dilation=(1, 1),
        groups=1,
    )


def checked_rows(operation: str, rows: str | None) -> str | None:
    """Return --rows, or raise a usage error if the operation lacks that operand."""
    from tensordash_sim.compiler.layer import OPERANDS

    pair = OPERANDS[operation]
    if rows is not None and rows not in pair:
        raise click.UsageError(f"--rows must be one of {', '.join(pair)} in {operation}, not {rows}")
    return rows
