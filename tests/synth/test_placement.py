"""Test that placements are legal, short and repeatable, and that illegal ones are found."""

from dataclasses import replace
from pathlib import Path
from random import Random
from xml.etree import ElementTree

import numpy as np
import pytest

from tensordash.extras import MissingExtraError
from tensordash_synth import LefError, placement_svg
from tensordash_synth import placement as module
from tensordash_synth.pins import cell_sites, pin_table
from tensordash_synth.placement import SEED, Placed, floorplan, place
from tensordash_synth.yosys import SynthesisError

from .gates import needs_placer
from .wire_netlists import random_netlist


@pytest.fixture(scope="module")
def gates(library, tmp_path_factory: pytest.TempPathFactory):
    return random_netlist(library, tmp_path_factory.mktemp("netlist"), fanout=30)


@pytest.fixture(scope="module")
def pins(gates, library, lef):
    return pin_table(gates, library, lef)


def half_perimeters(gates, lef, placed: Placed) -> dict[int, float]:
    """Compute half perimeters of nets with several pins from the netlist, the LEF and the cells' places."""
    floor = placed.floor
    points: dict[int, list[tuple[float, float]]] = {}
    for i, cell in enumerate(gates.cells):
        for name, net in cell.pins.items():
            x, y = lef.cells[cell.kind].pins[name]
            orientation = ("N", "FS", "FN", "S")[placed.orientations[i]]
            x = placed.widths[i] * floor.site_um - x if orientation in ("FN", "S") else x
            y = floor.row_um - y if orientation in ("FS", "S") else y
            place = placed.columns[i] * floor.site_um + x, placed.rows[i] * floor.row_um + y
            points.setdefault(net, []).append(place)
    bits = [int(net) for _, nets in gates.ports.values() for net in nets if net > 1 and net != gates.clock]
    width, height = floor.size_um
    for i, net in enumerate(bits):
        along = i * 2 * (width + height) / len(bits)
        if along < width:
            place = along, 0.0
        elif along < width + height:
            place = width, along - width
        elif along < 2 * width + height:
            place = 2 * width + height - along, height
        else:
            place = 0.0, 2 * (width + height) - along
        points.setdefault(net, []).append(place)
    return {
        net: max(x for x, _ in at) - min(x for x, _ in at) + max(y for _, y in at) - min(y for _, y in at)
        for net, at in points.items()
        if net > 1 and len(at) > 1
    }


@needs_placer
def test_cells_are_placed_legally(gates, placed: Placed) -> None:
    assert placed.faults == []
    assert 0.75 <= placed.density <= 0.8
    taken: set[tuple[int, int]] = set()
    for column, row, width in zip(placed.columns, placed.rows, placed.widths, strict=True):
        sites = {(int(row), int(column) + i) for i in range(width)}
        assert not sites & taken, "no site has two cells"
        taken |= sites
    assert all(0 <= row < placed.floor.rows and 0 <= site < placed.floor.sites for row, site in taken)
    assert len(placed.widths) == len(gates.cells)


@needs_placer
def test_half_perimeters_are_correct_and_short(gates, pins, lef, placed: Placed) -> None:
    found = pins.half_perimeters(placed.pins_um(pins))
    expected = half_perimeters(gates, lef, placed)
    assert {net: pytest.approx(found[net]) for net in expected} == expected
    order = list(range(len(placed.widths)))
    Random(0).shuffle(order)
    anywhere = replace(placed, columns=placed.columns[order], rows=placed.rows[order])
    pulls = ~pins.clocks
    assert found[pulls].sum() < 0.6 * pins.half_perimeters(anywhere.pins_um(pins))[pulls].sum()


@needs_placer
def test_same_seed_same_placement(pins, placed: Placed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "cache_folder", lambda: tmp_path / "cache")
    (tmp_path / "cache").mkdir()

    def place_again(seed: int = SEED) -> Placed:
        return place(pins, placed.widths.tolist(), placed.floor, tmp_path, seed=seed)

    same = place_again()
    assert (same.columns == placed.columns).all()
    assert (same.rows == placed.rows).all()
    assert len(list((tmp_path / "cache").iterdir())) == 1
    monkeypatch.setattr(module, "_run", lambda *_: pytest.fail("a cached placement is computed again"))
    assert (place_again().columns == placed.columns).all()
    monkeypatch.undo()
    other = place_again(seed=2)
    assert other.faults == []
    assert not (other.columns == placed.columns).all()


BROKEN = {
    "a cell a site to the left, on its neighbour": (
        lambda placed, i: {
            "columns": np.where(np.arange(len(placed.columns)) == i, placed.columns - 1, placed.columns)
        },
        "stand on others",
    ),
    "beyond the end of a row": (lambda placed, i: {"columns": placed.columns + placed.floor.sites}, "outside the rows"),
    "left of the rows": (lambda placed, i: {"columns": placed.columns - placed.floor.sites}, "outside the rows"),
    "above the rows": (lambda placed, i: {"rows": placed.rows + placed.floor.rows}, "outside the rows"),
    "all in one row": (lambda placed, i: {"rows": 0 * placed.rows}, "stand on others"),
    "upside down": (lambda placed, i: {"orientations": 1 - placed.orientations}, "have power and ground exchanged"),
    "wider than they were placed as": (lambda placed, i: {"widths": placed.widths + 1}, "stand on others"),
}


@needs_placer
@pytest.mark.parametrize("name", BROKEN)
def test_illegal_placements_are_found(placed: Placed, name: str) -> None:
    change, message = BROKEN[name]
    ends = {
        (row, column + width) for row, column, width in zip(placed.rows, placed.columns, placed.widths, strict=True)
    }
    neighbour = next(i for i, at in enumerate(zip(placed.rows, placed.columns, strict=True)) if at in ends)
    assert any(message in fault for fault in replace(placed, **change(placed, neighbour)).faults)


@needs_placer
@pytest.mark.parametrize("what", ["shifted", "between rows"])
def test_a_placer_that_is_wrong(
    pins, placed: Placed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    y = placed.rows * placed.floor.units
    wrong = (placed.columns // 2, y) if what == "shifted" else (placed.columns, y + 1)
    monkeypatch.setattr(module, "_solve", lambda *_: (*wrong, placed.orientations))
    with pytest.raises(SynthesisError, match=r"the placement is not legal: .*(stand on others|between rows)"):
        place(pins, placed.widths.tolist(), placed.floor, tmp_path)


@needs_placer
def test_a_placer_that_fails(pins, placed: Placed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = replace(placed.floor, rows=placed.floor.rows // 2)
    with pytest.raises(SynthesisError, match="placement failed"):
        place(pins, placed.widths.tolist(), full, tmp_path)
    monkeypatch.setattr("tensordash.extras.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match="needs the extra wires: pip install"):
        place(pins, placed.widths.tolist(), placed.floor, tmp_path)


def test_floors(lef) -> None:
    floor = floorplan(lef, 100_000, 0.8)
    width, height = floor.size_um
    assert 0.98 < width / height < 1.02
    assert 0.79 < 100_000 / (floor.sites * floor.rows) <= 0.8
    assert floor.area_um2 == pytest.approx(floor.sites * floor.rows * 0.19 * 1.4)
    corners = floor.edge(4)
    assert corners[0].tolist() == [0, 0]
    assert (corners >= 0).all()
    assert (corners <= np.array([width, height]) + 1e-9).all()
    for density in (0, -1, 1.0):
        with pytest.raises(ValueError, match="placement density must be above 0 and at most 0.95"):
            floorplan(lef, 10, density)


def test_cells_without_a_shape(gates, library, lef) -> None:
    without = replace(lef, cells={name: cell for name, cell in lef.cells.items() if name != "XOR2_X1"})
    with pytest.raises(LefError, match="no cell XOR2_X1 of a row's height"):
        cell_sites(gates, without)
    with pytest.raises(LefError, match="no pin A of a cell XOR2_X1"):
        pin_table(gates, library, without)


@needs_placer
def test_the_picture(placed: Placed, gates) -> None:
    picture = ElementTree.fromstring(placement_svg(placed, gates.cells, "a tile"))
    texts = [each.text for each in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert str(texts[0]).startswith("a tile: ")
    assert texts[1:] == ["top"]
    (image,) = picture.iter("{http://www.w3.org/2000/svg}image")
    assert image.get("width") == "1000"
    assert str(image.get("href")).startswith("data:image/png;base64,")
