"""SystemRDL 2.0 of a multicore: the registers of its cores, and of their memory port."""

from ...configuration.core_config import CoreConfig
from ...configuration.register_map import MapField, MapRegister
from ...configuration.registers import ADDRESS_BITS, PAGE_BITS, WORD_BITS
from ...core.join_registers import join_addresses
from ...movers.read_join import PATIENCE_BITS
from .systemrdl import rdl_register

__all__ = ["multicore_rdl"]

DOCS = {
    "shared_base": "the lowest address of shared operands, low half",
    "shared_base_high": "the lowest address of shared operands, high half",
    "shared_limit": "the highest address of shared operands, low half",
    "shared_limit_high": "the highest address of shared operands, high half",
    "patience": "cycles that a shared burst waits for the other cores; 0 after sharing ended",
}


def multicore_rdl(config: CoreConfig, cores: int, prefix: str) -> str:
    """Return the SystemRDL of a multicore's registers; it includes ``PREFIX.rdl``.

    Parameters
    ----------
    config : CoreConfig
        The cores.
    cores : int
        Number of cores.
    prefix : str
        Prefix of names: the address map is ``PREFIX_multicore_registers``.

    Source: docs/integration.md, "Several cores"; Accellera, "SystemRDL 2.0 Register Description Language".
    """
    lines = [
        f"// Registers of {prefix}_multicore, {cores} cores: SystemRDL 2.0 of docs/integration.md.",
        "//",
        f"//   peakrdl html {prefix}_multicore.rdl -o html",
        "",
        f'`include "{prefix}.rdl"',
        "",
        f"addrmap {prefix}_multicore_registers {{",
        f'  name = "{prefix}_multicore";',
        '  desc = "Registers of all cores, and of the memory port that they share.";',
        "  littleendian;",
        f"  default regwidth = {WORD_BITS};",
        f"  default accesswidth = {WORD_BITS};",
        "",
        f"  {prefix}_registers cores[{cores}] @ 0x0 += {1 << ADDRESS_BITS:#x};",
    ]
    for name, offset in join_addresses(cores).items():
        fields = _fields(name, config.address_bits)
        lines += rdl_register(MapRegister(name=name, offset=offset, access="rw", doc=DOCS[name], fields=fields))
    return "\n".join([*lines, "};"]) + "\n"


def _fields(name: str, address_bits: int) -> tuple[MapField, ...]:
    """Return the fields of a register of the memory port."""
    low = PAGE_BITS if name in ("shared_base", "shared_limit") else 0
    width = PATIENCE_BITS if name == "patience" else address_bits - WORD_BITS if name.endswith("_high") else WORD_BITS
    fields = []
    if name == "shared_limit":
        ones = (1 << PAGE_BITS) - 1
        fields.append(MapField(name="page_offset", low=0, width=PAGE_BITS, access="constant", reset=ones, doc="ones"))
    if width > low:
        fields.append(MapField(name="value", low=low, width=width - low, access="rw", reset=0, doc=DOCS[name]))
    else:  # Addresses have 32 bits.
        fields.append(MapField(name="value", low=0, width=WORD_BITS, access="constant", reset=0, doc="zeros"))
    return tuple(fields)
