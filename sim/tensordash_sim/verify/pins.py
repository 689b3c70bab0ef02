"""Access to a design's pins from a bench."""

from typing import Any, Protocol

__all__ = ["Pins", "PinsLike", "split"]


class PinsLike(Protocol):
    """Protocol of a design's pins in any simulator; see `Pins`."""

    cycle: int

    def drive(self, **values: int) -> None: ...

    async def settle(self) -> None:
        """Wait until inputs have propagated through the logic."""

    async def tick(self) -> None: ...

    def read(self, name: str) -> int:
        """Return the value of a pin."""

    async def reset(self, **inputs: int) -> None:
        """Reset for two cycles, with these inputs."""


class Pins:
    """Pins of the top module, by name, with the clock under the bench's control.

    In each cycle call `drive` for any inputs, `settle`, `read` for outputs, and `tick`. The bench generates the clock,
    which costs two simulator callbacks per cycle and fixes the order of events.
    """

    def __init__(self, dut: Any) -> None:
        from cocotb.triggers import Timer  # The rest of this module does not need cocotb.

        self.dut = dut
        self._timer = Timer
        self._handles: dict[str, Any] = {}
        self._driven: dict[str, int] = {}
        self.cycle = 0

    def _handle(self, name: str) -> Any:
        handle = self._handles.get(name)
        if handle is None:
            handle = self.dut
            for part in name.split("."):
                handle = getattr(handle, part)
            self._handles[name] = handle
        return handle

    def drive(self, **values: int) -> None:
        """Set inputs; unchanged inputs cause no simulator event."""
        for name, value in values.items():
            if self._driven.get(name) != value:
                self._driven[name] = value
                self._handle(name).value = value

    async def settle(self) -> None:
        """Wait until inputs have propagated through the logic."""
        await self._timer(1, "ns")

    async def tick(self) -> None:
        self.drive(clk=1)
        await self._timer(1, "ns")
        self.drive(clk=0)
        self.cycle += 1

    def read(self, name: str) -> int:
        """Return the value of a pin; a pin with undefined bits fails the test."""
        value = self._handle(name).value
        try:
            return int(value)
        except ValueError:
            raise AssertionError(f"cycle {self.cycle}: {name} is undefined: {value}") from None

    async def reset(self, **inputs: int) -> None:
        """Reset for two cycles, with these inputs; a module without registers to reset has no `rst`."""
        resets = hasattr(self.dut, "rst")
        self.drive(clk=0, **({"rst": 1} if resets else {}), **inputs)
        for _ in range(2):
            await self.settle()
            await self.tick()
        if resets:
            self.drive(rst=0)

    async def restart(self, **inputs: int) -> None:
        """Reset for one cycle, with these inputs."""
        self.drive(rst=1, **inputs)
        await self.settle()
        await self.tick()
        self.drive(rst=0)


def split(number: int, width: int, count: int) -> list[int]:
    """Return the `count` fields of `width` bits of a number, the lowest first."""
    mask = (1 << width) - 1
    return [number >> (i * width) & mask for i in range(count)]
