"""Test the flow on a small tile: modules are mapped once, rows add up, and wrong inputs are errors."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tensordash import ConfigError, TileConfig, load_preset
from tensordash_synth import (
    LibertyError,
    SynthesisError,
    cost_table,
    fpga_table,
    load_liberty,
    measure_areas,
    sweep_table,
    synthesize,
    synthesize_fpga,
)
from tensordash_synth.hierarchy import Hierarchy
from tensordash_synth.mapping import elaborate, map_for_area
from tensordash_synth.yosys import run_yosys

OSU018 = Path("/usr/share/qflow/tech/osu018/osu018_stdcells.lib")  # apt: qflow-tech-osu018
FP16 = TileConfig(rows=1, columns=2, lanes=2, depth=2, connectivity=((0, 0), (1, 0), (1, 1)), headroom_bits=0)
SMALL = replace(FP16, format="fp8_e4m3")  # Its modules are mapped in half the time.

COUNTER = """\
module tensordash_counter(clk, rst, out);
  input clk, rst; output reg [7:0] out;
  always @(posedge clk) if (rst) out <= 8'd0; else out <= out + 8'd3;
endmodule
"""


@pytest.fixture(scope="module")
def progress():
    return []


@pytest.fixture(scope="module")
def report(progress):
    return synthesize(SMALL, progress=progress.append)


@pytest.fixture(scope="module")
def document(report):
    return report.to_json()


def test_columns_sum_to_their_total(document):
    rows = dict(document["components"])
    total = rows.pop("total")
    for column in total:
        assert sum(row[column] for row in rows.values()) == pytest.approx(total[column], abs=0.01)
    for name, column in (("tensordash", "tensordash_um2"), ("baseline", "baseline_um2")):
        assert document[name]["area_um2"] == total[column]


def test_the_total_is_the_sum_of_all_instances(document):
    for name in ("baseline", "tensordash"):
        instances = sum(each["area_um2"] * each[f"{name}_count"] for each in document["modules"].values())
        assert instances == pytest.approx(document[name]["area_um2"], abs=0.1)


def test_equal_modules_are_mapped_once(document):
    modules = document["modules"]
    pe = modules["tensordash_pe"]
    assert (pe["baseline_count"], pe["tensordash_count"]) == (2, 2)
    assert [name for name in modules if name.startswith("tensordash_pe")] == ["tensordash_pe"]
    assert modules["tensordash_operand_mux"]["tensordash_count"] == 3
    assert modules["tensordash_operand_mux"]["baseline_count"] == 0
    assert not [name for name in modules if "initial" in name]


def test_rows_contain_their_modules(document):
    rows = document["components"]
    for name in ("compute_cores", "transposers"):
        assert rows[name]["tensordash_um2"] == rows[name]["baseline_um2"] > 0
    for name in ("schedulers_b_muxes", "a_muxes", "staging_buffers"):
        assert rows[name]["baseline_um2"] == 0 < rows[name]["tensordash_um2"]
    mux = document["modules"]["tensordash_operand_mux"]["area_um2"]
    assert rows["a_muxes"]["tensordash_um2"] == pytest.approx(2 * mux, abs=0.01)


def test_ratios_and_figures(document):
    dense, sparse = document["baseline"], document["tensordash"]
    assert document["ratio"]["area"] == pytest.approx(sparse["area_um2"] / dense["area_um2"], abs=1e-3)
    assert 1 < document["ratio"]["area"] < 2
    assert document["ratio"]["clock"] == pytest.approx(
        sparse["max_frequency_mhz"] / dense["max_frequency_mhz"], abs=1e-3
    )
    assert sparse["added_ge_per_pe"] == pytest.approx((sparse["tile_ge"] - dense["tile_ge"]) / 2, abs=0.01)
    assert sparse["total_ge_per_pe"] == pytest.approx(sparse["tile_ge"] / 2, abs=0.01)
    assert dense["tile_ge"] == pytest.approx(dense["area_um2"] / 0.798, abs=0.01)
    assert 0 < dense["delay_ns"] < 2
    assert (document["config"], document["clock_ns"]) == (SMALL.digest, 2.0)
    assert json.loads(json.dumps(document)) == document


def test_progress_and_table(report, progress):
    assert any(line.startswith("tensordash_pe: ") for line in progress)
    text = cost_table(report)
    for word in ("compute cores", "schedulers + B muxes", "staging buffers", "total", "114.3%", "baseline's"):
        assert word in text


def test_areas_match_the_report(report):
    areas = measure_areas(SMALL)
    assert areas.components == report.components
    assert areas.ge_per_pe("total")[0] == pytest.approx(report.to_json()["tensordash"]["total_ge_per_pe"], abs=1e-3)


def test_areas_are_reproducible(tmp_path):
    areas = set()
    for run in ("first", "second"):
        (tmp_path / run).mkdir()
        (tmp_path / run / "counter.v").write_text(COUNTER)
        mapped = map_for_area(["read_verilog counter.v"], "tensordash_counter", load_liberty(), 2.0, tmp_path / run)
        areas.add((mapped.area_um2, mapped.delay_ns, mapped.recipe))
    assert len(areas) == 1
    assert mapped.area_um2 > mapped.flip_flop_um2 == pytest.approx(8 * 4.522)
    assert 0 < mapped.delay_ns < 1.8


def test_infeasible_clock_gives_the_fastest_mapping(tmp_path):
    (tmp_path / "counter.v").write_text(COUNTER)
    mapped = map_for_area(["read_verilog counter.v"], "tensordash_counter", load_liberty(), 0.01, tmp_path)
    assert mapped.delay_ns > 0.01


def test_a_sum_of_many_numbers_has_one_carry_chain(tmp_path):
    """The sum has the printer's form and is in a module below the top. Yosys alone would leave two chains."""
    terms = " + ".join(f"$signed({{{{4{{a[{low + 7}]}}}}, a[{low + 7}:{low}]}})" for low in range(0, 128, 8))
    (tmp_path / "sum.v").write_text(f"""\
module tensordash_accumulator(input wire clk, input wire [127:0] a, output reg [15:0] sum);
  wire [11:0] total = {terms};
  always @(posedge clk) sum <= $signed(sum) + $signed({{{{4{{total[11]}}}}, total}});
endmodule
module tensordash_sum(input wire clk, input wire [127:0] a, output wire [15:0] sum);
  tensordash_accumulator accumulator (.clk(clk), .a(a), .sum(sum));
endmodule
""")
    log = run_yosys(["read_verilog sum.v", *elaborate("tensordash_sum")], tmp_path, "tensordash_sum")
    assert re.findall(r"created (\d+) \$alu and (\d+) \$macc cells", log) == [("0", "1")]


@pytest.mark.skipif(not OSU018.exists(), reason="qflow-tech-osu018 is not installed")
def test_another_library(tmp_path):
    (tmp_path / "counter.v").write_text(COUNTER)
    mapped = map_for_area(["read_verilog counter.v"], "tensordash_counter", load_liberty(OSU018), 5.0, tmp_path)
    assert mapped.area_um2 > 8 * 96


def test_an_error_inside_yosys_names_the_module(tmp_path):
    with pytest.raises(SynthesisError, match=r"synthesis of thing failed \(Yosys ended with \d+\):\n.*absent\.v"):
        run_yosys(["read_verilog absent.v"], tmp_path, "thing")


def test_refused_before_anything_is_run(tmp_path):
    with pytest.raises(ValueError, match=r'tile\.sparsity must be "rows" or "both"'):
        synthesize(load_preset("dense"))
    with pytest.raises(ValueError, match="clock_ns must be a period"):
        synthesize(SMALL, clock_ns=0)
    with pytest.raises(ValueError, match="transposers must be an integer of at least 0, not -1"):
        synthesize(SMALL, transposers=-1)
    with pytest.raises(LibertyError, match=r"none\.lib"):
        synthesize(SMALL, liberty=tmp_path / "none.lib")


def test_hierarchy_of_a_tile():
    text = "".join(
        f"module tensordash_{name}(x);\n"
        + "".join(f"  tensordash_{child} {instance} (\n  );\n" for instance, child in children)
        + "endmodule\n"
        for name, children in {
            "tile": [("pe_0", "pe"), ("pe_1", "pe"), ("control", "control__ring")],
            "pe": [("m_0", "multiplier"), ("m_1", "multiplier")],
            "multiplier": [],
            "control__ring": [],
        }.items()
    )
    hierarchy = Hierarchy(text, "tensordash_tile")
    assert [placement.role for placement in hierarchy.placements] == ["tile", "pe", "pe", "control"]
    assert hierarchy.black_boxes("tensordash_tile") == ["tensordash_control__ring", "tensordash_pe"]
    assert hierarchy.black_boxes("tensordash_pe") == []
    assert list(hierarchy.twins()) == [("tensordash_tile", "tensordash_pe", ["pe_1"])]


@pytest.mark.slow
def test_bfloat16():
    document = synthesize(load_preset("paper-bf16")).to_json()
    assert 1.0 < document["ratio"]["area"] < 1.3
    assert document["baseline"]["pe_ge"] < 12_000
    assert not [name for name in document["modules"] if "multiplier" in name or "accumulator" in name]


@pytest.mark.slow
@pytest.mark.parametrize("sparsity", ["rows", "both"])
def test_the_paper_s_tile(sparsity):
    document = synthesize(load_preset("paper", [f"tile.sparsity={sparsity}"])).to_json()
    assert 1.0 < document["ratio"]["area"] < {"rows": 1.3, "both": 1.6}[sparsity]
    assert document["baseline"]["delay_ns"] < 1.8
    assert document["baseline"]["pe_ge"] < 11_700


def test_chip(document):
    """By hand: 256 tiles of 1.44 um2 per gate equivalent in 65 nm, 192 banks, and the paper's scratchpads."""
    tiles = [256 * 1.44e-6 * document[name]["tile_ge"] for name in ("tensordash", "baseline")]
    assert document["ratio"]["chip"] == pytest.approx(
        (tiles[0] + 5.9 + 172.032) / (tiles[1] + 3.95 + 172.032), abs=1e-3
    )


def test_sweep(report):
    document = report.to_json()
    (line,) = [line.split() for line in sweep_table([report]).splitlines() if line.split()[1:2] == ["500"]]
    gates = [f"{document[name]['tile_ge'] / 2:,.0f}" for name in ("tensordash", "baseline")]
    assert line[:5] == ["2", "500", *gates, f"{document['ratio']['area']:.3f}"]


def test_fpga():
    report = synthesize_fpga(FP16)
    resources = report.to_json()["resources"]
    assert resources["dsp"] | {"components": None} == {"tensordash": 4, "baseline": 4, "ratio": 1.0, "components": None}
    for name in ("lut", "ff"):
        assert resources[name]["ratio"] > 1.05
        parts = resources[name]["components"]
        for design in ("tensordash", "baseline"):
            assert sum(part[design] for part in parts.values()) == resources[name][design]
    assert resources["lut"]["components"]["a_muxes"]["baseline"] == 0
    assert resources["lut"]["components"]["a_muxes"]["tensordash"] > 0
    text = fpga_table(report)
    assert text.startswith("ecp5, Yosys")
    assert f"LUT {report.ratio('lut'):.3f}, FF {report.ratio('ff'):.3f}, DSP 1.000" in text
    with pytest.raises(ValueError, match="target must be one of ecp5, nexus, gowin, not 'virtex'"):
        synthesize_fpga(SMALL, "virtex")
    with pytest.raises(ConfigError, match="to compare with the baseline"):
        synthesize_fpga(load_preset("dense"))
