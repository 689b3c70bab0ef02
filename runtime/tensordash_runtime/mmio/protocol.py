"""Messages between a core's server and its client on a stream socket; numbers are little-endian.

The server sends `GREETING`. Then it answers one request at a time. A request is an operation, an address, a length,
and the bytes to write. An answer is a status, a length, and the bytes that were read or a message.
"""

import socket
import struct
from enum import IntEnum

__all__ = ["ANSWER", "GREETING", "MAGIC", "REQUEST", "Operation", "receive"]

MAGIC = b"TDCORE 1"
GREETING = struct.Struct("<8sQQ")
"""`MAGIC`, the address of the first byte of memory, and the number of bytes."""
REQUEST = struct.Struct("<BQI")
"""Operation, address and length."""
ANSWER = struct.Struct("<BI")
"""Status and length. Status 0 is success. With status 1, the bytes are an error message."""


class Operation(IntEnum):
    """Operation of a request.

    A register's address is its offset, and its length is 4. The address of `WAIT` is a limit in milliseconds. Its
    answer is one byte: 1 if the interrupt is raised, else 0.
    """

    READ_REGISTER = 0
    WRITE_REGISTER = 1
    READ_MEMORY = 2
    WRITE_MEMORY = 3
    WAIT = 4


def receive(connection: socket.socket, count: int) -> bytes:
    """Receive exactly `count` bytes.

    Raises
    ------
    ConnectionError
        If the peer closes the connection first.
    """
    data = bytearray()
    while len(data) < count:
        part = connection.recv(min(count - len(data), 1 << 20))
        if not part:
            raise ConnectionResetError("Connection closed by peer")
        data += part
    return bytes(data)
