"""Power of a core's logic: its mapped netlist, with models of memories, executes programs gate by gate."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import BYTES

from .gate_simulation import GateSimulation, Toggles, complete
from .gates import GateNetlist
from .power import opensta_power, power_by_instance
from .yosys import SynthesisError

__all__ = ["CoreSimulation", "GateRun", "core_power", "run_gates"]

LATENCY = (50, 50)
MAX_CYCLES = 1_000_000


class CoreSimulation(GateSimulation):
    """Simulates a core's netlist with its memories, which start with zeros.

    Parameters
    ----------
    netlist : GateNetlist
        The core, whose memories are black boxes.

    Attributes
    ----------
    accesses : dict of str to (int, int)
        Reads and writes of each memory, by its path.
    """

    def __init__(self, netlist: GateNetlist) -> None:
        paths = [name.removesuffix(".read_data") for name in netlist.ports if name.endswith(".read_data")]
        self._boxes = {path: _Box(netlist, path) for path in paths}
        super().__init__(netlist)

    @property
    def accesses(self) -> dict[str, tuple[int, int]]:
        """Reads and writes of each memory since `forget`, by its path."""
        return {path: (box.reads, box.writes) for path, box in self._boxes.items()}

    def forget(self) -> None:
        super().forget()
        for box in self._boxes.values():
            box.reads = box.writes = 0

    async def tick(self) -> None:
        """Apply a clock edge to the netlist and the memories."""
        self._settle()
        for box in self._boxes.values():
            box.sample(self._values)
        await super().tick()
        for box in self._boxes.values():
            self._values[box.read_data] = box.shown


class _Box:
    """A memory of single bits: `sample` applies a clock edge, and `shown` is the read data after it."""

    def __init__(self, netlist: GateNetlist, path: str) -> None:
        self._has_one_port = f"{path}.enable" in netlist.ports
        names = ("enable", "address") if self._has_one_port else ("write_address", "read_enable", "read_address")
        nets = {name: netlist.ports[f"{path}.{name}"][1] for name in ("write_enable", "write_data", *names)}
        if self._has_one_port:
            nets |= {"write_address": nets["address"], "read_enable": nets["enable"], "read_address": nets["address"]}
        self._nets = nets
        self.read_data = netlist.ports[f"{path}.read_data"][1]
        self.shown = np.zeros(len(self.read_data), np.uint8)
        self._words = np.zeros((1 << len(nets["read_address"]), len(self.shown)), np.uint8)
        self.reads = self.writes = 0

    def sample(self, values: NDArray[np.uint8]) -> None:
        """Apply a clock edge: a read returns the word before the write; with one port, a write excludes a read."""
        enables, enabled = values[self._nets["write_enable"]], values[self._nets["read_enable"]][0]
        if enabled and not (self._has_one_port and enables.any()):
            self.reads += 1
            self.shown = self._words[self._number(values, "read_address")].copy()
        if enables.any() and (enabled or not self._has_one_port):
            self.writes += 1
            written = np.repeat(enables.astype(bool), len(self.shown) // len(enables))
            self._words[self._number(values, "write_address"), written] = values[self._nets["write_data"]][written]

    def _number(self, values: NDArray[np.uint8], name: str) -> int:
        bits = values[self._nets[name]]
        return int(bits @ (1 << np.arange(len(bits))))


@dataclass(frozen=True, kw_only=True)
class GateRun:
    """Result of a program on a netlist.

    Parameters
    ----------
    cycles : int
        Cycles from the write of `tail` to the interrupt.
    toggles : Toggles
        Toggles of every net.
    accesses : dict of str to (int, int)
        Reads and writes of each memory, by its path.
    beats : int
        Beats of data read from and written to memory, descriptors included.
    """

    cycles: int
    toggles: Toggles
    accesses: Mapping[str, tuple[int, int]]
    beats: int


def run_gates(gates: GateNetlist, config: CoreConfig, descriptors: Sequence[int], memory: bytearray) -> GateRun:
    """Run a program on a core's netlist from reset, with a memory of 50 cycles of latency and full rate.

    Parameters
    ----------
    gates : GateNetlist
        The core.
    config : CoreConfig
        Configuration of the core.
    descriptors : sequence of int
        The program; its last descriptor is its only `end`.
    memory : bytearray
        The memory, from address 0. The core's writes change it.

    Raises
    ------
    SynthesisError
        If the program does not end, or the core breaks a rule of AXI.
    """
    from tensordash_sim.golden.core.golden_core import Memory
    from tensordash_sim.verify.core_master import CoreMaster

    simulation = CoreSimulation(gates)
    ring = -(-len(memory) // BYTES) * BYTES
    queue_size = max(0, (len(descriptors) - 1).bit_length())
    image = Memory(ring + (BYTES << queue_size))
    image.bytes[: len(memory)] = memory
    image.write(ring, b"".join(bits.to_bytes(BYTES, "little") for bits in descriptors))
    host = CoreMaster(simulation, config, image, Random(0), latency=LATENCY, pause=0.0)
    settings = {"queue_base": ring % (1 << 32), "queue_base_high": ring >> 32, "queue_size": queue_size}
    try:
        complete(host.begin())
        for name, value in {**settings, "interrupt_enable": 3, "control": 1, "tail": len(descriptors)}.items():
            complete(host.write(name, value))
        simulation.drive(s_axi_bready=0)
        simulation.forget()
        complete(host.interrupt(MAX_CYCLES))
    except AssertionError as error:
        raise SynthesisError(f"the core's netlist fails: {error}") from error
    memory[:] = image.bytes[: len(memory)]
    toggles = Toggles(activity=simulation.activity, duty=simulation.duty)
    beats = host.memory.read_beats + host.memory.write_beats
    return GateRun(cycles=simulation.cycles, toggles=toggles, accesses=simulation.accesses, beats=beats)


def core_power(
    gates: GateNetlist, runs: Sequence[GateRun], top: str, clock_ns: float, folder: Path
) -> dict[str, float]:
    """Return the mean power of a core's logic over runs, without memories, in watts by unit.

    Parameters
    ----------
    gates : GateNetlist
        The core.
    runs : sequence of GateRun
        Runs, weighted by their cycles.
    top : str
        Name of the core.
    clock_ns : float
        Clock period in ns.
    folder : Path
        The folder of `read_netlist`, which has the library.

    Raises
    ------
    SynthesisError
        If OpenSTA fails.
    """
    cycles = [run.cycles for run in runs]
    mean = Toggles(
        activity=np.average([run.toggles.activity for run in runs], axis=0, weights=cycles),
        duty=np.average([run.toggles.duty for run in runs], axis=0, weights=cycles),
    )
    (watts,) = opensta_power(gates, [mean], top, clock_ns, folder)
    units: dict[str, float] = {}
    for path, power in power_by_instance(watts, [cell.path for cell in gates.cells]).items():
        unit = path[0] if path else "core"
        units[unit] = units.get(unit, 0.0) + power.total
    return units
