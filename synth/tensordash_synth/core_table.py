"""A core's cost as plain text."""

from jinja2 import Environment, PackageLoader, StrictUndefined

from .core_cost import CoreCostReport
from .core_energy import DRAM_PJ_PER_BIT, StepEnergy
from .core_training import memory_ports
from .memories import SOURCES
from .wire_report import WIRE_NOTES, wire_table

__all__ = ["core_cost_table"]

_environment = Environment(
    loader=PackageLoader(__package__), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
)
_environment.filters["fmt"] = format


def core_cost_table(report: CoreCostReport) -> str:
    """Format logic by unit, memories, energy of a training step, ratios and delays as lines of text."""
    costs = {} if report.memories is None else {**report.memories[1].costs, **report.memories[0].costs}
    values = {
        "report": report,
        "width": str(max(map(len, report.tensordash.units))),
        "heads": dict(zip(SOURCES, ("CACTI 7", "macros"), strict=True)),
        "memories": [(shape, source, cost) for shape in sorted(costs) for source, cost in costs[shape].items()],
        "memory_ports": memory_ports,
        "accesses": {} if report.step is None else _accesses(*report.step),
        "dram_pj_per_bit": DRAM_PJ_PER_BIT,
        "wires": [] if report.wires is None else wire_table(report.wires),
        "wire_notes": () if report.wires is None else WIRE_NOTES,
    }
    return _environment.get_template("core_cost.txt.j2").render(values).rstrip("\n")


def _accesses(ours: StepEnergy, theirs: StepEnergy) -> dict[str, list[int]]:
    """Return the reads and writes of each unit on both cores."""
    found = {}
    for unit in dict.fromkeys(name.split()[0] for name in sorted(ours.accesses)):
        for place, access in enumerate(("reads", "writes")):
            found[f"{access} of {unit}"] = [
                sum(counts[place] for name, counts in each.accesses.items() if name.split()[0] == unit)
                for each in (ours, theirs)
            ]
    return found
