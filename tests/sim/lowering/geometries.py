"""Convolutions for tests."""

from tensordash_sim.lowering import Convolution

__all__ = ["convolution"]


def convolution(
    batch=1,
    channels=(1, 1),
    size=(1,),
    kernel=(1,),
    stride: tuple[int, ...] = (1, 1),
    padding: tuple[int, ...] = (0, 0),
    dilation: tuple[int, ...] = (1, 1),
    groups=1,
    end_padding: tuple[int, ...] | None = None,
) -> Convolution:
    """Return a convolution; defaults have the number of dimensions of `size`."""
    return Convolution(
        batch=batch,
        in_channels=channels[0],
        out_channels=channels[1],
        size=size,
        kernel=kernel,
        stride=stride[: len(size)],
        padding=padding[: len(size)],
        dilation=dilation[: len(size)],
        groups=groups,
        end_padding=end_padding,
    )
