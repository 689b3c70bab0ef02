"""Draw the figures of `python bench/soc.py --json docs/soc.json`, and write them into the tutorial and README.md.

The tutorial also gets the table of `python bench/soc_fpga.py --json docs/soc-fpga.json`.

python bench/soc_page.py    # writes docs/soc.svg, docs/tutorials/soc.md and README.md
"""

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from common import DOCS, argument_parser, load_figures, render, replace_between
from schedule_pictures import document, text
from soc_fpga import table
from tensordash_storage.files import atomic_write

RESULTS = DOCS / "soc.json"
FPGA_RESULTS = DOCS / "soc-fpga.json"
PICTURE = DOCS / "soc.svg"
PAGE = DOCS / "tutorials/soc.md"
README = DOCS.parent / "README.md"
NAMES = {"mlp": "MLP", "digits": "CNN"}
WIDTH = 400
"""Width of the picture in pixels, small enough for a phone's screen."""
PLOT_LEFT = 168
"""Left edge of plots and bars, in pixels."""
PLOT_WIDTH = 150
"""Width of a plot and of the longest bar, in pixels."""
PLOT_HEIGHT = 70
"""Height of a plot in pixels."""
ROW_HEIGHT = 20
"""Distance from a bar to the next one, in pixels."""


def parts_of_step(figures: Mapping[str, Any]) -> dict[str, float]:
    """Return the mean cycles of a step by activity, including the comparison of tensors."""
    cycles, steps = figures["cycles"], figures["steps"]
    parts = {name: count / steps for name, count in figures["functions"].items()}
    parts["compare tensors"] = (figures["all_cycles"] - cycles["host_calls"] - cycles["programs"]) / steps
    parts["start programs"] = (cycles["programs"] - cycles["asleep"]) / steps
    parts["wait for the core"] = cycles["asleep"] / steps
    return parts


def host_percent(figures: Mapping[str, Any]) -> float:
    """Return the percentage of host calls in a step, without the comparison."""
    cycles = figures["cycles"]
    return float(100 * cycles["host_calls"] / (cycles["host_calls"] + cycles["programs"]))


def draw_losses(y: float, losses: list[float]) -> Iterator[str]:
    """Draw the loss of each step."""
    min_loss, max_loss = min(losses), max(losses)
    x_scale, y_scale = PLOT_WIDTH / max(len(losses) - 1, 1), (PLOT_HEIGHT - 10) / ((max_loss - min_loss) or 1)
    points = [(PLOT_LEFT + k * x_scale, y + 5 + (max_loss - loss) * y_scale) for k, loss in enumerate(losses)]
    yield f'<rect class="zero" x="{PLOT_LEFT}" y="{y:g}" width="{PLOT_WIDTH}" height="{PLOT_HEIGHT}"/>'
    yield f'<polyline class="curve" points="{" ".join(f"{x:.1f},{y_loss:.1f}" for x, y_loss in points)}"/>'
    yield text(PLOT_LEFT - 8, y + 12, f"loss {max_loss:.4f}", "right")
    yield text(PLOT_LEFT - 8, y + PLOT_HEIGHT - 2, f"{min_loss:.4f}", "right")
    yield text(PLOT_LEFT + PLOT_WIDTH, y + PLOT_HEIGHT + 14, f"step {len(losses)}", "small right")
    yield text(PLOT_LEFT, y + PLOT_HEIGHT + 14, "step 1", "small left")


def draw_networks(networks: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Draw the loss of each network, and a bar for each part of a step."""
    yield "<style>.curve { fill: none; stroke: #3a5a78; stroke-width: 1.6 }"
    yield "@media (prefers-color-scheme: dark) { .curve { stroke: #8fb3d6 } }</style>"
    y = 0.0
    for name, figures in networks.items():
        cycles_of = parts_of_step(figures)
        yield text(10, y + 24, f"{NAMES[name]}, batches of {figures['batch']}", "left")
        yield from draw_losses(y + 36, figures["loss"])
        y += 36 + PLOT_HEIGHT + 36
        yield text(10, y, "million cycles of a step", "small left")
        for part, cycles in sorted(cycles_of.items(), key=lambda item: -item[1]):
            length = PLOT_WIDTH * cycles / max(cycles_of.values())
            kind = "taken" if part == "wait for the core" else "cell"
            yield text(PLOT_LEFT - 8, y + ROW_HEIGHT - 4, part, "small right")
            bar = f'width="{max(length, 0.5):.1f}" height="{ROW_HEIGHT - 6}"'
            yield f'<rect class="{kind}" x="{PLOT_LEFT}" y="{y + 6:g}" {bar}/>'
            yield text(PLOT_LEFT + length + 8, y + ROW_HEIGHT - 4, f"{cycles / 1e6:.3f}", "small left")
            y += ROW_HEIGHT
        y += 10


def draw_picture(results: Mapping[str, Any]) -> str:
    """Return the losses and the cycles of all networks as one SVG."""
    networks = results["networks"]
    height = sum(82 + PLOT_HEIGHT + ROW_HEIGHT * len(parts_of_step(figures)) for figures in networks.values()) + 10
    title = "The loss of each step, and where the cycles of a step go"
    return document(title, WIDTH, height, draw_networks(networks), sized=True)


def fill_page(page: str, results: Mapping[str, Any], part: str) -> str:
    """Return the tutorial or README.md with its figures; `part` selects the template."""
    rows = [
        {"name": NAMES[name], "host_percent": host_percent(figures), "parts": parts_of_step(figures), **figures}
        for name, figures in results["networks"].items()
    ]
    figures_text = render("soc", part=part, rows=rows, **{key: results[key] for key in ("command", "commit", "date")})
    page = replace_between(page, f"<!-- soc: {part} -->", "<!-- /soc -->", figures_text)
    if part == "tutorial":
        page = replace_between(page, "<!-- soc: fpga -->", "<!-- /soc: fpga -->", table(load_figures(FPGA_RESULTS)))
    return page


def main() -> int:
    argument_parser(__doc__).parse_args()
    results = load_figures(RESULTS)
    atomic_write(PICTURE, draw_picture(results))
    for path, part in ((PAGE, "tutorial"), (README, "readme")):
        atomic_write(path, fill_page(path.read_text(encoding="utf-8"), results, part))
    return 0


if __name__ == "__main__":
    sys.exit(main())
