"""Functions that the benches share: arguments, timing, cached figures, and pages from `templates/`."""

import argparse
import json
import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash.extras import MissingExtraError, require
from tensordash_storage.files import atomic_write

if TYPE_CHECKING:
    from tensordash_sim.compiler.program import Program
    from tensordash_sim.golden.core.memory import Memory
    from tensordash_sim.verify.verilated_core import CoreRun, VerilatedCore

__all__ = [
    "DOCS",
    "TEMPLATES",
    "argument_parser",
    "best_time",
    "core_preset",
    "load_figures",
    "measured_at",
    "output_of",
    "print_json",
    "render",
    "replace_between",
    "require_modules",
    "run_program",
    "store_figures",
]

DOCS = Path(__file__).resolve().parents[1] / "docs"
TEMPLATES = Path(__file__).parent / "templates"
LINE_LENGTH = 150
"""Maximum length of a line of a page, in characters."""


def argument_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser that prints a module's docstring as help, with its line breaks."""
    return argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)


def require_modules(parser: argparse.ArgumentParser, *modules: str) -> None:
    """Exit with status 2 and a line that names the extras of modules that are not installed."""
    try:
        require(f"python bench/{parser.prog}", *modules)
    except MissingExtraError as error:
        parser.exit(2, f"{error}\n")


def best_time(work: Callable[[], object]) -> float:
    """Return the seconds of the fastest of three runs, after a warm-up run that compiles."""
    work()
    times = []
    for _ in range(3):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def core_preset(name: str = "core") -> CoreConfig:
    """Return the configuration of a preset that is a core."""
    config = load_any_preset(name)
    assert isinstance(config, CoreConfig)
    return config


def load_figures(path: Path) -> dict[str, Any]:
    """Return the figures in a JSON file by name; an empty dictionary if there is no file."""
    figures: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return figures


def store_figures(path: Path, figures: Mapping[str, Any]) -> None:
    """Replace the JSON file of figures."""
    atomic_write(path, json.dumps(figures, indent=1) + "\n")


def measured_at() -> dict[str, str]:
    """Return the current commit and date, for a file of figures."""
    shown = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"], cwd=DOCS, check=True, capture_output=True, text=True
    )
    return {"commit": shown.stdout.strip(), "date": datetime.now(UTC).date().isoformat()}


def output_of(*arguments: str) -> str:
    """Return the output of the `tensordash` command."""
    command = "from tensordash_cli.main import run; run()"
    return subprocess.run(
        [sys.executable, "-c", command, *arguments], check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def map_module(verilog: str, module: str) -> dict[str, float]:
    """Return the area in gate equivalents and the longest path in ns of a module, mapped at 2 ns."""
    from tensordash_synth.hierarchy import Hierarchy
    from tensordash_synth.run import running

    with running(None, 2.0, None, 1) as run:
        mapped, _ = run.map_flattened(Hierarchy(verilog, module), module)
        return {"ge": round(mapped.area_um2 / run.library.gate_area, 1), "delay_ns": round(mapped.delay_ns, 4)}


def run_program(core: "VerilatedCore", program: "Program", memory: "Memory") -> "CoreRun":
    """Run a program on a core, with `memory` from address 0 and descriptors after it; return the run.

    Afterwards `memory` is as the core left it. An error of the program ends the bench.
    """
    size = len(memory.bytes)
    core.memory[:size] = np.frombuffer(memory.bytes, np.uint8)
    run = core.run(program.descriptors, size)
    if run.outcome.error:
        raise SystemExit(f"error {run.outcome.error} in descriptor {run.outcome.index}:\n{program.listing()}")
    memory.bytes[:] = core.memory[:size].tobytes()
    return run


def print_json(document: Any) -> None:
    """Print one JSON document."""
    print(json.dumps(document, indent=1))


def render(template: str, **values: Any) -> str:
    """Render a template with values, without leading and trailing newlines."""
    return _environment.get_template(f"{template}.md.j2").render(values).strip("\n")


def replace_between(text: str, begin: str, end: str, content: str) -> str:
    """Return a page with `content` between two markers.

    >>> replace_between("<!-- a -->\\nold\\n<!-- b -->\\n", "<!-- a -->", "<!-- b -->", "new")
    '<!-- a -->\\nnew\\n<!-- b -->\\n'
    """
    before, _, rest = text.partition(begin)
    return f"{before}{begin}\n{content}\n{end}{rest.partition(end)[2]}"


def _fill(text: str) -> str:
    """Break a paragraph, or each item of a list, into lines of the page's width."""
    return "\n".join(
        textwrap.fill(
            " ".join(each.split()),
            LINE_LENGTH,
            subsequent_indent="  " if each.startswith("- ") else "",
            break_long_words=False,
            break_on_hyphens=False,
        )
        for each in re.split(r"\n(?=- )", text.strip())
    )


_environment = Environment(
    loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
)
_environment.filters.update(fill=_fill, fmt=format)
