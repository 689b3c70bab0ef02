"""Test the report on wires, and the complete flow on a small tile."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tensordash import TileConfig
from tensordash.extras import MissingExtraError
from tensordash_synth import LefError, LibertyError, load_liberty, placement_svg, synthesize
from tensordash_synth.placement import find_placer
from tensordash_synth.power import find_opensta
from tensordash_synth.table import cost_table
from tensordash_synth.wire_flow import check_wires
from tensordash_synth.wire_report import WirePower, WireReport, rounded, wire_table, wires_json
from tensordash_synth.wire_timing import Timing
from tensordash_synth.yosys import SynthesisError

SMALL = TileConfig(rows=1, columns=2, lanes=2, depth=2, connectivity=((0, 0), (1, 0), (1, 1)), format="fp8_e4m3")
needs_tools = pytest.mark.skipif(
    find_placer() is None or find_opensta() is None, reason="coloquinte or OpenSTA is not installed"
)


def design(period: float, area: float, density: float):
    """Return a stub of a placed design."""
    return SimpleNamespace(
        gates=SimpleNamespace(cells=[None] * 10),
        grown=SimpleNamespace(stronger=3, buffers=2),
        placed=SimpleNamespace(floor=SimpleNamespace(area_um2=area, size_um=(area / 10, 10.0))),
        cells_um2=(0.7 * area, density * area),
        density=density,
        wire_mm=1.5,
        half_mm=1.2,
        without=Timing(period_ns=period / 2, cells=()),
        with_wires=Timing(period_ns=period, cells=()),
        critical=("pe_0_0", ""),
        faster=("tensordash_counters",),
    )


RUN = WirePower(name="0% zeros", without=(0.2, 0.1), with_wires=(0.3, 0.2), cycles=(50, 100))
REPORT = WireReport(designs=(design(2.5, 1200.0, 0.8), design(2.4, 1000.0, 0.78)), power=(RUN,))


def test_ratios() -> None:
    assert rounded(REPORT.ratios) == {"area_with_wires": 1.2, "clock_with_wires": 0.96, "power_with_wires": 1.5}
    assert set(replace(REPORT, power=()).ratios) == {"area_with_wires", "clock_with_wires"}
    assert REPORT.density == 0.78
    assert RUN.energy_ratio == pytest.approx(2 / 1.5)


def test_document_and_table() -> None:
    document = wires_json(REPORT)
    assert document["placement_density"] == 0.78
    ours = document["wires"]["tensordash"]
    assert (ours["period_ns"], ours["clock_mhz"], ours["clock_mhz_without_wires"]) == (2.5, 400.0, 800.0)
    assert (ours["area_um2"], ours["cells_um2_without_wires"], ours["cells_um2"]) == (1200.0, 840.0, 960.0)
    assert document["wires"]["power"][0]["watts"] == {"tensordash": 0.3, "baseline": 0.2}
    text = "\n".join(wire_table(REPORT))
    assert "clock, with wires, MHz                     400         417   0.960" in text
    assert "0% zeros, with wires, mW                 300.0       200.0   1.500" in text
    assert "longest path from pe_0_0 to top; mapped for speed: tensordash_counters" in text


def test_missing_files_of_wires(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = SimpleNamespace(library=load_liberty())
    with pytest.raises(LefError, match=r"mine.lib: wires need shapes of its cells, too \(LEF\)"):
        check_wires(run, "mine.lib", None)  # type: ignore[arg-type]
    bare = tmp_path / "bare.lib"
    bare.write_text(run.library.path.read_text(encoding="utf-8").replace("wire_load", "wires"), encoding="utf-8")
    with pytest.raises(LibertyError, match=r"bare.lib: no wire_load"):
        check_wires(SimpleNamespace(library=replace(run.library, path=bare)), None, None)  # type: ignore[arg-type]
    with monkeypatch.context() as without:
        without.setattr("tensordash.extras.find_spec", lambda name: None if name == "coloquinte" else name)
        with pytest.raises(MissingExtraError, match="--wires needs the extra wires: pip install"):
            check_wires(run, None, None)  # type: ignore[arg-type]
    monkeypatch.setattr("tensordash_synth.wire_flow.require", lambda user, *modules: None)
    monkeypatch.setattr("tensordash_synth.wire_flow.find_opensta", lambda: None)
    with pytest.raises(SynthesisError, match="OpenSTA is not installed"):
        check_wires(run, None, None)  # type: ignore[arg-type]


@needs_tools
@pytest.mark.slow
def test_a_small_tile_with_wires() -> None:
    report = synthesize(SMALL, wires=True, power=True)
    assert report.wires is not None
    document = report.to_json()
    assert document["placement_density"] >= 0.75
    assert 0.5 < document["ratio"]["clock_with_wires"] < 1.5
    for name, placed in zip(("tensordash", "baseline"), report.wires.designs, strict=True):
        assert placed.placed.faults == []
        assert placed.with_wires.period_ns > 0.5 * placed.without.period_ns  # Cells also grow.
        found = document["wires"][name]
        assert found["cells_um2"] >= found["cells_um2_without_wires"]
        assert found["area_um2"] > found["cells_um2"]
        assert "pe x 2" in placement_svg(placed.placed, placed.gates.cells, name)
    for run in document["wires"]["power"]:
        for name in ("tensordash", "baseline"):
            assert run["watts"][name] > run["watts_without_wires"][name]
    assert "clock, with wires, MHz" in cost_table(report)
    repeated = synthesize(SMALL, wires=True).to_json()
    assert repeated["wires"]["tensordash"] == document["wires"]["tensordash"], "placements are cached"
