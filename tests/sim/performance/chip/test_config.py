"""Test that the chip's configuration has the paper's numbers and refuses wrong ones."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from tensordash import ConfigError
from tensordash_sim.performance.chip import ChipConfig, Energy, Memory, Power

OTHER = ChipConfig(
    tiles=7,
    clock_mhz=1000,
    dram_channels=2,
    dram_channel_bits=32,
    dram_mega_transfers=4266,
    memory=Memory(banks=3, bank_kib=5, access_bytes=8, broadcast=2, transposers=9, scratchpad_kib=11),
    energy=Energy(dram_pj_per_bit=4, bank_read_pj=1.5, bank_write_pj=0, scratchpad_pj=0.1),
    power=Power(
        cores=1, transposers=2, schedulers=3, a_muxes=4, staging=5, dense_idle=0.5, sparse_idle=0.25, provisional=False
    ),
)


def test_table_iii():
    chip = ChipConfig()
    assert chip.tiles * 4 * 4 * 4 * 2 * chip.clock_mhz / 1e6 == pytest.approx(16.4, abs=0.05)  # TFLOPS
    assert chip.memory.capacity == 64 * 128 * 1024
    assert chip.dram_bytes_per_cycle * chip.clock_mhz * 1e6 == pytest.approx(4 * 16 / 8 * 3.2e9)  # 25.6 GB/s


def test_table_iv():
    chip = ChipConfig()
    assert chip.power.dense * chip.tiles == pytest.approx(23_793, abs=1)
    assert chip.power.sparse * chip.tiles == pytest.approx(23_748 + 44.4 + 187.9 + 283.8 + 1_638.4)
    assert chip.power.sparse / chip.power.dense == pytest.approx(1.09, abs=0.005)


def test_idle_power_is_what_synth_prints():
    """docs/cost.json contains the figures of ``tensordash synth --preset paper``."""
    measured = json.loads((Path(__file__).parents[4] / "docs" / "cost.json").read_text())["paper"]["figures"]["idle"]
    power = ChipConfig().power
    assert power.sparse_idle == pytest.approx(measured["share"]["tensordash"], abs=5e-5)
    assert power.dense_idle == pytest.approx(measured["share"]["baseline"], abs=5e-5)
    assert power.waiting(skips=True) == power.sparse * power.sparse_idle
    assert power.waiting(skips=False) == power.dense * power.dense_idle


@pytest.mark.parametrize("chip", [ChipConfig(), OTHER])
def test_toml_round_trip(chip, tmp_path: Path):
    text = chip.to_toml()
    assert ChipConfig.from_toml(text) == chip
    assert tomllib.loads(text) == chip.to_mapping()
    (tmp_path / "chip.toml").write_text(text)
    assert ChipConfig.load(tmp_path / "chip.toml") == chip


def test_every_field_is_in_the_document():
    """Each field has a distinct value, so that swapped fields fail."""
    document, default = OTHER.to_mapping(), ChipConfig().to_mapping()
    assert {key: list(table) for key, table in document.items()} == {key: list(table) for key, table in default.items()}
    assert all(document[key][name] != value for key, table in default.items() for name, value in table.items())


def test_missing_keys_are_defaults():
    assert ChipConfig.from_toml("") == ChipConfig()
    assert ChipConfig.from_toml("[memory]\nbanks = 4\n[chip]\ntiles = 16") == ChipConfig(
        tiles=16, memory=Memory(banks=4)
    )


COUNTS = "an integer from 1 to 1048576"
AMOUNTS = r"a number from 0 to 1e\+12"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[chip]\ntiles = 0", f"chip.tiles must be {COUNTS}, not 0"),
        ("[chip]\ntiles = 1_000_000_000_000", f"chip.tiles must be {COUNTS}, not 1000000000000"),
        ("[chip]\ntiles = true", f"chip.tiles must be {COUNTS}, not True"),
        ("[chip]\nclock_mhz = 0.5", f"chip.clock_mhz must be {COUNTS}, not 0.5"),
        ("[chip]\ndram_channels = -1", f"chip.dram_channels must be {COUNTS}, not -1"),
        ("[chip]\ndram_channel_bits = '16'", f"chip.dram_channel_bits must be {COUNTS}, not '16'"),
        ("[chip]\ndram_mega_transfers = []", rf"chip.dram_mega_transfers must be {COUNTS}, not \[\]"),
        ("[memory]\nbanks = 0", f"memory.banks must be {COUNTS}, not 0"),
        ("[memory]\nbank_kib = 1.0", f"memory.bank_kib must be {COUNTS}, not 1.0"),
        ("[memory]\naccess_bytes = 0", f"memory.access_bytes must be {COUNTS}, not 0"),
        ("[memory]\nbroadcast = 0", f"memory.broadcast must be {COUNTS}, not 0"),
        ("[energy]\ndram_pj_per_bit = -1", f"energy.dram_pj_per_bit must be {AMOUNTS}, not -1"),
        ("[energy]\nbank_read_pj = nan", f"energy.bank_read_pj must be {AMOUNTS}, not nan"),
        ("[energy]\nbank_write_pj = inf", f"energy.bank_write_pj must be {AMOUNTS}, not inf"),
        ("[energy]\nscratchpad_pj = 'low'", f"energy.scratchpad_pj must be {AMOUNTS}, not 'low'"),
        ("[power]\ncores = true", f"power.cores must be {AMOUNTS}, not True"),
        (f"[power]\nstaging = 1{'0' * 400}", f"power.staging must be {AMOUNTS}, not 1000"),
        ("[power]\ndense_idle = 1.5", "power.dense_idle must be a number from 0 to 1, not 1.5"),
        ("[power]\nsparse_idle = -0.1", f"power.sparse_idle must be {AMOUNTS}, not -0.1"),
        ("[power]\nprovisional = 1", "power.provisional must be true or false, not 1"),
        ("[tile]\nrows = 4", "unknown key tile: the tables are chip, memory, energy, power"),
        ("[chip]\ntile = 4", "unknown key chip.tile: allowed are tiles, clock_mhz, .*, dram_mega_transfers$"),
        ("[chip.memory]\nbanks = 4", "unknown key chip.memory"),
        ("[memory]\nbank = 4", "unknown key memory.bank: allowed are banks, bank_kib, access_bytes, broadcast"),
        ("memory = 4", "memory must be a table, not 4"),
        ("[[chip]]\ntiles = 4", "chip must be a table, not "),
        ("[chip]\ntiles = \n", "not valid TOML: .*line 2"),
    ],
)
def test_wrong_values_are_named(text: str, message: str):
    with pytest.raises(ConfigError, match=message):
        ChipConfig.from_toml(text)


def test_wrong_parts_are_named():
    with pytest.raises(TypeError, match="memory must be of Memory, not Energy"):
        replace(ChipConfig(), memory=Energy())


def test_files_are_named(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"cannot read the chip .*missing.toml: No such file"):
        ChipConfig.load(tmp_path / "missing.toml")
    with pytest.raises(ConfigError, match="cannot read the chip .*: Is a directory"):
        ChipConfig.load(tmp_path)
    file = tmp_path / "chip.toml"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"cannot read the chip .*chip.toml: not a text file"):
        ChipConfig.load(file)
    file.write_text("[chip]\ntiles = 0")
    with pytest.raises(ConfigError, match=r"chip.toml: chip.tiles must be"):
        ChipConfig.load(file)
