"""Testbench of a core in plain Verilog for users without Python, with a program and its expected memory."""

import re
from importlib import resources

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.registers import IDENTITY, named
from tensordash.emission.head import check_prefix

from .core_example import example_program

__all__ = ["render_core_testbench"]

USED = (
    "identity",
    "digest",
    "digest_high",
    "control",
    "status",
    "queue_base",
    "queue_base_high",
    "queue_size",
    "tail",
    "head",
    "done",
    "error",
    "interrupt_enable",
    "cause",
)
"""Registers that the testbench reads or writes."""


def render_core_testbench(config: CoreConfig, prefix: str = "tensordash", seed: int = 0) -> dict[str, str]:
    """Return the files of a self-checking testbench for the files of `tensordash.emission.core_files.render_core`.

    The testbench executes a small program through registers and an AXI4 memory, at full rate and with pauses.
    It compares all of memory with the golden core's.

    Parameters
    ----------
    config : CoreConfig
        The core.
    prefix : str
        Prefix of file and module names.
    seed : int
        Seed of the operands and of the memory's pauses.

    Returns
    -------
    dict of str to str
        By file name: ``PREFIX_core_tb.v`` (the module ``PREFIX_core_tb``, Verilog-2005) and its input files.
        ``PREFIX_core_tb_before.hex`` and ``_after.hex`` are memory before and after the program, from address 0.
        Each line is a beat of the bus.

    Raises
    ------
    ValueError
        For a prefix that no module name can begin with, or a core too small for any program.
    """
    name = f"{check_prefix(prefix)}_core_tb"
    example = example_program(config, seed)
    count, size = len(example.program.descriptors), config.axi_bits // 8
    values = {
        "TITLE": example.title,
        "SEED": seed,
        "DATA": config.axi_bits,
        "ADDRESS": config.address_bits,
        "BEATS": len(example.before) // size,
        "DESCRIPTORS": count,
        "LOG2_PLACES": count.bit_length(),
        "LIMIT": 2 * len(example.before) + 1000,
        "REGISTERS": "\n".join(f"  localparam {each.upper()} = 12'h{named(each).offset:03x};" for each in USED),
        "IDENTITY": f"{IDENTITY:08x}",
        "DIGEST_LOW": config.digest[8:],
        "DIGEST_HIGH": config.digest[:8],
        "PREFIX": prefix,
    }
    template = resources.files(__package__).joinpath("core_tb.v").read_text(encoding="utf-8")
    return {
        f"{name}.v": re.sub(r"@([A-Z_0-9]+)@", lambda found: str(values[found[1]]), template),
        f"{name}_before.hex": _beats(example.before, size),
        f"{name}_after.hex": _beats(example.after, size),
    }


def _beats(image: bytes, size: int) -> str:
    """Return memory as one line per beat, the first byte in the lowest digits."""
    return "".join(f"{image[at : at + size][::-1].hex()}\n" for at in range(0, len(image), size))
