"""Fast simulation of the Verilog of several cores at one memory port."""

from collections.abc import Sequence
from typing import Any

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.registers import ADDRESS_BITS, COUNTERS
from tensordash.core.join_registers import JOIN_REGISTERS, join_addresses
from tensordash.movers.axi import PAGE

from .core_library import VerilatedError, verilog_of
from .verilated_core import STOP_CHECK_CYCLES, CoreRun, VerilatedCore

__all__ = ["VerilatedMulticore"]


class VerilatedMulticore(VerilatedCore):
    """Several simulated cores and a memory. Methods of `VerilatedCore` act on the core that `select` chose.

    Parameters
    ----------
    config : CoreConfig
        The cores.
    cores : int
        Number of cores, 2 to 16.
    size : int
        Bytes of memory.
    **options
        As in `VerilatedCore`.
    """

    def __init__(self, config: CoreConfig, cores: int, size: int, **options: Any) -> None:
        self.cores = cores
        self._selected = 0
        super().__init__(config, size, verilog=verilog_of(config, cores), **options)

    def select(self, core: int) -> None:
        """Choose the core for the methods of `VerilatedCore`."""
        if not 0 <= core < self.cores:
            raise IndexError(f"core must be from 0 to {self.cores - 1}, not {core}")
        self._selected = core

    def share(self, base: int, end: int, patience: int) -> None:
        """Set the addresses of shared tensors, from `base` to `end` - 1, and a shared burst's patience in cycles.

        Raises
        ------
        ValueError
            If the addresses are not on boundaries of 4 KiB pages, or there are none.
        """
        if base % PAGE or end % PAGE or base >= end:
            raise ValueError(f"base and end must be multiples of {PAGE}, the end above, not {base:#x} and {end:#x}")
        values = (base % (1 << 32), base >> 32, (end - 1) % (1 << 32), (end - 1) >> 32, patience)
        for name, value in zip(JOIN_REGISTERS, values, strict=True):
            self.write(name, value)

    @property
    def patience(self) -> int:
        """The register `patience`: 0 after sharing has ended early."""
        return self.read("patience")

    def _address(self, register: str) -> int:
        """Return the address of a register of the selected core, or of the join."""
        if register in JOIN_REGISTERS:
            return join_addresses(self.cores)[register]
        return (self._selected << ADDRESS_BITS) + super()._address(register)

    def run_all(
        self, programs: Sequence[Sequence[int]], rings: Sequence[int], most: int = 100_000_000
    ) -> list[CoreRun]:
        """Issue soft resets, execute programs on the first cores, and wait until all have ended.

        Parameters
        ----------
        programs : sequence of sequence of int
            Descriptors for each of the first cores; the last one, and no other, is an `end`.
        rings : sequence of int
            Address of each core's ring.
        most : int
            Cycles after which the run fails.

        Returns
        -------
        list of CoreRun
            For each core; cycles are counted from the first core's start.

        Raises
        ------
        VerilatedError
            If a program does not end.
        """
        for core, (program, ring) in enumerate(zip(programs, rings, strict=True)):
            self.select(core)
            self.put(program, ring)
            self.reset()
            self.begin(ring, 0, size=max(0, (len(program) - 1).bit_length()))
        began = self.cycle
        for core, program in enumerate(programs):
            self.select(core)
            self.write("tail", len(program))
        runs: dict[int, CoreRun] = {}
        while len(runs) < len(programs):
            if self.cycle - began >= most:
                raise VerilatedError(f"{len(programs) - len(runs)} programs have not ended in {most} cycles")
            if not self.wait(min(STOP_CHECK_CYCLES, most)):
                continue
            cycles = self.cycle - began
            interrupts = self._library.core_irq(self._device)
            for core in range(len(programs)):
                if interrupts >> core & 1:
                    self.select(core)
                    runs[core] = self._ended(cycles)
        return [runs[core] for core in range(len(programs))]

    def _ended(self, cycles: int) -> CoreRun:
        """Return the run of the selected core, and clear its interrupt."""
        self.write("snapshot", 1)
        counters = {name: self.read(name) for name, _ in COUNTERS}
        outcome = self.outcome()
        self.write("interrupt_enable", 0)
        return CoreRun(outcome=outcome, cycles=cycles, span=(0, cycles), counters=counters)
