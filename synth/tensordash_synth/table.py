"""The report as text in the shape of the paper's Table IV, with the paper's figures beside it."""

from .report import NOTES, CostReport

__all__ = ["PAPER_MM2", "cost_table"]

# Paper, Table IV: (TensorDash, baseline) in mm2 for the 65 nm chip. Control and drain are not among its rows.
PAPER_MM2 = {
    "compute_cores": (68.74, 68.74),
    "transposers": (0.37, 0.37),
    "schedulers_b_muxes": (1.37, 0.0),
    "a_muxes": (3.63, 0.0),
    "staging_buffers": (4.91, 0.0),
    "total": (79.01, 69.11),
}
LABELS = {
    "compute_cores": "compute cores",
    "transposers": "transposers",
    "schedulers_b_muxes": "schedulers + B muxes",
    "a_muxes": "A muxes",
    "staging_buffers": "staging buffers",
    "control": "control, drain, counters",
    "total": "total",
}
HEADINGS = (
    ("", "TensorDash", "baseline", "TensorDash", "baseline", "TensorDash", "baseline", "paper:", "paper:"),
    ("", "um2", "um2", "GE", "GE", "share", "share", "TensorDash", "baseline"),
)


def cost_table(report: CostReport) -> str:
    """Areas by component in um2, gate equivalents and as shares of the baseline's total; ratios and delays below.

    Parameters
    ----------
    report : CostReport
        What `tensordash_synth.synthesize` returned.

    Returns
    -------
    str
        Lines of plain text. The paper's columns are shares of its own baseline's total.
    """
    rows: list[tuple[str, ...] | None] = [*HEADINGS, None]
    for name, areas in report.components.items():
        rows += [None] if name == "total" else []
        rows.append((LABELS[name], *_cells(report, name, areas)))
    widths = [max(len(row[i]) for row in rows if row) for i in range(len(HEADINGS[0]))]
    lines = [f"{report.library}, {report.clock_ns:g} ns; one gate equivalent (GE) is {report.gate_area:g} um2", ""]
    for row in rows:
        if row is None:
            lines.append("-" * (sum(widths) + 2 * len(widths) - 2))
        else:
            first, *others = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
            lines.append("  ".join([row[0].ljust(len(first)), *others]).rstrip())
    return "\n".join([*lines, "", *_summary(report), "", *(f"- {note}" for note in NOTES)])


def _cells(report: CostReport, name: str, areas: tuple[float, float]) -> list[str]:
    whole, paper_whole = report.components["total"][1], PAPER_MM2["total"][1]
    formats = [f"{area:,.0f}" for area in areas]
    formats += [f"{area / report.gate_area:,.0f}" for area in areas]
    formats += [f"{area / whole:.1%}" for area in areas]
    paper = [f"{area / paper_whole:.1%}" if area else "-" for area in PAPER_MM2.get(name, (0.0, 0.0))]
    return [text if area else "-" for text, area in zip(formats, areas * 3, strict=True)] + paper


def _summary(report: CostReport) -> list[str]:
    document = report.to_json()
    ratio, sparse, dense = document["ratio"], document["tensordash"], document["baseline"]
    return [
        f"area {ratio['area']:.3f} of the baseline's (paper 1.143); highest clock {ratio['clock']:.3f} of it",
        f"per PE: compute {dense['pe_ge']:,.0f} GE, added {sparse['added_ge_per_pe']:,.0f} "
        f"(derived from the paper, 4 lanes: 11,700 and 1,680), in all {sparse['total_ge_per_pe']:,.0f}",
        *(
            f"{label}: {figures['delay_ns']:.2f} ns at {report.clock_ns:g} ns ({figures['delay_recipe']} recipe); "
            f"at most {figures['max_frequency_mhz']:,.0f} MHz mapped for speed"
            for label, figures in (("TensorDash", sparse), ("baseline", dense))
        ),
    ]
