"""A small system around a core: PicoRV32, memory, UART and timer in Verilog, firmware in C, and how to run both."""

import re
from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable

from ..configuration.core_config import CoreConfig
from ..configuration.document import ConfigError
from ..version import NUMERIC_VERSION
from .core_files import render_core

__all__ = ["MAX_MEMORY_BYTES", "MIN_MEMORY_BYTES", "render_soc"]

KEY = re.compile(r"@([A-Z_]+)@")
MIN_MEMORY_BYTES = 1 << 17
MAX_MEMORY_BYTES = 1 << 28
"""The processor decodes its devices from the highest four bits of an address."""


def render_soc(config: CoreConfig, memory_bytes: int) -> dict[str, str]:
    """Return the files of a system around a core, by name, the core's own files among them.

    The processor's Verilog (``picorv32.v``) and a program (``program/program.h`` and ``.c``) are not among them.

    Parameters
    ----------
    config : CoreConfig
        The core.
    memory_bytes : int
        Size of the memory: a power of two from `MIN_MEMORY_BYTES` to `MAX_MEMORY_BYTES`.

    Raises
    ------
    ConfigError
        For another size of memory.
    """
    if memory_bytes not in [1 << k for k in range(MIN_MEMORY_BYTES.bit_length() - 1, MAX_MEMORY_BYTES.bit_length())]:
        raise ConfigError(
            f"the bytes of memory must be a power of two from {MIN_MEMORY_BYTES} to {MAX_MEMORY_BYTES}, "
            f"not {memory_bytes}"
        )
    values = {
        "DIGEST": config.digest,
        "RAM_BYTES": memory_bytes,
        "DATA": config.axi_bits,
        "BYTES": config.axi_bits // 8,
        "ADDRESS": config.address_bits,
        "VERSION": NUMERIC_VERSION,
    }
    templates = dict(_texts(resources.files(__package__).joinpath("soc"), ""))
    files = {name: KEY.sub(lambda found: str(values[found[1]]), text) for name, text in templates.items()}
    return {**render_core(config), **files}


def _texts(folder: Traversable, prefix: str) -> Iterator[tuple[str, str]]:
    for each in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if each.is_dir():
            yield from _texts(each, f"{prefix}{each.name}/")
        else:
            yield prefix + each.name, each.read_text(encoding="utf-8")
