"""AXI buses of a top, found by the names of its ports."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Bus", "Port", "bus_of", "find_buses"]

BUS_PORT = re.compile(r"(?P<bus>s_axi|m_axi|[sm]_axis(?:_[ab]\d+|_c)?)_(?P<signal>[a-z]+)")


@dataclass(frozen=True)
class Port:
    """A port of a module.

    Parameters
    ----------
    name : str
        Its name.
    direction : str
        "input" or "output".
    bits : int
        Its width.
    doc : str
        Its purpose, in one line.
    """

    name: str
    direction: str
    bits: int
    doc: str = ""

    @property
    def range(self) -> str:
        """The port's range in Verilog and a blank, or an empty string for one bit."""
        return f"[{self.bits - 1}:0] " if self.bits > 1 else ""

    @property
    def signal(self) -> str:
        """The name of the port's signal in its bus, such as "awaddr"; empty if it belongs to no bus."""
        found = BUS_PORT.fullmatch(self.name)
        return found["signal"] if found else ""


@dataclass(frozen=True, kw_only=True)
class Bus:
    """An AXI bus of a module.

    Parameters
    ----------
    name : str
        Prefix of its ports' names.
    protocol : str
        "AXI4", "AXI4-Lite" or "AXI4-Stream".
    is_master : bool
        Whether the module starts the transfers.
    ports : tuple of Port
        Its ports, in the order of the module.
    """

    name: str
    protocol: str
    is_master: bool
    ports: tuple[Port, ...]

    @property
    def family(self) -> str:
        """The name without a row or column number. Buses of one family have the same signals."""
        return re.sub(r"\d+$", "", self.name)


def bus_of(name: str) -> str:
    """Return the name of a port's bus, or an empty string if the port belongs to no bus.

    >>> bus_of("s_axis_a3_tdata"), bus_of("m_axi_awaddr"), bus_of("irq")
    ('s_axis_a3', 'm_axi', '')
    """
    found = BUS_PORT.fullmatch(name)
    return found["bus"] if found else ""


def find_buses(ports: Iterable[Port]) -> list[Bus]:
    """Return all buses of a module, in the order of their first ports."""
    groups: dict[str, list[Port]] = {}
    for port in ports:
        if name := bus_of(port.name):
            groups.setdefault(name, []).append(port)
    return [
        Bus(name=name, protocol=_protocol(name), is_master=name.startswith("m"), ports=tuple(group))
        for name, group in groups.items()
    ]


def _protocol(name: str) -> str:
    if "axis" in name:
        return "AXI4-Stream"
    return "AXI4" if name.startswith("m") else "AXI4-Lite"
