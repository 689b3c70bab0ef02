"""Test costs of memories: CACTI's figures, their sums in a report, and messages for missing tools."""

import json
import shutil
from dataclasses import replace

import pytest

from tensordash_synth import cacti, core_cost_table
from tensordash_synth.cacti import CactiError, cacti_array, cacti_digest
from tensordash_synth.core_cost import CoreCostReport, CoreDesign
from tensordash_synth.core_energy import CoreMemories, StepEnergy, StepOperation, energy_ratios
from tensordash_synth.memories import MACROS, MemoryCost, memory_costs


@pytest.fixture
def require_cacti() -> None:
    """Skip a test if CACTI is not installed or cannot be compiled."""
    try:
        cacti_digest()
    except CactiError as error:
        pytest.skip(str(error))
    if shutil.which(cacti.COMPILER) is None:
        pytest.skip(f"there is no {cacti.COMPILER}")


@pytest.mark.usefixtures("require_cacti")
class TestCacti:
    def test_published_figures(self):
        """The expected figures of 4 KB with one port are from the same release of CACTI, built by its makefile."""
        found = cacti_array(512, 64, ports=(1, 0, 0))
        assert found.area_um2 == pytest.approx(14740.6, rel=1e-3)
        assert found.read_pj == pytest.approx(2.34195, rel=1e-3)
        assert found.access_ns == pytest.approx(0.521, rel=1e-2)

    def test_costs_grow_with_size_and_ports(self):
        shapes = [(64, 64), (128, 64), (512, 64), (512, 128), (2048, 128)]
        found = [cacti_array(*shape) for shape in shapes]
        for name in ("area_um2", "read_pj", "write_pj", "leakage_mw"):
            figures = [getattr(each, name) for each in found]
            assert figures == sorted(figures), name
        one = cacti_array(512, 64, ports=(1, 0, 0))
        assert one.area_um2 < found[2].area_um2

    @pytest.mark.parametrize(
        ("asked", "built"), [((512, 198), (512, 200)), ((2, 8), (32, 16)), ((16, 256), (32, 256)), ((100, 7), (100, 8))]
    )
    def test_unsupported_sizes_are_rounded_up(self, asked, built):
        found = cacti_array(*asked)
        assert (found.words, found.bits) == built

    def test_too_large(self):
        with pytest.raises(CactiError, match="cannot build a memory of 1073741824 words"):
            cacti_array(1 << 30, 64)

    def test_answers_are_cached(self, tmp_path, monkeypatch):
        monkeypatch.setattr(cacti, "cache_folder", lambda: tmp_path)
        first = cacti_array(64, 64)
        (stored,) = tmp_path.glob("cacti-*.json")
        asked = []
        monkeypatch.setattr(cacti, "_run_cacti", lambda *arguments: asked.append(arguments))
        assert cacti_array(64, 64) == first
        assert not asked
        stored.write_text("{")
        with pytest.raises(CactiError):
            cacti_array(64, 64)
        assert asked

    def test_no_compiler(self, tmp_path, monkeypatch):
        monkeypatch.setattr(cacti, "cache_folder", lambda: tmp_path)
        monkeypatch.setattr(cacti, "COMPILER", "no-such-compiler")
        with pytest.raises(CactiError, match="there is no no-such-compiler"):
            cacti_array(512, 64)

    def test_macros_side_by_side(self):
        costs = memory_costs(512, 256)["macros"]
        (macro,) = [each for each in MACROS if (each.words, each.bits) == (512, 64)]
        two, one = cacti_array(512, 256), cacti_array(512, 256, ports=(1, 0, 0))
        assert costs.built == "4 of 512x64"
        assert costs.area_um2 == pytest.approx(4 * macro.area_um2 * two.area_um2 / one.area_um2)
        assert costs.read_pj == pytest.approx(4 * macro.access_pj * two.read_pj / one.read_pj)
        assert memory_costs(128, 256)["macros"].built == "1 of 128x256"
        assert memory_costs(64, 128)["macros"].built == "2 of 64x124"

    def test_pieces_side_by_side(self):
        """The cheapest of 1, 2, 4 and 8 pieces counts, for TensorDash's bank and for the dense core's."""
        for words, best in ((128, 4), (256, 8)):
            pieces = {n: cacti_array(words, 256 // n, ports=(1, 0, 0)) for n in (1, 2, 4, 8)}
            assert min(pieces, key=lambda n: n * pieces[n].area_um2) == best
            found, piece = memory_costs(words, 256, ports=1)["cacti"], pieces[best]
            assert found.built == f"{best} of {words}x{256 // best}"
            assert found.area_um2 == pytest.approx(best * piece.area_um2)
            assert found.read_pj == pytest.approx(best * piece.read_pj)
            assert found.write_pj == pytest.approx(best * piece.write_pj)
            assert found.leakage_mw == pytest.approx(best * piece.leakage_mw)
            assert found.access_ns == piece.access_ns
        assert memory_costs(512, 40)["cacti"].built == "1 of 512x40"  # Halves would be narrower than `MIN_PART_BITS`.

    def test_one_port(self):
        costs = memory_costs(128, 256, ports=1)
        (macro,) = [each for each in MACROS if (each.words, each.bits) == (128, 256)]
        assert costs["macros"].area_um2 == pytest.approx(macro.area_um2)
        assert costs["macros"].read_pj == pytest.approx(macro.access_pj)


def test_cacti_that_does_not_compile(tmp_path, monkeypatch):
    (tmp_path / "main.cc").write_text("int main() { return nothing; }")
    monkeypatch.setattr(cacti, "_sources", lambda: tmp_path)
    with pytest.raises(CactiError, match=r"CACTI cannot be compiled \(c\+\+ ended with 1\): .*nothing"):
        cacti_array(512, 64)


def test_not_installed(monkeypatch):
    monkeypatch.setattr(cacti, "PACKAGE", "no-such-package")
    with pytest.raises(CactiError, match="CACTI is not installed: pip install"):
        cacti_array(512, 64)


DESIGN = CoreDesign(units={"core": 10.0, "tile": 1000.0, "load": 300.0}, memories={}, slowest=("load", 0.5))
PLAIN = CoreCostReport(
    digest="",
    library="cells",
    clock_ns=2.0,
    tensordash=DESIGN,
    baseline=replace(DESIGN, units={"core": 10.0, "tile": 800.0, "load": 300.0}),
    around_ns=1.5,
    gate_area=0.8,
)
COST = MemoryCost(built="8x8", area_um2=500.0, read_pj=2.0, write_pj=3.0, leakage_mw=0.5, access_ns=0.4)
COSTS = {"8x8": {"cacti": COST, "macros": replace(COST, area_um2=1000.0, read_pj=4.0, write_pj=6.0)}}
OURS, THEIRS = CoreMemories(counts={"8x8": 4}, costs=COSTS), CoreMemories(counts={"8x8": 2}, costs=COSTS)


def step(cycles: int, reads: int, memories: CoreMemories) -> StepEnergy:
    done = StepOperation(name="conv AxW", cycles=cycles, accesses={"buffer 8x8": (reads, 100)}, memory_bytes=1000)
    watts = {"tile": 0.2, "load": 0.05}
    return StepEnergy(operations=(done, done), memories=memories, watts=watts, clock_ns=2.0)


def test_areas_add_up():
    report = replace(PLAIN, memories=(OURS, THEIRS))
    assert report.area_um2("cacti") == pytest.approx((1310 * 0.8 + 2000, 1110 * 0.8 + 1000))
    assert report.ratios["area"] == pytest.approx(1310 / 1110)
    assert report.ratios["area_with_memories"] == pytest.approx(3048 / 1888)
    assert report.ratios["area_with_macros"] == pytest.approx((1048 + 4000) / (888 + 2000))
    document = json.loads(json.dumps(report.to_json()))
    assert document["ratio"]["area_with_memories"] == round(3048 / 1888, 4)
    assert document["tensordash"]["memory_costs"]["8x8"]["count"] == 4
    assert "energy_with_memories" not in document["ratio"]


def test_energy_adds_up():
    ours, theirs = step(500, 1000, OURS), step(1000, 1000, THEIRS)
    seconds = 2 * 500 * 2e-9
    assert ours.logic == pytest.approx(0.25 * seconds)
    assert ours.accesses == {"buffer 8x8": (2000, 200)}
    accesses, leakage = (2000 * 2 + 200 * 3) * 1e-12, 4 * 0.5e-3 * seconds
    assert ours.on_chip("cacti") == pytest.approx(0.25 * seconds + accesses + leakage)
    assert ours.parts["accesses, macros"] == pytest.approx(2 * accesses)
    assert ours.off_chip == pytest.approx(2000 * 8 * 8e-12)
    ratios = energy_ratios(ours, theirs)
    assert ratios["cycles"] == ratios["energy"] == 0.5
    assert ratios["energy_with_memories"] == pytest.approx(ours.on_chip("cacti") / theirs.on_chip("cacti"))
    assert ratios["energy"] < ratios["energy_with_memories"] < ratios["energy_with_dram"]
    report = replace(PLAIN, memories=(OURS, THEIRS), step=(ours, theirs), step_reason="")
    table = core_cost_table(report)
    assert "energy with memories" in table
    assert "DRAM, apart" in table
    document = report.to_json()
    assert document["baseline"]["step"]["cycles"] == 2000
    assert set(document["ratio"]) >= {"area_with_memories", "energy_with_memories", "energy_with_macros"}


def test_without_cacti_only_logic_is_reported():
    report = replace(PLAIN, memories_reason="CACTI is not installed: x", step_reason="CACTI is not installed: x")
    (line,) = [line for line in core_cost_table(report).splitlines() if "CACTI" in line]
    assert line == "no cost of memories: CACTI is not installed: x"
    assert set(report.to_json()["ratio"]) == {"area"}
    table = core_cost_table(replace(PLAIN, memories=(OURS, THEIRS), step_reason="there is no OpenSTA"))
    assert "no energy of a training step: there is no OpenSTA" in table
