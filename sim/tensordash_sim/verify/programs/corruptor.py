"""Turn a legal program into an illegal one: change or add descriptors, in free memory and free groups."""

from itertools import pairwise
from random import Random

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import HEADER, OPERATIONS, UNITS, decode

from ...golden.core.effects import written_groups
from .random_programs import PROGRAM, RandomProgram

__all__ = ["InapplicableError", "NoRoomError", "ProgramCorruptor", "with_fields"]


PAGE = 4096
"""Bytes of a page; bounds are on boundaries of pages."""


def with_fields(bits: int, **fields: int) -> int:
    """Set fields of a descriptor to values, legal or not; `memory` and `table` are 64-bit addresses."""
    operation, _ = decode(bits)
    assert operation is not None
    known = {field.name: field for field in (*HEADER, *operation.fields)}
    for name in ("memory", "table"):
        if name in fields and f"{name}_high" not in fields:
            high, low = divmod(fields[name], 1 << 32)
            fields = fields | {f"{name}_high": high, name: low}
    for name, value in fields.items():
        field = known[name]
        bits = bits & ~field.mask | value << field.low & field.mask
    return bits


class NoRoomError(Exception):
    """A program's tensors leave too little free memory for the descriptors to add."""


class InapplicableError(Exception):
    """A program or its core lacks what a corruption changes."""


class ProgramCorruptor:
    """Corruptor of a legal program.

    Added descriptors access only memory and groups that the program does not use. The results of all descriptors before
    the error stay defined.

    Parameters
    ----------
    random : Random
        Source of all random decisions.
    config : CoreConfig
        The core.
    made : RandomProgram
        The legal program.

    Attributes
    ----------
    descriptors : list of int
        The program.
    memory : Memory
        Its data.
    base : int
        Address of the ring of descriptors.
    free_groups : range
        Groups of the buffer that the program does not use.
    top_groups : int
        Number of free groups at the buffer's end.
    bounds : (int, int), optional
        The lowest and the highest address that the core may access; all addresses if None.
    """

    def __init__(self, random: Random, config: CoreConfig, made: RandomProgram) -> None:
        self.random, self.config, self.memory, self.base = random, config, made.memory, PROGRAM
        self.descriptors = list(made.program.descriptors)
        self._next = made.end
        self.bounds: tuple[int, int] | None = None
        self._line = max(64, config.group_bytes)  # alignment of all data in memory, for any bus width
        last = config.groups - 1
        # A load into the last group only signals a token; no unit reads that group.
        loads = [bits for bits in self.descriptors if decode(bits)[1].get("address") != last]
        used = set().union(*(written_groups(bits, config) for bits in loads))
        self.free_groups = self._longest_free(used)
        self.top_groups = next((k for k in range(config.groups) if last - k in used), config.groups)

    def _longest_free(self, used: set[int]) -> range:
        """Return the longest run of unused groups."""
        marks = [-1, *sorted(used), self.config.groups]
        return max((range(a + 1, b) for a, b in pairwise(marks)), key=len)

    def require(self, condition: object) -> None:
        """Raise `InapplicableError` unless a condition of a corruption is true."""
        if not condition:
            raise InapplicableError

    # Descriptors

    def position(self) -> int:
        """Choose an index to insert at: the first, the last or a random one."""
        last = len(self.descriptors)
        return self.random.choice([0, self.random.randint(0, last), last])

    def pick(self, *operations: str) -> int:
        """Choose the first, the last or a random descriptor of these operations, or of all operations without any."""
        places = [
            k
            for k, bits in enumerate(self.descriptors)
            if (kind := decode(bits)[0]) is not None and (not operations or kind.name in operations)
        ]
        return self.random.choice([places[0], self.random.choice(places), places[-1]])

    def has(self, operation: str) -> bool:
        """Return whether the program has a descriptor of an operation."""
        return any(kind is OPERATIONS[operation] for kind, _ in map(decode, self.descriptors))

    def value(self, index: int, name: str) -> int:
        """Return a field of a descriptor."""
        return decode(self.descriptors[index])[1][name]

    def change(self, index: int, **fields: int) -> None:
        """Set fields of a descriptor to values, legal or not."""
        self.descriptors[index] = with_fields(self.descriptors[index], **fields)

    def encode(self, operation: str, **fields: int) -> int:
        """Encode a descriptor that waits for no unit; the other fields have their least value, or 0."""
        kind = OPERATIONS[operation]
        least = {field.name: max(field.least or 0, 0) for field in kind.fields}
        return with_fields(with_fields(kind.code, **least), **fields)

    def add(self, operation: str, **fields: int) -> int:
        """Insert a descriptor that waits for no unit, and return its index."""
        at = self.position()
        self.descriptors.insert(at, self.encode(operation, **fields))
        return at

    def tokens(self, index: int, producer: str, consumer: str) -> int:
        """Count the tokens from one unit to another that are signalled but not taken before an index."""
        count, to, by = 0, UNITS.index(consumer), UNITS.index(producer)
        for bits in self.descriptors[:index]:
            operation, values = decode(bits)
            if operation is None or not operation.unit:
                continue
            owners = {operation.unit: ""} | ({"output": "output_"} if operation.name == "multiply" else {})
            if producer in owners:
                count += values[f"{owners[producer]}signal"] >> to & 1
            if consumer in owners:
                count -= values[f"{owners[consumer]}wait"] >> by & 1
        return count

    def waits(self, consumer: str, producer: str) -> bool:
        """Return whether any descriptor of a unit waits for another unit."""
        found = False
        for operation, values in map(decode, self.descriptors):
            if operation is not None and operation.unit:
                field = {operation.unit: "wait"} | ({"output": "output_wait"} if operation.name == "multiply" else {})
                found |= consumer in field and bool(values[field[consumer]] >> UNITS.index(producer) & 1)
        return found

    # Memory

    def place(self, size: int) -> int:
        """Reserve bytes, and a free line after them; return their address.

        Raises
        ------
        NoRoomError
            If memory has too few free bytes.
        """
        at = self._next
        self._next += (-(-size // self._line) + 1) * self._line
        if self._next > len(self.memory.bytes):
            raise NoRoomError(f"{size} bytes from {at:#x} are beyond the end of memory")
        return at

    def put(self, data: bytes) -> int:
        """Write bytes to free memory; return their address."""
        at = self.place(len(data))
        assert self.memory.write(at, data)
        return at

    def nowhere(self, *, near: bool = False) -> int:
        """Return an address past the end of memory; with `near`, one that a stride can reach."""
        size, top = len(self.memory.bytes), 1 << self.config.address_bits
        return self.random.choice([size, size + 4096, 1 << 31, *([] if near else [top - 8192])])

    def outside(self, size: int, *, across: int = 0) -> int:
        """Set bounds, and return an address with `size` bytes outside them.

        Parameters
        ----------
        size : int
            Bytes from the address.
        across : int
            Bytes before the address that must be free and inside the bounds.
        """
        if self.bounds is None and not across and size <= PAGE and self.random.random() < 0.4:
            self.bounds = (PAGE, (1 << self.config.address_bits) - 1)
            return self.random.choice([0, PAGE - size])
        begin = -(-(self.place(size + across + PAGE) + across) // PAGE) * PAGE
        low, high = self.bounds or (0, begin - 1)
        self.bounds = (low, min(high, begin - 1))
        return begin
