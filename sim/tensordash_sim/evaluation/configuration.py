"""Table III: configuration of the simulated chip."""

from tensordash import TileConfig

from ..performance.chip import ChipConfig
from ..report.figure import Point
from .experiment import Answers, Experiment
from .settings import Settings
from .texts import notes

__all__ = ["TABLE3"]


def _points(settings: Settings, answers: Answers) -> tuple[list[Point], list[str]]:
    tile, chip = TileConfig(), ChipConfig()
    memory = chip.memory
    peak = chip.tiles * tile.multipliers * 2 * chip.clock_mhz / 1e6
    rows: list[tuple[str, str, float, float]] = [
        ("Tensorcores", "", 256, chip.tiles),
        ("rows of PEs", "per Tensorcore", 4, tile.rows),
        ("columns of PEs", "per Tensorcore", 4, tile.columns),
        ("multiplications", "per PE and cycle", 4, tile.lanes),
        ("depth of staging buffers", "steps", 4, tile.depth),
        ("banks", "each of AM, BM, CM", 64, memory.banks),
        ("capacity of a bank", "KiB", 128, memory.bank_kib),
        ("scratchpads", "KiB in total", 256, memory.scratchpad_kib),
        ("clock", "MHz", 500, chip.clock_mhz),
        ("channels of DRAM", "", 4, chip.dram_channels),
        ("rate of DRAM, LPDDR4", "million transfers a second", 3200, chip.dram_mega_transfers),
        ("peak", "TFLOPS", 16.4, peak),
    ]
    points = [
        Point(metric="configuration", series="value", x=f"{what}, {unit}" if unit else what, paper=paper, ours=ours)
        for what, unit, paper, ours in rows
    ]
    return points, notes("table3", chip=chip)


TABLE3 = Experiment.of("table3", lambda settings: {}, _points)
