"""Comparison of the results of two devices."""

from collections.abc import Callable

import numpy as np

from tensordash.configuration.errors import TensorDashError

from .device import Device
from .jobs import DeviceResult
from .products import Product
from .values import plain

__all__ = ["DifferenceError", "comparison"]


class DifferenceError(TensorDashError, RuntimeError):
    """Two devices computed different results. The message is one line."""


def comparison(other: Device) -> Callable[[Product, DeviceResult], DeviceResult]:
    """Return a watcher for `offload` that repeats every product on another device.

    Parameters
    ----------
    other : Device
        A device of the same configuration.

    Returns
    -------
    callable
        Returns the other device's result, or raises `DifferenceError` at the first element whose bits differ.
    """

    def watcher(product: Product, done: DeviceResult) -> DeviceResult:
        fp32 = done.executed.problem.fp32
        other.operations = done.executed.number  # Stochastic rounding draws the same random bits.
        repeated = product.run_on(other, fp32=fp32, count=done.executed.is_counted)
        first, second = (np.ascontiguousarray(plain(each.result)) for each in (done, repeated))
        width = first.dtype.itemsize
        different = np.argwhere(first.view(f"u{width}") != second.view(f"u{width}"))
        if len(different):
            place = tuple(map(int, different[0]))
            bits = " and ".join(f"{each.view(f'u{width}')[place]:#0{2 * width + 2}x}" for each in (first, second))
            raise DifferenceError(
                f"{product.operation} of {product.layer}: element {place} of {first.shape} differs: "
                f"{bits} on the other device"
            )
        return repeated

    return watcher
