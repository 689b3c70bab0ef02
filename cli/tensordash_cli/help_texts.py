"""Groups and examples of the commands, which `--help` and the reference on the site show."""

import click

__all__ = ["EXAMPLES", "GROUPS", "SummaryGroup", "epilog"]

GROUPS: dict[str, tuple[str, ...]] = {
    "Generate hardware": ("presets", "generate", "synth", "soc"),
    "Verify hardware": ("verify", "prove", "soak", "mutate"),
    "Measure speedup": ("simulate", "report", "explore", "map"),
    "Use your own network": ("trace", "inspect", "train", "compile", "run"),
    "Reproduce the paper": ("evaluate", "data", "demo"),
}
"""Headings of `tensordash --help`, each with its commands."""

EXAMPLES: dict[str, tuple[str, ...]] = {
    "generate": (
        "tensordash generate -o my_tile",
        "tensordash generate my_tile.toml --name my_tile --testbench -o my_tile",
        "tensordash generate --preset core --set core.axi_bits=64 -o my_core",
    ),
    "verify": (
        "tensordash verify --preset recommended",
        "tensordash verify my_tile.toml --bench tile --waves run.vcd",
        "tensordash verify my_tile.toml --operands my.npz -o out.npz",
        "tensordash verify my_tile.toml --trace run.trace --layer conv1 --op AxG",
        "tensordash verify --preset core --effort 0.1",
    ),
    "soak": (
        "tensordash soak --seed 7 --positions 10000000",
        "tensordash soak --cores 20 --jobs 4 -o build/soak",
        "tensordash soak --seed 7 --replay 7:12 --waves failure.vcd",
    ),
    "mutate": (
        "tensordash mutate --component scheduler --count 50",
        "tensordash mutate --preset core --kind wires",
        "tensordash mutate --by-hand --list",
    ),
    "prove": (
        "tensordash prove --preset recommended",
        "tensordash prove my_tile.toml --jobs 4 -o build",
        "tensordash prove --all",
    ),
    "synth": (
        "tensordash synth --no-power",
        "tensordash synth my_tile.toml --liberty cells.lib --clock 1.2",
        "tensordash synth my_tile.toml --sweep 1.0,1.5,2.0",
        "tensordash synth my_tile.toml --target ecp5 --place",
        "tensordash synth --preset core",
    ),
    "trace": (
        "tensordash trace train.py --every 100 --steps 5 --stop -o run.trace",
        "tensordash trace train.py -o run.trace -- --epochs 3",
        "tensordash trace --model snli --scale tiny -o snli.trace",
    ),
    "train": (
        "tensordash train --steps 10",
        "tensordash train --preset core-fp8 --model mlp --rounding stochastic --seed 1",
        "tensordash train --model gpt --steps 1 --compare golden",
        "tensordash train --model gpt --preset nvfp4 --recipe nvfp4 --steps 20",
    ),
    "soc": (
        "tensordash soc --preset core -o soc",
        "tensordash soc --preset core --program step -o soc",
    ),
    "map": (
        "tensordash map --channels 128 --filters 128 --size 8 --kernel 3 --padding 1",
        "tensordash map --channels 512 --filters 10 --samples 64 --op AxG",
        "tensordash map --preset core-fp8 --channels 8 --filters 8 --listing",
    ),
    "compile": (
        "tensordash compile --channels 16 --filters 8 --size 6 --kernel 3 -o conv",
        "tensordash compile --model digits --momentum 0.9 -o step",
        "tensordash compile --model mlp --batch 8 --base 0x20000 -o step",
    ),
    "run": (
        "tensordash run step",
        "tensordash run step --on golden",
        "tensordash run step --preset core --json",
    ),
    "simulate": (
        "tensordash simulate run.trace",
        "tensordash simulate my_tile.toml run.trace --chip chip.toml --csv cycles.csv",
        "tensordash simulate --random 0.5 --cluster rows --length 100",
        "tensordash simulate run.trace --side faster --join-samples faster --row-order density",
    ),
    "inspect": (
        "tensordash inspect run.trace",
        "tensordash inspect run.trace --check",
    ),
    "evaluate": (
        "tensordash evaluate",
        "tensordash evaluate fig12 --traces build/traces",
        "tensordash evaluate --all --scale tiny --no-synth",
    ),
    "explore": (
        "tensordash explore --trace run.trace",
        "tensordash explore --trace run.trace --depth 2,3 --staging ring --tries 20 --no-area",
        "tensordash explore --preset core --trace run.trace --axi-bits 128 --no-area",
    ),
    "report": (
        "tensordash report run.trace -o verdict.html",
        "tensordash report my_tile.toml run.trace --no-synth -o verdict.html",
        "tensordash report build/evaluation -o results.html",
        "tensordash report -o schedules.html",
    ),
    "data": (
        "tensordash data list",
        "tensordash data fetch movielens",
    ),
    "presets": (
        "tensordash presets",
        "tensordash presets paper > my_tile.toml",
        "tensordash presets --chip > chip.toml",
    ),
    "demo": (
        "tensordash demo",
        "tensordash demo --preset recommended --no-synth",
    ),
}
"""Commands as users type them. The user provides `my_tile.toml`, `run.trace`, `train.py` and other input files."""


def epilog(command: str) -> str:
    """Return the examples of a command as the last paragraph of its help; click does not wrap it."""
    group = command.split()[0]
    examples = [example for example in EXAMPLES[group] if f"{example} ".startswith(f"tensordash {command} ")]
    return "\n".join(["\b", "Examples:", *(f"  {example}" for example in examples)])


class SummaryGroup(click.Group):
    """A group whose help lists its commands with their full summaries."""

    def headings(self, ctx: click.Context) -> dict[str, tuple[str, ...]]:
        """Return the headings of the list, each with its commands."""
        return {"Commands": tuple(self.list_commands(ctx))}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list."""
        for heading, names in self.headings(ctx).items():
            commands = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(heading):
                formatter.write_dl([(name, _summary(command)) for name, command in commands if command is not None])


def _summary(command: click.Command) -> str:
    """Return the first paragraph of a command's help."""
    return " ".join((command.help or "").split("\n\n")[0].split())
