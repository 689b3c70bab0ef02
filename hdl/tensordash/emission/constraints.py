"""Timing constraints of a top: its clock, and the share of the period that is used outside the top."""

import re
from collections.abc import Iterable, Mapping

__all__ = ["OUTSIDE", "PERIOD_NS", "constraints"]

Rules = Mapping[str, tuple[tuple[str, int, str], ...]]

TILE: Rules = {
    "input": (
        (r"rst|aresetn", 10, "from a separate reset tree"),
        (r"out_ready|m_axis_tready", 25, "with c_ready of the next tile, a full period; taken depends on it"),
        (r"[ab]_\d+_(steps|available|last)", 30, "from memories or registers; the schedule or taken depends on them"),
        (r".*", 50, "C: with the results of the previous tile, a full period; others drive only registers"),
    ),
    "output": (
        (r"[ab]_\d+_taken", 20, "combinational from available and out_ready; to step counters"),
        (r"s_axis_[ab]\d+_tready", 10, "combinational from m_axis_tready"),
        (r"c_ready|s_axis_c_tready", 75, "from registers; with out_ready of the previous tile, a full period"),
        (r".*", 50, "results: with C of the next tile, a full period; counters and flags"),
    ),
}
CORE: Rules = {
    "input": (
        (r"rst|aresetn", 10, "from a separate reset tree"),
        (r".*", 50, "from registers of an interconnect"),
    ),
    "output": ((r".*", 50, "to registers of an interconnect"),),
}
OUTSIDE = {"tile": TILE, "core": CORE}
"""For each kind of top and direction: a pattern of ports, the percentage of the period outside the top, and the reason.
The first matching rule counts."""

PERIOD_NS = 2.0
"""Default period of the clock."""
HEAD = """\
# {top}: one clock. Reset is synchronous, and every port belongs to the clock. Set your own period.
# Delays are shares of the period that are used outside{chosen}.
set period {period:.3f}
create_clock -name {clock} -period $period [get_ports {clock}]
"""
CHOSEN = {"tile": ", chosen so that tiles can be wired to each other", "core": ""}


def constraints(top: str, ports: Iterable[tuple[str, str, int]], kind: str = "tile", clock: str = "clk") -> str:
    """Return the constraints as SDC.

    Parameters
    ----------
    top : str
        The module.
    ports : iterable of (name, "input" or "output", bits)
        All ports of the module.
    kind : str
        One of `OUTSIDE`: "tile" or "core".
    clock : str
        The port of the clock.

    Examples
    --------
    >>> print(constraints("tile", [("clk", "input", 1), ("c_ready", "output", 1)]).splitlines()[-1])
    set_output_delay [expr 0.75 * $period] -clock clk [get_ports {c_ready}]
    """
    groups: dict[tuple[str, int, str], list[str]] = {
        (direction, share, why): [] for direction, rules in OUTSIDE[kind].items() for _, share, why in rules
    }
    for name, direction, bits in ports:
        if name != clock:
            share, why = next((share, why) for rule, share, why in OUTSIDE[kind][direction] if re.fullmatch(rule, name))
            groups[direction, share, why].append(name if bits == 1 else f"{name}[*]")
    of_ports = f"-clock {clock} [get_ports"
    lines = [
        f"# {why}\nset_{direction}_delay [expr {share / 100:.2f} * $period] {of_ports} {{{' '.join(names)}}}]\n"
        for (direction, share, why), names in groups.items()
        if names
    ]
    return HEAD.format(top=top, period=PERIOD_NS, chosen=CHOSEN[kind], clock=clock) + "".join(lines)
