"""The pictures of docs/core.md: the units of a core, the groups of a tensor, and layouts of a group.

python bench/core_pictures.py [DIR]    # writes core-units.svg, core-groups.svg and core-transposed.svg, to docs

The golden core executes the drawn loads and layouts. The compiler decides which operands are transposed.
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common import DOCS, core_preset
from schedule_pictures import document, text
from tensordash.configuration.descriptors import OPERATIONS, UNITS, decode, encode
from tensordash.core.core import READERS, WRITERS
from tensordash_sim.compiler.images import TensorImage
from tensordash_sim.compiler.layer import OPERANDS, Layer
from tensordash_sim.compiler.pipeline import compile_problem
from tensordash_sim.compiler.problem import Problem
from tensordash_sim.golden.core.golden_core import GoldenCore, Memory
from tensordash_sim.golden.core.tensors import to_groups
from tensordash_storage.files import atomic_write

WIDTH = 400
"""Width of a picture in pixels, small enough for a phone's screen."""
CONFIG = core_preset()
LANES = CONFIG.tile.lanes
CHANNELS = 2 * LANES
POSITIONS = 2 * LANES - 2
"""Positions of the drawn tensor. The last group of a row has two positions of zeros."""
BITS = np.arange(1, CHANNELS * POSITIONS + 1).reshape(CHANNELS, POSITIONS)
"""Bit patterns of the tensor's values, all different and not 0."""
GROUPS = to_groups(BITS, CONFIG).reshape(-1, LANES, LANES)
"""Groups of the tensor in the order of memory: group, position, channel."""

BOX_WIDTH = 110
"""Width of a box of the first picture, in pixels."""
BOX_HEIGHT = 42
"""Height of a box of the first picture, in pixels."""
BOXES = {
    "registers": (10, 34),
    "command queue": (145, 34),
    "sequencer": (280, 34),
    "load": (10, 168),
    "store": (280, 168),
    "buffer": (10, 246),
    "layout_a": (10, 324),
    "output": (145, 324),
    "layout_b": (280, 324),
    "stream buffer A": (10, 402),
    "tile": (145, 402),
    "stream buffer B": (280, 402),
    "multiply": (145, 480),
}
"""Left and upper edge of each box, in pixels."""
NOTES = {
    "registers": "AXI4-Lite",
    "command queue": "reads descriptors",
    "sequencer": "starts the units",
    "load": "inflates",
    "store": "deflates, records",
    "buffer": "groups of tensors: bank i has position i of each group",
    "layout_a": "groups to steps",
    "layout_b": "groups to steps",
    "output": "rounds, ReLU",
    "stream buffer A": "D banks of steps",
    "stream buffer B": "D banks of steps",
    "tile": "skips zeros of B",
    "multiply": "reads streams",
}


def frame(x: float, y: float, width: float, height: float, kind: str) -> str:
    """Draw a rectangle."""
    return f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="3"/>'


def arrow(path: str) -> str:
    """Draw a line that ends in an arrow."""
    return f'<path class="next" d="{path}"/>'


def unit_boxes() -> Iterator[str]:
    """Draw each box with its name and its function."""
    for name, (x, y) in BOXES.items():
        is_memory = "buffer" in name
        width = WIDTH - 20 if name == "buffer" else BOX_WIDTH
        yield frame(x, y, width, BOX_HEIGHT, "taken" if is_memory else "cell" if name in UNITS else "zero")
        shown = name.replace("layout_a", "layout A").replace("layout_b", "layout B")
        style = ' style="fill: #16202c"' if is_memory else ""
        for offset, content, size in ((18, shown, 13), (34, NOTES[name], 12)):
            yield f'<text x="{x + width / 2:g}" y="{y + offset}" font-size="{size}"{style}>{content}</text>'


def unit_parts() -> Iterator[str]:
    """Draw the core, with the units that fetch and order descriptors above the bus, and the data path below the bus."""
    middle = {name: x + BOX_WIDTH / 2 for name, (x, _) in BOXES.items()}
    bus, buffer, memories = 112, BOXES["buffer"][1], BOXES["stream buffer A"][1]
    yield text(middle["registers"], 14, "host", "")
    yield arrow(f"M{middle['registers']:g} 18V32")
    for left, right in (("registers", "command queue"), ("command queue", "sequencer")):
        yield arrow(f"M{BOXES[left][0] + BOX_WIDTH} {BOXES[left][1] + BOX_HEIGHT / 2:g}H{BOXES[right][0] - 2}")
    yield frame(10, bus, WIDTH - 20, 26, "zero")
    yield text(WIDTH / 2, bus + 18, "AXI4 port: memory")
    yield arrow(f"M{middle['command queue']:g} {bus}V{BOXES['command queue'][1] + BOX_HEIGHT + 2}")
    yield arrow(f"M{middle['load']:g} {bus + 26}V{BOXES['load'][1] - 2}")
    yield arrow(f"M{middle['store']:g} {BOXES['store'][1]}V{bus + 28}")
    for unit, is_reader in (*((each, True) for each in READERS), *((each, False) for each in WRITERS)):
        # A unit that reads and writes has two lines: the output unit reads biases and masks, and writes results.
        x = middle[unit] + (0 if unit not in READERS or unit not in WRITERS else -24 if is_reader else 24)
        y = BOXES[unit][1]
        unit_edge, buffer_edge = (y + BOX_HEIGHT, buffer) if y < buffer else (y, buffer + BOX_HEIGHT)
        gap = 2 if y < buffer else -2
        yield arrow(
            f"M{x:g} {buffer_edge}V{unit_edge + gap}" if is_reader else f"M{x:g} {unit_edge}V{buffer_edge - gap}"
        )
    for side in "AB":
        name, layout = f"stream buffer {side}", f"layout_{side.lower()}"
        yield arrow(f"M{middle[name]:g} {BOXES[layout][1] + BOX_HEIGHT}V{memories - 2}")
        begin, end = (BOXES[name][0] + BOX_WIDTH, 143) if side == "A" else (BOXES[name][0], 257)
        yield arrow(f"M{begin} {memories + BOX_HEIGHT / 2:g}H{end}")
        yield text((begin + end) / 2, memories + BOX_HEIGHT / 2 - 7, side)
    yield arrow(f"M{middle['tile']:g} {memories}V{BOXES['output'][1] + BOX_HEIGHT + 2}")
    yield arrow(f"M{middle['multiply']:g} {BOXES['multiply'][1]}V{memories + BOX_HEIGHT + 2}")
    yield from unit_boxes()
    for y, kind, meaning in (
        (540, "cell", "unit: executes its descriptors in order, as tokens allow"),
        (562, "taken", "memory"),
    ):
        yield frame(10, y, 16, 14, kind)
        yield text(34, y + 12, meaning, "left")


def name_of(bits: int) -> str:
    """Name a value by its position, a digit, and its channel, a letter. Padding is 0."""
    indices = np.argwhere(bits == BITS)
    return f"{indices[0][1]}{chr(ord('a') + indices[0][0])}" if len(indices) else "0"


def draw_value(x: float, y: float, size: float, bits: int, kind: str) -> str:
    """Draw a value in its box."""
    style = ' style="fill: #16202c"' if kind == "taken" else ""
    shown = f'<text x="{x + size / 2:g}" y="{y + size / 2 + 4:g}" font-size="12"{style}>{name_of(bits)}</text>'
    return frame(x, y, size, size, kind) + shown


def execute(*descriptors: tuple[str, Mapping[str, int]]) -> GoldenCore:
    """Put the tensor into memory, load it to group 0 of the buffer, and execute descriptors."""
    core = GoldenCore(CONFIG, Memory(1 << 12))
    core.memory.write(0, GROUPS.tobytes())
    program = (("load", {"count_0": len(GROUPS)}), *descriptors, ("end", {}))
    outcome = core.run([encode(OPERATIONS[name], fields) for name, fields in program])
    assert not outcome.error, outcome.error
    return core


def lay_out(**fields: int) -> tuple[GoldenCore, NDArray[Any]]:
    """Lay out one group; return the core and the step, (ports, lanes)."""
    core = execute(("layout_a", {"steps": 1, "streams": 1, "x_size": POSITIONS, **fields}))
    return core, core.streams["a"][0]


def group_parts() -> Iterator[str]:
    """Draw a tensor's groups in memory and in the buffer."""
    size, left, top = 26, 62, 74
    yield text(10, 20, f"A row of {POSITIONS} positions with {CHANNELS} channels, a to h", "left")
    yield text(left + LANES * size, 42, "positions")
    number = {name_of(bits): index for index, group in enumerate(GROUPS) for bits in group.flat if bits}
    for x in range(2 * LANES):
        yield text(left + x * size + x // LANES * 6 + size / 2, 62, x)
    for channel in range(CHANNELS):
        y = top + channel * size + channel // LANES * 6
        yield text(50, y + size / 2 + 5, chr(ord("a") + channel))
        for x in range(2 * LANES):
            bits = int(BITS[channel, x]) if x < POSITIONS else 0
            kind = "zero" if not bits else "taken" if number[name_of(bits)] == 0 else "cell"
            yield draw_value(left + x * size + x // LANES * 6, y, size, bits, kind)
    for index, group in enumerate(GROUPS):
        channel, x = np.argwhere(group[0, 0] == BITS)[0]
        corner = 292, top + 44 + channel * size + channel // LANES * 6 + (0 if x == 0 else 20)
        yield text(*corner, f"group {index}: {'left' if x == 0 else 'right'}", "left")
    yield text(10, 318, "In memory: the channels of a position stand together", "left")
    cell_width = 23
    for index, bits in enumerate(GROUPS[0].flat):
        yield draw_value(10 + index * cell_width, 328, cell_width, int(bits), "taken")
    yield text(10, 368, f"group 0: {CONFIG.group_bytes} bytes, lowest address left; group 1 follows", "left")
    yield from bank_parts()


def bank_parts() -> Iterator[str]:
    """Draw the buffer's banks, and the window of a layout that begins at position 1."""
    core, window = lay_out(x=1)
    yield text(10, 402, f"In the buffer: a word of bank i has position i, {LANES} channels", "left")
    width, height, left = 78, 26, 76
    for bank in range(LANES):
        yield text(left + bank * width + width / 2, 424, f"bank {bank}")
    for group in range(len(GROUPS)):
        y = 432 + group * (height + 4)
        yield text(10, y + 18, f"group {group}", "left")
        for bank in range(LANES):
            word = core.buffer[group, bank]
            is_read = word.any() and (window == word).all(axis=1).any()
            kind = "taken" if is_read else "cell" if word.any() else "zero"
            yield frame(left + bank * width, y, width - 4, height, kind)
            shown = f"{name_of(word[0])} to {name_of(word[-1])}" if word.any() else "zeros"
            style = ' style="fill: #16202c"' if is_read else ""
            yield f'<text x="{left + bank * width + width / 2 - 2:g}" y="{y + 18}" font-size="12"{style}>{shown}</text>'
    yield text(10, 572, "Yellow: a window at position 1, read in one cycle", "left")


def grid(x: float, y: float, values: NDArray[Any], down: str, across: str) -> Iterator[str]:
    """Draw values with the names of their rows and columns; highlight the values of channel b."""
    size, channel_b = 28, set(BITS[1].tolist())
    for column in range(LANES):
        yield text(x + column * size + size / 2, y - 6, column)
    yield text(x + LANES * size / 2, y - 24, across)
    yield text(x - 14, y - 24, down, "right")
    for row, line in enumerate(values):
        yield text(x - 14, y + row * size + size / 2 + 5, row)
        for column, bits in enumerate(line):
            yield draw_value(
                x + column * size, y + row * size, size, int(bits), "taken" if bits in channel_b else "cell"
            )


def transposed_operands() -> Iterator[tuple[str, list[tuple[str, bool]]]]:
    """Yield the operands of each operation, and whether the compiler lays them out transposed."""
    layer = Layer(samples=1, channels=LANES, filters=LANES, size=(LANES, LANES), kernel=(1, 1))
    for operation, names in OPERANDS.items():
        zeros = {name: np.zeros(layer.shape(name), np.float16) for name in names}
        image = TensorImage(CONFIG, Memory(1 << 16), layer, operation, zeros)
        program = compile_problem(Problem(layer=layer, operation=operation, rows=names[-1]), CONFIG, image.tensors)
        sides: dict[str, bool] = {}
        for bits in program.descriptors:
            descriptor, fields = decode(bits)
            if descriptor is not None and descriptor.name.startswith("layout"):
                sides[descriptor.name[-1]] = bool(fields["transposed"])
        yield operation, [(names[0], sides["a"]), (names[-1], sides["b"])]


def transposed_parts() -> Iterator[str]:
    """Draw a group as a step, plain and transposed, and list the layout of each operand."""
    yield text(10, 20, "Two layouts of group 0, and the step of each", "left")
    for x, transposed, title in ((64, 0, "plain"), (264, 1, "transposed")):
        _, step = lay_out(transposed=transposed)
        yield text(x + 2 * 28, 48, title)
        yield from grid(x, 96, step, "port", "lane")
    yield text(10, 236, "0 to 3: positions; a to d: channels; yellow: channel b", "left")
    yield text(10, 274, "Operands of the three operations", "left")
    for row, (operation, operands) in enumerate(transposed_operands()):
        y = 300 + row * 24
        yield text(10, y, operation, "left")
        for column, (name, is_transposed) in enumerate(operands):
            yield text(90 + column * 160, y, f"{name}: {'transposed' if is_transposed else 'plain'}", "left")


def pictures() -> dict[str, str]:
    """Return the pictures by file name."""
    drawn = {
        "core-units.svg": (
            "The units of a core, its memories, and the paths of data and descriptors",
            586,
            unit_parts(),
        ),
        "core-groups.svg": ("The groups of a tensor, in memory and in the banks of the buffer", 584, group_parts()),
        "core-transposed.svg": ("A group becomes a step, plain or transposed", 362, transposed_parts()),
    }
    return {name: document(title, WIDTH, height, parts, sized=True) for name, (title, height, parts) in drawn.items()}


if __name__ == "__main__":
    for name, content in pictures().items():
        atomic_write(Path(sys.argv[1] if len(sys.argv) > 1 else DOCS) / name, content)
