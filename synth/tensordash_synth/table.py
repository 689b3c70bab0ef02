"""Reports as text: tiles next to the figures of the paper's Table IV, FPGA resources, sweeps, and compute cores."""

from collections.abc import Sequence

from .fpga import FpgaReport
from .numerics import NUMERICS_NOTES, NumericsReport
from .power_report import LIMITS
from .report import DELAY_NOTES, NOTES, CostReport
from .wire_report import WIRE_NOTES, wire_table

__all__ = ["PAPER_MM2", "aligned", "cost_table", "fpga_table", "numerics_table", "sweep_table"]

# Paper, Table IV: (TensorDash, baseline) in mm2 for the 65 nm chip. Control and drain are not among its rows.
PAPER_MM2 = {
    "compute_cores": (68.74, 68.74),
    "transposers": (0.37, 0.37),
    "schedulers_b_muxes": (1.37, 0.0),
    "a_muxes": (3.63, 0.0),
    "staging_buffers": (4.91, 0.0),
    "total": (79.01, 69.11),
}
# The paper's power in mW.
PAPER_MW = {
    "compute_cores": (23_748.0, 23_748.0),
    "transposers": (44.4, 44.4),
    "schedulers_b_muxes": (187.9, 0.0),
    "a_muxes": (283.8, 0.0),
    "staging_buffers": (1_638.4, 0.0),
    "total": (25_902.5, 23_792.4),  # sums of the rows; the paper prints 26,144 and 23,793, which are not the sums
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
POWER_HEADINGS = (
    ("no zeros", "TensorDash", "baseline", "TensorDash", "baseline", "paper:", "paper:"),
    ("", "mW", "mW", "share", "share", "TensorDash", "baseline"),
)
ENERGY_HEADINGS = (
    ("", "TensorDash", "baseline", "", "power", "energy", "paper's"),
    ("operands", "mW", "mW", "speedup", "ratio", "ratio", "definition"),
)
SWEEP_HEADINGS = (
    ("period", "clock", "TensorDash", "baseline", "area", "TensorDash", "baseline"),
    ("ns", "MHz", "GE per PE", "GE per PE", "ratio", "ns", "ns"),
)
NUMERICS_HEADINGS = (
    ("", "", "product", "accumulator", "area", "flip-flops", "delay", "highest", "result"),
    ("format", "accumulator", "bits", "bits", "GE", "GE", "ns", "MHz", "GE"),
)


def cost_table(report: CostReport) -> str:
    """Format areas by component in um2, gate equivalents and shares of the baseline's total, with ratios and delays.

    Parameters
    ----------
    report : CostReport
        Report of `tensordash_synth.synthesize`.

    Returns
    -------
    str
        Lines of plain text. The paper's columns are shares of its own baseline's total.
    """
    rows: list[tuple[str, ...] | None] = [*HEADINGS, None]
    for name, areas in report.components.items():
        rows += [None] if name == "total" else []
        rows.append((LABELS[name], *_cells(report, name, areas)))
    notes = NOTES if report.power is None else (*NOTES, *LIMITS)
    parts = [*_head(report), *aligned(rows, labels=1), "", *_power(report), *_summary(report), ""]
    if report.wires is not None:
        parts += [*wire_table(report.wires), ""]
        notes = (*notes, *WIRE_NOTES)
    return "\n".join([*parts, *(f"- {note}" for note in notes)])


def fpga_table(report: FpgaReport) -> str:
    """Format resources by component and in total, with a column for each design and resource.

    Parameters
    ----------
    report : FpgaReport
        Report of `tensordash_synth.synthesize_fpga`.

    Returns
    -------
    str
        Lines of plain text.
    """
    rows: list[tuple[str, ...] | None] = [
        ("", *(name for name in ("TensorDash", "baseline") for _ in report.rows)),
        ("", *(resource.upper() for _ in range(2) for resource in report.rows)),
        None,
    ]
    for name in next(iter(report.rows.values())):
        counts = [column[name][design] for design in (0, 1) for column in report.rows.values()]
        if any(counts):
            rows += [None] if name == "total" else []
            rows.append((LABELS[name], *(f"{count:,.0f}" if count else "-" for count in counts)))
    ratios = ((resource, report.ratio(resource)) for resource in report.rows)
    summary = ", ".join(f"{resource.upper()} {ratio:.3f}" for resource, ratio in ratios if ratio is not None)
    notes = (
        "LUT: four inputs; two for each cell of a carry chain; no wide multiplexers",
        "without transposers; counts after mapping, before placement",
    )
    return "\n".join(
        [
            f"{report.target}, Yosys",
            "",
            *aligned(rows, labels=1),
            "",
            f"TensorDash over the baseline: {summary}",
            "",
            *(f"- {note}" for note in notes),
        ]
    )


def sweep_table(reports: Sequence[CostReport]) -> str:
    """Format area against clock, with a line for each target.

    Parameters
    ----------
    reports : sequence of CostReport
        Reports of one tile for several clocks.

    Returns
    -------
    str
        Lines of plain text.
    """
    rows: list[tuple[str, ...] | None] = [*SWEEP_HEADINGS, None]
    for report in reports:
        document = report.to_json()
        designs = [document["tensordash"], document["baseline"]]
        gates = [f"{design['tile_ge'] / report.pes:,.0f}" for design in designs]
        delays = [f"{design['delay_ns']:.2f}{' ' if report.meets_clock(design) else '*'}" for design in designs]
        ratio = f"{document['ratio']['area']:.3f}"
        rows.append((f"{report.clock_ns:g}", f"{1000 / report.clock_ns:,.0f}", *gates, ratio, *delays))
    first = reports[0].to_json()
    fastest = [f"{first[name]['max_frequency_mhz']:,.0f} MHz" for name in ("tensordash", "baseline")]
    return "\n".join(
        [
            f"{reports[0].library}; one gate equivalent (GE) is {reports[0].gate_area:g} um2",
            "",
            *aligned(rows, labels=0),
            "",
            f"mapped for speed: TensorDash {fastest[0]}, baseline {fastest[1]}",
            "",
            *(f"- {note}" for note in ("*: misses the clock; mapped to the least delay", *DELAY_NOTES)),
        ]
    )


def _power(report: CostReport) -> list[str]:
    """Format power by component without zeros, then power and energy for all operands."""
    if report.power is None:
        return [f"power: {report.power_reason}", ""]
    first = report.power.runs[0].rows
    baseline_total, paper_total = first["total"][1], PAPER_MW["total"][1]
    rows: list[tuple[str, ...] | None] = [*POWER_HEADINGS, None]
    for name, powers in first.items():
        rows += [None] if name == "total" else []
        cells = [f"{1000 * power:,.1f}" if power else "-" for power in powers]
        cells += [f"{power / baseline_total:.1%}" if power else "-" for power in powers]
        cells += [f"{power / paper_total:.1%}" if power else "-" for power in PAPER_MW.get(name, (0.0, 0.0))]
        rows.append((LABELS[name], *cells))
    runs: list[tuple[str, ...] | None] = [*ENERGY_HEADINGS, None]
    for run in report.power.runs:
        watts = [f"{1000 * power:,.1f}" for power in run.rows["total"]]
        ratios = (run.speedup, run.power_ratio, run.energy_ratio, run.speedup / report.power.ratio)
        runs.append((run.name, *watts, *(f"{ratio:.3f}" for ratio in ratios)))
    idle = [f"{1000 * power:,.1f}" for power in report.power.idle.rows["total"]]
    runs.append((report.power.idle.name, *idle, "-", f"{report.power.idle.power_ratio:.3f}", "-", "-"))
    return [*aligned(rows, labels=1), "", *aligned(runs, labels=1), ""]


def numerics_table(report: NumericsReport) -> str:
    """Format widths, areas and delays of compute cores, with a line for each.

    Parameters
    ----------
    report : NumericsReport
        Report of `tensordash_synth.numerics_costs`.

    Returns
    -------
    str
        Lines of plain text.
    """
    document = report.to_json()
    rows: list[tuple[str, ...] | None] = [*NUMERICS_HEADINGS]
    last_format = None
    for core, figures in zip(report.cores, document["cores"], strict=True):
        names, accumulator = core.label
        if names != last_format:
            rows.append(None)
        rows.append(
            (
                names if names != last_format else "",
                accumulator,
                f"{core.product_bits}",
                f"{core.accumulator_bits}",
                f"{figures['ge']:,.0f}",
                f"{figures['flip_flop_ge']:,.0f}",
                f"{figures['delay_ns']:.2f}{' ' if figures['meets_clock'] else '*'}",
                f"{figures['max_frequency_mhz']:,.0f}",
                f"{figures['result_ge']:,.0f}",
            )
        )
        last_format = names
    shape = (
        f"compute core of {document['lanes']} lanes, pipeline {document['stages']}{', C input' * document['initial']}"
    )
    late = [] if all(map(report.meets_clock, report.cores)) else ["*: misses the clock; mapped to the least delay"]
    return "\n".join(
        [*_head(report), shape, "", *aligned(rows, labels=2), "", *(f"- {note}" for note in (*late, *NUMERICS_NOTES))]
    )


def _head(report: CostReport | NumericsReport) -> list[str]:
    return [f"{report.library}, {report.clock_ns:g} ns; one gate equivalent (GE) is {report.gate_area:g} um2", ""]


def aligned(rows: Sequence[tuple[str, ...] | None], labels: int) -> list[str]:
    """Align rows in columns, the first `labels` of them flush left. None becomes a horizontal line.

    >>> aligned([("", "GE"), None, ("PE", "10,687")], labels=1)
    ['        GE', '----------', 'PE  10,687']
    """
    full = [row for row in rows if row is not None]
    widths = [max(map(len, column)) for column in zip(*full, strict=True)]
    lines = []
    for row in rows:
        if row is None:
            lines.append("-" * (sum(widths) + 2 * len(widths) - 2))
        else:
            cells = [
                cell.ljust(width) if column < labels else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
            lines.append("  ".join(cells).rstrip())
    return lines


def _cells(report: CostReport, name: str, areas: tuple[float, float]) -> list[str]:
    baseline_total, paper_total = report.components["total"][1], PAPER_MM2["total"][1]
    formats = [f"{area:,.0f}" for area in areas]
    formats += [f"{area / report.gate_area:,.0f}" for area in areas]
    formats += [f"{area / baseline_total:.1%}" for area in areas]
    paper = [f"{area / paper_total:.1%}" if area else "-" for area in PAPER_MM2.get(name, (0.0, 0.0))]
    return [text if area else "-" for text, area in zip(formats, areas * 3, strict=True)] + paper


def _summary(report: CostReport) -> list[str]:
    document = report.to_json()
    ratio, sparse, dense = document["ratio"], document["tensordash"], document["baseline"]
    return [
        f"area {ratio['area']:.3f} of the baseline's (paper: fp16 1.143, bf16 1.16); "
        f"highest clock {ratio['clock']:.3f} of the baseline's; "
        f"256 tiles with the banks and scratchpads of Table III: {ratio['chip']:.3f} (paper: 1.048)",
        f"per PE: compute {dense['pe_ge']:,.0f} GE, added {sparse['added_ge_per_pe']:,.0f} "
        f"(derived from the paper, fp16, 4 lanes: 11,700 and 1,680), in all {sparse['total_ge_per_pe']:,.0f}",
        *(
            f"{label}: {figures['delay_ns']:.2f} ns at {report.clock_ns:g} ns ({figures['delay_recipe']} recipe); "
            f"at most {figures['max_frequency_mhz']:,.0f} MHz mapped for speed"
            for label, figures in (("TensorDash", sparse), ("baseline", dense))
        ),
    ]
