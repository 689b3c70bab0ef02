"""Messages between a core's server and its client, on a stream socket; numbers are little-endian.

The server begins with `GREETING`. Then it answers requests, one after the other. A request has an operation, an
address, a length, and the bytes to write. An answer has a status, a length, and the bytes that were read, or a message.
"""

import socket
import struct
from enum import IntEnum

__all__ = ["ANSWER", "GREETING", "MAGIC", "REQUEST", "Operation", "receive"]

MAGIC = b"TDCORE 1"
GREETING = struct.Struct("<8sQQ")
"""`MAGIC`, the address of the first byte of memory, bytes of memory."""
REQUEST = struct.Struct("<BQI")
ANSWER = struct.Struct("<BI")
"""Status 0: done; 1: the bytes are a message with the reason."""


class Operation(IntEnum):
    """What a client asks for.

    A register's address is its offset, and its length 4. `WAIT` has a limit in milliseconds as its address; the answer
    is one byte, 1 at an interrupt.
    """

    READ_REGISTER = 0
    WRITE_REGISTER = 1
    READ_MEMORY = 2
    WRITE_MEMORY = 3
    WAIT = 4


def receive(connection: socket.socket, count: int) -> bytes:
    """Receive some bytes.

    Raises
    ------
    ConnectionError
        If the peer closes before all of them have come.
    """
    data = bytearray()
    while len(data) < count:
        part = connection.recv(min(count - len(data), 1 << 20))
        if not part:
            raise ConnectionResetError("Connection closed by peer")
        data += part
    return bytes(data)
