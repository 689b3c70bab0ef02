"""A picture of a placement, with every cell in the colour of its unit, as SVG around a PNG."""

import base64
import re
import struct
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .gates import GateCell
from .placement import Placed

__all__ = ["placement_svg", "unit"]

PIXELS = 1000  # across
EMPTY = (245, 245, 242)
DARK_SHARE = 0.82  # brightness of every second instance of a kind
PALETTE = (
    (78, 121, 167),
    (242, 142, 43),
    (89, 161, 79),
    (225, 87, 89),
    (118, 183, 178),
    (237, 201, 72),
    (176, 122, 161),
    (255, 157, 167),
    (156, 117, 95),
    (186, 176, 172),
)
LINE = 18  # pixels
MARGIN = 12  # pixels


def unit(path: Sequence[str]) -> str:
    """Return the kind of unit that a cell belongs to: its outermost instance, without a number.

    >>> unit(("pe_0_3", "a_mux_1")), unit(())
    ('pe', 'top')
    """
    return re.sub(r"(_\d+)+$", "", path[0]) if path else "top"


def placement_svg(placed: Placed, cells: Sequence[GateCell], title: str) -> str:
    """Return a placement as SVG.

    Parameters
    ----------
    placed : Placed
        Places of the cells.
    cells : sequence of GateCell
        The cells. Each `unit` has a colour, the largest unit first; every second instance of a kind is darker.
    title : str
        Title above the picture.
    """
    floor = placed.floor
    scale = PIXELS / floor.size_um[0]
    height = max(1, round(floor.size_um[1] * scale))
    names, shades, legend = _colours(placed, cells)
    image = np.empty((height, PIXELS, 3), np.uint8)
    image[:] = EMPTY
    left = np.floor(placed.columns * floor.site_um * scale).astype(int)
    right = np.ceil((placed.columns + placed.widths) * floor.site_um * scale - 0.3).astype(int)
    low = np.floor(placed.rows * floor.row_um * scale).astype(int)
    high = np.maximum(np.ceil((placed.rows + 1) * floor.row_um * scale - 0.3).astype(int), low + 1)
    for i in range(len(cells)):
        image[height - high[i] : height - low[i], left[i] : max(right[i], left[i] + 1)] = shades[names[i]]
    size = f"{floor.size_um[0]:.0f} x {floor.size_um[1]:.0f} um"
    return _svg(image, f"{title}: {size}, {placed.density:.0%} of the rows under cells", legend)


def _colours(
    placed: Placed, cells: Sequence[GateCell]
) -> tuple[list[str], dict[str, tuple[int, int, int]], list[tuple[str, tuple[int, int, int]]]]:
    """Return the instance of each cell, the colours of instances, and the colours of kinds."""
    names = [cell.path[0] if cell.path else "" for cell in cells]
    areas: dict[str, int] = {}
    for cell, width in zip(cells, placed.widths.tolist(), strict=True):
        areas[unit(cell.path)] = areas.get(unit(cell.path), 0) + width
    kinds = sorted(areas, key=lambda kind: (-areas[kind], kind))
    colour_of = {kind: PALETTE[min(i, len(PALETTE) - 1)] for i, kind in enumerate(kinds)}
    shades: dict[str, tuple[int, int, int]] = {}
    counts: dict[str, int] = {}
    for name in sorted(set(names)):
        kind = unit((name,)) if name else "top"
        numbers = [int(number) for number in re.findall(r"_(\d+)", name)]
        counts[kind] = counts.get(kind, 0) + 1
        red, green, blue = colour_of[kind]
        dark = DARK_SHARE if sum(numbers) % 2 else 1.0
        shades[name] = int(red * dark), int(green * dark), int(blue * dark)
    legend = [(f"{kind} x {counts[kind]}" if counts[kind] > 1 else kind, colour_of[kind]) for kind in kinds]
    return names, shades, legend[: len(PALETTE)]


def _svg(image: NDArray[np.uint8], title: str, legend: Sequence[tuple[str, tuple[int, int, int]]]) -> str:
    height, width = image.shape[:2]
    top = MARGIN + LINE
    total = top + height + MARGIN + LINE * ((len(legend) + 4) // 5)
    data = base64.b64encode(_png(image)).decode()
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{total}" viewBox="0 0 {width} {total}" '
        'font-family="sans-serif" font-size="13">',
        f'<rect width="{width}" height="{total}" fill="white"/>',
        f'<text x="0" y="{LINE}">{title}</text>',
        f'<image x="0" y="{top}" width="{width}" height="{height}" href="data:image/png;base64,{data}"/>',
    ]
    for i, (name, (red, green, blue)) in enumerate(legend):
        x, y = (i % 5) * width // 5, top + height + MARGIN + LINE * (i // 5)
        lines.append(f'<rect x="{x}" y="{y}" width="12" height="12" fill="rgb({red},{green},{blue})"/>')
        lines.append(f'<text x="{x + 17}" y="{y + 11}">{name}</text>')
    return "\n".join([*lines, "</svg>", ""])


def _png(image: NDArray[np.uint8]) -> bytes:
    """Return an image of 8-bit colours as PNG.

    Source: W3C, Portable Network Graphics, sections 5 and 11.
    """
    height, width = image.shape[:2]
    rows = np.concatenate([np.zeros((height, 1), np.uint8), image.reshape(height, -1)], axis=1)

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", header),
            chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)),
            chunk(b"IEND", b""),
        ]
    )
