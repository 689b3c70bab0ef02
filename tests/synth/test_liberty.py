"""Test the reader of cell libraries, and its errors."""

from pathlib import Path

import pytest

from tensordash_synth import LibertyError, default_liberty, load_liberty
from tensordash_synth.liberty import Cell

OSU018 = Path("/usr/share/qflow/tech/osu018/osu018_stdcells.lib")  # apt: qflow-tech-osu018

INVERTER = 'cell (INV) { area : 1; pin(A) { direction : input; capacitance : 0.002; } pin(Y) { function : "!A"; } }'
NAND = """cell ("NAND") { area : 1.5; pin(A) { direction : input; } pin(B) { direction : input; }
    pin(Y) { function : "(A B)'"; } }"""
FLIP_FLOP = """cell (DFF) { area : 6; ff (IQ, IQN) { next_state : "D"; }
    pin(D) { direction : input; } pin(Q) { function : "IQ"; } }"""
HEAD = "/* a comment */ library (toy) { capacitive_load_unit (1, pf);\n"


def library(path: Path, *cells: str) -> Path:
    file = path / "toy.lib"
    file.write_text(HEAD + "\n".join(cells) + "}\n")
    return file


def test_the_default_library_is_nangate():
    nangate = load_liberty()
    assert nangate.path == default_liberty()
    assert nangate.gate_area == pytest.approx(0.798)
    assert len(nangate.cells) == 135
    assert nangate.driving_cell.name == "BUF_X1"


@pytest.mark.skipif(not OSU018.exists(), reason="qflow-tech-osu018 is not installed")
def test_osu018():
    osu = load_liberty(OSU018)
    assert (osu.gate_area, osu.driving_cell.name) == (24.0, "BUFX2")


def test_a_toy_library(tmp_path):
    toy = load_liberty(library(tmp_path, INVERTER, NAND, FLIP_FLOP))
    assert (toy.name, toy.gate_area) == ("toy", 1.5)
    assert toy.constraints == "set_driving_cell INV\nset_load 8.0000 [all_outputs]\n"


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ((), "no cell with an area"),
        ((INVERTER.replace("area : 1;", ""),), "no cell with an area"),
        ((INVERTER, NAND), "no flip-flop with an area"),
        ((INVERTER, FLIP_FLOP), "no two-input NAND with an area"),
        ((NAND, FLIP_FLOP), "neither a buffer nor an inverter"),
        ((NAND, FLIP_FLOP, "}"), "braces do not match"),
    ],
)
def test_a_library_that_lacks_something(tmp_path, cells, message):
    with pytest.raises(LibertyError, match=rf"toy\.lib: .*{message}") as caught:
        load_liberty(library(tmp_path, *cells))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"module x; endmodule", b"\xff\xfe\x00", b"cell (INV) { area : 1; }"])
def test_not_a_liberty_file(tmp_path, content):
    file = tmp_path / "wrong.lib"
    file.write_bytes(content)
    with pytest.raises(LibertyError, match=r"wrong\.lib: not a Liberty file"):
        load_liberty(file)


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(LibertyError, match=r"cannot read the library .*none\.lib: No such file"):
        load_liberty(tmp_path / "none.lib")
    with pytest.raises(LibertyError, match=r"cannot read the library .*: Is a directory"):
        load_liberty(tmp_path)


@pytest.mark.parametrize(
    ("function", "table"),
    [
        ("!(A & B)", "1110"),
        ("(A*B)'", "1110"),
        ("!A + !B", "1110"),
        ("A' | B'", "1110"),
        ("A B", "0001"),
        ("A ^ B", "0110"),
        ("(A !B) + (!A B)", "0110"),
        ("A + B C", None),
        ("IQ", None),
    ],
)
def test_functions(function, table):
    cell = Cell(name="x", area=1.0, inputs={"A": 1.0, "B": 1.0}, functions=(function,), is_flip_flop=False)
    assert cell.truth_table() == table
