"""Train the networks of docs/training-results.md, and write their accuracies and speedups into the page.

    python bench/training_page.py              # train nothing: write the page from docs/training.json
    python bench/training_page.py digits ...   # first train the rows of a table: digits, scales, gpt or verilog

A row takes minutes, or up to an hour in a format with scales. docs/training.json has each row's command, commit and
date.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from statistics import mean
from typing import Any

from common import DOCS, argument_parser, load_figures, measured_at, render, replace_between, store_figures
from tensordash_storage.files import atomic_write

RESULTS = DOCS / "training.json"
PAGE = DOCS / "training-results.md"
HOPPER = "--preset paper --set tile.format=bf16 --set tile.accumulator=hopper"
SCALED = (HOPPER, "--preset mxfp8 --rounding stochastic", "--preset nvfp4 --rounding stochastic")
TABLES: dict[str, tuple[str, dict[str, str]]] = {
    "digits": (
        "tensordash train --epochs 12",
        {
            "--preset core": "",
            "--preset core --seed 1": "",
            "--preset core --seed 2": "",
            "--preset core-fp8": "",
            HOPPER: "a tile alone",
            "--preset core --batch 64": "",
        },
    ),
    "scales": ("tensordash train --epochs 4", dict.fromkeys(SCALED, "")),
    "gpt": ("tensordash train --model gpt", {**dict.fromkeys(SCALED, ""), "--preset nvfp4": "to nearest"}),
    "verilog": (
        "tensordash train --preset core --backend verilator",
        {"--steps 16": "batches of 16", "--steps 4 --batch 64": "", "--steps 4 --batch 128": ""},
    ),
}
"""The common command of each table's rows, and each row's further options with a remark."""


def command_of(table: str, options: str) -> str:
    """Return a row's command."""
    return f"{TABLES[table][0]} {options}"


def figures(document: Mapping[str, Any]) -> dict[str, float]:
    """Return a row's figures from the document of `tensordash train --json`; losses are means over all steps."""
    names = ("steps", "accuracy", "plain_accuracy", "speedup", "tile_speedup")
    losses = {name: mean(step[name] for step in document["history"]) for name in ("loss", "plain_loss")}
    return {**{name: document[name] for name in names}, **losses}


def train(command: str) -> dict[str, Any]:
    """Run a row's command."""
    done = subprocess.run([*command.split(), "--json"], check=True, stdout=subprocess.PIPE, text=True)
    return {**measured_at(), "figures": figures(json.loads(done.stdout))}


def fill_page(text: str, results: Mapping[str, Any]) -> str:
    """Return the page with its tables."""
    for table, (command, options) in TABLES.items():
        rows = [(each, note, results[command_of(table, each)]) for each, note in options.items()]
        rendered = render("training", table=table, command=command, rows=rows)
        text = replace_between(text, f"<!-- {table} -->", f"<!-- /{table} -->", rendered)
    return text


def main() -> int:
    """Run the command."""
    parser = argument_parser(__doc__)
    parser.add_argument("tables", nargs="*", choices=[*TABLES, []], metavar="TABLE", help=", ".join(TABLES))
    for table in parser.parse_args().tables:
        for options in TABLES[table][1]:
            command = command_of(table, options)
            store_figures(RESULTS, {**load_figures(RESULTS), command: train(command)})
            print(command, flush=True)
    atomic_write(PAGE, fill_page(PAGE.read_text(encoding="utf-8"), load_figures(RESULTS)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
