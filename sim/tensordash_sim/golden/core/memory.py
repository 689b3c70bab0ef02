"""Memory at a core's AXI4 port."""

__all__ = ["Memory"]


class Memory:
    """Bytes at some addresses; all others answer with an error.

    Parameters
    ----------
    size : int
        Bytes.
    base : int
        The first one's address.
    line : int
        Bytes of a line: what a beat of the bus has.

    Attributes
    ----------
    faults : set of int
        Numbers of lines that answer with an error though they are there: address divided by `line`.
    """

    def __init__(self, size: int, base: int = 0, *, line: int = 1) -> None:
        self.base, self.line = base, line
        self.bytes = bytearray(size)
        self.faults: set[int] = set()

    def read(self, address: int, count: int) -> bytes | None:
        """Return some bytes, None if one of them is outside of memory."""
        begin = address - self.base
        return bytes(self.bytes[begin : begin + count]) if self._answers(address, count) else None

    def write(self, address: int, data: bytes) -> bool:
        """Write bytes; whether all of them are there. None is written if not."""
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
