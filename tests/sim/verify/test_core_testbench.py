"""Test that the testbench in plain Verilog passes on its core and fails on broken ones."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from tensordash import ConfigError
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.formats import FloatFormat
from tensordash.configuration.preset import load_any_preset, preset_names
from tensordash.emission.verilog import generate
from tensordash_sim.golden.core.tensors import from_groups, inflate, value_type
from tensordash_sim.verify import simulator_names
from tensordash_sim.verify.core_example import example_program, example_programs
from tensordash_sim.verify.core_testbench import render_core_testbench

from ...emitted_commands import run_verilator_commands
from .plain_testbench import change, change_digit, check_fails, needs_icarus, run_icarus

FILES = ("mine_core_tb.v", "mine.v", "mine_memories.v")
MULTICORE_FILES = ("mine_multicore_tb.v", "mine.v", "mine_memories.v", "mine_multicore.v")

SMALL = CoreConfig.from_toml("[core]\nbuffer = 8\nstream_buffer = 1\nmask = false\nstochastic = false")
CONFIGS = {name: load_any_preset(name) for name in preset_names("core")} | {
    "bare": CoreConfig.from_toml("[core]\nbias = false\nrelu = false\ncompression = false\naddress_bits = 64"),
    "narrow": CoreConfig.from_toml("[tile]\nrows = 8\nformat = 'fp8_e5m2'\n[core]\naxi_bits = 32\naddress_bits = 32"),
}


def write(folder: Path, config: CoreConfig, seed: int = 0, cores: int = 1) -> None:
    generate(config, folder, "mine", render_core_testbench(config, "mine", seed, cores), cores)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Emit a small core once; return its files."""
    folder = tmp_path_factory.mktemp("small")
    write(folder, SMALL)
    return folder


@pytest.fixture
def folder(small: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(small, tmp_path / "small"))


def check_passes(folder: Path, config: CoreConfig) -> None:
    status, output = run_icarus(folder, *FILES)
    assert status == 0, output
    example = example_program(config)
    found = re.fullmatch(
        r"PASS: (\d+) descriptors in (\d+) cycles, (\d+) bytes compared, "
        r"(\d+) bursts read and (\d+) written \(seed 0\)\n",
        output,
    )
    assert found, output
    assert int(found[1]) == len(example.program.descriptors)
    assert int(found[3]) == 2 * len(example.after)
    assert 100 < int(found[2]) < 3000


@needs_icarus
def test_passes(folder: Path) -> None:
    check_passes(folder, SMALL)


@needs_icarus
@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
def test_passes_on_other_configurations(name: str, tmp_path: Path) -> None:
    config = CONFIGS[name]
    assert isinstance(config, CoreConfig)
    write(tmp_path, config)
    check_passes(tmp_path, config)


@needs_icarus
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_seeds(seed: int, folder: Path) -> None:
    """Operands and pauses differ between seeds."""
    for name, text in render_core_testbench(SMALL, "mine", seed).items():
        assert (folder / name).read_text() != text
        (folder / name).write_text(text)
    status, output = run_icarus(folder, *FILES)
    assert status == 0, output
    assert f"(seed {seed})" in output


@needs_icarus
def test_wrong_results_are_found(folder: Path) -> None:
    """The testbench finds a wrong bit in memory's last beat, in both turns."""
    change_digit(folder / "mine_core_tb_after.hex", -1)
    status, output = run_icarus(folder, *FILES)
    assert status == 1
    assert output.count(": memory at ") == 2
    assert "FAIL: 2 errors (seed 0)" in output
    assert "PASS" not in output


BROKEN = {
    "ReLU": ("mine.v", r"\.relu\(descriptor_relu\)", ".relu(1'd0)", "memory at"),
    "biases": ("mine.v", r"bias_fetch__bias = [^;]*;", "bias_fetch__bias = 1'd0;", "memory at"),
    "no interrupt": ("mine.v", r"assign irq = [^;]*;", "assign irq = 1'd0;", "no interrupt in"),
    "another core": ("mine_core_tb.v", r"DIGEST, 32'h(\w+)", "DIGEST, 32'h0", "digest is"),
    "a descriptor that is refused": ("mine_core_tb_before.hex", r"\A.*(?=.)", "ffffffff", "error is"),
    "an error of memory": ("mine_core_tb.v", r"\? 0 : 2;", "? 2 : 2;", "error is 0+a, expected 0"),
    "an endless wait": ("mine_core_tb.v", r"m_axi_arready <= read_in.*", "m_axi_arready <= 0;", "no interrupt in"),
    "no clearing of causes": (
        "mine_core_tb.v",
        r"write_register\(at \+ CAUSE, 1\)",
        "write_register(at + CAUSE, 2)",
        "irq is",
    ),
    "all strobes": ("mine.v", r"axi_wstrb = beats_payload_strobe & ", "axi_wstrb = ", "memory at"),
    "a memory that ignores strobes": ("mine_core_tb.v", r"if \(m_axi_wstrb\[i\]\) ", "", "memory at"),
    "too few descriptors": ("mine_core_tb.v", r"DESCRIPTORS = 9", "DESCRIPTORS = 8", "no interrupt in"),
}


@pytest.mark.sampled(3)
@needs_icarus
@pytest.mark.parametrize("name", BROKEN)
def test_fails_on_broken_files(name: str, folder: Path) -> None:
    file, pattern, replacement, message = BROKEN[name]
    change(folder / file, pattern, replacement)
    check_fails(folder, message, *FILES)


@pytest.mark.slow
@pytest.mark.skipif("verilator" not in simulator_names(), reason="Verilator cannot run here")
def test_verilator(folder: Path) -> None:
    """Run the commands that the testbench's header lists."""
    bench = folder / "mine_core_tb.v"
    run = run_verilator_commands(bench)
    assert run.returncode == 0
    assert run.stdout.startswith("PASS: ")
    (folder / "mine_core_tb_after.hex").write_text((folder / "mine_core_tb_before.hex").read_text())
    run = run_verilator_commands(bench)
    assert run.returncode != 0
    assert "FAIL: " in run.stdout


def test_documented_commands_match_the_tests(small: Path) -> None:
    text = (small / "mine_core_tb.v").read_text()
    assert "//   $ iverilog -o bench mine_core_tb.v mine.v mine_memories.v && vvp -n bench\n" in text
    assert "@" not in re.sub(r"@\(\w+ clk\)", "", text)


@pytest.fixture(scope="module")
def small_multicore(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Emit a multicore of two small cores once; return its files."""
    folder = tmp_path_factory.mktemp("small_multicore")
    write(folder, SMALL, cores=2)
    return folder


@needs_icarus
@pytest.mark.parametrize(
    "cores", [2, pytest.param(3, marks=pytest.mark.slow), pytest.param(16, marks=pytest.mark.slow)]
)
def test_multicore_passes(cores: int, small_multicore: Path, tmp_path: Path) -> None:
    """The bursts of the weights are read once for all cores."""
    folder = small_multicore if cores == 2 else tmp_path
    if cores != 2:
        write(folder, SMALL, cores=cores)
    status, output = run_icarus(folder, *MULTICORE_FILES)
    assert status == 0, output
    assert output.startswith(f"PASS: {9 * cores} descriptors in ")


BROKEN_MULTICORE = {
    "no sharing": ("mine_multicore_tb.v", r"SHARED_LIMIT, SHARED - 1", "SHARED_BASE, 4096", "shared beats is"),
    "no patience": ("mine_multicore_tb.v", r"write_register\(PATIENCE, 65535\)", "", "patience is"),
    "an interrupt too early": ("mine_multicore.v", r"irq = {core_1__irq,", "irq = {core_0__irq,", "irq is"),
    "no interrupt": ("mine_multicore.v", r"irq = {core_1__irq,", "irq = {1'b0,", "no interrupt in"),
    "swapped interrupts": (
        "mine_multicore.v",
        r"irq = {core_1__irq, core_0__irq}",
        "irq = {core_0__irq, core_1__irq}",
        "irq is",
    ),
    "IDs of the first core": ("mine_multicore.v", r"axi_awid <= 2'd2 & [^;]*;", "axi_awid <= 2'd0;", "no interrupt in"),
    "writes of the first core": ("mine_multicore.v", r"{40{chosen\[1\]}}", "40'd0", "memory at"),
    "a reset of the first core only": (
        "mine_multicore_tb.v",
        r"at = 4096 \* core;\s+write_register\(at \+ CONTROL, 2\)",
        "at = 0; write_register(CONTROL, 2)",
        "done is",
    ),
}


@pytest.mark.sampled(2)
@needs_icarus
@pytest.mark.parametrize("name", BROKEN_MULTICORE)
def test_multicore_fails_on_broken_files(name: str, small_multicore: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(small_multicore, tmp_path / "multicore"))
    file, pattern, replacement, message = BROKEN_MULTICORE[name]
    change(folder / file, pattern, replacement)
    check_fails(folder, message, *MULTICORE_FILES)


def test_cores_differ_in_all_but_the_weights() -> None:
    first, second = example_programs(SMALL, 2).values()
    assert first.shared == second.shared
    assert first.before != second.before
    assert first.after != second.after


def floats(bits: np.ndarray, fmt: FloatFormat) -> np.ndarray:
    """Return the values of bit patterns of fp16."""
    assert fmt.width == 16
    return bits.astype(np.uint16).view(np.float16).astype(np.float64)


def test_the_example_is_a_product() -> None:
    """The example's product with biases and ReLU equals NumPy's."""
    config = CoreConfig()
    example = example_program(config, seed=3)
    fmt = config.tile.a_format
    assert isinstance(fmt, FloatFormat)

    def groups(address: int, count: int) -> np.ndarray:
        data = example.before[address : address + count * config.group_bytes]
        return np.frombuffer(data, value_type(16)).reshape(count, -1)

    b = floats(from_groups(groups(0x400, 14).reshape(7, 2, -1), config, 27, 8), fmt)
    a = floats(from_groups(groups(0x5C0, 14).reshape(7, 2, -1), config, 27, 8), fmt)
    bias = np.frombuffer(example.before[0x780:0x7A0], "<f4").astype(np.float64)
    exact = np.maximum(a.T @ b + bias[:, None], 0)  # (channels, positions)
    table = np.frombuffer(example.after[0x7C0:0x7C8], "<u4")
    units = np.frombuffer(example.after[0x800 : 0x800 + 2 * int(table[1])], "<u2")
    stored = inflate(units, config, 4)
    assert stored is not None
    found = floats(from_groups(stored.reshape(2, 2, -1), config, 8, 8), fmt)
    assert (exact == 0).any()
    np.testing.assert_allclose(found, exact, rtol=2**-10, atol=1e-7)


@pytest.mark.parametrize("buffer", [1, 2, 4])
@pytest.mark.parametrize("regions", [1, 8])
def test_small_cores_get_small_programs(buffer: int, regions: int) -> None:
    config = CoreConfig.from_toml(f"[core]\nbuffer = {buffer}\nregions = {regions}\nstream_buffer = 1")
    assert len(example_program(config).before) < 4096


def test_a_core_without_room() -> None:
    config = CoreConfig.from_toml(
        "[tile]\nrows = 16\ncolumns = 16\nlanes = 8\n[core]\nbuffer = 1\nregions = 1\nstream_buffer = 16"
    )
    with pytest.raises(ConfigError, match="core.buffer must have room for .*; 1 KiB are too small"):
        render_core_testbench(config)
