"""Imports between the rooms of the hardware run downwards only, and reading a configuration needs no Amaranth."""

import ast
from pathlib import Path

import tensordash

ROOT = Path(tensordash.__file__).parent
# From the ground up. What stands on one floor does not know of what stands beside it.
FLOORS = [
    {"configuration", "storage", "block", "version"},
    {"layouts", "one_hot"},
    {"arithmetic", "schedule", "memory"},
    {"tile"},
    {"streams"},
    {"movers"},
    {"core"},
    {"emission"},
]
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}


def imported_rooms(file: Path) -> set[str]:
    """The rooms that a file imports from, its own left out."""
    package = file.relative_to(ROOT).parent.parts
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == len(package) + 1:
            names = [node.module] if node.module else [alias.name for alias in node.names]
            found |= {name.split(".")[0] for name in names}
    return found


def test_every_room_has_a_floor():
    rooms = {path.stem for path in ROOT.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert rooms - {"__init__"} == set(FLOOR)


def test_imports_run_downwards():
    upwards = [
        f"{file.relative_to(ROOT)} imports {room}"
        for file in ROOT.rglob("*.py")
        if file.parent != ROOT or file.stem != "__init__"
        for own in [file.relative_to(ROOT).parts[0].removesuffix(".py")]
        for room in imported_rooms(file)
        if FLOOR[room] >= FLOOR[own]
    ]
    assert upwards == []
