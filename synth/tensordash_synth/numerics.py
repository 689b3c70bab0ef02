"""Costs of number formats: a tile's compute core, mapped for every legal pair of format and accumulator."""

from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tensordash import TileConfig
from tensordash.configuration.config import SideFormats
from tensordash.configuration.formats import FloatFormat
from tensordash.configuration.numerics import ACCUMULATORS, Binned, Fused, Numerics

from .hierarchy import Hierarchy
from .mapping import LOGIC_SHARE, Mapped
from .report import DELAY_NOTES
from .run import Progress, Run, running

__all__ = ["NUMERICS_NOTES", "CoreCost", "NumericsReport", "every_numerics", "numerics_costs"]

TILE = "tensordash_tile"
PE = "tensordash_pe"
FORMAT_CHOICES = ("fp16", "bf16", "tf32", "fp8_e4m3", "fp8_e5m2", SideFormats("fp8_e4m3", "fp8_e5m2"), "int8")
# Only one accumulator with FP16 results is mapped. All of them save about the same area, whatever F is, and C is added
# outside the PE.
NAMED = (name for name in ACCUMULATORS if name not in ("volta-fp16", "ampere-fp16", "blackwell-fp16"))
BINNED_CHOICES = Binned(3), Binned(4)
ACCUMULATOR_CHOICES: tuple[str | Fused, ...] = ("exact", *NAMED, Fused(23, "nearest"))
NUMERICS_NOTES = (
    *DELAY_NOTES,
    "product bits: magnitude of an exact product in fixed point (int8: with its sign)",
    "area: the PE alone, without operand registers; result: from a sum to a result, once per column of a beat",
)


def every_numerics(config: TileConfig) -> list[TileConfig]:
    """Return tiles of every legal pair of format and accumulator, and the tile's own, with its lanes and pipeline.

    Headroom is the tile's, limited for int8 by its results. Accumulators named after fp8 are listed for fp8 only, and
    binned accumulators for formats without an exact one. Equal tiles are listed once.

    >>> tiles = every_numerics(TileConfig())
    >>> len(tiles), [tile.accumulator for tile in tiles if tile.format == "int8"]
    (49, ['exact'])
    >>> str(every_numerics(TileConfig(accumulator={"fused": 40}))[-1].accumulator)
    'fused 40, zero'
    """
    own = _single(config)
    found: list[TileConfig] = []
    for names in FORMAT_CHOICES:
        headroom = min(own.headroom_bits, 16) if names == "int8" else own.headroom_bits
        for accumulator in ACCUMULATOR_CHOICES:
            with suppress(ValueError):  # The pair is illegal.
                tile = replace(own, format=names, accumulator=accumulator, headroom_bits=headroom)
                if "fp8" not in str(accumulator) or tile.a_format.width == 8:
                    found.append(tile)
        if not any(tile.format == names and tile.accumulator == "exact" for tile in found):
            found += [replace(own, format=names, accumulator=each) for each in BINNED_CHOICES]
    different: dict[Numerics, TileConfig] = {}
    for tile in [*found, own]:
        different.setdefault(tile.numerics, tile)
    return list(different.values())


def _single(config: TileConfig) -> TileConfig:
    """Return the dense tile of one PE."""
    return replace(config.baseline, rows=1, columns=1, out_rows=1)


@dataclass(frozen=True, kw_only=True)
class CoreCost:
    """A mapped compute core.

    Parameters
    ----------
    config : TileConfig
        A tile with this core.
    product_bits, accumulator_bits : int
        Widths of an exact product in fixed point, and of the accumulator.
    at_target, fastest : Mapped
        The core mapped to the target clock, and for speed.
    result_um2 : float
        Area of the logic that converts a sum to a result.
    """

    config: TileConfig
    product_bits: int
    accumulator_bits: int
    at_target: Mapped
    fastest: Mapped
    result_um2: float

    @property
    def label(self) -> tuple[str, str]:
        """Names of the formats and of the accumulator."""
        return _label(self.config)


def _label(config: TileConfig) -> tuple[str, str]:
    """Return the names of the formats and of the accumulator.

    >>> _label(TileConfig(format={"a": "fp8_e4m3", "b": "fp8_e5m2"}, accumulator={"fused": 40}))
    ('fp8_e4m3 x fp8_e5m2', 'fused 40, zero')
    """
    return " x ".join(dict.fromkeys((config.a_format.name, config.b_format.name))), str(config.accumulator)


@dataclass(frozen=True, kw_only=True)
class NumericsReport:
    """Costs of compute cores that differ only in formats and accumulators.

    Parameters
    ----------
    library : str
        Name of the cell library.
    gate_area : float
        Area of a gate equivalent in um2.
    clock_ns : float
        Target period.
    cores : tuple of CoreCost
        At least one.
    """

    library: str
    gate_area: float
    clock_ns: float
    cores: tuple[CoreCost, ...]

    def meets_clock(self, core: CoreCost) -> bool:
        """Return whether the core meets the clock, with a part of the period reserved for flip-flops."""
        return core.at_target.delay_ns <= LOGIC_SHARE * self.clock_ns

    def to_json(self) -> dict[str, Any]:
        """Return the report as a document of plain values; areas in um2 and gate equivalents (`ge`), delays in ns."""
        shape = self.cores[0].config
        return {
            "library": self.library,
            "gate_um2": self.gate_area,
            "clock_ns": self.clock_ns,
            "lanes": shape.lanes,
            "stages": shape.stages,
            "initial": shape.initial,
            "cores": [self._core(core) for core in self.cores],
            "notes": list(NUMERICS_NOTES),
        }

    def _core(self, core: CoreCost) -> dict[str, Any]:
        table = core.config.to_mapping()["tile"]
        return {
            "format": {"a": core.config.a_format.name, "b": core.config.b_format.name},
            "accumulator": table["accumulator"],
            "headroom_bits": None if isinstance(core.config.numerics.accumulator, Fused) else table["headroom_bits"],
            "product_bits": core.product_bits,
            "accumulator_bits": core.accumulator_bits,
            "area_um2": round(core.at_target.area_um2, 3),
            "ge": round(core.at_target.area_um2 / self.gate_area, 3),
            "flip_flop_ge": round(core.at_target.flip_flop_um2 / self.gate_area, 3),
            "delay_ns": round(core.at_target.delay_ns, 4),
            "recipe": core.at_target.recipe,
            "meets_clock": self.meets_clock(core),
            "max_frequency_mhz": round(1000 / core.fastest.delay_ns, 1),
            "result_ge": round(core.result_um2 / self.gate_area, 3),
        }


def numerics_costs(
    configs: Sequence[TileConfig],
    *,
    liberty: str | Path | None = None,
    clock_ns: float = 2.0,
    progress: Progress | None = None,
    jobs: int | None = None,
) -> NumericsReport:
    """Map the compute cores of tiles to a cell library, by the recipe of `synthesize`.

    Parameters
    ----------
    configs : sequence of TileConfig
        Tiles of equal lanes, stages and `initial`; `every_numerics` lists them. Their dense baselines are mapped.
    liberty, clock_ns, progress, jobs
        As in `synthesize`.

    Returns
    -------
    NumericsReport
        A `CoreCost` for each, in their order.

    Raises
    ------
    ValueError
        If a number is out of range, there are no tiles, or their shapes differ.
    LibertyError
        If the library cannot be used.
    SynthesisError
        If Yosys or ABC fails. No file remains.
    """
    if len({(config.lanes, config.stages, config.initial) for config in configs}) != 1:
        raise ValueError("configs must be tiles, at least one, of equal tile.lanes, tile.pipeline and tile.initial")
    with running(liberty, clock_ns, progress, jobs) as run:
        results: dict[str, Future[Mapped]] = {}
        cores = [_Pending(run, config, results) for config in configs]
        run.wait()
        return NumericsReport(
            library=run.library.name,
            gate_area=run.library.gate_area,
            clock_ns=clock_ns,
            cores=tuple(core.cost() for core in cores),
        )


class _Pending:
    """A core that is being mapped. `results` has the converters to results by digest, because most cores share them."""

    def __init__(self, run: Run, config: TileConfig, results: dict[str, Future[Mapped]]) -> None:
        from tensordash.emission.verilog import render  # Importing Amaranth is slow.

        self.config = config
        label = " ".join(_label(config))
        tile = Hierarchy(render(_single(config))["tensordash.v"], TILE)
        self.fastest = run.submit(run.module_fastest, tile, PE, label)
        self.at_target = run.submit(run.module, tile, PE, label)
        self.results = []
        for placement in tile.placements:
            if placement.path[:1] == ("drain",) and placement.path[1:]:
                digest = tile.digest(placement.module)
                if digest not in results:
                    results[digest] = run.submit(run.module, tile, placement.module, f"{label}, result")
                self.results.append(results[digest])

    def cost(self) -> CoreCost:
        from tensordash.layouts import FixedPoint, accumulator_shape

        numerics = self.config.numerics
        a, b = numerics.a_format, numerics.b_format
        product_bits = a.width + b.width
        if isinstance(a, FloatFormat) and isinstance(b, FloatFormat):
            product_bits = FixedPoint(a, b, 0).product_bits
        return CoreCost(
            config=self.config,
            product_bits=product_bits,
            accumulator_bits=accumulator_shape(numerics)[0],
            at_target=self.at_target.result(),
            fastest=self.fastest.result(),
            result_um2=sum(result.result().area_um2 for result in self.results),
        )
