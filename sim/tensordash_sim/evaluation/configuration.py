"""Table III: the chip that is simulated."""

from tensordash import TileConfig

from ..performance.chip import ChipConfig
from ..report.figure import Point
from .experiment import Answers, Experiment
from .settings import Settings

__all__ = ["TABLE3"]


def _points(settings: Settings, answers: Answers) -> tuple[list[Point], list[str]]:
    tile, chip = TileConfig(), ChipConfig()
    memory = chip.memory
    peak = chip.tiles * tile.rows * tile.columns * tile.lanes * 2 * chip.clock_mhz / 1e6
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
    notes = [
        "Technology: 65 nm in the paper; here gate equivalents of a 45 nm library, converted for areas (table4).",
        f"Not in the paper, and assumed here: {chip.dram_channel_bits} bits a channel ({chip.dram_bytes_per_cycle:.1f} "
        f"bytes a cycle), {memory.access_bytes} bytes a bank and cycle, {memory.transposers} transposers, one read "
        f"reaches {memory.broadcast} tiles. The capacity of DRAM, 16 GB, limits nothing here.",
    ]
    return points, notes


TABLE3 = Experiment(
    name="table3",
    title="Configuration",
    source="paper, Table III",
    kind="table",
    x_label="what",
    y_label="",
    plan=lambda settings: {},
    points=_points,
)
