"""Memory at a core's AXI4 port."""

__all__ = ["Memory"]


class Memory:
    """A range of bytes; an access to any other address gives a bus error.

    Parameters
    ----------
    size : int
        Size in bytes.
    base : int
        Address of the first byte.
    line : int
        Bytes of a line, that is, of a beat on the bus.

    Attributes
    ----------
    faults : set of int
        Numbers of lines inside the range that give a bus error: address divided by `line`.
    """

    def __init__(self, size: int, base: int = 0, *, line: int = 1) -> None:
        self.base, self.line = base, line
        self.bytes = bytearray(size)
        self.faults: set[int] = set()

    def read(self, address: int, count: int) -> bytes | None:
        """Read `count` bytes; return None if one of them gives a bus error."""
        begin = address - self.base
        return bytes(self.bytes[begin : begin + count]) if self._answers(address, count) else None

    def write(self, address: int, data: bytes | memoryview) -> bool:
        """Write bytes and return True; if one of them gives a bus error, write none and return False."""
        if not self._answers(address, len(data)):
            return False
        begin = address - self.base
        self.bytes[begin : begin + len(data)] = data
        return True

    def _answers(self, address: int, count: int) -> bool:
        if not 0 <= address - self.base <= len(self.bytes) - count:
            return False
        return not self.faults or self.faults.isdisjoint(
            range(address // self.line, (address + count - 1) // self.line + 1)
        )
