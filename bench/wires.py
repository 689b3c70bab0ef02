"""Place a tile and a core, and write the table of wires into docs/cost.md.

    python bench/wires.py            # place the designs that docs/wires.json lacks (minutes), then write the page
    python bench/wires.py --write    # place nothing, write the page

Needs the extra `wires`.
"""

from collections.abc import Mapping
from typing import Any

from common import DOCS, argument_parser, core_preset, load_figures, measured_at, render, replace_between, store_figures
from tensordash import load_preset
from tensordash_storage.files import atomic_write
from tensordash_synth import synthesize, synthesize_core

RESULTS = DOCS / "wires.json"
PAGE = DOCS / "cost.md"
DESIGNS = ("paper", "core")


def placed(name: str) -> Any:
    """Place a preset and its baseline, and return figures. Only tiles have power, because a core's power takes long."""
    if name == "core":
        core = core_preset(name)
        digest, document = core.digest, synthesize_core(core, power=False, wires=True).to_json()
    else:
        tile = load_preset(name)
        digest, document = tile.digest, synthesize(tile, power=True, wires=True).to_json()
    return {"config": digest, "ratio": document["ratio"], **document["wires"]}


def fill_page(text: str, results: Mapping[str, Any]) -> str:
    """Return the page with its tables."""
    return replace_between(text, "<!-- wires -->", "<!-- /wires -->", render("wires", results=results))


def main() -> None:
    """Run the command."""
    parser = argument_parser(__doc__)
    parser.add_argument("--write", action="store_true", help="place nothing, write the page")
    write_only = parser.parse_args().write
    for name in DESIGNS:
        if not write_only and name not in load_figures(RESULTS):
            print(f"{name}: placing", flush=True)
            store_figures(
                RESULTS,
                {**load_figures(RESULTS), name: {"command": "python bench/wires.py", **measured_at(), **placed(name)}},
            )
    atomic_write(PAGE, fill_page(PAGE.read_text(encoding="utf-8"), load_figures(RESULTS)))


if __name__ == "__main__":
    main()
