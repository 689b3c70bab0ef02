"""Register map of all cores, as data, for the hardware, docs/core.md, Python constants and the C header.

`register_map` adds the values of one core, for SVD, SystemRDL and IP-XACT.
"""

from dataclasses import dataclass

__all__ = [
    "ADDRESS_BITS",
    "COUNTERS",
    "ERRORS",
    "FORMAT_CODES",
    "IDENTITY",
    "PAGE_BITS",
    "REGISTERS",
    "RING_BITS",
    "WORD_BITS",
    "Bits",
    "Register",
    "bit_mask",
    "named",
]

ADDRESS_BITS = 12
"""Bits of a register's address in bytes: a page of 4 KiB, the smallest unit that an operating system maps."""
WORD_BITS = 32
"""Bits of a register."""
RING_BITS = 6
"""Low bits of the ring's address that are zero: a descriptor has 64 bytes."""
PAGE_BITS = 12
"""Bits of an address within a page of 4 KiB, the unit of bounds."""

IDENTITY = 0x54440001
"""Value of the first register: "TD", and the version of the registers and descriptors."""

ERRORS = {
    "operation": 1,
    "reserved": 2,
    "field": 3,
    "range": 4,
    "tokens": 5,
    "address": 6,
    "compressed": 7,
    "read": 8,
    "write": 9,
    "fetch": 10,
    "bounds": 11,
}
"""Codes of errors."""

FORMAT_CODES = {"fp16": 1, "bf16": 2, "fp8_e4m3": 3, "fp8_e5m2": 4, "int8": 5}
"""Codes of the operand formats in the register `formats`."""

ACCESSES = ("ro", "rw", "w1c", "wo")


@dataclass(frozen=True, kw_only=True)
class Bits:
    """Some bits of a register.

    Parameters
    ----------
    name : str
        Their name.
    low, width : int
        The lowest bit, and the number of bits.
    doc : str
        Their meaning, in one line.
    """

    name: str
    low: int
    width: int
    doc: str


@dataclass(frozen=True, kw_only=True)
class Register:
    """A 32-bit register.

    Parameters
    ----------
    name : str
        Its name, in every language.
    offset : int
        Its address in bytes.
    access : str
        "ro": read only. "rw": read and write. "w1c": read, and writing a one clears its bit. "wo": a write triggers an
        action; reads 0.
    doc : str
        Its content, in one line.
    bits : tuple of Bits
        Its named bits; empty if it is one value.
    """

    name: str
    offset: int
    access: str
    doc: str
    bits: tuple[Bits, ...] = ()

    @property
    def mask(self) -> int:
        """The bits that exist."""
        return sum(((1 << each.width) - 1) << each.low for each in self.bits) if self.bits else 0xFFFFFFFF


def _register(offset: int, name: str, access: str, doc: str, *bits: tuple[str, int, int, str]) -> Register:
    parts = tuple(Bits(name=name, low=low, width=width, doc=doc) for name, low, width, doc in bits)
    return Register(name=name, offset=offset, access=access, doc=doc, bits=parts)


COUNTERS = (
    ("cycles", "cycles since the last reset or `clear`"),
    ("multiplying", "cycles in which a multiply has begun and is not done"),
    ("scheduled", "cycles with a schedule in the tile"),
    ("steps", "steps that the tile has consumed"),
    ("effectual", "pairs that the tile has multiplied: positions consumed, summed over rows"),
    ("stall_input", "cycles in which the tile waited for steps"),
    ("stall_output", "cycles in which the tile waited for the output unit"),
    ("load_busy", "cycles with a load in progress"),
    ("layout_a_busy", "cycles with a layout of side A in progress"),
    ("layout_b_busy", "cycles with a layout of side B in progress"),
    ("output_busy", "cycles with an output in progress"),
    ("store_busy", "cycles with a store or a record in progress"),
    ("read_beats", "beats of data read from memory, without descriptors"),
    ("write_beats", "beats of data written to memory"),
)
"""Saturating 32-bit counters."""

_FIRST_COUNTER = 0x80

REGISTERS: tuple[Register, ...] = (
    _register(0x00, "identity", "ro", f"0x{IDENTITY:08x}: a core with these registers"),
    _register(0x04, "digest", "ro", "the configuration's digest, low half"),
    _register(0x08, "digest_high", "ro", "the configuration's digest, high half"),
    _register(
        0x0C,
        "shape",
        "ro",
        "the tile",
        ("lanes", 0, 8, "lanes"),
        ("rows", 8, 8, "rows"),
        ("columns", 16, 8, "columns"),
        ("depth", 24, 8, "steps of the window"),
    ),
    _register(0x10, "groups", "ro", "groups in the buffer"),
    _register(
        0x14,
        "stream_words",
        "ro",
        "words in each bank of the stream buffers",
        ("a", 0, 16, "of side A, less one"),
        ("b", 16, 16, "of side B, less one"),
    ),
    _register(
        0x18,
        "features",
        "ro",
        "features of this core",
        ("value_bits", 0, 8, "bits of an operand"),
        ("partial_sums", 8, 8, "blocks of partial sums, less one"),
        ("bias", 16, 1, "biases"),
        ("scale", 17, 1, "powers of two"),
        ("relu", 18, 1, "ReLU"),
        ("mask", 19, 1, "masks"),
        ("stochastic", 20, 1, "stochastic rounding"),
        ("compression", 21, 1, "compressed tensors"),
        ("sparse", 22, 1, "the tile skips zeros"),
        ("nvfp4", 23, 1, "loads of NVFP4 tensors"),
        ("skip_masked", 24, 1, "skipped passes"),
        ("drop_steps", 25, 1, "dropped steps"),
    ),
    _register(
        0x1C,
        "formats",
        "ro",
        "operands and bus",
        ("a", 0, 8, "format of side A, a code as below"),
        ("b", 8, 8, "format of side B"),
        ("axi_bits", 16, 16, "width of the memory bus in bits"),
    ),
    _register(
        0x20,
        "control",
        "rw",
        "control of the core",
        ("enable", 0, 1, "fetch descriptors"),
        ("reset", 1, 1, "soft reset; reads 0"),
    ),
    _register(
        0x24,
        "status",
        "ro",
        "state of the core",
        ("busy", 0, 1, "a descriptor waits for its fetch or is not done, and there is no error"),
        ("resetting", 1, 1, "a soft reset is in progress"),
        ("failed", 2, 1, "an error has stopped the core"),
    ),
    _register(0x28, "queue_base", "rw", "address of the ring of descriptors, a multiple of 64, low half"),
    _register(0x2C, "queue_base_high", "rw", "address of the ring of descriptors, high half"),
    _register(0x30, "queue_size", "rw", "places of the ring", ("log2", 0, 4, "base-2 logarithm of their number")),
    _register(0x34, "tail", "rw", "descriptors put into the ring since reset"),
    _register(0x38, "head", "ro", "descriptors fetched"),
    _register(0x3C, "done", "ro", "descriptors done, in the program's order"),
    _register(0x40, "error", "ro", "the first error", ("code", 0, 8, "code, as below; 0: no error")),
    _register(0x44, "error_index", "ro", "number of the error's descriptor, counted from 0 since reset"),
    _register(
        0x48,
        "interrupt_enable",
        "rw",
        "causes that raise `irq`",
        ("end", 0, 1, "an `end` is done"),
        ("error", 1, 1, "an error"),
    ),
    _register(
        0x4C,
        "cause",
        "w1c",
        "causes that are set",
        ("end", 0, 1, "an `end` is done"),
        ("error", 1, 1, "an error"),
    ),
    _register(
        0x50,
        "snapshot",
        "wo",
        "counters",
        ("take", 0, 1, "copy all counters to their registers"),
        ("clear", 1, 1, "reset all counters to 0"),
    ),
    _register(0x54, "bounds_base", "rw", "the lowest address that the core may use, a multiple of 4096, low half"),
    _register(0x58, "bounds_base_high", "rw", "the lowest address that the core may use, high half"),
    _register(
        0x5C, "bounds_limit", "rw", "the highest address that the core may use; bits 11..0 read as ones; low half"
    ),
    _register(0x60, "bounds_limit_high", "rw", "the highest address that the core may use, high half"),
    *(
        _register(_FIRST_COUNTER + 4 * i, name, "ro", f"copied counter: {doc}")
        for i, (name, doc) in enumerate(COUNTERS)
    ),
)
"""All registers, in the order of their addresses."""


def named(name: str) -> Register:
    """Return the register with a name.

    >>> hex(named("tail").offset)
    '0x34'
    """
    return next(register for register in REGISTERS if register.name == name)


def bit_mask(register: str, bits: str) -> int:
    """Return the mask of a register's bits, both by name.

    >>> bit_mask("status", "failed")
    4
    """
    return next(((1 << each.width) - 1) << each.low for each in named(register).bits if each.name == bits)
