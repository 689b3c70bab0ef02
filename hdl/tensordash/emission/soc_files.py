"""Files of a small system around a core: PicoRV32, memory, UART and timer in Verilog, firmware in C, build files."""

import re
from collections.abc import Iterator, Mapping
from importlib import resources
from importlib.resources.abc import Traversable

from ..configuration.core_config import CoreConfig
from ..configuration.document import ConfigError
from ..version import NUMERIC_VERSION
from .core_files import render_core

__all__ = ["MAX_MEMORY_BYTES", "MIN_MEMORY_BYTES", "render_soc", "require_memory_bytes"]

KEY = re.compile(r"@([A-Z_]+)@")
NOT_FOR_FIRMWARE = ("tensordash_linux.h", "tensordash_linux.c", "tensordash_binding.yaml", "tensordash_node.dtsi")
MIN_MEMORY_BYTES = 1 << 17
MAX_MEMORY_BYTES = 1 << 28
"""Maximum memory: the processor selects its devices by the highest four bits of an address."""


def require_memory_bytes(memory_bytes: int) -> None:
    """Raise a `ConfigError` unless a memory size is a power of two from `MIN_MEMORY_BYTES` to `MAX_MEMORY_BYTES`."""
    if not MIN_MEMORY_BYTES <= memory_bytes <= MAX_MEMORY_BYTES or memory_bytes.bit_count() != 1:
        raise ConfigError(
            f"the bytes of memory must be a power of two from {MIN_MEMORY_BYTES} to {MAX_MEMORY_BYTES}, "
            f"not {memory_bytes}"
        )


def render_soc(config: CoreConfig, memory_bytes: int, program: Mapping[str, str]) -> dict[str, str]:
    """Return the files of a system around a core, by name, including the core's own files.

    The processor's Verilog (``picorv32.v``) is not included.

    Parameters
    ----------
    config : CoreConfig
        The core.
    memory_bytes : int
        Size of the memory: a power of two from `MIN_MEMORY_BYTES` to `MAX_MEMORY_BYTES`.
    program : mapping of str to str
        C files of a program, by name: ``program.h``, ``program.c`` and others.

    Raises
    ------
    ConfigError
        For a memory size that is not allowed.
    """
    require_memory_bytes(memory_bytes)
    templates = dict(_texts(resources.files(__package__).joinpath("soc"), ""))
    core, sources = render_core(config), {f"program/{name}": text for name, text in program.items()}
    software = [name for name in templates if name.startswith("firmware/")]
    core = {name: text for name, text in core.items() if name not in NOT_FOR_FIRMWARE}
    software += [name for name in core if name.endswith((".c", ".h"))]
    values = {
        "DIGEST": config.digest,
        "RAM_BYTES": memory_bytes,
        "DATA": config.axi_bits,
        "BYTES": config.axi_bits // 8,
        "ADDRESS": config.address_bits,
        "VERSION": NUMERIC_VERSION,
        "FIRMWARE": ", ".join(["Makefile", *software, *sources]),
    }
    files = {name: KEY.sub(lambda found: str(values[found[1]]), text) for name, text in templates.items()}
    return {**core, **files, **sources}


def _texts(folder: Traversable, prefix: str) -> Iterator[tuple[str, str]]:
    for each in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if each.is_dir():
            yield from _texts(each, f"{prefix}{each.name}/")
        else:
            yield prefix + each.name, each.read_text(encoding="utf-8")
