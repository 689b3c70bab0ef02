"""Testbench of one core or several in plain Verilog for users without Python: programs, and the expected memory."""

import re
from importlib import resources

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.registers import ADDRESS_BITS, IDENTITY, named
from tensordash.core.join_registers import join_addresses
from tensordash.emission.head import check_prefix

from .core_example import example_program, example_programs

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


def render_core_testbench(
    config: CoreConfig, prefix: str = "tensordash", seed: int = 0, cores: int = 1
) -> dict[str, str]:
    """Return the files of a self-checking testbench for the files of `tensordash.emission.core_files.render_core`.

    The testbench executes a small program on each core through registers and an AXI4 memory, at full rate and with
    pauses. It compares all of memory with the golden core's.

    Parameters
    ----------
    config : CoreConfig
        The core.
    prefix : str
        Prefix of file and module names.
    seed : int
        Seed of the operands and of the memory's pauses.
    cores : int
        1 for a testbench of ``PREFIX_core``; with 2 to 16, a testbench of ``PREFIX_multicore``, whose cores share their
        weights.

    Returns
    -------
    dict of str to str
        By file name: ``PREFIX_core_tb.v`` or ``PREFIX_multicore_tb.v`` (Verilog-2005; the module has the file's name)
        and its input files, ``..._before.hex`` and ``..._after.hex``: memory before and after the programs, from
        address 0. Each line is a beat of the bus.

    Raises
    ------
    ValueError
        For a prefix that no module name can begin with, or a core too small for any program.
    """
    top = f"{check_prefix(prefix)}_{'core' if cores == 1 else 'multicore'}"
    name = f"{top}_tb"
    examples = {0: example_program(config, seed)} if cores == 1 else example_programs(config, cores, seed)
    ring, first = next(iter(examples.items()))
    count, size = len(first.program.descriptors), config.axi_bits // 8
    memory_bytes = ring + cores * len(first.before)
    registers = {each: named(each).offset for each in USED}
    if cores > 1:
        registers |= join_addresses(cores)
    values = {
        "TOP": top,
        "TITLE": first.title + ("" if cores == 1 else ".\n// Memory sends the weights once, to all cores"),
        "WHERE": "" if cores == 1 else f" on each of {cores} cores",
        "MORE": "" if cores == 1 else f" {top}.v",
        "HEADERS": f"docs/core.md and {prefix}.h" if cores == 1 else f"docs/core.md, {prefix}.h and {top}.h",
        "SEED": seed,
        "DATA": config.axi_bits,
        "ADDRESS": config.address_bits,
        "BEATS": memory_bytes // size,
        "DESCRIPTORS": count,
        "LOG2_PLACES": count.bit_length(),
        "LIMIT": 2 * memory_bytes + 1000,
        "CORES": cores,
        "RING": ring,
        "STRIDE": len(first.before),
        "SHARED": len(first.shared),
        "REGISTER_BITS": ADDRESS_BITS + (cores.bit_length() if cores > 1 else 0),
        "ID_BITS": 1 + (cores - 1).bit_length(),
        "REGISTERS": "\n".join(f"  localparam {each.upper()} = 32'h{at:03x};" for each, at in registers.items()),
        "IDENTITY": f"{IDENTITY:08x}",
        "DIGEST_LOW": config.digest[8:],
        "DIGEST_HIGH": config.digest[:8],
        "PREFIX": prefix,
    }
    template = resources.files(__package__).joinpath("core_tb.v").read_text(encoding="utf-8")
    of_several = ("^@ .*\n", "") if cores == 1 else ("^@ ", "  ")  # Lines that begin with "@ " are for several cores.
    template = re.sub(*of_several, template, flags=re.MULTILINE)
    images = {
        when: bytes(first.shared).ljust(ring, b"\0") + b"".join(getattr(each, when) for each in examples.values())
        for when in ("before", "after")
    }
    return {
        f"{name}.v": re.sub(r"@([A-Z_0-9]+)@", lambda found: str(values[found[1]]), template),
        **{f"{name}_{when}.hex": _beats(image, size) for when, image in images.items()},
    }


def _beats(image: bytes, size: int) -> str:
    """Return memory as one line per beat, the first byte in the lowest digits."""
    return "".join(f"{image[at : at + size][::-1].hex()}\n" for at in range(0, len(image), size))
