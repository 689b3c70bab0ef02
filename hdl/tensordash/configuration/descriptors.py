"""Descriptors of the core, as data: all operations, and every field's place.

Hardware, golden model, assembler, benches and docs/core.md read the places of fields from here.
A new field, for example of `load`, also needs changes in these places:

- its unit in `hdl` (`movers`, `core`), and `core/descriptor_check.py` if some of its values are illegal;
- `golden/core` in `sim`: `legal.py`, the model of the operation (`moves.py` for `load`), and `effects.py`;
- `compiler` in `sim`: `footprint.py` and `unit_cycles.py`;
- `verify` in `sim`: the unit's bench (`units/load.py`), and `random_programs.py` and `field_cases.py` in `programs`;
- the reference model in `formal` (`move_nest.py` for `load`), and `program_order.py` for illegal values.

`python bench/core_page.py` writes the field into docs/core.md. The C header and the assembler need no change.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from types import MappingProxyType

__all__ = [
    "BITS",
    "BYTES",
    "HEADER",
    "MAX_STRIDE",
    "OPERATIONS",
    "UNITS",
    "Field",
    "Operation",
    "decode",
    "encode",
    "loop_fields",
]

BYTES = 64
"""Bytes of a descriptor."""
BITS = 8 * BYTES
MAX_STRIDE = 4
"""Largest `stride` of a layout or a multiply, in positions."""

UNITS = ("load", "layout_a", "layout_b", "multiply", "output", "store")
"""The units that execute descriptors, in the order of the bits of `wait` and `signal`."""


@dataclass(frozen=True, kw_only=True)
class Field:
    """Some bits of a descriptor.

    Parameters
    ----------
    name : str
        Its name, in every language.
    low, width : int
        Its lowest bit in the descriptor, and its number of bits.
    doc : str
        Its meaning, in one line.
    signed : bool
        Two's complement.
    least : int
        The smallest value allowed.
    greatest : int
        The largest value allowed, if the bits can hold larger, illegal ones.
    """

    name: str
    low: int
    width: int
    doc: str
    signed: bool = False
    least: int | None = None
    greatest: int | None = None

    @property
    def minimum(self) -> int:
        """The smallest value allowed."""
        if self.least is not None:
            return self.least
        return -(1 << (self.width - 1)) if self.signed else 0

    @property
    def maximum(self) -> int:
        """The largest value that fits the bits."""
        return (1 << (self.width - self.signed)) - 1

    @property
    def mask(self) -> int:
        """Its bits in a descriptor."""
        return ((1 << self.width) - 1) << self.low

    def get(self, bits: int) -> int:
        """Return its value in a descriptor."""
        value = (bits & self.mask) >> self.low
        return value - (1 << self.width) if self.signed and value >> (self.width - 1) else value


@dataclass(frozen=True, kw_only=True)
class Operation:
    """A kind of descriptor.

    Parameters
    ----------
    name : str
        Its name.
    code : int
        Value of the header's field `operation`.
    unit : str
        The one of `UNITS` that executes it; empty for the sequencer itself.
    doc : str
        Its effect, in one line.
    fields : tuple of Field
        Its fields without the header's. All other bits are zero.
    """

    name: str
    code: int
    unit: str
    doc: str
    fields: tuple[Field, ...]

    @property
    def mask(self) -> int:
        """All bits that may be set."""
        return sum(field.mask for field in (*HEADER, *self.fields))

    @cached_property
    def encoding(self) -> tuple[int, Mapping[str, tuple[int, int, int, int, int]]]:
        """Bits of all defaults, and each field's minimum, maximum, default, lowest bit, and ones of its width."""
        bits, places = 0, {}
        for field in (*HEADER, *self.fields):
            default = self.code if field.name == "operation" else max(field.least or 0, 0)
            places[field.name] = field.minimum, field.maximum, default, field.low, (1 << field.width) - 1
            bits |= default << field.low
        return bits, places


def _fields(*rows: tuple[int, int, int, str, str] | tuple[int, int, int, str, str, dict]) -> tuple[Field, ...]:
    """Return fields from (word, low bit in it, width, name, doc[, more])."""
    return tuple(
        Field(name=name, low=32 * word + low, width=width, doc=doc, **(more[0] if more else {}))
        for word, low, width, name, doc, *more in rows
    )


HEADER = _fields(
    (0, 0, 4, "operation", "code of the operation"),
    (0, 8, 6, "wait", "units from which one token each is taken before it begins"),
    (0, 16, 6, "signal", "units that get one token each when it is done"),
)
"""The fields of every descriptor."""

AT_LEAST_ONE = {"least": 1}
STRIDES = {"least": 1, "greatest": MAX_STRIDE}
SIGNED = {"signed": True}


def loop_fields(first_word: int, loops: int, counts: tuple[int, int]) -> tuple[Field, ...]:
    """Return the fields of a loop nest, the innermost loop first. The outermost loop has no count.

    Parameters
    ----------
    first_word : int
        Word of the first field.
    loops : int
        Number of loops.
    counts : tuple of int
        Word and bit of the first count.
    """
    fields: list[Field] = []
    for k in range(loops):
        fields += _fields(
            (first_word + k, 0, 16, f"address_{k}", f"added to the address when loop {k} steps", SIGNED),
            (first_word + k, 16, 16, f"x_{k}", f"added to x when loop {k} steps", SIGNED),
        )
    for k in range(loops):
        word = first_word + loops + k // 2
        fields += _fields((word, 16 * (k % 2), 16, f"y_{k}", f"added to y when loop {k} steps", SIGNED))
    for k in range(loops - 1):
        low = 32 * counts[0] + counts[1] + 12 * k
        fields.append(Field(name=f"count_{k}", low=low, width=12, doc=f"iterations of loop {k}", least=1))
    return tuple(fields)


def _walk_fields(y: str, address: str = "group of position 0 at the start") -> tuple[Field, ...]:
    """Return the fields at which a walk through the buffer starts; `y` and `address` are meanings of two fields."""
    return _fields(
        (2, 0, 16, "address", address),
        (2, 28, 3, "stride", f"positions from one port to the next, 1 to {MAX_STRIDE}", STRIDES),
        (3, 0, 16, "x", "position of port 0 at the start", SIGNED),
        (3, 16, 16, "y", y, SIGNED),
        (4, 0, 16, "x_size", "number of positions", AT_LEAST_ONE),
    )


_MOVE = _fields(
    (1, 0, 32, "memory", "address in memory, bytes, low half"),
    (2, 0, 32, "memory_high", "the same, high half"),
    (3, 0, 16, "address", "first group in the buffer"),
    (4, 0, 16, "count_0", "consecutive groups in memory; compressed: all groups", AT_LEAST_ONE),
    (4, 16, 16, "count_1", "iterations of loop 1; compressed: 1", AT_LEAST_ONE),
    (5, 0, 16, "count_2", "iterations of loop 2; compressed: 1", AT_LEAST_ONE),
    (5, 16, 16, "count_3", "iterations of loop 3; compressed: 1", AT_LEAST_ONE),
    (6, 0, 32, "stride_1", "groups from one turn of loop 1 to the next, in memory", SIGNED),
    (7, 0, 32, "stride_2", "groups from one turn of loop 2 to the next, in memory", SIGNED),
    (8, 0, 32, "stride_3", "groups from one turn of loop 3 to the next, in memory", SIGNED),
    (0, 24, 1, "compressed", "the tensor in memory is compressed"),
    (9, 0, 32, "table", "compressed: address of the first segment's entry in the table, bytes, low half"),
    (10, 0, 32, "table_high", "the same, high half"),
    (11, 0, 16, "segment", "compressed: groups in a segment"),
)

_LOAD = (
    *_MOVE,
    *_fields(
        (0, 25, 1, "nvfp4", "the tensor in memory is NVFP4"),
        (0, 26, 1, "by_channel", "NVFP4: a scale belongs to a channel, not to a position"),
    ),
)

_LAYOUT = (
    *_fields(
        (0, 24, 1, "transposed", "ports are channels and lanes are positions"),
        (0, 25, 1, "checked", "rows with y below 0 or at least y_size are zero; otherwise y is ignored"),
        (1, 0, 16, "base", "first word of each bank of the stream buffer"),
        (1, 16, 16, "steps", "steps of each stream", AT_LEAST_ONE),
        (2, 16, 12, "streams", "number of streams", AT_LEAST_ONE),
        (4, 16, 16, "y_size", "number of rows"),
    ),
    *_walk_fields("row at the start"),
    *loop_fields(5, 6, counts=(14, 0)),
)

_MULTIPLY = _fields(
    (0, 14, 1, "add", "partial sums are added"),
    (0, 15, 1, "emit", "sums become results; otherwise partial sums"),
    (0, 22, 1, "transposed", "the tile's columns are positions, and its rows channels"),
    (0, 23, 1, "fp32", "results stay FP32"),
    (0, 24, 1, "bias", "a bias is added for each channel"),
    (0, 25, 1, "relu", "negative results become zero"),
    (0, 26, 1, "mask", "results become zero where the mask is zero"),
    (0, 27, 1, "stochastic", "results are rounded stochastically to the operand format"),
    (0, 28, 1, "toward_zero", "results are rounded toward zero to the operand format, even if `stochastic`"),
    (0, 29, 1, "skip_masked", "passes are skipped where the mask is zero"),
    (1, 0, 6, "output_wait", "like `wait`, for the output unit"),
    (1, 8, 6, "output_signal", "like `signal`, of the output unit"),
    (1, 16, 8, "partial", "the first block's place among the partial sums"),
    (1, 24, 8, "scale", "results are multiplied by this power of two", SIGNED),
    (2, 16, 12, "a_streams", "streams of the column side", AT_LEAST_ONE),
    (4, 16, 16, "steps", "steps of each stream", AT_LEAST_ONE),
    (11, 0, 16, "a_base", "first word of side A's streams"),
    (11, 16, 16, "b_base", "first word of side B's streams"),
    (13, 4, 12, "b_streams", "streams of the row side", AT_LEAST_ONE),
    (14, 0, 16, "bias_address", "group of the biases' first values"),
    (14, 16, 16, "mask_address", "group of the mask for `address`"),
    (15, 0, 32, "seed", "seed of stochastic rounding"),
)

OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {
        operation.name: operation
        for operation in (
            Operation(name="load", code=1, unit="load", doc="memory to buffer", fields=_LOAD),
            Operation(name="layout_a", code=2, unit="layout_a", doc="buffer to stream buffer A", fields=_LAYOUT),
            Operation(name="layout_b", code=3, unit="layout_b", doc="buffer to stream buffer B", fields=_LAYOUT),
            Operation(
                name="multiply",
                code=4,
                unit="multiply",
                doc="each stream of B with each stream of A through the tile, and the sums to partial sums or results",
                fields=(
                    *_MULTIPLY,
                    *_walk_fields(
                        "channel group of the biases at the start; unused without `bias`",
                        "where results go: group of their position 0 at the start",
                    ),
                    *loop_fields(5, 4, counts=(12, 0)),
                ),
            ),
            Operation(name="store", code=5, unit="store", doc="buffer to memory", fields=_MOVE),
            Operation(
                name="record",
                code=6,
                unit="store",
                doc="writes the counts since the last record to memory, and clears them",
                fields=_MOVE[:2],
            ),
            Operation(
                name="end",
                code=7,
                unit="",
                doc="wait until all descriptors are done, and raise the interrupt",
                fields=(),
            ),
        )
    }
)
"""Operations by name."""


def encode(operation: Operation, values: Mapping[str, int]) -> int:
    """Return a descriptor's bits.

    Parameters
    ----------
    operation : Operation
        The descriptor's operation.
    values : mapping of str to int
        Fields by name, including the header's. By default a field has its least value, or 0.

    Raises
    ------
    ValueError
        If a field does not exist, or a value is not allowed.

    Examples
    --------
    >>> hex(encode(OPERATIONS["end"], {"signal": 0}))
    '0x7'
    >>> encode(OPERATIONS["load"], {"count_0": 0})
    Traceback (most recent call last):
    ValueError: load.count_0 must be from 1 to 65535, not 0
    """
    bits, places = operation.encoding
    if not values.keys() <= places.keys():
        raise ValueError(f"{operation.name} has no field {min(values.keys() - places)}: there are {', '.join(places)}")
    for name, value in values.items():
        minimum, maximum, default, low, ones = places[name]
        if not minimum <= value <= maximum:
            raise ValueError(f"{operation.name}.{name} must be from {minimum} to {maximum}, not {value}")
        bits += (value & ones) - default << low
    return bits


def decode(bits: int, names: frozenset[str] | None = None) -> tuple[Operation | None, dict[str, int]]:
    """Return the operation of a descriptor, or None for an unknown code, and its fields.

    Parameters
    ----------
    bits : int
        The descriptor.
    names : frozenset of str, optional
        The fields to return, if the operation has them. By default all.
    """
    operation, fields = _decoding(bits & HEADER[0].mask, names)
    return operation, {
        name: value - signs if (value := bits >> low & ones) & sign else value
        for name, low, ones, sign, signs in fields
    }


@cache
def _decoding(
    code: int, names: frozenset[str] | None
) -> tuple[Operation | None, Sequence[tuple[str, int, int, int, int]]]:
    """Return a code's operation, and each field's name, low bit, ones, sign bit and amount that a sign subtracts."""
    operation = next((each for each in OPERATIONS.values() if each.code == code), None)
    return operation, [
        (field.name, field.low, (1 << field.width) - 1, field.signed << field.width - 1, 1 << field.width)
        for field in (*HEADER, *(operation.fields if operation else ()))
        if names is None or field.name in names
    ]
