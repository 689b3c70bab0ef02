"""Verdict on a recorded step, as figures: a tile's speedup and energy by layer, and what limits them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tensordash import TileConfig

from ..performance.chip import (
    BANDWIDTHS,
    ChipConfig,
    Machine,
    at_bandwidth,
    cycles_at,
    simulate_operation,
    sufficient_bandwidth,
    totals,
)
from ..report.figure import Figure, Point
from ..trace import Step, Trace
from .planned import planned
from .power import IDLE, energies, energy_ratios, power_note
from .summary import CAUSES, summary
from .texts import verdict_figure

__all__ = ["MEASURES", "verdict"]

MEASURES: dict[str, dict[str, Any]] = {
    "as recorded": {},
    "joined samples": {"join_samples": "faster"},
    "faster side": {"side": "faster"},
    "density order": {"row_order": "density"},
    "all of them": {"join_samples": "faster", "side": "faster", "row_order": "density"},
}
"""Measures that need no hardware: parameters of `Machine` by name."""
SPEEDUPS = {
    "speedup of tiles": "shared_speedup",
    "speedup of tiles, if none waited": "compute_speedup",
    "with dropped steps, if none waited": "dropped_speedup",
    "most that zeros allow": "ideal_speedup",
}
"""Entries of `totals` by metric."""
Progress = Callable[[int, int], None]


def verdict(
    trace: Trace,
    config: TileConfig,
    chip: ChipConfig | None = None,
    *,
    step: int | None = None,
    synthesis: Mapping[str, Any] | None = None,
    plan: bool = False,
    drop_steps: bool = False,
    progress: Progress = lambda done, total: None,
) -> list[Figure]:
    """Return the figures of a step of a trace: the verdict in sentences, then the figures that support it.

    These are speedup, zeros, memory, a plan, limits, a roofline, energy, and the tile's cost.

    Parameters
    ----------
    trace : Trace
        A recording.
    config : TileConfig
        The tile.
    chip : ChipConfig, optional
        The chip around the tiles. By default Table III of the paper.
    step : int, optional
        Index of the step. By default the last recorded one.
    synthesis : mapping, optional
        Document of ``tensordash synth --json`` of that tile, for energy, area and clock. Without it, energy of logic
        uses the paper's power.
    plan : bool
        Whether to plan the step: takes seconds for small networks, minutes for hundreds of layers.
    drop_steps : bool
        Whether the speedup of tiles and the plan also have tiles that drop empty steps.
    progress : callable
        Called with the numbers of finished and of all operations, then of finished and of all plans.

    Raises
    ------
    ValueError
        If the step was not recorded or has no operations, if `plan` is true and the step's flow was not recorded, or if
        `drop_steps` is true and the tile does not skip zeros of the row side only.

    Examples
    --------
    >>> from tensordash_sim.trace import example_trace
    >>> figures = verdict(Trace.open(example_trace()), TileConfig())
    >>> [figure.name for figure in figures]
    ['verdict', 'speedup', 'zeros', 'measures', 'limits', 'roofline', 'energy']
    """
    chip = ChipConfig() if chip is None else chip
    chosen = _chosen(trace, step)
    records = list(chosen.records)
    results: dict[str, list[dict[str, Any]]] = {}
    for number, (name, how) in enumerate(MEASURES.items()):
        machine = Machine(config, chip, **how, drop_steps=drop_steps)
        results[name] = []
        for place, record in enumerate(records):
            operation = record.operation
            masks = {each: record.mask(each) for each in (operation.left, operation.right)}
            found = simulate_operation(record.geometry, operation, masks, machine).to_json()
            results[name].append({"layer": record.layer, "operation": str(operation)} | found)
            progress(number * len(records) + place + 1, len(MEASURES) * len(records))
    plain = results["as recorded"]
    where = f"step {chosen.index} of {trace.path.name}"
    figures = [
        summary(plain, synthesis, chip, where),
        _speedup(plain, config, where),
        _zeros(plain, where),
        _measures(results, chip, where),
        _limits(plain, where),
        _roofline(plain, config, chip, where),
        _energy(plain, synthesis, chip, where),
    ]
    if plan:
        figures.insert(4, planned(chosen, results, config, chip, where, progress))
    return [*figures, _cost(synthesis)] if synthesis is not None else figures


def _chosen(trace: Trace, step: int | None) -> Step:
    steps = {each.index: each for each in trace.steps}
    if not any(each.records for each in steps.values()):
        raise ValueError(f"{trace.path.name} must have an operation to simulate")
    index = max(steps) if step is None else step
    if index not in steps:
        raise ValueError(f"step must be one of {', '.join(map(str, steps))}, not {index}")
    return steps[index]


def _added(results: Sequence[dict[str, Any]]) -> list[tuple[str, str, list[dict[str, Any]]]]:
    """Group results by layer and operation; a step may use a layer several times. Groups over all layers are last."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for result in results:
        groups.setdefault((result["layer"], result["operation"]), []).append(result)
    for operation in dict.fromkeys(result["operation"] for result in results):
        groups["all", operation] = [result for result in results if result["operation"] == operation]
    return [(*key, group) for key, group in groups.items()]


def _speedup(results: list[dict[str, Any]], config: TileConfig, where: str) -> Figure:
    every = totals(results)
    added = [(layer, operation, totals(group)) for layer, operation, group in _added(results)]
    points = [
        Point(metric=metric, series=operation, x=layer, ours=sums[name], more={"macs": sums["macs"]})
        for metric, name in SPEEDUPS.items()
        if name in every
        for layer, operation, sums in added
    ]
    depth = config.window_depth
    beyond = 0  # Operations for which dropped steps are of interest.
    if config.sparsity == "rows":
        beyond = sum((sums["ideal_speedup"] or 1) > depth for layer, _, sums in added if layer != "all")
    return verdict_figure("speedup", where, points, every=every, depth=depth, beyond=beyond)


def _zeros(results: list[dict[str, Any]], where: str) -> Figure:
    points = []
    for layer, operation, group in _added(results):
        macs = sum(result["macs"] for result in group)
        zeros = sum(result["zeros"] * result["macs"] for result in group) / macs if macs else 0.0
        more = {"scheduled": "/".join(sorted({result["scheduled"] for result in group}))}
        points.append(Point(metric="zeros", series=operation, x=layer, ours=zeros, more=more))
    return verdict_figure("zeros", where, points)


def _measures(results: dict[str, list[dict[str, Any]]], chip: ChipConfig, where: str) -> Figure:
    points = []
    for name, each in results.items():
        places = {"tiles": totals(each)["shared_speedup"]}
        places |= {f"{gbps:g} GB/s": at_bandwidth(each, gbps, chip.clock_mhz)["speedup"] for gbps in BANDWIDTHS}
        points += [Point(metric="speedup", series=name, x=place, ours=speedup) for place, speedup in places.items()]
    plain = results["as recorded"]
    slower = sum(result["cycles"] > result["on_chip"] for result in plain)
    own = chip.dram_bytes_per_cycle * chip.clock_mhz / 1e3
    enough = sufficient_bandwidth(plain, chip.clock_mhz)
    return verdict_figure("measures", where, points, enough=enough, own=own, slower=slower, count=len(plain))


def _limits(results: list[dict[str, Any]], where: str) -> Figure:
    """Return the figure of the multipliers' slots: shares of busy and idle slots, by cause."""
    points = []
    for layer, operation, group in _added(results):
        slots = [result["cycles"] for result in group]
        shares: dict[str, float] = {}
        for result, weight in zip(group, slots, strict=True):
            for cause, share in ({"effectual": result["utilisation"]} | result["idle"]).items():
                shares[cause] = shares.get(cause, 0.0) + share * weight / (sum(slots) or 1)
        points += [
            Point(metric=f"slots, {operation}", series=cause, x=layer, ours=share) for cause, share in shares.items()
        ]
    return verdict_figure("limits", where, points, causes=CAUSES)


def _roofline(results: list[dict[str, Any]], config: TileConfig, chip: ChipConfig, where: str) -> Figure:
    points, most = [], 0.0
    for operation in dict.fromkeys(result["operation"] for result in results):
        of_it = [result for result in results if result["operation"] == operation]
        at = sorted(
            (each["macs"] / each["traffic"]["dram"], each["macs"] / each["cycles"], each["layer"]) for each in of_it
        )
        most = max(most, at[-1][0])
        points += [
            Point(metric="roofline", series=operation, x=intensity, ours=macs, more={"layer": layer})
            for intensity, macs, layer in at
        ]
    peak, rate = chip.tiles * config.multipliers, chip.dram_bytes_per_cycle
    points += [
        Point(metric="roofline", series="the baseline's roof", x=x, ours=min(peak, x * rate))
        for x in sorted({0.0, min(peak / rate, most), most})
    ]
    return verdict_figure("roofline", where, points)


def _energy(results: list[dict[str, Any]], synthesis: Mapping[str, Any] | None, chip: ChipConfig, where: str) -> Figure:
    found, ratios = energies(results, synthesis, chip), energy_ratios(results, synthesis, chip)
    parts = {"busy": "tiles at work", "idle": "tiles that wait", "sram": "sram", "dram": "dram"}
    points = [
        Point(metric="microjoule", series=side, x=label, ours=found[side][part])
        for side in ("baseline", "tensordash")
        for part, label in parts.items()
    ]
    at_work, logic = (
        sum(found["baseline"][part] for part in of) / sum(found["tensordash"][part] for part in of)
        for of in (("busy",), ("busy", "idle"))
    )
    elsewhere = {}
    for gbps in BANDWIDTHS:
        cycles = (cycles_at(result, gbps, chip.clock_mhz) for result in results)
        slower = [
            result | {"dense_cycles": dense, "cycles": own}
            for result, (dense, own) in zip(results, cycles, strict=True)
        ]
        elsewhere[gbps] = energy_ratios(slower, synthesis, chip)[IDLE]
    values = {"at_work": at_work, "logic": logic, "chip": ratios[IDLE], "elsewhere": elsewhere}
    return verdict_figure("energy", where, points, power=power_note(synthesis), **values)


def _cost(synthesis: Mapping[str, Any]) -> Figure:
    points = [
        Point(metric=name, series="TensorDash over the baseline", x="tile", ours=value)
        for name, value in synthesis["ratio"].items()
        if isinstance(value, int | float)
    ]
    return verdict_figure("cost", "synthesis", points, config=synthesis["config"])
