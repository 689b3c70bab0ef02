"""Open a backend by its name."""

from collections.abc import Callable
from typing import Any

from tensordash import TileConfig
from tensordash.configuration.core_config import MAX_CORES, CoreConfig
from tensordash.configuration.parameters import require_int

from .backends import Backend, Emulator, Golden, Mmio, Verilator
from .multicore import Multicore

__all__ = ["BACKENDS", "open_backend"]

BACKENDS: dict[str, Callable[..., Backend]] = {
    "emulator": Emulator,
    "golden": Golden,
    "verilator": Verilator,
    "mmio": Mmio,
}
"""Classes of backends, by name."""


def open_backend(
    name: str,
    config: CoreConfig | TileConfig,
    memory_bytes: int,
    cores: int,
    address: str,
    timeout: float,
    verilator_options: dict[str, Any],
) -> Backend:
    """Open a backend of `BACKENDS`.

    Raises
    ------
    ValueError
        If the backend does not accept the configuration or an option.
    DeviceError
        If the address has no core, or a core of another configuration.
    """
    if verilator_options["waves"] and name != "verilator":
        raise ValueError(f"waves must be false on the {name}, which has none")
    if address and name != "mmio":
        raise ValueError(f"address must be left out on the {name}, not {address!r}")
    if not isinstance(timeout, int | float) or not timeout > 0:
        raise ValueError(f"timeout must be a number of seconds above 0, not {timeout!r}")
    if require_int("cores", cores, 1, MAX_CORES) > 1 and name != "verilator":
        raise ValueError(f"cores must be 1 unless the backend is verilator, not {cores} on {name}")
    if name == "emulator":
        return Emulator(config)
    if not isinstance(config, CoreConfig):
        raise ValueError(f"backend must be emulator for a tile, which has no programs, not {name}")
    if cores > 1:
        return Multicore(config, memory_bytes, cores, **verilator_options)
    options = {"verilator": verilator_options, "mmio": {"address": address, "timeout": timeout}}
    return BACKENDS[name](config, memory_bytes, **options.get(name, {}))
