"""Files that describe the interface of a tile or a core to other tools, by name."""

from collections.abc import Sequence

from ...configuration.config import TileConfig
from ...configuration.core_config import CoreConfig
from ..c_header import core_parameters
from ..constraints import constraints
from .buses import Port
from .ipxact import component_xml
from .svd import svd
from .systemrdl import descriptor_rdl, register_rdl
from .templates import interface_module, interface_template, verilog_template
from .wrapper import wrapper, wrapper_ports

__all__ = ["core_interface_files", "tile_interface_files"]


def core_interface_files(config: CoreConfig, prefix: str, ports: Sequence[Port]) -> dict[str, str]:
    """Return the files of a core.

    Parameters
    ----------
    config : CoreConfig
        The core.
    prefix : str
        Prefix of file and module names.
    ports : sequence of Port
        The ports of ``PREFIX_core``.

    Returns
    -------
    dict of str to str
        ``PREFIX.rdl`` and ``PREFIX_descriptors.rdl`` (SystemRDL), ``PREFIX.svd`` (CMSIS-SVD), ``component.xml``
        (IP-XACT), ``PREFIX_core_ip.v`` and ``PREFIX_core_ip.sdc`` (wrapper and its constraints), ``PREFIX_core_sv.sv``
        (SystemVerilog interfaces), ``PREFIX_core_inst.vh`` and ``PREFIX_core_sv_inst.svh`` (instances to copy).
    """
    top = f"{prefix}_core"
    file_sets = {
        "rtl": [f"{prefix}.v", f"{prefix}_memories.v", f"{top}_ip.v"],
        "constraints": [f"{top}_ip.sdc"],
        "lint": [f"{prefix}.vlt"],
        "software": [f"{prefix}.h", f"{prefix}.rdl", f"{prefix}.svd"],
    }
    description = f"A TensorDash core: a program of descriptors drives a sparse tile. Configuration {config.digest}."
    return {
        f"{prefix}.rdl": register_rdl(config, prefix),
        f"{prefix}_descriptors.rdl": descriptor_rdl(prefix),
        f"{prefix}.svd": svd(config, prefix),
        "component.xml": component_xml(
            f"{top}_ip", description, wrapper_ports(ports), core_parameters(config), file_sets, config
        ),
        **_wrapper_files(top, ports, "core"),
        **_template_files(top, ports),
    }


def tile_interface_files(
    config: TileConfig, prefix: str, ports: Sequence[Port], stream_ports: Sequence[Port]
) -> dict[str, str]:
    """Return the files of a tile.

    Parameters
    ----------
    config : TileConfig
        The tile.
    prefix : str
        Prefix of file and module names.
    ports, stream_ports : sequence of Port
        The ports of ``PREFIX_tile``, and of ``PREFIX_axi_stream_tile``.

    Returns
    -------
    dict of str to str
        As in `core_interface_files`, for ``PREFIX_axi_stream_tile``, without SystemRDL and CMSIS-SVD: a tile has no
        registers. ``PREFIX_tile_inst.vh`` is an instance of the inner top.
    """
    top = f"{prefix}_axi_stream_tile"
    file_sets = {
        "rtl": [f"{prefix}.v", f"{top}_ip.v"],
        "constraints": [f"{top}_ip.sdc"],
        "lint": [f"{prefix}.vlt"],
    }
    parameters = {
        "LANES": config.lanes,
        "ROWS": config.rows,
        "COLUMNS": config.columns,
        "DEPTH": config.window_depth,
        "A_BITS": config.a_format.width,
        "B_BITS": config.b_format.width,
        "OUT_ROWS": config.out_rows,
    }
    skipped = {"none": "skips no zeros", "rows": "skips zeros of side B", "both": "skips zeros of both sides"}
    description = f"A TensorDash tile, which {skipped[config.sparsity]}. Configuration {config.digest}."
    return {
        "component.xml": component_xml(f"{top}_ip", description, wrapper_ports(stream_ports), parameters, file_sets),
        **_wrapper_files(top, stream_ports, "tile"),
        f"{prefix}_tile_inst.vh": verilog_template(f"{prefix}_tile", ports),
        **_template_files(top, stream_ports),
    }


def _wrapper_files(top: str, ports: Sequence[Port], kind: str) -> dict[str, str]:
    outer = [(port.name, port.direction, port.bits) for port in wrapper_ports(ports)]
    return {
        f"{top}_ip.v": wrapper(f"{top}_ip", top, ports),
        f"{top}_ip.sdc": constraints(f"{top}_ip", outer, kind=kind, clock="aclk"),
    }


def _template_files(top: str, ports: Sequence[Port]) -> dict[str, str]:
    return {
        f"{top}_inst.vh": verilog_template(top, ports),
        f"{top}_sv.sv": interface_module(top, ports),
        f"{top}_sv_inst.svh": interface_template(top, ports),
    }
