"""Files of a core: its Verilog, a separate file of its memories, and their companions."""

import json
import re
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ..configuration.core_config import MAX_CORES, CoreConfig
from ..configuration.parameters import require_int
from ..core.core import Core
from ..core.multicore import Multicore
from ..memory.memory import Memory
from ..version import __version__
from .c_header import c_header, device_tree_files, driver_files
from .constraints import constraints
from .fusesoc import core_of_core
from .head import check_prefix, head
from .interfaces.buses import Port
from .interfaces.files import core_interface_files
from .library import Library, ports
from .librelane import librelane
from .multicore_files import multicore_files
from .port_table import describe_port, port_table
from .waivers import waivers

__all__ = ["core_port_table", "core_ports", "core_verilog", "render_core"]

MODULE = re.compile(r"^module (\w+)\(.*?^endmodule$", re.MULTILINE | re.DOTALL)
INSTANCE = re.compile(r"^  (\w+) \w+ \(", re.MULTILINE)


def render_core(
    config: CoreConfig, prefix: str = "tensordash", bench: Mapping[str, str] = MappingProxyType({}), cores: int = 1
) -> dict[str, str]:
    """Return every file of a core, by name.

    Parameters
    ----------
    config : CoreConfig
        The core.
    prefix : str
        Prefix of file and module names: a letter, then letters, digits and underscores.
    bench : mapping of str to str
        Files of a testbench from `tensordash_sim.verify.core_testbench.render_core_testbench`.
    cores : int
        With 2 to 16, files of this many cores at one memory port are added: ``PREFIX_multicore.v`` (the top), and
        those of `multicore_files`.

    Returns
    -------
    dict of str to str
        ``PREFIX.v`` (the core, whose top is ``PREFIX_core``), ``PREFIX_memories.v`` (its memories, each a module that a
        macro can replace), ``PREFIX.vlt`` (lint waivers for Verilator, with reasons), ``PREFIX.f`` (file list),
        ``PREFIX.core`` (for FuseSoC), ``PREFIX_core.sdc`` (timing constraints), ``PREFIX_librelane.yaml`` (for
        LibreLane, untried), ``PREFIX_ports.md`` (a table of all ports), ``PREFIX.h`` (registers and descriptors for C),
        ``PREFIX_driver.h`` and ``PREFIX_driver.c`` (a driver in C99), ``PREFIX_linux.h`` and ``PREFIX_linux.c`` (for
        user-space I/O), ``PREFIX_binding.yaml`` and ``PREFIX_node.dtsi`` (device tree), ``config.toml`` and
        ``config.json`` (with every derived size, and all memories), the files of `core_interface_files`, and the
        bench's.
    """
    check_prefix(prefix)
    require_int("cores", cores, 1, MAX_CORES)
    library = Library(prefix)
    top, _ = library.module(Core(config))
    modules = {
        f"{prefix}{apart}.v": [
            name for name, block in library.blocks.items() if isinstance(block, Memory) == bool(apart)
        ]
        for apart in ("", "_memories")
    }
    rest, memories = (library.verilog_of(names) for names in modules.values())
    verilog = {
        f"{prefix}.v": head(config, f"Top: {top}. Its memories are in {prefix}_memories.v.") + rest,
        f"{prefix}_memories.v": head(config, f"The memories of {top}: replace this file by one with your macros.")
        + memories,
    }
    partly_unused = {name: library.partly_unused_of(names) for name, names in modules.items()}
    of_multicore: dict[str, str] = {}
    if cores != 1:
        name = f"{prefix}_multicore.v"
        verilog[name], partly_unused[name], of_multicore = multicore_files(library, config, cores, prefix)
    found = {name: {**each} for name, each in ports(library.blocks[top]).items()}
    rows = [(port.name, port.direction, port.bits) for port in core_ports(config)]
    memory_list = _memories(library, top, rest)
    return {
        **verilog,
        f"{prefix}.vlt": waivers(prefix, verilog, partly_unused),
        f"{prefix}.f": "".join(f"{name}\n" for name in verilog),
        f"{prefix}.core": core_of_core(prefix, config.digest, bench, cores),
        f"{prefix}_core.sdc": constraints(top, rows, kind="core"),
        f"{prefix}_librelane.yaml": librelane(
            f"{prefix}_librelane.yaml", top, modules, f"{prefix}_core.sdc", memory_list
        ),
        f"{prefix}_ports.md": core_port_table(config, prefix),
        f"{prefix}.h": c_header(config, prefix),
        **driver_files(prefix),
        **device_tree_files(prefix),
        "config.toml": config.to_toml(),
        "config.json": json.dumps(
            {
                "version": __version__,
                "digest": config.digest,
                **({} if cores == 1 else {"cores": cores}),
                "config": config.to_mapping(),
                "derived": _derived(config),
                "memories": memory_list,
                "modules": {top: found},
            },
            indent=2,
        )
        + "\n",
        **core_interface_files(config, prefix, core_ports(config)),
        **of_multicore,
        **bench,
    }


def core_verilog(config: CoreConfig, cores: int = 1) -> str:
    """Return the Verilog of a core, or of several at one memory port, in one text, memories included.

    Its top is ``tensordash_core`` or ``tensordash_multicore``.
    """
    library = Library()
    library.module(Core(config) if cores == 1 else Multicore(config, cores))
    return library.verilog()


def core_ports(config: CoreConfig) -> list[Port]:
    """Return the ports of a core, in the order of its Verilog."""
    return [
        Port(name, each["direction"], each["width"], describe_port("core", name, ""))
        for name, each in ports(Core(config)).items()
    ]


def core_port_table(config: CoreConfig, prefix: str = "tensordash") -> str:
    """Return a Markdown table of the ports of a core."""
    rows = [(port.name, port.direction, port.bits) for port in core_ports(config)]
    return f"`{prefix}_core`\n\n" + port_table("core", rows, "")


def _derived(config: CoreConfig) -> dict[str, Any]:
    tile = config.tile
    return {
        "value_bits": config.value_bits,
        "group_bits": config.group_bits,
        "group_bytes": config.group_bytes,
        "groups": config.groups,
        "fp32_groups": config.fp32_groups,
        "window_depth": tile.window_depth,
        "options": [list(option) for option in tile.options],
        "parts": {side: config.parts(side) for side in "ab"},
        "step_bits": {side: config.step_bits(side) for side in "ab"},
        "stream_words": {side: config.stream_words(side) for side in "ab"},
        "streamed_steps": config.streamed_steps,
    }


def _memories(library: Library, top: str, verilog: str) -> list[dict[str, Any]]:
    """Return each memory's module, shape and number of instances."""
    inside = {found[1]: Counter(INSTANCE.findall(found[0])) for found in MODULE.finditer(verilog)}

    def count(name: str, module: str) -> int:
        return sum(times * (kind == name or count(name, kind)) for kind, times in inside.get(module, {}).items())

    return [
        {
            "module": name,
            "words": block.words,
            "bits": block.bits,
            "ports": {**({"both": 1} if block.ports == 1 else {"write": 1, "read": 1}), "write_enables": block.enables},
            "instances": (instances := count(name, top)),
            "bits_total": instances * block.words * block.bits,
        }
        for name, block in library.blocks.items()
        if isinstance(block, Memory)
    ]
