"""The report as a table in the shape of the paper's Table IV, with the paper's areas beside it."""

from rich.table import Table

from .report import CostReport

__all__ = ["PAPER_MM2", "render_table"]

# Paper, Table IV: (TensorDash, baseline) in mm2 for the 65 nm chip. The total counts PEs only, as the paper's does.
PAPER_MM2 = {
    "compute_cores": (68.74, 68.74),
    "transposers": (0.37, 0.37),
    "schedulers_b_muxes": (1.37, 0.0),
    "a_muxes": (3.63, 0.0),
    "staging_buffers": (4.91, 0.0),
    "total": (79.01, 69.11),
}
LABELS = {
    "compute_cores": "Compute cores",
    "transposers": "Transposers",
    "schedulers_b_muxes": "Schedulers + B-side muxes",
    "a_muxes": "A-side muxes",
    "staging_buffers": "Staging buffers",
    "control": "Control, drain, counters",
    "total": "Total",
}


def render_table(report: CostReport) -> Table:
    """Areas by component, in um2, gate equivalents and as a share of the baseline's total; last, the paper's shares.

    Parameters
    ----------
    report : CostReport
        What `tensordash_synth.synthesize` returned.

    Returns
    -------
    rich.table.Table
        For ``rich.console.Console().print``.
    """
    target = f"{report.clock_ns:g} ns"
    table = Table(title=f"Area in {report.library}, mapped to {target}; shares are of the baseline's total")
    table.add_column("Component")
    for column in ("TensorDash um2", "baseline um2", "TensorDash GE", "baseline GE", "TensorDash", "baseline", "paper"):
        table.add_column(column, justify="right")
    whole, paper_whole = report.components["total"][1], PAPER_MM2["total"][1]
    for name, (sparse, dense) in report.components.items():
        if name == "total":
            table.add_section()
        paper = PAPER_MM2.get(name)
        table.add_row(
            LABELS[name],
            *(f"{area:,.0f}" if area else "-" for area in (sparse, dense)),
            *(f"{area / report.gate_area:,.0f}" if area else "-" for area in (sparse, dense)),
            *(f"{area / whole:.1%}" if area else "-" for area in (sparse, dense)),
            f"{paper[0] / paper_whole:.1%}" if paper else "-",
        )
    document = report.to_json()
    per_pe = document["tensordash"]
    table.caption = "\n".join(
        [
            f"Area ratio {document['ratio']['area']:.3f} (paper 1.14), clock ratio {document['ratio']['clock']:.3f}; per PE: "
            f"compute {per_pe['pe_ge']:,.0f}, added {per_pe['added_ge_per_pe']:,.0f}, in all {per_pe['total_ge_per_pe']:,.0f} GE",
            *(
                f"{label}: {document[key]['delay_ns']:.2f} ns mapped to {target}, at most "
                f"{document[key]['max_frequency_mhz']:,.0f} MHz mapped for speed"
                for label, key in (("TensorDash", "tensordash"), ("Baseline", "baseline"))
            ),
            *document["notes"],
        ]
    )
    table.caption_justify = "left"
    return table
