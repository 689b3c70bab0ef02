"""The table of designs on an FPGA, for the terminal."""

from collections.abc import Iterable

from .fpga_families import FAMILIES, RESOURCES
from .fpga_place import FpgaDesign, FpgaPlacement
from .table import aligned

__all__ = ["FPGA_NOTES", "placed_table"]

FPGA_NOTES = (
    "in a shell with registers at all ports, so clocks are of paths between registers; the shell's resources are not "
    "counted",
    "one seed, the slowest grade, nextpnr's model of timing; other seeds differ by some per cent",
)


def placed_table(report: FpgaPlacement) -> str:
    """Format resources, their shares of the part, clocks and longest paths, TensorDash next to the baseline.

    Parameters
    ----------
    report : FpgaPlacement
        Result of `tensordash_synth.place_fpga`.

    Returns
    -------
    str
        Lines of plain text.
    """
    family, designs = FAMILIES[report.target], (report.tensordash, report.baseline)
    part, ratios = family.parts[report.device], report.ratios

    def ratio(name: str) -> str:
        return "-" if (found := ratios[f"fpga_{name}"]) is None else f"{found:.3f}"

    rows: list[tuple[str, ...] | None] = [("", "TensorDash", "", "baseline", "", "ratio", "part has"), None]
    for name, words in RESOURCES.items():
        cells = [
            text
            for design in designs
            for text in (f"{design.counts[name]:,}", f"{design.counts[name] / part.holds[name]:.1%}")
        ]
        rows.append((words, *cells, ratio(name), f"{part.holds[name]:,}"))
    rows.append(("clock, MHz", *_without_shares(f"{each.clock_mhz:.1f}" for each in designs), ratio("clock"), ""))
    rows.append(("after", *_without_shares("routing" if each.routed else "placement" for each in designs), "", ""))
    paths = [
        f"longest path of {label}: {_path(design)}"
        for label, design in (("TensorDash", designs[0]), ("the baseline", designs[1]))
        if design.path is not None
    ]
    notes = (f"multipliers: of {family.dsp}; LUTs: four inputs, carry chains included", *FPGA_NOTES)
    head = f"{report.target}, {report.device}; {report.tools}"
    return "\n".join([head, "", *aligned(rows, labels=1), "", *paths, "", *(f"- {note}" for note in notes)])


def _without_shares(texts: Iterable[str]) -> list[str]:
    """Put texts into the columns of numbers, and leave the columns of shares empty."""
    return [cell for text in texts for cell in (text, "")]


def _path(design: FpgaDesign) -> str:
    path = design.path
    assert path is not None
    return (
        f"{path.start} to {path.end}, {path.cells} cells, {path.logic_ns:.1f} ns in them and {path.routing_ns:.1f} ns "
        f"between, through {', '.join(path.through)}"
    )
