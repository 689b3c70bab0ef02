"""Gate-level simulation of a mapped netlist: two-valued, cycle by cycle, without delays, with counts of toggles."""

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from .gates import CLOCK, MAX_INPUTS, GateNetlist

__all__ = ["GateSimulation", "Toggles", "complete"]


@dataclass(frozen=True, kw_only=True)
class Toggles:
    """Activity of nets over a number of cycles.

    Parameters
    ----------
    activity : array of float, (nets,)
        Toggles per cycle of all nets but the clock.
    duty : array of float, (nets,)
        Share of cycles in which a net is high.
    """

    activity: NDArray[np.float64]
    duty: NDArray[np.float64]


class GateSimulation:
    """Simulates a netlist; `tensordash_sim.verify.Lockstep` drives it like the pins of a design in a bench.

    Flip-flops start at 0. The clock is not simulated as a signal: `tick` applies its edge.

    Parameters
    ----------
    netlist : GateNetlist
        The design.
    """

    def __init__(self, netlist: GateNetlist) -> None:
        self.netlist = netlist
        self.cycle = 0
        self._values = np.zeros(netlist.nets, np.uint8)
        self._values[1] = 1
        self._next = np.zeros(len(netlist.states), np.uint8)
        self._before = self._values.copy()
        self._settled = False
        self.forget()

    def forget(self) -> None:
        self.cycles = 0
        self._toggles = np.zeros(self.netlist.nets, np.int64)
        self._ones = np.zeros(self.netlist.nets, np.int64)

    @property
    def activity(self) -> NDArray[np.float64]:
        """Toggles per cycle of every net but the clock."""
        toggles = self._toggles.copy()
        for net, enable in self.netlist.gated.items():
            toggles[net] = 2 * self._ones[enable]
        return toggles / max(self.cycles, 1)

    @property
    def duty(self) -> NDArray[np.float64]:
        """Share of cycles in which a net is high."""
        ones = self._ones.astype(float)
        for net, enable in self.netlist.gated.items():
            ones[net] = self._ones[enable] / 2
        return ones / max(self.cycles, 1)

    def drive(self, **values: int) -> None:
        for name, value in values.items():
            if name == CLOCK:
                continue
            nets = self.netlist.ports[name][1]
            bits = np.frombuffer(value.to_bytes(len(nets) // 8 + 1, "little"), np.uint8)
            self._values[nets] = np.unpackbits(bits, bitorder="little")[: len(nets)]
        self._settled = False

    async def settle(self) -> None:
        """Propagate the inputs through the logic."""
        self._settle()

    def _settle(self) -> None:
        if not self._settled:
            net = self.netlist
            _evaluate(self._values, net.outputs, net.operands, net.tables)
            self._settled = True

    async def tick(self) -> None:
        self._settle()
        net = self.netlist
        _count(self._values, self._before, self._toggles, self._ones)
        self._before[:] = self._values
        _clock(self._values, self._next, net.states, net.next_operands, net.next_tables, net.enables)
        self._settled = False
        self.cycle += 1
        self.cycles += 1

    def read(self, name: str) -> int:
        """Return the value of a port."""
        self._settle()
        bits = np.packbits(self._values[self.netlist.ports[name][1]], bitorder="little")
        return int.from_bytes(bits.tobytes(), "little")

    async def reset(self, **inputs: int) -> None:
        """Set the inputs, and hold reset for two cycles."""
        self.drive(rst=1, **inputs)
        for _ in range(2):
            await self.settle()
            await self.tick()
        self.drive(rst=0)


def complete(bench: Coroutine[Any, Any, Any]) -> None:
    """Run a bench to its end. Its coroutines never wait, because the netlist itself advances time."""
    try:
        while True:
            bench.send(None)
    except StopIteration:
        return


@numba.njit(cache=True, nogil=True)
def _look_up(values, nets, table):
    row = 0
    for k in range(MAX_INPUTS):
        row |= np.int64(values[nets[k]]) << k
    return np.uint8((table >> np.uint64(row)) & np.uint64(1))


@numba.njit(cache=True, nogil=True)
def _evaluate(values, outputs, operands, tables):
    for i in range(len(outputs)):
        values[outputs[i]] = _look_up(values, operands[i], tables[i])


@numba.njit(cache=True, nogil=True)
def _clock(values, next_values, states, operands, tables, enables):
    for i in range(len(states)):
        enabled = values[enables[i]]
        next_values[i] = _look_up(values, operands[i], tables[i]) if enabled else values[states[i]]
    for i in range(len(states)):
        values[states[i]] = next_values[i]


@numba.njit(cache=True, nogil=True)
def _count(values, before, toggles, ones):
    for i in range(len(values)):
        toggles[i] += values[i] != before[i]
        ones[i] += values[i]
