"""Addresses of cores: a server's socket, or Linux devices."""

from dataclasses import dataclass
from pathlib import Path

__all__ = ["SocketAddress", "UioAddress", "parse_address"]

ALLOWED = "unix:PATH, tcp:HOST:PORT or uio:REGISTERS,MEMORY,PHYSICAL_ADDRESS"


@dataclass(frozen=True, kw_only=True)
class SocketAddress:
    """A server's socket: the path of a UNIX socket, or a TCP host and port."""

    place: str | tuple[str, int]


@dataclass(frozen=True, kw_only=True)
class UioAddress:
    """Linux devices of a core.

    Parameters
    ----------
    registers : Path
        Device of the registers and the interrupt, for example /dev/uio0.
    memory : Path
        Device of memory that the core can access, for example /dev/udmabuf0.
    physical : int
        The core's address of the first byte of that memory.
    """

    registers: Path
    memory: Path
    physical: int


def parse_address(text: str) -> SocketAddress | UioAddress:
    """Parse a core's address: unix:PATH, tcp:HOST:PORT or uio:REGISTERS,MEMORY,PHYSICAL_ADDRESS.

    Raises
    ------
    ValueError
        If the text is not an address.

    Examples
    --------
    >>> parse_address("tcp:localhost:7000")
    SocketAddress(place=('localhost', 7000))
    >>> parse_address("uio:/dev/uio0,/dev/udmabuf0,0x10000000").physical
    268435456
    """
    kind, _, rest = text.partition(":")
    try:
        if kind == "unix" and rest:
            return SocketAddress(place=rest)
        if kind == "tcp":
            host, _, port = rest.rpartition(":")
            if host and 0 < int(port) < 1 << 16:
                return SocketAddress(place=(host, int(port)))
        if kind == "uio":
            registers, memory, physical = rest.split(",")
            return UioAddress(registers=Path(registers), memory=Path(memory), physical=int(physical, 0))
    except ValueError:
        pass
    raise ValueError(f"address must be {ALLOWED}, not {text!r}")
