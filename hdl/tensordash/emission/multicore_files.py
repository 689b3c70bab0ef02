"""Files that a multicore of several cores adds to the files of a core."""

from ..configuration.core_config import CoreConfig
from ..configuration.registers import ADDRESS_BITS
from ..core.join_registers import join_addresses
from ..core.multicore import Multicore
from .constraints import constraints
from .head import head
from .interfaces.multicore_rdl import multicore_rdl
from .library import Library, ports
from .port_table import port_table

__all__ = ["multicore_files"]


def multicore_files(
    library: Library, config: CoreConfig, cores: int, prefix: str
) -> tuple[str, tuple[str, ...], dict[str, str]]:
    """Return the Verilog of a multicore, its signals with unused bits, and its other files by name.

    Parameters
    ----------
    library : Library
        A library that has the modules of the core. They are left out.
    config : CoreConfig
        The cores.
    cores : int
        Number of cores, 2 to 16.
    prefix : str
        Prefix of file and module names.

    Returns
    -------
    str, tuple of str, dict of str to str
        ``PREFIX_multicore.v``; signals; constraints, a table of ports, a C header and SystemRDL, named like it.
    """
    of_core = set(library.texts)
    multicore = Multicore(config, cores)
    top, _ = library.module(multicore)
    names = [name for name in library.texts if name not in of_core]
    text = head(config, f"Top: {top}, {cores} cores at one memory port.") + library.verilog_of(names)
    rows = [(name, each["direction"], each["width"]) for name, each in ports(multicore).items()]
    others = {
        f"{prefix}_multicore.sdc": constraints(top, rows, kind="core"),
        f"{prefix}_multicore_ports.md": f"`{top}`\n\n" + port_table("multicore", rows, ""),
        f"{prefix}_multicore.h": _header(cores, prefix),
        f"{prefix}_multicore.rdl": multicore_rdl(config, cores, prefix),
    }
    return text, library.partly_unused_of(names), others


def _header(cores: int, prefix: str) -> str:
    """Return a C header with the places of the registers."""
    macro = f"{prefix.upper()}_MULTICORE"
    lines = [
        f"/* Registers of {prefix}_multicore: those of core k begin at k * {macro}_STRIDE. */",
        f"#ifndef {macro}_H",
        f"#define {macro}_H",
        f"#define {macro}_CORES {cores}",
        f"#define {macro}_STRIDE {1 << ADDRESS_BITS:#x}",
        *(f"#define {macro}_{name.upper()} {address:#x}" for name, address in join_addresses(cores).items()),
        f"#endif /* {macro}_H */",
    ]
    return "".join(f"{line}\n" for line in lines)
