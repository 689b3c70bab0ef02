"""Test the commands as a user calls them."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensordash
from tensordash.arithmetic.result_converter import ResultConverter
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash_cli.main import run
from tensordash_formal.proofs import PROOFS
from tensordash_runtime import Device
from tensordash_sim.golden import matmul
from tensordash_sim.lowering import MatrixProduct
from tensordash_sim.performance.chip import ChipConfig
from tensordash_sim.trace import TraceWriter
from tensordash_sim.verify.core_run import CORE_BENCHES

from .called import FAST_SIMULATOR
from .called import call as call_both

pytestmark = pytest.mark.usefixtures("folder")


def call(arguments: str, capfd: pytest.CaptureFixture[str], status: int = 0) -> str:
    """Run the command; return its standard output."""
    return call_both(arguments, capfd, status)[0]


def test_version(capfd: pytest.CaptureFixture[str]) -> None:
    assert call("--version", capfd).strip().endswith(tensordash.__version__)


def test_presets(capfd: pytest.CaptureFixture[str]) -> None:
    listed = call("presets", capfd).splitlines()
    names = [(name, kind) for kind in ("tile", "core") for name in tensordash.preset_names(kind)]
    assert [tuple(line.split()[:2]) for line in listed] == names
    document = json.loads(call("presets --json", capfd))
    assert {name for name, each in document.items() if "core" in each} == set(tensordash.preset_names("core"))
    assert document["core"]["core"]["buffer"] == 64
    assert document["paper-16lane"]["tile"]["lanes"] == 16


def test_the_default_chip_is_printed(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "chip.toml").write_text(call("presets --chip", capfd))
    assert ChipConfig.load(folder / "chip.toml") == ChipConfig()
    assert json.loads(call("presets --chip --json", capfd)) == ChipConfig().to_mapping()


def test_unknown_layer_error_lists_closest_names(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """For a trace with many layers, the message has the closest names, and the command that lists all names."""
    layer = MatrixProduct(batch=1, samples=2, in_features=4, out_features=4)
    with TraceWriter("run.trace") as writer, writer.step(0) as step:
        for index in range(300):
            masks = {name: np.ones(layer.shapes[name], bool) for name in "AW"}
            step.record(f"Encoder.block{index}.dense", "AxW", layer, masks)
    for command, options in (
        ("simulate run.trace", "--layer Encoder.block17.dens"),
        ("verify --trace run.trace", "--layer Encoder.block17.dens --op AxW"),
        ("report -o page.html --trace run.trace", "--layer Encoder.block17.dens --op AxW"),
    ):
        with pytest.raises(SystemExit) as stop:
            run(f"{command} {options}".split())
        assert stop.value.code == 2
        message = capfd.readouterr().err
        assert "one of the 300 of run.trace" in message
        assert "closest: Encoder.block17.dense" in message
        assert "(tensordash inspect run.trace lists them)" in message
        assert len(message) < 300


def test_install_hints_name_existing_extras() -> None:
    """The distribution is on no package index, so hints name extras of a checkout. These extras exist."""
    root = Path(__file__).parents[2]
    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = set()
    for folder in ("hdl", "sim", "synth", "formal", "cli", "docs", "examples"):
        for file in (root / folder).rglob("*"):
            if file.suffix in (".py", ".md"):
                text = file.read_text(encoding="utf-8")
                assert "tensordash-hdl[" not in text, file
                named |= set(re.findall(r"pip\s+install '\.\[([a-z]+)\]'", text))
    assert {"simulate", "trace", "wires"} <= named <= set(extras)


@pytest.mark.parametrize("name", tensordash.preset_names())
def test_printed_preset_is_a_configuration(name: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "mine.toml").write_text(call(f"presets {name}", capfd))
    assert tensordash.TileConfig.load("mine.toml") == tensordash.load_preset(name)


@pytest.mark.parametrize("name", tensordash.preset_names("core"))
def test_printed_core_preset_is_a_configuration(name: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "mine.toml").write_text(call(f"presets {name}", capfd))
    assert CoreConfig.load("mine.toml") == load_any_preset(name)
    assert list(json.loads(call(f"presets {name} --json", capfd))) == [name]


SMALL_CORE = """
[tile]
sparsity = "none"
[core]
buffer = 8
stream_buffer = 2
mask = false
stochastic = false
compression = false
"""


def test_generate_a_core(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The command reads a TOML file and settings, and writes every file that the testbench needs."""
    (folder / "mine.toml").write_text(SMALL_CORE)
    settings = "--set core.buffer=4 --set tile.headroom_bits=20"
    document = json.loads(call(f"generate mine.toml {settings} --name mine --testbench -o out --json", capfd))
    written = {file.name for file in (folder / "out").iterdir()}
    assert sorted(document["files"]) == sorted(f"out/{name}" for name in written)
    assert {"mine.v", "mine_memories.v", "mine.h", "mine_core_tb.v", "mine_core_tb_after.hex"} <= written
    config = CoreConfig.load("out/config.toml")
    assert (config.buffer, config.tile.headroom_bits, config.digest) == (4, 20, document["digest"])


@pytest.mark.skipif(FAST_SIMULATOR != "icarus", reason="Verilator takes a minute")
@pytest.mark.parametrize("benches", [("core_queue",), pytest.param(CORE_BENCHES, marks=pytest.mark.slow)])
def test_verify_a_core(
    benches: tuple[str, ...], folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tensordash_sim.verify.core_run.CORE_BENCHES", benches)
    (folder / "mine.toml").write_text(SMALL_CORE)
    document = json.loads(call("verify mine.toml --effort 0.1 --seed 3 --simulator icarus --json", capfd))
    assert document["passed"]
    assert [bench["name"] for bench in document["benches"]] == list(benches)
    assert all(bench["seed"] == 3 and bench["tests"] >= 2 for bench in document["benches"])


@pytest.mark.slow
@pytest.mark.skipif(FAST_SIMULATOR != "icarus", reason="Verilator takes a minute")
def test_verify_of_a_broken_core_exits_1(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The broken converter clears the sign of results."""
    (folder / "mine.toml").write_text(SMALL_CORE)
    correct = ResultConverter.elaborate

    def without_sign(self, platform):
        module = correct(self, platform)
        module.d.comb += self.result[self.fmt.width - 1].eq(0)
        return module

    monkeypatch.setattr(ResultConverter, "elaborate", without_sign)
    text = call("verify mine.toml --effort 0.1 --seed 3 --simulator icarus", capfd, status=1)
    assert re.match(r"core +FAILED  \d tests on icarus, seed 3", text)


def test_generate(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    document = json.loads(call("generate --set tile.rows=1 --set tile.columns=2 --name mine -o out --json", capfd))
    assert sorted(document["files"]) == sorted(str(file.relative_to(folder)) for file in (folder / "out").iterdir())
    described = json.loads((folder / "out" / "config.json").read_text())
    assert described["digest"] == document["digest"]
    assert tensordash.TileConfig.load("out/config.toml").columns == 2
    # The written configuration generates the same files.
    call("generate out/config.toml --name mine -o again", capfd)
    for file in (folder / "out").iterdir():
        assert file.read_bytes() == (folder / "again" / file.name).read_bytes()


def test_verify(capfd: pytest.CaptureFixture[str]) -> None:
    document = json.loads(
        call("verify --set tile.rows=1 --set tile.columns=1 --effort 0.1 --bench pe --bench scheduler --json", capfd)
    )
    assert document["passed"]
    assert [bench["name"] for bench in document["benches"]] == ["pe", "scheduler"]
    assert all(bench["tests"] > 0 for bench in document["benches"])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("as_bits", [False, True])
def test_replay(batch: bool, as_bits: bool, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    random = np.random.default_rng(1)
    config = tensordash.TileConfig(rows=2, columns=3)
    lead = (5,) if batch else ()
    b = (random.integers(-4, 5, (*lead, 2, 9, 4)) * (random.random((*lead, 2, 9, 4)) < 0.4)).astype(np.float16)
    a = random.integers(-4, 5, (*lead, 3, 9, 4)).astype(np.float16)
    np.savez("in.npz", a=a.view(np.uint16) if as_bits else a, b=b.view(np.uint16) if as_bits else b)
    simulator = "auto" if batch and as_bits else FAST_SIMULATOR
    text = call(
        f"verify --set tile.rows=2 --set tile.columns=3 --simulator {simulator} --operands in.npz -o out.npz "
        "--waves run.vcd --json",
        capfd,
    )
    assert json.loads(text)["equal_to_golden"]
    golden = matmul(a, b, config)
    with np.load("out.npz") as out:
        np.testing.assert_array_equal(out["c_bits"], golden.c_bits)
        assert out["c"].dtype == np.float32
        np.testing.assert_array_equal(out["c"], np.einsum("...ctl,...rtl->...rc", a.astype(float), b.astype(float)))
        np.testing.assert_array_equal(out["cycles"], golden.cycles if batch else golden.cycles[0])
        np.testing.assert_array_equal(out["steps"], np.full(lead, 9))
        np.testing.assert_array_equal(out["effectual"], golden.effectual if batch else golden.effectual[0])
        np.testing.assert_array_equal(out["row_wait"], golden.row_wait if batch else golden.row_wait[0])
    assert "$enddefinitions" in (folder / "run.vcd").read_text()


FORMATS = {
    "e4m3-e5m2": "--set tile.format.a=fp8_e4m3 --set tile.format.b=fp8_e5m2",
    "int8": "--set tile.format=int8",
    "bf16-volta": "--set tile.format=bf16 --set tile.accumulator=volta",
    "fp16-nearest": "--set tile.accumulator.fused=30 --set tile.accumulator.rounding=nearest",
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", FORMATS)
def test_replay_with_c(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    settings = f"{FORMATS[name]} --set tile.rows=2 --set tile.columns=1 --set tile.initial=true"
    config = tensordash.TileConfig.from_toml("", settings.replace("--set ", "").split())
    random = np.random.default_rng(2)
    kind = np.int32 if name == "int8" else np.float32
    a, b = random.integers(-4, 5, (3, 1, 6, 4)).astype(kind), random.integers(-1, 2, (3, 2, 6, 4)).astype(kind)
    c = random.integers(-(2**20), 2**20, (3, 2, 1)).astype(kind)
    np.savez("in.npz", a=a, b=b, c=c)
    text = call(f"verify {settings} --simulator {FAST_SIMULATOR} --operands in.npz -o out.npz --json", capfd)
    assert json.loads(text)["equal_to_golden"]
    golden = matmul(a, b, config, c)
    with np.load("out.npz") as out:
        assert out["c"].dtype == kind
        np.testing.assert_array_equal(out["c_bits"], golden.c_bits)
        # Small integers and their sums are exact in all of these formats.
        np.testing.assert_array_equal(out["c"], c + np.einsum("sctl,srtl->src", a.astype(int), b.astype(int)))


def test_replay_of_broken_verilog_exits_1(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """A mismatch is a failed check, and no results are written."""
    from tensordash.arithmetic.multiplier import Multiplier

    correct = Multiplier.elaborate

    def without_sign(self, platform):
        module = correct(self, platform)
        module.d.comb += self.product.sign.eq(0)
        return module

    monkeypatch.setattr(Multiplier, "elaborate", without_sign)
    np.savez("in.npz", a=-np.ones((1, 2, 4), np.float16), b=np.ones((1, 2, 4), np.float16))
    settings = f"--set tile.rows=1 --set tile.columns=1 --simulator {FAST_SIMULATOR}"
    text = call(f"verify {settings} --operands in.npz -o out.npz --json", capfd, status=1)
    assert not json.loads(text)["equal_to_golden"]
    assert not Path("out.npz").exists()


def test_verify_a_format(capfd: pytest.CaptureFixture[str]) -> None:
    settings = "--set tile.rows=1 --set tile.columns=1 --set tile.format=fp8_e4m3 --set tile.accumulator=hopper"
    text = call(f"verify {settings} --simulator {FAST_SIMULATOR} --effort 0.1 --bench pe --bench tile", capfd)
    assert [line.split()[:2] for line in text.splitlines()] == [["pe", "passed"], ["tile", "passed"]]


@pytest.mark.parametrize("preset", ["2x2", pytest.param("paper", marks=pytest.mark.slow)])
def test_demo(preset: str, folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    if preset == "2x2":
        small = tensordash.TileConfig(rows=2, columns=2)
        monkeypatch.setattr("tensordash_cli.demo.load_preset", lambda name: small)
        # The cache shares the optimized build of this core with the tests of the runtime.
        monkeypatch.setattr("tensordash_runtime.Device", lambda *arguments, quick=False: Device(*arguments))
    document = json.loads(call("demo --no-synth --json", capfd))
    assert document["equal"]
    operations = [(each["layer"], each["operation"], each["scheduled"]) for each in document["operations"]]
    assert sorted(operations) == [
        ("CNN.conv2", "AxG", "G"),
        ("CNN.conv2", "AxW", "A"),
        ("CNN.conv2", "WxG", "G"),
        ("CNN.fc1", "AxG", "G"),
        ("CNN.fc1", "AxW", "A"),
        ("CNN.fc1", "WxG", "G"),
    ]
    products = document["core"]
    assert len(products) == 11
    assert {each["operation"] for each in products} == {"AxW", "WxG", "AxG"}
    assert sum(each["cycles"] for each in products) < sum(each["dense_cycles_expected"] for each in products) / 1.5
    for each in document["operations"]:
        assert each["passes"] == 32 <= each["of_passes"]
        assert 1 <= each["speedup"] <= each["ideal_speedup"]
        # A sample represents the layer. If the sample has all passes, cycle simulator and Verilog agree.
        tolerance = 0.05 if each["passes"] < each["of_passes"] else 1e-12
        assert each["speedup_of_all_passes"] == pytest.approx(each["speedup"], rel=tolerance)
    assert (folder / document["verilog"]["tensordash"]).is_file()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("accumulator", "loss", "limit"),
    [("hopper", "rounds in every cycle", 1e-2), ({"bins": 3}, "cuts small products and rounds once", 1e-6)],
    ids=["fused", "binned"],
)
def test_demo_with_rounding_accumulators(
    accumulator: Any, loss: str, limit: float, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tile = tensordash.TileConfig(format="bf16", accumulator=accumulator)
    monkeypatch.setattr("tensordash_cli.demo.load_preset", lambda name: tile)
    text = call("demo --no-synth --preset tile", capfd)
    assert f"The accumulator {loss}; errors:" in text
    tile_text, _ = text.split("All products of that step")
    table = [line.split() for line in tile_text.splitlines() if line.startswith("CNN.")]
    assert len(table) == 6
    for line in table:
        assert " ".join(line[11:15]) == "yes, bit for bit"
        assert all(0 <= float(error) < limit for error in line[-2:])


def test_prove(folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Run one proof; tests/formal runs all of them."""
    monkeypatch.setattr("tensordash_formal.suite.PROOFS", [each for each in PROOFS if each.name == "tile_control"])
    arguments = "prove --preset dense --set tile.rows=1 --set tile.columns=1 --set tile.lanes=2 -o proofs"
    document = json.loads(call(f"{arguments} --json", capfd))
    assert document == json.loads((folder / "proofs" / "prove.json").read_text())
    assert document["passed"]
    names = {entry["name"] for entry in document["properties"]}
    assert "tile_control.work_at_hand_is_scheduled" in names
    assert {entry["preset"] for entry in document["properties"]} == {"dense tile.rows=1 tile.columns=1 tile.lanes=2"}
    assert {entry["name"] for entry in document["covers"]} == names
    assert document["broken"] == []
    # A stored answer is not computed again.
    assert f"{len(names)} properties of 1 tile" in call(arguments, capfd)
    assert json.loads((folder / "proofs" / "prove.json").read_text()) == document


def test_replay_prints_flags(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Operands and results are infinite, and int8 sums overflow an accumulator without headroom."""
    tile = f"--set tile.rows=1 --set tile.columns=2 --simulator {FAST_SIMULATOR}"
    b = np.ones((1, 3, 4), np.float16)
    a = np.stack([np.ones((3, 4)), np.full((3, 4), np.inf)]).astype(np.float16)
    np.savez("in.npz", a=a, b=b)
    text = call(f"verify {tile} --operands in.npz -o out.npz", capfd)
    assert "non_finite is set" in text
    assert "1 of 2 results are infinity or NaN" in text
    assert "overflow" not in text
    with np.load("out.npz") as out:
        assert (bool(out["non_finite"]), bool(out["overflow"])) == (True, False)
    np.savez("in.npz", a=np.full((2, 3, 4), 127, np.int8), b=np.full((1, 3, 4), -128, np.int8))
    text = call(
        f"verify {tile} --set tile.format=int8 --set tile.headroom_bits=0 --operands in.npz -o out.npz --json", capfd
    )
    document = json.loads(text)
    assert (document["overflow"], document["non_finite"], document["non_finite_results"]) == (True, False, 0)
    text = call(f"verify {tile} --set tile.format=int8 --set tile.headroom_bits=0 --operands in.npz -o out.npz", capfd)
    assert "overflow is set" in text
    assert "infinity" not in text
    with np.load("out.npz") as out:
        assert (bool(out["non_finite"]), bool(out["overflow"])) == (False, True)
