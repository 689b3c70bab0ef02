"""Test the reader of cell shapes in LEF."""

from pathlib import Path

import pytest

from tensordash_synth import LefError, load_lef, load_liberty

SITE = "SITE core\n  CLASS CORE ;\n  SIZE 0.5 BY 2 ;\nEND core\n"
MACRO = """\
MACRO INV  # with a comment
  SIZE 1.5 BY 2 ;
  PIN A
    PORT
      RECT 0.1 0.5 0.3 0.7 ;
      POLYGON 0.3 -0.1 0.5 -0.1 0.5 0.9 ;
    END
  END A
  PIN Y
  END Y
END INV
MACRO TALL
  SIZE 1 BY 4 ;
END TALL
"""


def write(folder: Path, text: str, name: str = "cells.lef") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_nangate() -> None:
    lef = load_lef()
    assert (lef.site_um, lef.row_um) == (0.19, 1.4)
    assert lef.cells["NAND2_X1"].sites == 3
    assert lef.cells["NAND2_X1"].pins["A2"] == pytest.approx((0.1225, 0.6125))
    for cell in load_liberty().cells:  # The Liberty file has the areas of the shapes.
        assert lef.cells[cell.name].sites * 0.19 * 1.4 == pytest.approx(cell.area, abs=1e-3)
        assert {*cell.inputs, *cell.outputs} <= {*lef.cells[cell.name].pins}


def test_two_files_and_shapes(tmp_path: Path) -> None:
    lef = load_lef([write(tmp_path, SITE, "tech.lef"), write(tmp_path, MACRO)])
    assert list(lef.cells) == ["INV"], "a cell of two rows is left out"
    assert lef.cells["INV"].sites == 3
    assert lef.cells["INV"].pins["A"] == pytest.approx((0.3, 0.4))
    assert lef.cells["INV"].pins["Y"] == (0.75, 1.0), "a pin without shapes is in the middle"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a LEF file"),
        ("library (a) { }", "not a LEF file"),
        (MACRO, "no site for cells of rows"),
        (SITE, "no cell that stands on sites of 0.5 by 2 um"),
        (SITE.replace("SIZE 0.5 BY 2 ;", ""), "a SITE or MACRO without a SIZE"),
        (SITE + MACRO.replace("SIZE 1.5 BY 2", "SIZE 1.6 BY 2"), "no cell that stands on sites"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(LefError, match=message) as raised:
        load_lef([write(tmp_path, text)])
    assert "\n" not in str(raised.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(LefError, match="cannot read the LEF file .*gone.lef: No such file"):
        load_lef([tmp_path / "gone.lef"])
    (tmp_path / "bytes.lef").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(LefError, match="not text"):
        load_lef([tmp_path / "bytes.lef"])
