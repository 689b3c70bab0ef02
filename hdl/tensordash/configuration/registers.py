"""Registers of the core, as data: hardware, docs/core.md, Python constants and the C header come from here."""

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
"""What the first register says: "TD", and the version of the registers and descriptors."""

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

FORMAT_CODES = {"fp16": 1, "bf16": 2, "fp8_e4m3": 3, "fp8_e5m2": 4}
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
        The lowest, and how many.
    doc : str
        What they say, in one line.
    """

    name: str
    low: int
    width: int
    doc: str


@dataclass(frozen=True, kw_only=True)
class Register:
    """A register of 32 bits.

    Parameters
    ----------
    name : str
        Its name, in every language.
    offset : int
        Its address in bytes.
    access : str
        "ro": read; "rw": read and written; "w1c": read, and ones that are written clear bits; "wo": acts when it is
        written, reads 0.
    doc : str
        What it is, in one line.
    bits : tuple of Bits
        What it consists of; itself if empty.
    """

    name: str
    offset: int
    access: str
    doc: str
    bits: tuple[Bits, ...] = ()

    @property
    def mask(self) -> int:
        """The bits that there are."""
        return sum(((1 << each.width) - 1) << each.low for each in self.bits) if self.bits else 0xFFFFFFFF


def _bits(*rows: tuple[str, int, int, str]) -> tuple[Bits, ...]:
    return tuple(Bits(name=name, low=low, width=width, doc=doc) for name, low, width, doc in rows)


COUNTERS = (
    ("cycles", "cycles since the last reset or `clear`"),
    ("multiplying", "cycles in which a multiply has begun and is not done"),
    ("scheduled", "cycles with a schedule in the tile"),
    ("steps", "dense steps that the tile has consumed"),
    ("effectual", "pairs that the tile has multiplied: positions consumed, summed over rows"),
    ("stall_input", "cycles in which the tile waited for steps"),
    ("stall_output", "cycles in which the tile waited for the output unit"),
    ("load_busy", "cycles in which a load was under way"),
    ("layout_a_busy", "cycles in which a layout of side A was under way"),
    ("layout_b_busy", "cycles in which a layout of side B was under way"),
    ("output_busy", "cycles in which an output was under way"),
    ("store_busy", "cycles in which a store or a record was under way"),
    ("read_beats", "beats of data that memory has sent, descriptors not counted"),
    ("write_beats", "beats of data that memory was sent"),
)
"""Counters, of 32 bits, that stay at their largest value."""

_FIRST_COUNTER = 0x80

REGISTERS: tuple[Register, ...] = (
    Register(name="identity", offset=0x00, access="ro", doc=f"0x{IDENTITY:08x}: a core with these registers"),
    Register(name="digest", offset=0x04, access="ro", doc="the configuration's digest, low half"),
    Register(name="digest_high", offset=0x08, access="ro", doc="the configuration's digest, high half"),
    Register(
        name="shape",
        offset=0x0C,
        access="ro",
        doc="the tile",
        bits=_bits(
            ("lanes", 0, 8, "lanes"),
            ("rows", 8, 8, "rows"),
            ("columns", 16, 8, "columns"),
            ("depth", 24, 8, "steps of the window"),
        ),
    ),
    Register(name="groups", offset=0x10, access="ro", doc="groups in the buffer"),
    Register(
        name="stream_words",
        offset=0x14,
        access="ro",
        doc="words in each bank of the stream buffers",
        bits=_bits(("a", 0, 16, "of side A, less one"), ("b", 16, 16, "of side B, less one")),
    ),
    Register(
        name="features",
        offset=0x18,
        access="ro",
        doc="what this core is built with",
        bits=_bits(
            ("value_bits", 0, 8, "bits of an operand"),
            ("partial_sums", 8, 8, "blocks of partial sums, less one"),
            ("bias", 16, 1, "biases"),
            ("scale", 17, 1, "powers of two"),
            ("relu", 18, 1, "ReLU"),
            ("mask", 19, 1, "masks"),
            ("stochastic", 20, 1, "stochastic rounding"),
            ("compression", 21, 1, "compressed tensors"),
            ("sparse", 22, 1, "the tile skips zeros"),
        ),
    ),
    Register(
        name="formats",
        offset=0x1C,
        access="ro",
        doc="operands and bus",
        bits=_bits(
            ("a", 0, 8, "format of side A, a code as below"),
            ("b", 8, 8, "format of side B"),
            ("axi_bits", 16, 16, "width of the memory bus in bits"),
        ),
    ),
    Register(
        name="control",
        offset=0x20,
        access="rw",
        doc="what the core shall do",
        bits=_bits(("enable", 0, 1, "fetch descriptors"), ("reset", 1, 1, "soft reset; reads 0")),
    ),
    Register(
        name="status",
        offset=0x24,
        access="ro",
        doc="what it does",
        bits=_bits(
            ("busy", 0, 1, "a descriptor is to be fetched or is not done, and there is no error"),
            ("resetting", 1, 1, "a soft reset is not over"),
            ("failed", 2, 1, "an error stands"),
        ),
    ),
    Register(
        name="queue_base",
        offset=0x28,
        access="rw",
        doc="address of the ring of descriptors, a multiple of 64, low half",
    ),
    Register(name="queue_base_high", offset=0x2C, access="rw", doc="address of the ring of descriptors, high half"),
    Register(
        name="queue_size",
        offset=0x30,
        access="rw",
        doc="the ring's places",
        bits=_bits(
            ("log2", 0, 4, "their number's logarithm to base 2"),
        ),
    ),
    Register(name="tail", offset=0x34, access="rw", doc="descriptors put into the ring since reset"),
    Register(name="head", offset=0x38, access="ro", doc="descriptors fetched"),
    Register(name="done", offset=0x3C, access="ro", doc="descriptors done: all up to this one"),
    Register(
        name="error",
        offset=0x40,
        access="ro",
        doc="the first error",
        bits=_bits(
            ("code", 0, 8, "which, as below; 0: none"),
        ),
    ),
    Register(name="error_index", offset=0x44, access="ro", doc="number of its descriptor, counted from 0 since reset"),
    Register(
        name="interrupt_enable",
        offset=0x48,
        access="rw",
        doc="what raises `irq`",
        bits=_bits(("end", 0, 1, "an `end` is done"), ("error", 1, 1, "an error")),
    ),
    Register(
        name="cause",
        offset=0x4C,
        access="w1c",
        doc="what has happened",
        bits=_bits(("end", 0, 1, "an `end` is done"), ("error", 1, 1, "an error")),
    ),
    Register(
        name="snapshot",
        offset=0x50,
        access="wo",
        doc="counters",
        bits=_bits(("take", 0, 1, "copy all counters to their registers"), ("clear", 1, 1, "begin to count anew")),
    ),
    Register(
        name="bounds_base",
        offset=0x54,
        access="rw",
        doc="the lowest address that the core may use, a multiple of 4096, low half",
    ),
    Register(
        name="bounds_base_high", offset=0x58, access="rw", doc="the lowest address that the core may use, high half"
    ),
    Register(
        name="bounds_limit",
        offset=0x5C,
        access="rw",
        doc="the highest address that the core may use; bits 11..0 read as ones; low half",
    ),
    Register(
        name="bounds_limit_high", offset=0x60, access="rw", doc="the highest address that the core may use, high half"
    ),
    *(
        Register(name=name, offset=_FIRST_COUNTER + 4 * i, access="ro", doc=f"copied counter: {doc}")
        for i, (name, doc) in enumerate(COUNTERS)
    ),
)
"""All registers, in the order of their addresses."""


def named(name: str) -> Register:
    """The register of a name.

    >>> hex(named("tail").offset)
    '0x34'
    """
    return next(register for register in REGISTERS if register.name == name)
