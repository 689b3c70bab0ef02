"""A core's cost as lines of plain text."""

from collections.abc import Iterator

from .core_cost import CoreCostReport
from .core_energy import DRAM_PJ_PER_BIT, StepEnergy
from .core_training import memory_ports
from .memories import SOURCES
from .wire_report import WIRE_NOTES, wire_table

__all__ = ["core_cost_table"]

HEADS = dict(zip(SOURCES, ("CACTI 7", "macros"), strict=True))
NOTES = (
    "GE: gate equivalents, areas over that of the smallest NAND2; without wires",
    "around the tile, flattened: ABC's longest path between registers, ports, memories and the tile, without clk-to-q, "
    "setup and wires",
)
MEMORY_NOTES = (
    "memories: one port to read and one to write, or one for both; CACTI 7 at 45 nm, low operating power, widths in "
    "whole bytes",
    "macros: published ones for Nangate 45 (fakeram45), which have one port; a second one costs what CACTI says of it",
)
STEP_NOTES = (
    "training step: the digits CNN's of the shipped trace, 16 images, on the netlists, which leave the golden core's "
    "bits; memory at full rate after 50 cycles",
    "logic: OpenSTA, of the netlists' activity pin by pin, without glitches; one corner, no wires, no clock tree",
    f"DRAM: {DRAM_PJ_PER_BIT:g} pJ a bit (LPDDR4), plain tensors, nothing compressed",
)


def core_cost_table(report: CoreCostReport) -> str:
    """Logic by unit, memories, energy of a training step, ratios and delays."""
    lines = [f"{report.library}, {report.clock_ns:g} ns", "", *_logic(report), "", *_memories(report)]
    notes = [*NOTES, *(MEMORY_NOTES if report.memories else ())]
    if report.step is not None:
        lines += ["", *_step(*report.step)]
        notes += STEP_NOTES
    elif report.step_reason != report.memories_reason:
        lines.append(f"no energy of a training step: {report.step_reason}")
    lines += ["", "TensorDash over the dense core:"]
    names = {"area": "area, logic", "energy": "energy, logic"}
    lines += [f"  {names.get(name, name.replace('_', ' ')):20} {ratio:.3f}" for name, ratio in report.ratios.items()]
    if report.wires is not None:
        lines += ["", *wire_table(report.wires)]
        notes += WIRE_NOTES
    return "\n".join([*lines, "", *(f"- {note}" for note in notes)])


def _logic(report: CoreCostReport) -> Iterator[str]:
    ours, theirs = report.tensordash, report.baseline
    width = max(map(len, ours.units))
    yield f"{'logic, GE':{width}} {'TensorDash':>11} {'baseline':>11} {'of the tile':>12}"
    for unit, gates in sorted(ours.units.items(), key=lambda each: -each[1]):
        yield f"{unit:{width}} {gates:11,.0f} {theirs.units.get(unit, 0.0):11,.0f} {gates / ours.tile:12.3f}"
    totals = [design.gates for design in (ours, theirs)]
    yield f"{'total':{width}} {totals[0]:11,.0f} {totals[1]:11,.0f}"
    yield ""
    yield f"logic around the tile over the tile's {report.logic_ratio:.3f}; core over the dense core {report.ratio:.3f}"
    name, delay = ours.slowest
    yield f"around the tile, flattened: {report.around_ns:.2f} ns; slowest module: {name} {delay:.2f} ns"


def _memories(report: CoreCostReport) -> Iterator[str]:
    if report.memories is None:
        for kind, (count, bits) in report.tensordash.memories.items():
            yield f"memory {kind.rpartition('__')[2]:>10}: {count:3} of {bits:,} bits"
        yield f"no cost of memories: {report.memories_reason}"
        return
    yield "memory   ports TensorDash  baseline     mm2  read pJ  write pJ  leakage mW  access ns  by       built as"
    ours, theirs = report.memories
    for shape in sorted({**ours.counts, **theirs.counts}):
        for source, cost in {**ours.costs, **theirs.costs}[shape].items():
            counts = f"{ours.counts.get(shape, 0):10} {theirs.counts.get(shape, 0):9} {1e-6 * cost.area_um2:7.4f}"
            figures = f"{cost.read_pj:8.2f} {cost.write_pj:9.2f} {cost.leakage_mw:11.3f} {cost.access_ns:10.2f}"
            size, ports = shape.partition("_")[0], memory_ports(shape)
            yield f"{size:8} {ports:5} {counts} {figures}  {HEADS[source]:8} {cost.built}"
    yield ""
    yield f"{'area, mm2':34} {'TensorDash':>11} {'baseline':>11}"
    logic = [1e-6 * each.gates * report.gate_area for each in (report.tensordash, report.baseline)]
    yield f"{'logic':34} {logic[0]:11.4f} {logic[1]:11.4f}"
    for source in SOURCES:
        whole = [1e-6 * area for area in report.area_um2(source)]
        yield f"{'memories, ' + HEADS[source]:34} {whole[0] - logic[0]:11.4f} {whole[1] - logic[1]:11.4f}"
        yield f"{'both':34} {whole[0]:11.4f} {whole[1]:11.4f}"


def _step(ours: StepEnergy, theirs: StepEnergy) -> Iterator[str]:
    yield f"{'training step':34} {'TensorDash':>11} {'baseline':>11}"
    yield f"{'cycles':34} {ours.cycles:11,} {theirs.cycles:11,}"
    for unit in dict.fromkeys(name.split()[0] for name in sorted(ours.accesses)):
        for place, what in enumerate(("reads", "writes")):
            counts = [_accesses(each, unit)[place] for each in (ours, theirs)]
            yield f"{f'{what} of {unit}':34} {counts[0]:11,} {counts[1]:11,}"
    milliwatts = [1e3 * sum(each.watts.values()) for each in (ours, theirs)]
    yield f"{'mean power of logic, mW':34} {milliwatts[0]:11.1f} {milliwatts[1]:11.1f}"
    yield ""
    yield f"{'energy, uJ':34} {'TensorDash':>11} {'baseline':>11}"
    for name, label in {"tile": "logic of the tile", "around": "logic around it"}.items():
        yield _joules(label, ours.parts[name], theirs.parts[name])
    for source in SOURCES:
        for name in ("accesses", "leakage"):
            part = f"{name}, {source}"
            yield _joules(f"memories, {HEADS[source]}, {name}", ours.parts[part], theirs.parts[part])
        yield _joules("logic and memories", ours.on_chip(source), theirs.on_chip(source))
    yield _joules("DRAM, apart", ours.off_chip, theirs.off_chip)


def _accesses(step: StepEnergy, unit: str) -> tuple[int, int]:
    found = [counts for name, counts in step.accesses.items() if name.split()[0] == unit]
    return sum(reads for reads, _ in found), sum(writes for _, writes in found)


def _joules(label: str, ours: float, theirs: float) -> str:
    return f"{label:34} {1e6 * ours:11.3f} {1e6 * theirs:11.3f}"
