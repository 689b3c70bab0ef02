"""Power of both tiles of a report: on random operands, on recorded operands, and while they wait."""

from concurrent.futures import Future

from tensordash import TileConfig

from .hierarchy import Placement, named
from .power import DesignPower, find_opensta, random_streams, recorded_streams, waiting
from .power_report import PowerReport, PowerRun
from .report import CostReport, Design, component_sums, table_rows
from .run import Run

__all__ = ["measure_power"]

ZEROS = (0.0, 0.5, 0.8, 0.9)


def measure_power(run: Run, config: TileConfig, report: CostReport) -> PowerReport | None:
    """Measure the power of both tiles of a report, at its clock; None without OpenSTA.

    Parameters
    ----------
    run : Run
        The run that mapped the report's modules.
    config : TileConfig
        The tile that skips zeros.
    report : CostReport
        Its areas, and netlists of its modules.

    Raises
    ------
    SynthesisError
        If a netlist differs from the golden model, or OpenSTA fails.
    """
    if find_opensta() is None:
        return None
    activities = [random_streams(config, zeros) for zeros in ZEROS]
    if config.numerics.scale is None:  # The recorded values have no scales.
        activities.append(recorded_streams(config))
    activities.append(waiting(config))
    pending: dict[str, Future[list[DesignPower]]] = {
        name: run.submit(run.power, tile, _netlist(design, report), activities, name)
        for name, tile, design in (
            ("TensorDash", config, report.tensordash),
            ("baseline", config.baseline, report.baseline),
        )
    }
    run.wait()
    sparse, dense = (pending[name].result() for name in ("TensorDash", "baseline"))
    *runs, idle = (
        PowerRun(
            name=activity.name,
            rows=table_rows(_sums(report.tensordash, in_sparse), _sums(report.baseline, in_dense)),
            cycles=(in_sparse.cycles, in_dense.cycles),
        )
        for activity, in_sparse, in_dense in zip(activities, sparse, dense, strict=True)
    )
    return PowerReport(runs=runs, idle=idle)


def _netlist(design: Design, report: CostReport) -> str:
    """Return the mapped modules of a tile under their own names; equal modules of both tiles were mapped once."""
    names = sorted({placement.module for placement in design.placements})
    return "\n".join(named(report.modules[design.keys[name]].netlist, name) for name in names)


def _sums(design: Design, power: DesignPower) -> dict[str, float]:
    modules = {placement.path: placement.module for placement in design.placements}
    return component_sums((Placement(path, modules[path]), part.total) for path, part in power.parts.items())
