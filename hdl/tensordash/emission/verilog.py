"""Emission of a configuration to a folder with Verilog and its companions."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tensordash_storage.files import write_files

from ..block import Block
from ..configuration.config import TileConfig
from ..configuration.core_config import CoreConfig
from ..configuration.formats import FloatFormat
from ..layouts import accumulator_shape
from ..streams.axi_stream import AxiStreamTile
from ..streams.block_quantiser import BlockQuantiser
from ..streams.transposer import Transposer
from ..version import __version__
from .assertions import assertions
from .constraints import constraints
from .core_files import render_core
from .fusesoc import core_file
from .head import check_prefix, head
from .interfaces.buses import Port
from .interfaces.files import tile_interface_files
from .library import Library, emit, members, ports
from .librelane import librelane
from .port_table import describe_port, port_table
from .waivers import waivers

__all__ = ["Library", "check_prefix", "emit", "generate", "members", "port_tables", "render", "render_core"]


def render(
    config: TileConfig, prefix: str = "tensordash", bench: Mapping[str, str] = MappingProxyType({})
) -> dict[str, str]:
    """Return every file of a tile, by name.

    Parameters
    ----------
    config : TileConfig
        The tile.
    prefix : str
        Prefix of file and module names: a letter, then letters, digits and underscores.
    bench : mapping of str to str
        Files of a testbench from `tensordash_sim.verify.render_testbench`.

    Returns
    -------
    dict of str to str
        ``PREFIX.v`` (both tops), ``PREFIX_transposer.v``, ``PREFIX_block_quantiser.v`` (only with E8M0 scales),
        ``PREFIX_assertions.sv`` (rules of the ports, for simulations), ``PREFIX.vlt`` (lint waivers, with reasons),
        ``PREFIX.f`` (file list), ``PREFIX.core`` (for FuseSoC), ``PREFIX_tile.sdc`` and ``PREFIX_axi_stream_tile.sdc``
        (timing constraints), ``PREFIX_librelane.yaml`` (for LibreLane, untried), ``PREFIX_ports.md`` (tables of all
        ports), ``config.toml`` and ``config.json`` (with every derived size), the files of `tile_interface_files`, and
        the bench's.
    """
    check_prefix(prefix)
    wrapper = AxiStreamTile(config)
    tops = f"Tops: {prefix}_tile, {prefix}_axi_stream_tile."
    if config.ring:
        tops += f" Inputs of {prefix}_tile: {_step_order(config)} of steps."
    files = {f"{prefix}.v": (wrapper, tops)}
    files |= {f"{prefix}_{name}.v": (block, f"Top: {prefix}_{name}.") for name, block in companions(config).items()}
    libraries = {name: Library(prefix) for name in files}
    for name, (block, _) in files.items():
        libraries[name].module(block)
    verilog = {name: head(config, tops) + libraries[name].verilog() for name, (_, tops) in files.items()}
    partly_unused = {name: library.partly_unused_of(library.texts) for name, library in libraries.items()}
    return {
        **verilog,
        f"{prefix}_assertions.sv": assertions(config, wrapper, prefix),
        f"{prefix}.vlt": waivers(prefix, verilog, partly_unused),
        f"{prefix}.f": "".join(f"{name}\n" for name in verilog),
        f"{prefix}.core": core_file(prefix, config.digest, verilog, bench),
        f"{prefix}_tile.sdc": _constraints(wrapper.tile, f"{prefix}_tile"),
        f"{prefix}_axi_stream_tile.sdc": _constraints(wrapper, f"{prefix}_axi_stream_tile"),
        f"{prefix}_librelane.yaml": librelane(
            f"{prefix}_librelane.yaml", f"{prefix}_tile", [f"{prefix}.v"], f"{prefix}_tile.sdc"
        ),
        f"{prefix}_ports.md": port_tables(config, prefix),
        "config.toml": config.to_toml(),
        "config.json": json.dumps(_description(config, prefix, wrapper), indent=2) + "\n",
        **tile_interface_files(
            config, prefix, _ports(config, "tile", wrapper.tile), _ports(config, "axi_stream_tile", wrapper)
        ),
        **bench,
    }


def port_tables(config: TileConfig, prefix: str = "tensordash") -> str:
    """Return Markdown tables of the ports of all tops."""
    wrapper = AxiStreamTile(config)
    tops = {"tile": wrapper.tile, "axi_stream_tile": wrapper, **companions(config)}
    return "\n".join(
        f"`{prefix}_{top}`\n\n"
        + port_table(top, ((name, *port.values()) for name, port in ports(block).items()), _step_order(config))
        for top, block in tops.items()
    )


def _ports(config: TileConfig, top: str, block: Block) -> list[Port]:
    order = _step_order(config)
    return [
        Port(name, port["direction"], port["width"], describe_port(top, name, order))
        for name, port in ports(block).items()
    ]


def companions(config: TileConfig) -> dict[str, Block]:
    """Return the companion components of a tile, by name."""
    made: dict[str, Block] = {
        "transposer": Transposer(width=max(config.a_format.width, config.b_format.width), lanes=config.lanes)
    }
    if config.scale == "e8m0":
        assert isinstance(config.a_format, FloatFormat)
        made["block_quantiser"] = BlockQuantiser(
            fmt=config.a_format, lanes=config.lanes, scale_rounding=config.scale_rounding
        )
    return made


def generate(
    config: TileConfig | CoreConfig,
    path: str | Path,
    prefix: str = "tensordash",
    bench: Mapping[str, str] = MappingProxyType({}),
    cores: int = 1,
) -> list[Path]:
    """Write a configuration's files (see `render` and `render_core`) to a folder, and create it if necessary.

    Parameters
    ----------
    config : TileConfig or CoreConfig
        The tile, or the core.
    path : str or Path
        The folder.
    prefix, bench, cores
        As in `render_core`.

    Returns
    -------
    list of Path
        The files written. Each is complete or missing.
    """
    if isinstance(config, TileConfig):
        if cores != 1:
            raise ValueError(f"cores must be 1 for a tile, not {cores}")
        return write_files(Path(path), render(config, prefix, bench))
    return write_files(Path(path), render_core(config, prefix, bench, cores))


def _step_order(config: TileConfig) -> str:
    """Return the order of steps on the `steps` of an input, in words."""
    return f"step t since reset on line t modulo {config.window_depth}" if config.ring else "the oldest on line 0"


def _description(config: TileConfig, prefix: str, wrapper: AxiStreamTile) -> dict[str, Any]:
    tile = wrapper.tile
    accumulator_bits, accumulator_least_exponent = accumulator_shape(config.numerics)
    return {
        "version": __version__,
        "digest": config.digest,
        "config": config.to_mapping(),
        "derived": {
            "window_depth": config.window_depth,
            "step_order": _step_order(config),
            "options": [list(option) for option in config.options],
            "levels": [list(level) for level in tile.connectivity.levels],
            "a_bits": config.a_format.width,
            "b_bits": config.b_format.width,
            "step_bits": {"a": config.a_format.width * config.lanes, "b": config.b_format.width * config.lanes},
            **_scale(config),
            "accumulator_bits": accumulator_bits,
            "accumulator_least_exponent": accumulator_least_exponent,
            "stages": config.stages,
            "schedule_to_accumulation_cycles": tile.latency,
            "schedule_to_output_cycles": tile.output_latency,
            "output_beats": config.rows // config.out_rows,
            "full_window": config.needs_full_window,
        },
        "modules": {
            f"{prefix}_{name}": ports(block)
            for name, block in {"tile": tile, "axi_stream_tile": wrapper, **companions(config)}.items()
        },
    }


def _scale(config: TileConfig) -> dict[str, Any]:
    """Return the sizes of the scale after a step's values, if there is one."""
    scale = config.numerics.scale
    return {} if scale is None else {"scale_bits": scale.width, "scale_block": scale.block}


def _constraints(block: Block, top: str) -> str:
    return constraints(top, ((name, *port.values()) for name, port in ports(block).items()))
