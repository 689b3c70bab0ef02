"""Serve a simulated core: `python -m tensordash_runtime.mmio unix:core.sock --preset core`."""

import sys
from pathlib import Path

import click

from tensordash import TensorDashError
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash_sim.verify.verilated_core import VerilatedCore

from .addresses import SocketAddress, parse_address
from .golden_registers import GoldenRegisters
from .server import listen, serve_core

CORES = {"verilator": VerilatedCore, "golden": GoldenRegisters}


@click.command()
@click.argument("address")
@click.option("--preset", default="core", show_default=True, help="A core's preset.")
@click.option("--on", "kind", type=click.Choice(tuple(CORES)), default="verilator", show_default=True)
@click.option("--memory-bytes", type=click.IntRange(min=4096), default=64 << 20, show_default=True)
@click.option("--base", type=click.IntRange(min=0), default=0, show_default=True, help="First address of memory.")
def serve(address: str, preset: str, kind: str, memory_bytes: int, base: int) -> None:
    """Serve a core at ADDRESS, unix:PATH or tcp:HOST:PORT, until Ctrl-C. Anyone who can connect can use it."""
    try:
        place, config = parse_address(address), load_any_preset(preset)
        if not isinstance(place, SocketAddress):
            raise ValueError(f"ADDRESS must be unix:PATH or tcp:HOST:PORT, not {address}")
        if not isinstance(config, CoreConfig):
            raise ValueError(f"--preset must be a core's, not the tile {preset}")
        listener = listen(place)
    except (TensorDashError, ValueError, OSError) as error:
        print(f"tensordash_runtime.mmio: {address}: {error}", file=sys.stderr)
        sys.exit(2)
    try:
        core = CORES[kind](config, memory_bytes, base=base)
        click.echo(f"{address}: the core {config.digest}, {memory_bytes} bytes of memory from {base:#x}")
        serve_core(core, listener)
    except KeyboardInterrupt:
        pass
    finally:
        listener.close()
        if isinstance(place.place, str):
            Path(place.place).unlink(missing_ok=True)


if __name__ == "__main__":
    serve()
