"""`tensordash synth`: area, delay and power next to the dense baseline, or of every number format."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tensordash import TileConfig
from tensordash.configuration.core_config import CoreConfig
from tensordash_storage.files import atomic_write

from .console import (
    CheckError,
    FiniteRange,
    any_config_options,
    explicit_parameters,
    json_option,
    print_json,
    progress,
    writable_folder,
)

if TYPE_CHECKING:
    from tensordash_synth.wire_report import WireReport

__all__ = ["command"]


@dataclass(frozen=True, kw_only=True)
class PlacementOptions:
    """Options of --wires: the shapes of cells, and the folder of pictures."""

    wires: bool
    lef: tuple[Path, ...] | None
    output: Path | None

    def draw(self, report: "WireReport | None") -> None:
        """Write a picture of each placement, if there is a folder for pictures."""
        if self.output is None or report is None:
            return
        from tensordash_synth import placement_svg

        self.output.mkdir(parents=True, exist_ok=True)
        for name, title, design in zip(
            ("tensordash", "baseline"), ("TensorDash", "baseline"), report.designs, strict=True
        ):
            picture = placement_svg(design.placed, design.gates.cells, title)
            atomic_write(self.output / f"placement-{name}.svg", picture)


@click.command("synth")
@any_config_options
@click.option("--liberty", metavar="FILE.lib", type=Path, help="Your own cell library (default: Nangate 45 nm).")
@click.option(
    "--clock",
    "clock_ns",
    metavar="NS",
    type=FiniteRange(0.05, 100),
    default=2.0,
    show_default=True,
    help="Clock period to map for.",
)
@click.option("--power/--no-power", default=True, help="Measure power, if OpenSTA is installed (minutes; default).")
@click.option("--wires", is_flag=True, help="Also place both designs: area, clock and power with wires (many minutes).")
@click.option("--lef", metavar="FILE.lef", type=Path, multiple=True, help="Shapes of your own library's cells.")
@click.option("--output", "-o", metavar="DIR", type=Path, help="With --wires: folder of pictures of both placements.")
@click.option("--sweep", metavar="NS,NS...", help="Print area and delay for several clocks instead.")
@click.option("--target", metavar="FAMILY", help="Print the cells of an FPGA instead: ecp5, nexus or gowin.")
@click.option(
    "--place", is_flag=True, help="With --target: also place and route both designs, for their clocks (many minutes)."
)
@click.option("--device", metavar="PART", help="With --place: the FPGA (default: the smallest with room).")
@click.option(
    "--route/--no-route", default=True, help="With --place: clocks after routing (default) or after placement."
)
@click.option("--numerics", is_flag=True, help="Map the PE for every format and accumulator instead (minutes).")
@click.option("--equivalence", is_flag=True, help="Prove each module's netlist equal to its RTL instead (minutes).")
@json_option
@click.pass_context
def command(
    context: click.Context,
    config: TileConfig | CoreConfig,
    liberty: Path | None,
    clock_ns: float,
    power: bool,
    wires: bool,
    lef: tuple[Path, ...],
    output: Path | None,
    sweep: str | None,
    target: str | None,
    place: bool,
    device: str | None,
    route: bool,
    numerics: bool,
    equivalence: bool,
    as_json: bool,
) -> None:
    """Map a tile and its dense baseline to a cell library and print both in the shape of the paper's Table IV.

    For a core (a configuration with a table [core]), print the logic of each unit and the memories next to the core
    around the dense tile and, with power, the energy of a training step on both. A core takes --liberty, --clock,
    --wires and --json.

    With --wires, both designs are placed flat on rows, cells are sized up for their wires, and OpenSTA measures clock
    and power with wires. Placements are cached.

    With --target and --place, also for a core, Yosys and nextpnr (extra `fpga`) put both designs on an FPGA, with
    registers at the ports. Placements are cached.

    Power comes from OpenSTA, with activity from a simulation of the mapped netlists, which must equal the golden model.

    With --numerics, map a PE with the tile's lanes and pipeline for every legal pair of format and accumulator.

    With --equivalence, compare the netlist of every module with its Verilog, from any state and for any inputs.
    """
    placing = PlacementOptions(wires=wires, lef=lef or None, output=output)
    if not wires and (lef or output is not None):
        raise click.UsageError(f"{'--lef' if lef else '--output'} goes with --wires only")
    if output is not None:
        writable_folder(output, "--output")
    _check(
        context,
        {
            "--sweep": sweep is not None,
            "--target": target is not None,
            "--numerics": numerics,
            "--equivalence": equivalence,
        },
    )
    if place or device is not None or not route:
        _place(config, target, place, device, route, as_json)
        return
    if equivalence:
        _equivalence(config, liberty, clock_ns, as_json)
        return
    if isinstance(config, CoreConfig):
        _core(context, config, liberty, clock_ns, power, placing, as_json)
        return
    document, text = _tile(config, liberty, clock_ns, power, placing, sweep=sweep, target=target, numerics=numerics)
    if as_json:
        print_json(document)
    else:
        click.echo(text)


def _tile(
    config: TileConfig,
    liberty: Path | None,
    clock_ns: float,
    power: bool,
    placing: PlacementOptions,
    *,
    sweep: str | None,
    target: str | None,
    numerics: bool,
) -> tuple[dict[str, Any], str]:
    from tensordash_synth import (
        TARGETS,
        cost_table,
        every_numerics,
        fpga_table,
        numerics_costs,
        numerics_table,
        sweep_table,
        synthesize,
        synthesize_fpga,
    )

    if target is not None and target not in TARGETS:
        raise click.UsageError(f"--target must be one of {', '.join(TARGETS)}, not {target!r}")
    clocks = _clocks(sweep) if sweep is not None else []
    with progress.status("synthesizing") as status:
        if numerics:
            cores = numerics_costs(every_numerics(config), liberty=liberty, clock_ns=clock_ns, progress=status.update)
            document, text = cores.to_json(), numerics_table(cores)
        elif target is not None:
            fpga = synthesize_fpga(config, target, progress=status.update)
            document, text = fpga.to_json(), fpga_table(fpga)
        elif clocks:
            reports = [synthesize(config, liberty=liberty, clock_ns=ns, progress=status.update) for ns in clocks]
            document, text = {"sweep": [report.to_json() for report in reports]}, sweep_table(reports)
        else:
            report = synthesize(
                config,
                liberty=liberty,
                clock_ns=clock_ns,
                power=power,
                wires=placing.wires,
                lef=placing.lef,
                progress=status.update,
            )
            document, text = report.to_json(), cost_table(report)
            placing.draw(report.wires)
    return document, text


def _equivalence(config: TileConfig | CoreConfig, liberty: Path | None, clock_ns: float, as_json: bool) -> None:
    from tensordash_synth import prove_equivalence

    with progress.status("synthesizing") as status:
        report = prove_equivalence(config, liberty=liberty, clock_ns=clock_ns, progress=status.update)
    if as_json:
        print_json(report.to_json())
    else:
        click.echo(report.table())
    if failures := report.failures:
        raise CheckError(f"{len(failures)} of the modules are not proven equal to their RTL: {failures[0]}")


def _core(
    context: click.Context,
    config: CoreConfig,
    liberty: Path | None,
    clock_ns: float,
    power: bool,
    placing: PlacementOptions,
    as_json: bool,
) -> None:
    from tensordash_synth import core_cost_table, synthesize_core

    for option in explicit_parameters(context):
        if option.name in ("sweep", "target", "numerics"):
            name = f"{option.opts[0]} without --place" if option.name == "target" else option.opts[0]
            raise click.UsageError(
                f"{name} does not go with a core: --liberty, --clock, --power, --wires and --json do"
            )
    with progress.status("synthesizing") as status:
        report = synthesize_core(
            config,
            liberty=liberty,
            clock_ns=clock_ns,
            power=power,
            wires=placing.wires,
            lef=placing.lef,
            progress=status.update,
        )
        placing.draw(report.wires)
    if as_json:
        print_json(report.to_json())
    else:
        click.echo(core_cost_table(report))


def _place(
    config: TileConfig | CoreConfig,
    target: str | None,
    place: bool,
    device: str | None,
    route: bool,
    as_json: bool,
) -> None:
    from tensordash_synth import place_fpga, placed_table

    if not place:
        raise click.UsageError(f"{'--no-route' if device is None else '--device'} goes with --place only")
    if target is None:
        raise click.UsageError("--place goes with --target only")
    with progress.status("synthesizing") as status:
        report = place_fpga(config, target, device=device, route=route, progress=status.update)
    if as_json:
        print_json(report.to_json())
    else:
        click.echo(placed_table(report))


def _check(context: click.Context, instead: dict[str, bool]) -> None:
    chosen = [option for option, is_set in instead.items() if is_set]
    if len(chosen) > 1:
        raise click.UsageError(f"{' and '.join(chosen)} exclude each other")
    # These modes ignore the listed options.
    without = {
        "--sweep": ("clock_ns", "power", "wires"),
        "--target": ("clock_ns", "power", "liberty", "wires"),
        "--numerics": ("power", "wires"),
        "--equivalence": ("power", "wires"),
    }
    for option in explicit_parameters(context):
        if chosen and option.name in without[chosen[0]]:
            raise click.UsageError(f"{option.opts[0]} does not go with {chosen[0]}")


def _clocks(text: str) -> list[float]:
    try:
        clocks = [float(clock) for clock in text.split(",")]
    except ValueError:
        clocks = []
    if not clocks or not all(0.05 <= clock <= 100 for clock in clocks):
        raise click.UsageError(f"--sweep must be periods in ns from 0.05 to 100, such as 1.25,2,4, not {text!r}")
    return clocks
