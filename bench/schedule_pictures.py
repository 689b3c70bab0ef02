"""Draw a schedule as in the paper's Fig. 3 and a scheduler as in its Fig. 6, for docs/how-the-schedule-works.md.

python bench/schedule_pictures.py [DIR]    # writes schedule.svg and scheduler.svg to DIR (default: docs)

The golden scheduler makes every choice in the pictures.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tensordash.configuration.connectivity import PAPER_OPTIONS, Connectivity
from tensordash_sim.golden.scheduler import Option, Schedule, reach, schedule
from tensordash_sim.report.example import OPTIONS, B
from tensordash_storage.files import atomic_write

DOCS = Path(__file__).parents[1] / "docs"
CELL = 34
"""Width and height of a position and of a lane, in pixels."""
WINDOW_DEPTH = 2
"""Steps of the window in the first picture."""
CYCLE_WIDTH = 290
"""Width of a cycle, and of the margin left of the first cycle, in pixels."""
LANES_LEFT = WINDOW_DEPTH * CELL + 90
"""Distance from a window's left edge to its lanes, in pixels."""
WINDOW = ((0, 1, 0, 1), (1, 1, 0, 0), (0, 0, 1, 1), (1, 0, 1, 0))
"""Effectual positions of the second picture, (step, lane)."""
STYLE = """
    .ground { fill: #ffffff }
    .cell { fill: #eef3f8; stroke: #3a5a78; stroke-width: 1 }
    .zero { fill: #ffffff; stroke: #b8c4d0; stroke-width: 1 }
    .taken { fill: #f3c969; stroke: #8a6d1f; stroke-width: 1.4 }
    .idle { fill: none; stroke: #8a6d1f; stroke-width: 1.2; stroke-dasharray: 4 3 }
    .line { stroke: #8a6d1f; stroke-width: 1.4; fill: none; marker-end: url(#arrow) }
    .next { stroke: #3a5a78; stroke-width: 1.4; fill: none; marker-end: url(#arrow-next) }
    .head { fill: #8a6d1f } .head-next { fill: #3a5a78 }
    text { fill: #16202c; text-anchor: middle } .on { fill: #16202c }
    .small { font-size: 11px; fill: #566273 } .left { text-anchor: start } .right { text-anchor: end }
    @media (prefers-color-scheme: dark) {
      .ground { fill: #131416 } .cell { fill: #1d2a37; stroke: #8fb3d6 } .zero { fill: #131416; stroke: #4a5968 }
      .taken { fill: #d8b85a; stroke: #f3dfa0 } .idle { stroke: #d8b85a } .line { stroke: #d8b85a }
      .next { stroke: #8fb3d6 } .head { fill: #d8b85a } .head-next { fill: #8fb3d6 }
      text { fill: #e6edf3 } .on { fill: #16202c } .small { fill: #a7b3c0 }
    }"""
MARKER = (
    '<marker id="{0}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path class="{1}" d="M0 0 8 4 0 8z"/></marker>'
)


def text(x: float, y: float, content: object, kind: str = "") -> str:
    """Draw a line of text."""
    kind = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}"{kind}>{content}</text>'


def box(x: float, y: float, kind: str, content: object = "") -> str:
    """Draw a position or a lane, with its content."""
    shape = f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{CELL}" height="{CELL}" rx="3"/>'
    inside = text(x + CELL / 2, y + CELL / 2 + 5, content, "on" if kind == "taken" else "") if content != "" else ""
    return shape + inside


def document(title: str, width: int, height: int, parts: Iterator[str], *, sized: bool = False) -> str:
    """Return an SVG in light and dark style; with `sized`, at most `width` pixels wide."""
    markers = MARKER.format("arrow", "head") + MARKER.format("arrow-next", "head-next")
    size = f' width="{width}" height="{height}"' if sized else ""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"{size} '
            'font-family="system-ui, sans-serif" font-size="13" role="img" aria-labelledby="title">',
            f'  <title id="title">{title}</title>',
            f"  <style>{STYLE}\n  </style>",
            f"  <defs>{markers}</defs>",
            '  <rect class="ground" width="100%" height="100%"/>',
            *(f"  {part}" for part in parts),
            "</svg>\n",
        ]
    )


def grid(x: float, y: float, steps: Sequence[Sequence[int]], taken: Sequence[tuple[int, int]] = ()) -> Iterator[str]:
    """Draw steps side by side: the oldest on the left, lane 0 on top, zeros empty."""
    for step, lanes in enumerate(steps):
        for lane, value in enumerate(lanes):
            kind = "taken" if (step, lane) in taken else "cell" if value else "zero"
            yield box(x + step * CELL, y + lane * CELL, kind, value or "")


def schedules(pairs: Sequence[Sequence[int]]) -> list[tuple[list[list[int]], Schedule]]:
    """Return the window before each cycle, and the golden scheduler's choices."""
    stream = [list(step) for step in pairs]
    cycles: list[tuple[list[list[int]], Schedule]] = []
    while stream:
        window = stream[:WINDOW_DEPTH]
        choices = schedule(window, len(window), OPTIONS)
        cycles.append(([list(step) for step in window], choices))
        stream = [
            [value * choices.remaining[step][lane] for lane, value in enumerate(lanes)] if step < len(window) else lanes
            for step, lanes in enumerate(stream)
        ][choices.advance :]
    return cycles


def name_option(option: Option) -> str:
    """Name an option as the paper does."""
    step, offset = option
    return "lookaside" if offset else "lookahead" if step else "own"


def schedule_parts() -> Iterator[str]:
    """Draw the stream, the dense tile's cycles, and each cycle with its window and lanes."""
    lanes, top = len(B[0]), 66
    effectual = sum(value != 0 for step in B for value in step)
    yield text(20, 28, f"stream: {len(B) * lanes} pairs, {effectual} effectual", "left")
    yield text(20, 48, f"a dense tile takes {len(B)} cycles, one step each", "small left")
    for lane in range(lanes):
        yield text(38, top + lane * CELL + CELL / 2 + 4, f"lane {lane}", "small")
    yield from grid(64, top, B)
    for step in range(len(B)):
        yield text(64 + step * CELL + CELL / 2, top + lanes * CELL + 16, step, "small")
    yield text(38, top + lanes * CELL + 16, "step", "small")
    x = CYCLE_WIDTH
    for cycle, (window, choices) in enumerate(schedules(B)):
        yield text(x, 28, f"cycle {cycle + 1}: {choices.consumed} pairs, {choices.advance} steps leave", "left")
        yield text(x + WINDOW_DEPTH * CELL / 2, 52, "window", "small")
        yield text(x + LANES_LEFT + CELL / 2, 52, "lanes", "small")
        taken = [position for position in choices.selected if position is not None]
        lines: list[str] = []
        shapes = [*grid(x, top, window, taken)]
        for lane, (position, option) in enumerate(zip(choices.selected, choices.options, strict=True)):
            lane_x, y = x + LANES_LEFT, top + lane * CELL
            if position is None or option is None:
                shapes += [box(lane_x, y, "idle"), text(lane_x + CELL + 8, y + CELL / 2 + 4, "idle", "small left")]
                continue
            step, source = position
            # Lines from the same lane of the window begin at different heights, below the cells.
            line_y = top + source * CELL + CELL * (1 + step) / (1 + WINDOW_DEPTH)
            lines.append(f'<path class="line" d="M{x + CELL:g} {line_y:g}H{x + WINDOW_DEPTH * CELL:g}')
            lines[-1] += f'L{lane_x - 4:g} {y + CELL / 2:g}"/>'
            shapes.append(box(lane_x, y, "taken", window[step][source]))
            shapes.append(text(lane_x + CELL + 8, y + CELL / 2 + 4, name_option(OPTIONS[option]), "small left"))
        yield from (*lines, *shapes)
        x += CYCLE_WIDTH


def scheduler_parts() -> Iterator[str]:
    """Draw for each level the remaining positions, the lane's options by priority, and its choice."""
    lanes, depth, top = len(WINDOW[0]), len(WINDOW), 66
    levels = Connectivity(PAPER_OPTIONS, lanes=lanes, depth=depth).levels
    choices = schedule(WINDOW, depth, PAPER_OPTIONS)
    remaining = [list(step) for step in WINDOW]
    width = depth * CELL + 46
    x = 24
    for level, level_lanes in enumerate(levels):
        names = ", ".join(f"lane {lane}" for lane in level_lanes)
        yield text(x, 28, f"level {level + 1}: {names}", "left")
        (lane,) = level_lanes
        position, option = choices.selected[lane], choices.options[lane]
        choice = f"takes option {option}" if option is not None else "has no option"
        yield text(x, 48, choice, "small left")
        order = {place: index for index, place in enumerate(reach(lane, PAPER_OPTIONS, lanes))}
        for step in range(depth):
            for source in range(lanes):
                kind = "taken" if (step, source) == position else "cell" if remaining[step][source] else "zero"
                yield box(x + step * CELL, top + source * CELL, kind, order.get((step, source), ""))
        if position is not None:
            remaining[position[0]][position[1]] = 0
        middle = top + lanes * CELL / 2
        yield f'<path class="next" d="M{x + depth * CELL + 6:g} {middle:g}H{x + width - 6:g}"/>'
        x += width
    yield text(
        x, 28, f"left over: {choices.advance} {'step leaves' if choices.advance == 1 else 'steps leave'}", "left"
    )
    yield text(x, 48, "the oldest steps without a pair", "small left")
    for step in range(depth):
        for source in range(lanes):
            yield box(x + step * CELL, top + source * CELL, "cell" if choices.remaining[step][source] else "zero")
    for step in range(depth):
        yield text(24 + step * CELL + CELL / 2, top + lanes * CELL + 16, step, "small")


def pictures() -> dict[str, str]:
    """Return the pictures by file name."""
    return {
        "schedule.svg": document(
            "A stream of four steps in two cycles: each lane takes its own pair, a later one, or a neighbour's",
            870,
            232,
            schedule_parts(),
        ),
        "scheduler.svg": document(
            "A scheduler decides lane by lane: each takes the first free option, and removes it for the next",
            960,
            232,
            scheduler_parts(),
        ),
    }


if __name__ == "__main__":
    for name, content in pictures().items():
        atomic_write(Path(sys.argv[1] if len(sys.argv) > 1 else DOCS) / name, content)
