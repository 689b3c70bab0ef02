"""`tensordash explore` of cores: tile, bus and memories, by expected cycles of traces' products and area."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape
from rich.table import Table

from tensordash import TensorDashError
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset, preset_names
from tensordash_storage.jobs import Runner

from .cached_areas import cached_core_areas
from .cached_cycles import cached_cycles
from .console import progress
from .explore_front import Search

if TYPE_CHECKING:
    from tensordash_runtime.traced_products import TracedProduct
    from tensordash_sim.performance.explore import CoreShape, DrawnProduct
    from tensordash_sim.trace import Trace

__all__ = ["search_cores"]

DEFAULT_COLUMNS = (4, 8, 16)
"""Columns to search by default, as far as the core may have them."""
DOUBLED = ("axi_bits", "buffer", "stream_buffer")
"""Parameters of which the search by default tries the configuration's value and twice that."""
MIN_GAIN = 1.01
"""Speedup over every smaller shape above which a shape is synthesized; estimates are no more exact."""
AREA_SOURCE = "cacti"
"""Source of the memories' areas that the front uses, one of the keys of `cached_core_areas`."""


@dataclass(frozen=True)
class Core:
    """A core of the search, with its figures.

    Attributes
    ----------
    preset : str, optional
        Name of the preset that it is.
    shape : CoreShape
        Its shape.
    config : CoreConfig
        Its configuration.
    found, dense : list of TracedProduct, or str
        Figures of the products on the core and on its dense core, or the reason why one of them does not fit.
    """

    preset: str | None
    shape: "CoreShape"
    config: CoreConfig
    found: "list[TracedProduct] | str"
    dense: "list[TracedProduct] | str"

    @property
    def label(self) -> str:
        """Its shape, after the preset's name."""
        return f"{self.preset}: {self.shape.label}" if self.preset else self.shape.label


class CoreSearch(Search):
    """A finished search for cores."""

    reference = "the starting core"

    def table(self, traces: Sequence[str]) -> Table:
        """Return a table of all cores, the fastest first."""
        has_area = any("area_ratio" in row for row in self.rows)
        table = Table(box=None, pad_edge=False)
        table.add_column("core", no_wrap=True)
        costs = ("area", "over dense", "speed/area", "front") if has_area else ()
        for header in ("cycles", *(map(escape, traces) if len(traces) > 1 else ()), "speedup", "over dense", *costs):
            table.add_column(header, justify="right")
        table.add_column("loses most in")
        for row in sorted(self.rows, key=lambda row: -(row["speedup"] or 0)):
            if row["speedup"] is None:
                table.add_row(row["label"], "-", *["-"] * (len(table.columns) - 3), row["reason"])
                continue
            of_traces = ["-" if each is None else f"{each:.3f}x" for each in row["speedups"]]
            speedups = of_traces if len(traces) > 1 else []
            ratios = [f"{row['speedup']:.3f}x", "-" if row["over_dense"] is None else f"{row['over_dense']:.3f}x"]
            names = ("area_ratio", "area_over_dense", "speed_per_area")
            cost = [f"{row[name]:.3f}" if name in row else "-" for name in names] if has_area else []
            front = ["*" * row.get("on_front", False) + "~" * bool(row.get("ties"))] if has_area else []
            table.add_row(row["label"], f"{row['cycles']:,.0f}", *speedups, *ratios, *cost, *front, _loss_text(row))
        return table


def search_cores(
    base: CoreConfig, traces: "Sequence[Trace]", arguments: dict[str, Any], area: bool, folder: Path, runner: Runner
) -> CoreSearch:
    """Search for cores with the command's arguments.

    Raises
    ------
    TensorDashError
        If the starting core can run no product, or not all that a core can run, or with `area` if CACTI is missing.
    """
    from tensordash_sim.performance.explore import CoreShape, draw_products

    if area:
        from tensordash_synth.cacti import cacti_digest

        cacti_digest()  # Without CACTI, the search ends before the long work begins.
    start = CoreShape.of(base)
    configs = {start: base} | _configs(base, arguments)
    drawn = draw_products(traces, arguments["products"], arguments["seed"])
    drawn, left_out = _possible(drawn)
    unique = list(dict.fromkeys([*configs.values(), *(config.baseline for config in configs.values())]))
    progress.print(f"{len(unique)} cores, dense ones included, on {len(drawn)} products", markup=False)
    answers = cached_cycles(unique, [each.record for each in drawn], folder / "cycles", runner)
    found = dict(zip(unique, answers, strict=True))
    names = _preset_names()
    cores = [
        Core(names.get(config.digest), shape, config, found[config], found[config.baseline])
        for shape, config in configs.items()
    ]
    if isinstance(cores[0].found, str):
        raise TensorDashError(f"the starting core must be able to run the traces: {cores[0].found}")
    rows = [_row(core, cores[0], drawn, len(traces)) for core in cores]
    if area:
        _add_areas(rows, cores, folder / "areas", runner)
    counts = [sum(1 for _ in trace.records) for trace in traces]
    seed = arguments["seed"]
    used = len({id(each.record) for each in drawn})
    notes = [f"products: all {used}"]
    if used + len(left_out) < sum(counts):
        notes = [f"products: {used} of {sum(counts)}, drawn with seed {seed} by their shares of multiplications"]
    notes += [f"left out: {each}" for each in left_out]
    conditions = {"seed": seed, "products": arguments["products"], "left_out": left_out}
    return CoreSearch(conditions, rows, [core.config for core in cores], tuple(notes))


def _configs(base: CoreConfig, arguments: Mapping[str, Any]) -> "dict[CoreShape, CoreConfig]":
    """Return the cores of all shapes that are legal.

    Raises
    ------
    click.UsageError
        If a value that the user has set is not legal in any combination.
    """
    from tensordash_sim.performance.explore import CoreShape

    start = CoreShape.of(base)
    arguments = {**arguments, "drop_steps": (False, True) if arguments["drop_steps"] else ()}
    values = {
        name: arguments[name] or _default_values(name, getattr(start, name)) for name in CoreShape.__dataclass_fields__
    }
    configs: dict[CoreShape, CoreConfig] = {}
    errors: list[tuple[CoreShape, str]] = []
    for numbers in product(*values.values()):
        shape = CoreShape(**dict(zip(values, numbers, strict=True)))
        try:
            configs[shape] = shape.config(base)
        except (TypeError, ValueError) as error:
            errors.append((shape, str(error)))
    for name, numbers in values.items():
        legal = {getattr(shape, name) for shape in configs}
        for number in numbers if arguments[name] else ():
            if number not in legal:
                messages = [error for shape, error in errors if getattr(shape, name) == number]
                message = next((each for each in messages if f".{name} " in each), messages[0])
                option = f"--{name.replace('_', '-')}"
                raise click.UsageError(f"{option if number is True else f'{option} {number}'}: {message}")
    return configs


def _default_values(name: str, own: int) -> tuple[int, ...]:
    """Return the values of a parameter to search by default; not all need be legal."""
    if name == "columns":
        return DEFAULT_COLUMNS
    if name == "layout_groups":
        return (1, 2)
    return (own, 2 * own) if name in DOUBLED else (own,)


def _preset_names() -> dict[str, str]:
    """Return the names of core presets, by digest."""
    return {load_any_preset(name).digest: name for name in preset_names("core")}


def _possible(drawn: "list[DrawnProduct]") -> "tuple[list[DrawnProduct], list[str]]":
    """Return the products that a core can run if they fit, and descriptions of the others."""
    from tensordash_sim.compiler.layer import Layer

    possible, left_out = [], []
    for each in drawn:
        try:
            Layer.of(each.record.geometry)
        except ValueError as error:
            left_out.append(f"{each.record.layer} {each.record.operation}: {error}")
        else:
            possible.append(each)
    if not possible:
        reasons = "; ".join(left_out) or "it has none"
        raise TensorDashError(f"--trace must have a product that a core can run: {reasons}")
    return possible, left_out


def _row(core: Core, start: Core, drawn: "Sequence[DrawnProduct]", traces: int) -> dict[str, Any]:
    """Return a core's figures, without its area."""
    row: dict[str, Any] = {"label": core.label, **core.config.to_mapping()}
    if isinstance(core.found, str):
        return row | {"speedup": None, "reason": core.found}
    assert not isinstance(start.found, str)
    width = (core.shape.rows * core.shape.columns) / (start.shape.rows * start.shape.columns)
    dense = [None] * len(drawn) if isinstance(core.dense, str) else [each.cycles for each in core.dense]
    products: list[dict[str, Any]] = []
    sums = [{"cycles": 0.0, "start": 0.0, "dense": 0.0} for _ in range(traces)]
    for each, found, before, dense_cycles in zip(drawn, core.found, start.found, dense, strict=True):
        total = sums[each.trace]
        total["cycles"] += each.weight * found.cycles
        total["start"] += each.weight * before.cycles
        total["dense"] += each.weight * (dense_cycles or 0)
        products.append(
            {
                "trace": each.trace,
                "step": each.record.step,
                "layer": each.record.layer,
                "operation": str(each.record.operation),
                "weight": each.weight,
                "rows": found.rows,
                "cycles": found.cycles,
                "dense_cycles": dense_cycles,
                "moved_bytes": found.moved_bytes,
                "limit": found.limit,
                "speedup": before.cycles / found.cycles,
                "lost_cycles": each.weight * (found.cycles - before.cycles / width),
            }
        )
    used = [total for total in sums if total["cycles"]]
    # A trace has no speedup if none of its products was drawn, or if cores can run none.
    speedups = [total["start"] / total["cycles"] if total["cycles"] else None for total in sums]
    over_dense = None if None in dense else sum(total["dense"] / total["cycles"] for total in used) / len(used)
    worst = max(products, key=lambda each: float(each["lost_cycles"]))
    return row | {
        "cycles": sum(total["cycles"] for total in sums),
        "speedups": speedups,
        "speedup": sum(filter(None, speedups)) / len(used),
        "over_dense": over_dense,
        "loses_most_in": worst if worst["lost_cycles"] > 0 else None,
        "products": products,
    }


def _loss_text(row: dict[str, Any]) -> str:
    worst = row["loses_most_in"]
    if worst is None:
        return "-"
    return escape(f"{worst['layer']} {worst['operation']}, {worst['speedup']:.2f}x ({worst['limit']})")


def _add_areas(rows: list[dict[str, Any]], cores: Sequence[Core], folder: Path, runner: Runner) -> None:
    """Add the areas of the cores that are worth a synthesis."""
    places = _worth_synthesis(rows, cores)
    configs = [config for place in places for config in (cores[place].config, cores[place].config.baseline)]
    unique = list(dict.fromkeys(configs))
    progress.print(f"areas of {len(unique)} cores, dense ones included", markup=False)
    areas = dict(zip(unique, cached_core_areas(unique, folder, runner), strict=True))
    start = areas[cores[0].config]
    for place in places:
        row, config = rows[place], cores[place].config
        own, dense = areas[config], areas[config.baseline]
        ratios = {source: own[source] / start[source] for source in own}
        row |= {
            "area_um2": own,
            "dense_area_um2": dense,
            "area_ratios": ratios,
            "area_ratio": ratios[AREA_SOURCE],
            "area_over_dense": own[AREA_SOURCE] / dense[AREA_SOURCE],
            "speed_per_area": row["speedup"] / ratios[AREA_SOURCE],
        }


def _worth_synthesis(rows: Sequence[dict[str, Any]], cores: Sequence[Core]) -> list[int]:
    """Return the places of the starting core, presets, and cores that gain `MIN_GAIN` over all smaller ones listed."""
    places = [0]
    candidates = [place for place in range(1, len(rows)) if rows[place]["speedup"] is not None]
    for place in sorted(candidates, key=lambda place: sum(cores[place].shape.sizes)):
        smaller = [other for other in places if cores[other].shape.is_within(cores[place].shape)]
        gains = all(rows[place]["speedup"] > MIN_GAIN * rows[other]["speedup"] for other in smaller)
        if gains or cores[place].preset is not None:
            places.append(place)
    return places
