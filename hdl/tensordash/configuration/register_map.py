"""Register map of one core: every field of `registers`, with its access and its value after reset."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from .core_config import SWITCHES, CoreConfig
from .registers import ERRORS, FORMAT_CODES, IDENTITY, PAGE_BITS, REGISTERS, RING_BITS, WORD_BITS, Register, named

__all__ = [
    "ACCESSES",
    "MapField",
    "MapRegister",
    "constant_values",
    "register_map",
    "reset_value",
    "writable_mask",
]

ACCESSES = ("constant", "ro", "rw", "w1c", "wo")
"""Accesses of a field. "constant" always reads the same value. The hardware changes "ro". See `Register` for others."""

NO_CODES: Mapping[str, int] = MappingProxyType({})
CODES: Mapping[tuple[str, str], Mapping[str, int]] = MappingProxyType(
    {
        ("formats", "a"): FORMAT_CODES,
        ("formats", "b"): FORMAT_CODES,
        ("error", "code"): {"none": 0, **ERRORS},
    }
)
"""Fields whose values have names, by register and field."""

STROBES = (("control", "reset"),)
"""Fields of readable registers that trigger an action when written, and read 0."""


@dataclass(frozen=True, kw_only=True)
class MapField:
    """Consecutive bits of a register that have one access.

    Parameters
    ----------
    name : str
        Its name: "value" if the register has no named fields.
    low, width : int
        The lowest bit, and the number of bits.
    access : str
        One of `ACCESSES`.
    reset : int
        Its value after `rst`.
    doc : str
        Its meaning, in one line.
    codes : mapping of str to int
        Names of its values, if any.
    """

    name: str
    low: int
    width: int
    access: str
    reset: int
    doc: str
    codes: Mapping[str, int] = field(default_factory=lambda: NO_CODES)

    @property
    def high(self) -> int:
        return self.low + self.width - 1

    @property
    def is_readable(self) -> bool:
        """Whether a read returns the field instead of 0."""
        return self.access != "wo"

    @property
    def is_writable(self) -> bool:
        """Whether a write changes the field or triggers an action."""
        return self.access in ("rw", "w1c", "wo")

    @property
    def is_volatile(self) -> bool:
        """Whether the hardware changes the field on its own."""
        return self.access in ("ro", "w1c")


@dataclass(frozen=True, kw_only=True)
class MapRegister:
    """A register with its fields, the lowest field first.

    Parameters
    ----------
    name : str
        Its name.
    offset : int
        Its address in bytes.
    access : str
        As in `Register`.
    doc : str
        Its content, in one line.
    fields : tuple of MapField
        Its fields. All other bits read 0.
    """

    name: str
    offset: int
    access: str
    doc: str
    fields: tuple[MapField, ...]

    @property
    def reset(self) -> int:
        """The value that a read returns after `rst`."""
        return sum(each.reset << each.low for each in self.fields if each.is_readable)


def constant_values(config: CoreConfig) -> dict[str, int]:
    """Return the values of the registers that describe the configuration, by name."""
    tile = config.tile
    digest = int(config.digest, 16)
    fields = {
        "shape": {"lanes": tile.lanes, "rows": tile.rows, "columns": tile.columns, "depth": tile.window_depth},
        "stream_words": {side: config.stream_words(side) - 1 for side in "ab"},
        "formats": {
            "a": FORMAT_CODES[tile.a_format.name],
            "b": FORMAT_CODES[tile.b_format.name],
            "axi_bits": config.axi_bits,
        },
        "features": {
            "value_bits": config.value_bits,
            "partial_sums": config.partial_sums - 1,
            "sparse": tile.sparsity != "none",
            **{name: getattr(config, name) for name in SWITCHES},
        },
    }
    constants = {"identity": IDENTITY, "digest": digest & 0xFFFFFFFF, "digest_high": digest >> WORD_BITS}
    constants["groups"] = config.groups
    for name, values in fields.items():
        constants[name] = sum(int(values[bits.name]) << bits.low for bits in named(name).bits)
    return constants


def writable_mask(config: CoreConfig, register: Register) -> int:
    """Return the bits of a register with access "rw" or "w1c" that a write can set."""
    name = register.name
    if name == "queue_base":
        return register.mask & -(1 << RING_BITS)
    if name in ("bounds_base", "bounds_limit"):
        return register.mask & -(1 << PAGE_BITS)
    if name.endswith("_high"):
        return (1 << (config.address_bits - WORD_BITS)) - 1
    strobes = sum(1 << bits.low for bits in register.bits if (name, bits.name) in STROBES)
    return register.mask & ~strobes


def reset_value(config: CoreConfig, name: str) -> int:
    """Return the value of a writable register after `rst`: the bounds allow every address, others are 0."""
    if name == "bounds_limit":
        return 0xFFFFFFFF
    return (1 << (config.address_bits - WORD_BITS)) - 1 if name == "bounds_limit_high" else 0


def register_map(config: CoreConfig) -> tuple[MapRegister, ...]:
    """Return all registers of a core, in the order of their addresses.

    Parameters
    ----------
    config : CoreConfig
        The core.

    Source: docs/core.md, "Registers".

    Examples
    --------
    >>> registers = {each.name: each for each in register_map(CoreConfig())}
    >>> [(each.name, each.low, each.width, each.access) for each in registers["bounds_base_high"].fields]
    [('value', 0, 8, 'rw'), ('overflow', 8, 1, 'rw')]
    >>> hex(registers["bounds_limit"].reset), registers["shape"].fields[0].reset
    ('0xffffffff', 4)
    """
    constants = constant_values(config)
    return tuple(
        MapRegister(
            name=each.name,
            offset=each.offset,
            access=each.access,
            doc=each.doc,
            fields=_named_fields(each, constants) if each.bits else _value_fields(config, each, constants),
        )
        for each in REGISTERS
    )


def _named_fields(register: Register, constants: Mapping[str, int]) -> tuple[MapField, ...]:
    access = "constant" if register.name in constants else register.access
    return tuple(
        MapField(
            name=bits.name,
            low=bits.low,
            width=bits.width,
            access="wo" if (register.name, bits.name) in STROBES else access,
            reset=constants.get(register.name, 0) >> bits.low & ((1 << bits.width) - 1),
            doc=bits.doc,
            codes=CODES.get((register.name, bits.name), NO_CODES),
        )
        for bits in register.bits
    )


def _value_fields(config: CoreConfig, register: Register, constants: Mapping[str, int]) -> tuple[MapField, ...]:
    """Return the fields of a register without named fields: its value, and bits with a different access."""
    name, doc = register.name, register.doc
    if register.access == "ro":
        access = "constant" if name in constants else "ro"
        reset = constants.get(name, 0)
        return (MapField(name="value", low=0, width=WORD_BITS, access=access, reset=reset, doc=doc),)
    mask, reset = writable_mask(config, register), reset_value(config, name)
    fields = []
    if name == "bounds_limit":
        ones = (1 << PAGE_BITS) - 1
        fields.append(MapField(name="page_offset", low=0, width=PAGE_BITS, access="constant", reset=ones, doc="ones"))
    if mask:
        low = (mask & -mask).bit_length() - 1
        width = mask.bit_count()
        fields.append(MapField(name="value", low=low, width=width, access="rw", reset=reset >> low, doc=doc))
    if name.endswith("_high") and (first := config.address_bits - WORD_BITS) < WORD_BITS:
        doc = f"the address does not fit the bus: a write of 1 to any of bits 31..{first} sets it"
        fields.append(MapField(name="overflow", low=first, width=1, access="rw", reset=0, doc=doc))
    return tuple(fields)
