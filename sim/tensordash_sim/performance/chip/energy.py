"""Energy of an operation: active tiles, idle tiles, and memories."""

from .config import ChipConfig
from .traffic import Traffic

__all__ = ["ENERGY_PARTS", "energy", "idle_energy"]

ENERGY_PARTS = ("core", "idle", "sram", "dram")
"""Active tiles, idle tiles, on-chip memories, and DRAM."""


def energy(busy: int, cycles: int, traffic: Traffic, chip: ChipConfig, *, skips: bool) -> dict[str, float]:
    """Return the energy of an operation in microjoule, by `ENERGY_PARTS`.

    Parameters
    ----------
    busy : int
        Sum of all tiles' working cycles.
    cycles : int
        Cycles of the operation.
    traffic : Traffic
        Traffic of the operation.
    chip : ChipConfig
        Number and power of tiles, and energy of memories.
    skips : bool
        Whether tiles are TensorDash's; otherwise they are the baseline's.
    """
    cost = chip.energy
    reads = traffic.rows + traffic.columns + traffic.sums
    on_chip = reads * cost.bank_read_pj + traffic.results * cost.bank_write_pj + traffic.scratchpad * cost.scratchpad_pj
    return {
        "core": busy / chip.clock_mhz * chip.power.working(skips) / 1e3,
        "idle": idle_energy(busy, cycles, chip, skips=skips),
        "sram": on_chip / 8 / 1e6,
        "dram": traffic.dram * 8 * cost.dram_pj_per_bit / 1e6,
    }


def idle_energy(busy: int, cycles: int, chip: ChipConfig, *, skips: bool) -> float:
    """Return the energy, in microjoule, of tiles that wait for memory, for each other, or have no pass left.

    Parameters are those of `energy`.

    Examples
    --------
    Two tiles with an idle power of 10 mW, at 500 MHz. One works for 300 cycles, one for 100, and DRAM takes 500. So
    they wait for 200 and 400 cycles, 1.2 microseconds in total.

    >>> from tensordash_sim.performance.chip import Power
    >>> chip = ChipConfig(tiles=2, power=Power(cores=100, transposers=0, dense_idle=0.1))
    >>> round(idle_energy(300 + 100, 500, chip, skips=False), 6)
    0.012
    """
    return (cycles * chip.tiles - busy) / chip.clock_mhz * chip.power.waiting(skips) / 1e3
