"""Test the costs of compute cores: their list, their figures, and errors."""

import json
import re
from dataclasses import replace

import pytest

import tensordash_synth
from tensordash import TileConfig, load_preset
from tensordash.configuration.numerics import Fused
from tensordash.emission.verilog import render
from tensordash_cli.main import run
from tensordash_synth import LibertyError, every_numerics, numerics_costs, numerics_table, synthesize, yosys
from tensordash_synth.hierarchy import Hierarchy

TINY = TileConfig(rows=1, columns=2, lanes=2, sparsity="none", format="int8", pipeline=1)
CORES = (TINY, TileConfig(lanes=2, sparsity="none", format="fp8_e4m3", pipeline=1, headroom_bits=0))


@pytest.fixture(scope="module")
def report():
    lines = []
    report = numerics_costs(CORES, progress=lines.append)
    assert sorted(line.split(":")[0] for line in lines) == [
        f"{name} exact{what}" for name in ("fp8_e4m3", "int8") for what in ("", ", for speed", ", result")
    ]
    return report


@pytest.fixture(scope="module")
def document(report):
    return report.to_json()


def test_numerics_of_every_format():
    tiles = every_numerics(load_preset("paper", ["tile.headroom_bits=20", "tile.pipeline=3"]))
    found = {(str(tile.format), str(tile.accumulator)) for tile in tiles}
    assert len(tiles) == len(found) == 49
    assert ("bf16", "exact") not in found
    binned = {(name, accumulator) for name, accumulator in found if accumulator.startswith("binned")}
    assert binned == {(name, f"binned {bins} x 16") for name in ("bf16", "tf32") for bins in (3, 4)}
    named = {name for name, accumulator in found if accumulator in ("ada-fp8", "hopper-fp8")}
    assert len(named) == 3
    assert all("fp8" in name for name in named)
    assert {accumulator for name, accumulator in found if name == "int8"} == {"exact"}
    assert {(tile.rows, tile.columns, tile.sparsity, tile.stages, tile.lanes) for tile in tiles} == {
        (1, 1, "none", 3, 4)
    }
    assert {tile.headroom_bits for tile in tiles} == {20, 16}


def test_numerics_include_those_of_the_tile():
    own = {"format": "fp16", "accumulator": Fused(40, "nearest")}
    assert every_numerics(TileConfig(**own))[-1] == TileConfig(rows=1, columns=1, sparsity="none", **own)
    mixed = TileConfig(format={"a": "fp16", "b": "fp8_e4m3"}, accumulator="volta")
    assert every_numerics(mixed)[-1].format == mixed.format
    assert len(every_numerics(load_preset("paper-bf16"))) == 49


@pytest.mark.parametrize(
    "setting",
    [
        ["tile.format=int8"],
        ["tile.format=fp8_e4m3", "tile.accumulator=blackwell-fp8"],
        ["tile.format=fp8_e4m3", "tile.accumulator=hopper-fp16", "tile.initial=true"],
        ["tile.initial=true"],
    ],
    ids=" ".join,
)
def test_compute_core_has_no_black_boxes(setting):
    """Otherwise, the figures would lack its parts."""
    check_no_black_boxes(load_preset("paper", ["tile.rows=1", "tile.columns=1", *setting]))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["mxfp8", "nvfp4"])
def test_compute_core_with_scales_has_no_black_boxes(name):
    """Scales also cost area in the dense tile, where they are in other modules."""
    tile = load_preset(name, ["tile.rows=1", "tile.columns=1"])
    check_no_black_boxes(tile)
    check_no_black_boxes(tile.baseline)


def check_no_black_boxes(config):
    hierarchy = Hierarchy(render(config)["tensordash.v"], "tensordash_tile")
    assert not hierarchy.black_boxes("tensordash_pe")


@pytest.mark.parametrize(("accumulator", "headroom"), [({"bins": 3}, 5), ("hopper", None)], ids=["binned", "fused"])
def test_headroom_of_inexact_accumulators(report, accumulator, headroom):
    tile = TileConfig(format="bf16", accumulator=accumulator, headroom_bits=5)
    (core,) = replace(report, cores=(replace(report.cores[0], config=tile),)).to_json()["cores"]
    assert (core["accumulator"], core["headroom_bits"]) == (tile.to_mapping()["tile"]["accumulator"], headroom)


def test_figures(document):
    integer, fp8 = document["cores"]
    assert (integer["format"], integer["accumulator"]) == ({"a": "int8", "b": "int8"}, "exact")
    assert [core["product_bits"] for core in document["cores"]] == [16, 36]
    assert [core["accumulator_bits"] for core in document["cores"]] == [32, 37]
    assert [core["headroom_bits"] for core in document["cores"]] == [16, 0]
    for core in document["cores"]:
        assert core["ge"] == pytest.approx(core["area_um2"] / document["gate_um2"], abs=0.01)
        assert 0 < core["flip_flop_ge"] < core["ge"]
        assert core["meets_clock"] is True
        assert 0 < core["delay_ns"] <= 1.8
        assert core["max_frequency_mhz"] > 555
        assert core["result_ge"] > 32 * 4.522 / document["gate_um2"]
    # A pipeline of one stage has only the registers of accumulator and block. fp8 also marks infinities and NaN.
    flip_flop = 4.522 / document["gate_um2"]
    assert integer["flip_flop_ge"] == pytest.approx(2 * 32 * flip_flop, abs=0.01)
    assert fp8["flip_flop_ge"] == pytest.approx(2 * 39 * flip_flop, abs=0.01)
    assert (document["clock_ns"], document["lanes"], document["stages"], document["initial"]) == (2.0, 2, 1, False)
    assert json.loads(json.dumps(document)) == document


def test_table(report):
    lines = numerics_table(report).splitlines()
    assert "compute core of 2 lanes, pipeline 1" in lines
    (integer,) = [line.split() for line in lines if line.startswith("int8")]
    assert integer[1:4] == ["exact", "16", "32"]
    assert not any(line.startswith("- *:") for line in lines)


@pytest.mark.slow
def test_compute_core_and_c_in_a_complete_tile(document):
    """An integer C is added to a finished sum, so its area counts for the result and for control, not for the core."""
    config = replace(TINY, sparsity="rows", depth=2, connectivity=((0, 0), (1, 0)), initial=True)
    tile = synthesize(config, transposers=0).to_json()
    modules = tile["modules"]
    assert not [name for name in modules if "multiplier" in name or "accumulator" in name]
    # ABC's results depend by chance on names of wires, which depend on the rest of the file.
    core = document["cores"][0]
    assert modules["tensordash_pe"]["ge"] == pytest.approx(core["ge"], rel=0.05)
    store, result = modules["tensordash_initial_store"], modules["tensordash_integer_result"]
    assert store["baseline_count"] == store["tensordash_count"] == 1
    for name in ("tensordash", "baseline"):
        assert tile["components"]["control"][f"{name}_um2"] > store["area_um2"] > 0

    with_c = numerics_costs([config]).to_json()
    assert with_c["initial"] is True
    assert with_c["cores"][0]["ge"] == pytest.approx(core["ge"], rel=0.05)
    assert with_c["cores"][0]["result_ge"] == pytest.approx(result["ge"], rel=0.05)
    assert result["ge"] > core["result_ge"] + 32


def call(arguments, capfd):
    with pytest.raises(SystemExit) as stop:
        run(arguments.split())
    return stop.value.code, *capfd.readouterr()


TINY_COMMAND = "synth --numerics --set tile.sparsity=none --set tile.lanes=2 --set tile.format=int8"


@pytest.fixture
def own_numerics_only(monkeypatch):
    monkeypatch.setattr(tensordash_synth, "every_numerics", lambda config: [config])


def test_command_prints_one_document(own_numerics_only, capfd):
    code, out, _ = call(f"{TINY_COMMAND} --json", capfd)
    assert not code
    document = json.loads(out)
    assert (document["lanes"], document["stages"], len(document["cores"])) == (2, 2, 1)


def test_command_marks_missed_clocks(own_numerics_only, capfd):
    code, out, _ = call(f"{TINY_COMMAND} --clock 0.06", capfd)
    assert not code
    assert re.search(r"^int8 +exact +16 +32 .*\d\*  ", out, re.MULTILINE)
    assert "- *: misses the clock; mapped to the least delay" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--clock 0", "--clock"),
        ("--clock nan", "--clock"),
        ("--liberty missing.lib", "missing.lib"),
        ("--set tile.accumulator=turing", "tile.accumulator must be"),
        ("--numerics=fp16", "--numerics"),
    ],
)
def test_command_refuses_in_one_line(arguments, message, capfd):
    code, out, err = call(f"synth --numerics {arguments}", capfd)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert message in err


def test_refused_before_anything_is_run(tmp_path):
    with pytest.raises(ValueError, match="clock_ns must be a period"):
        numerics_costs(CORES, clock_ns=0)
    with pytest.raises(LibertyError, match=r"none\.lib"):
        numerics_costs(CORES, liberty=tmp_path / "none.lib")
    for configs in ([], [TileConfig(), TileConfig(pipeline=3)], [TileConfig(), TileConfig(initial=True)]):
        with pytest.raises(ValueError, match=r"configs must be tiles, at least one, of equal tile\.lanes"):
            numerics_costs(configs)


def test_interrupt_of_a_yosys_process_ends_the_command(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # With cached mappings, there would be no job to interrupt.
    interrupted = "import os, signal\nsignal.signal(signal.SIGINT, signal.SIG_DFL)\nos.kill(os.getpid(), signal.SIGINT)"
    monkeypatch.setattr(yosys, "WORKER", interrupted)
    with pytest.raises(KeyboardInterrupt):
        numerics_costs(CORES)


@pytest.mark.slow
def test_relations_between_compute_cores():
    cores = {core.label: core for core in numerics_costs(every_numerics(load_preset("paper"))).cores}
    assert len(cores) == 25
    for (_, accumulator), core in cores.items():
        # The loop of a fused accumulator compares, aligns, adds, normalises and rounds.
        assert (core.fastest.delay_ns < 1.2) == (accumulator == "exact")
        assert core.fastest.delay_ns < 2.5
    areas = [cores[name, "exact"].at_target.area_um2 for name in ("int8", "fp8_e4m3", "fp8_e5m2", "fp16")]
    assert areas == sorted(areas)
