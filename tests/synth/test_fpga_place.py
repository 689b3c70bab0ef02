"""Test counts, cached results and messages of tiles on an FPGA."""

import json
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from tensordash import ConfigError, TileConfig, load_preset
from tensordash.configuration.preset import load_any_preset
from tensordash_cli.main import run
from tensordash_synth import fpga_place as module
from tensordash_synth import place_fpga, placed_table
from tensordash_synth.fpga_families import FAMILIES, RESOURCES, DeviceError
from tensordash_synth.fpga_place import FpgaPlacement

from .test_nextpnr import LOG

TINY = TileConfig(
    rows=1, columns=1, lanes=2, depth=2, connectivity="auto", format="int8", headroom_bits=4, counters=False
)
SETTINGS = 'rows=1 columns=1 lanes=2 depth=2 connectivity="auto" format="int8" headroom_bits=4 counters=false'
TARGET = "ecp5"


def installed(family: str) -> bool:
    try:
        return bool(version(FAMILIES[family].package))
    except PackageNotFoundError:
        return False


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cache for this module alone."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def placed_as(home: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace nextpnr by a function that returns a stored report. Return the list of the designs that it places."""
    placed: list[str] = []

    def report(family, part, netlist, folder, what, *, route):
        assert set(json.loads((folder / netlist).read_text(encoding="utf-8"))["modules"]) >= {"tensordash_fpga"}
        placed.append(what)
        return LOG if what == "TensorDash" else LOG.replace("103.05", "206.10")

    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    monkeypatch.setattr(module, "run_nextpnr", report)
    monkeypatch.setattr(module, "require_nextpnr", lambda family: "1.2")
    return placed


@pytest.fixture
def report(placed_as: list[str]) -> FpgaPlacement:
    return place_fpga(TINY, TARGET, jobs=1)


def test_a_tile_next_to_its_baseline(report: FpgaPlacement) -> None:
    assert (report.target, report.device) == (TARGET, "LFE5U-25F")
    ours, theirs = report.tensordash.counts, report.baseline.counts
    assert ours["dsp"] == theirs["dsp"] == 2, "a multiplier for each lane"
    assert ours["lut"] > 1.3 * theirs["lut"] > 0
    # A tile also holds a second step, its zeros and a schedule, which the baseline lacks. The shell does not count.
    assert theirs["ff"] < ours["ff"] < 300
    assert ours["bram"] == theirs["bram"] == 0
    assert report.ratios["fpga_clock"] == pytest.approx(0.5)
    assert report.ratios["fpga_bram"] is None
    document = report.to_json()
    assert document["fpga"]["tensordash"]["clock_mhz"] == 103.05
    assert document["fpga"]["tensordash"]["clock_after"] == "routing"
    assert document["fpga"]["tensordash"]["utilisation"]["dsp"] == round(2 / 28, 4)
    assert document["fpga"]["baseline"]["clock_mhz"] == 206.1
    assert document["ratio"]["fpga_clock"] == 0.5
    assert set(document["fpga"]["tensordash"]) >= set(RESOURCES)


def test_answers_are_cached(report: FpgaPlacement, placed_as: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    placed_as.clear()
    assert place_fpga(TINY, TARGET).to_json() == report.to_json()
    assert placed_as == []
    # Netlists are not stored, so stubs replace them.
    monkeypatch.setattr(module, "run_yosys", lambda commands, folder, what: netlist(folder))
    lines: list[str] = []
    place_fpga(TINY, TARGET, device="LFE5U-45F", progress=lines.append, jobs=1)
    assert placed_as == ["TensorDash", "baseline"], "another part needs another placement"
    assert "TensorDash: placing on LFE5U-45F" in lines
    placed_as.clear()
    place_fpga(TINY, TARGET, route=False, jobs=1)
    assert placed_as == ["TensorDash", "baseline"], "a placement without routing is separate"
    placed_as.clear()
    monkeypatch.setattr(module, "require_nextpnr", lambda family: "1.3")
    place_fpga(TINY, TARGET, jobs=1)
    assert placed_as == ["TensorDash", "baseline"], "another nextpnr needs another placement"


def test_the_table(report: FpgaPlacement, placed_as: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    text = placed_table(report)
    lines = {line.split("  ")[0]: line.split() for line in text.splitlines()}
    counts = report.tensordash.counts, report.baseline.counts
    assert lines["LUTs"][1::2][:2] == [f"{each['lut']:,}" for each in counts]
    assert lines["clock, MHz"][2:] == ["103.0", "206.1", "0.500"]
    assert "longest path of TensorDash: drain.beat to scheduler_0.further, 2 cells, 1.0 ns in them and" in text
    with pytest.raises(SystemExit) as stop:
        run(["synth", "--target", TARGET, "--place", "--json", *settings()])
    assert not stop.value.code
    assert json.loads(capsys.readouterr().out) == report.to_json()


def netlist(folder: Path) -> None:
    (folder / "netlist.json").write_text('{"modules": {"tensordash_fpga": {}}}', encoding="utf-8")
    (folder / "stat.json").write_text(
        '{"modules": {"\\\\tensordash_tile": {"num_cells_by_type": {"LUT4": 1}}}}', encoding="utf-8"
    )


def settings() -> list[str]:
    return [word for key in SETTINGS.split() for word in ("--set", f"tile.{key}")]


def test_a_part_that_is_too_small(placed_as: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_part", lambda target, device, counts: (_ for _ in ()).throw(DeviceError("no room")))
    with pytest.raises(DeviceError, match="no room"):
        place_fpga(TINY, TARGET, jobs=1)
    assert placed_as == []


def test_unknown_targets_and_devices(placed_as: list[str]) -> None:
    with pytest.raises(DeviceError, match="--target must be one of ecp5, nexus, gowin, not 'ice40'"):
        place_fpga(TINY, "ice40")
    with pytest.raises(DeviceError, match="--device must be one of LIFCL-40 for nexus, not 'LFE5U-25F'"):
        place_fpga(TINY, "nexus", device="LFE5U-25F")
    for preset in ("dense", "core-dense"):
        with pytest.raises(ConfigError, match="to compare with the baseline"):
            place_fpga(load_any_preset(preset), TARGET)
    assert load_preset("dense").sparsity == "none"


@pytest.mark.slow
@pytest.mark.parametrize(("family", "least_mhz"), [("ecp5", 70), ("nexus", 70), ("gowin", 70)])
def test_placed_and_routed(family: str, least_mhz: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not installed(family):
        pytest.skip(f"{FAMILIES[family].package} is not installed")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    report = place_fpga(TINY, family, jobs=1)
    for design in (report.tensordash, report.baseline):
        assert design.routed
        assert design.path is not None
        assert 1000 / design.clock_mhz == pytest.approx(design.path.logic_ns + design.path.routing_ns, abs=0.1)
        assert least_mhz < design.clock_mhz < 500
        # nextpnr found at least what Yosys counted.
        assert sum(used for used, _ in design.utilisation.values()) >= sum(design.counts.values())
    assert report.tensordash.counts["lut"] > report.baseline.counts["lut"]
