"""Test a configuration's settings, files, digests and derived values."""

import re
import subprocess
import sys
import tomllib
from dataclasses import replace
from typing import Any

import pytest

from tensordash import ConfigError, TileConfig, load_preset, preset_names
from tensordash.configuration.connectivity import PAPER_OPTIONS, SEARCHED
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.numerics import Binned, Fused
from tensordash.configuration.preset import load_any_preset, preset_text


class TestSettings:
    @pytest.mark.parametrize(
        ("setting", "field", "value"),
        [
            ("tile.rows=8", "rows", 8),
            ("tile.rows = 8 ", "rows", 8),
            (" tile . rows =8", "rows", 8),
            ("tile.sparsity=both", "sparsity", "both"),
            ('tile.sparsity="both"', "sparsity", "both"),
            ("tile.full_window=true", "full_window", True),
            ("tile.registered_ready=true", "registered_ready", True),
            ("tile.counters=false", "counters", False),
            ("tile.counters=snapshot", "counters", "snapshot"),
            ("tile.pipeline=3", "pipeline", 3),
            ("tile.pipeline=auto", "pipeline", "auto"),
            ("tile.connectivity=[[0,0],[1,0]]", "connectivity", ((0, 0), (1, 0))),
            ("tile.format.a=fp16", "format", "fp16"),
        ],
    )
    def test_settings_override_the_text(self, setting, field, value):
        text = "[tile]\nrows = 2\nformat = { a = 'fp16', b = 'fp16' }"
        config = TileConfig.from_toml(text, [setting])
        assert getattr(config, field) == value

    def test_last_setting_wins(self):
        assert load_preset("paper", ["tile.rows=2", "tile.rows=3"]).rows == 3

    def test_settings_override_a_file(self, tmp_path):
        path = tmp_path / "config.toml"
        path.write_text(preset_text("paper-depth2"), encoding="utf-8")
        assert TileConfig.load(path, ["tile.columns=1"]) == load_preset("paper-depth2", ["tile.columns=1"])

    @pytest.mark.parametrize("setting", ["tile.rows", "=8", "tile.=8", ".rows=8", "", "  =  "])
    def test_malformed_settings(self, setting):
        with pytest.raises(ConfigError, match="a setting must look like tile.rows=8, not " + re.escape(repr(setting))):
            load_preset("paper", [setting])

    @pytest.mark.parametrize(
        ("setting", "message"),
        [
            ("tile.rwos=8", r"unknown key tile\.rwos"),
            ("rows=8", r"unknown key rows: the only table is \[tile\]"),
            ("tile=8", r"tile must be a table, not 8"),
            ("tile.rows=", r"tile\.rows must be an integer from 1 to 16, not ''"),
            ("tile.rows=eight", r"tile\.rows must be an integer from 1 to 16, not 'eight'"),
            ("tile.rows=0", r"tile\.rows must be an integer from 1 to 16, not 0"),
            ("tile.rows=[8", r"tile\.rows must be an integer from 1 to 16, not '\[8'"),
            ("tile.format.a=fp16", r"tile\.format must have the keys a and b, not a"),
        ],
    )
    def test_invalid_settings(self, setting, message):
        with pytest.raises(ConfigError, match="^" + message):
            load_preset("paper", [setting])


class TestAuto:
    @pytest.mark.parametrize("setting", ["tile.lanes=8", "tile.depth=3", "tile.staging=ring"])
    def test_auto_is_the_default_of_other_shapes(self, setting):
        config = load_preset("paper", [setting])
        assert config.connectivity == "auto"
        assert config == load_preset("paper", [setting, "tile.connectivity=auto"])
        assert config.baseline.connectivity == "auto"

    def test_connectivity_by_name(self):
        assert TileConfig(connectivity="auto").options != TileConfig().options == PAPER_OPTIONS
        assert TileConfig(connectivity="paper") == TileConfig()
        assert TileConfig(connectivity=None) == TileConfig()

    def test_auto_is_written_as_auto(self):
        config = TileConfig(lanes=8)
        assert config.to_mapping()["tile"]["connectivity"] == "auto"
        assert 'connectivity = "auto"' in config.to_toml()
        listed = TileConfig(lanes=8, connectivity=config.options)
        assert listed.options == config.options
        assert listed.to_mapping() != config.to_mapping()

    def test_digest_of_auto_depends_on_its_options(self, monkeypatch):
        before = TileConfig(connectivity="auto").digest
        assert TileConfig(connectivity="auto").digest == before
        monkeypatch.setitem(SEARCHED, (4, 4), ((1, 0),))
        assert TileConfig(connectivity="auto").digest != before


class TestFiles:
    def test_presets(self):
        assert preset_names() == [
            "paper",
            "dense",
            "mxfp4",
            "mxfp8",
            "nvfp4",
            "paper-16lane",
            "paper-bf16",
            "paper-depth2",
            "paper-depth3",
            "paper-depth5",
            "recommended",
            "recommended-2x8",
        ]

    @pytest.mark.parametrize(
        "config",
        [
            *map(load_preset, preset_names()),
            TileConfig(format={"b": "fp8_e5m2", "a": "fp8_e4m3"}, initial=True),
            TileConfig(accumulator={"fused": 30}, format="bf16"),
            TileConfig(accumulator={"fused": 30, "result_bits": 9, "zero_exponent": -133}, format="bf16"),
            TileConfig(accumulator={"fused": 30, "addend": "after", "rounding": "nearest"}),
            TileConfig(accumulator={"fused": 30, "addend": "last", "result_bits": 9}, initial=True),
            TileConfig(accumulator="hopper-fp8", format="fp8_e4m3"),
            TileConfig(format="int8", headroom_bits=0),
        ],
    )
    def test_round_trip(self, config, tmp_path):
        text = config.to_toml()
        reread = TileConfig.from_toml(text)
        assert reread == config
        assert reread.to_toml() == text
        assert reread.digest == config.digest
        assert TileConfig.from_mapping(config.to_mapping()) == config
        path = tmp_path / "config.toml"
        path.write_text(text, encoding="utf-8")
        assert TileConfig.load(path) == config

    def test_core_presets_are_listed_separately(self):
        assert preset_names("core") == [
            "core",
            "core-bf16",
            "core-dense",
            "core-dense-bf16",
            "core-dense-int8",
            "core-drop",
            "core-fp8",
            "core-int8",
            "core-nvfp4",
            "core-skip",
            "core-wide",
        ]
        assert not set(preset_names()) & set(preset_names("core"))
        assert load_any_preset("core-dense") == load_any_preset("core").baseline
        binned = ["tile.format=bf16", "tile.accumulator={ bins = 3, bin_bits = 16 }"]
        assert load_any_preset("core-bf16") == load_any_preset("core", binned)
        assert load_any_preset("core-dense-bf16") == load_any_preset("core-bf16").baseline
        assert load_any_preset("core-skip") == load_any_preset("core", ["core.skip_masked=true"])
        larger = ["core.buffer=256", "core.partial_sums=256", "core.stream_buffer=32", "core.axi_bits=256"]
        larger.append("core.result_cycles=1")
        dropping = [*larger, "core.layout_groups=2", "core.drop_steps=true"]
        assert load_any_preset("core-drop") == load_any_preset("core-skip", dropping)
        assert load_any_preset("core-drop").baseline == load_any_preset("core-skip", larger).baseline
        assert load_any_preset("core-int8") == load_any_preset("core", ["tile.format=int8"])
        assert load_any_preset("core-dense-int8") == load_any_preset("core-int8").baseline
        recommended = load_preset("recommended", ["tile.counters=snapshot"])
        assert load_any_preset("core") == CoreConfig(tile=recommended, partial_sums=64)
        wide, fp8 = load_any_preset("core-wide"), load_any_preset("core-fp8")
        assert (wide.tile.rows, wide.tile.columns) == (4, 16)
        assert load_any_preset("core-nvfp4") == load_any_preset("core-wide", ["core.axi_bits=128", "core.nvfp4=true"])
        assert (fp8.tile.lanes, fp8.tile.a_format.name, fp8.tile.b_format.name) == (8, "fp8_e4m3", "fp8_e5m2")
        assert load_any_preset("paper", ["tile.rows=2"]) == load_preset("paper", ["tile.rows=2"])

    def test_core_preset_is_refused_as_a_tile(self):
        with pytest.raises(
            ConfigError,
            match="paper, .* not 'core', the preset of a core",
        ):
            load_preset("core")
        with pytest.raises(ValueError, match="kind must be one of tile, core, not 'chip'"):
            preset_names("chip")
        with pytest.raises(ConfigError, match="recommended-2x8, core, .*, not 'cores'"):
            load_any_preset("cores")

    @pytest.mark.parametrize("name", preset_names("core"))
    def test_core_presets_begin_with_a_comment(self, name):
        assert preset_text(name).startswith("# ")
        assert "[core]" in preset_text(name)

    @pytest.mark.parametrize("name", preset_names())
    def test_every_key_is_written(self, name):
        written = tomllib.loads(load_preset(name).to_toml())["tile"]
        left_out = {"scale_rounding"} if load_preset(name).scale != "none" else {"scale", "scale_rounding"}
        assert set(written) == set(TileConfig.__dataclass_fields__) - left_out

    @pytest.mark.parametrize("name", preset_names())
    def test_preset_begins_with_a_comment(self, name):
        assert preset_text(name).startswith("# ")

    def test_empty_document_is_preset_paper(self):
        assert TileConfig.from_toml("") == TileConfig() == load_preset("paper")

    def test_equal_options_are_one_configuration(self):
        listed = TileConfig(connectivity=tuple(PAPER_OPTIONS))
        assert listed == TileConfig()
        assert listed.connectivity == "paper"
        assert TileConfig(format={"a": "fp16", "b": "fp16"}) == TileConfig()

    def test_equal_accumulators_are_one_configuration(self):
        named = TileConfig(accumulator="ampere")
        assert TileConfig(accumulator={"fused": 24, "rounding": "zero"}) == named
        assert TileConfig(accumulator=Fused(24, "zero")) == named
        assert TileConfig(accumulator={"fused": 24}).digest == named.digest
        assert TileConfig(accumulator={"fused": 24, "result_bits": 23, "addend": "inside"}).digest == named.digest
        assert TileConfig(accumulator={"fused": 13, "result_bits": 13}).accumulator == "ada-fp8"
        binned = TileConfig(accumulator={"bins": 3})
        assert TileConfig(accumulator=Binned(3, 16, headroom_bits=5)) == binned
        assert TileConfig(accumulator={"bins": 3, "bin_bits": 16}).digest == binned.digest
        assert binned.to_mapping()["tile"]["accumulator"] == {"bins": 3, "bin_bits": 16}

    def test_bins_have_the_headroom_of_the_tile(self):
        narrow = replace(TileConfig(format="bf16", accumulator={"bins": 3}), headroom_bits=4)
        assert narrow.numerics.accumulator == Binned(3, 16, headroom_bits=4)
        assert TileConfig.from_toml(narrow.to_toml()) == narrow

    def test_bins_do_not_need_a_full_window(self):
        assert not TileConfig(format="bf16", accumulator={"bins": 3}).needs_full_window


class TestDigest:
    def test_digest_is_stable(self):
        assert re.fullmatch("[0-9a-f]{16}", TileConfig().digest)
        assert TileConfig().digest == TileConfig.from_toml("[tile]\nrows = 4").digest

    def test_same_in_other_processes(self):
        script = "import tensordash; print(tensordash.load_preset('paper-16lane').digest)"
        run = subprocess.run(
            [sys.executable, "-c", script], env={"PYTHONHASHSEED": "1"}, capture_output=True, text=True, check=True
        )
        assert run.stdout.strip() == load_preset("paper-16lane").digest

    def test_digests_of_different_configurations_differ(self):
        configs = [load_preset(name) for name in preset_names()]
        one_apart: list[dict[str, Any]] = [
            {"rows": 2},
            {"columns": 2},
            {"connectivity": "auto"},
            {"lanes": 8},
            {"depth": 5},
            {"staging": "ring"},
            {"connectivity": ((0, 0), (1, 0))},
            {"connectivity": ((0, 0), (2, 0))},
            {"lanes": 8, "connectivity": ((0, 0), (1, 0))},
            {"depth": 5, "connectivity": ((0, 0), (1, 0))},
            {"sparsity": "both"},
            {"headroom_bits": 15},
            {"out_rows": 2},
            {"pipeline": 1},
            {"full_window": True},
            {"registered_ready": True},
            {"counters": False},
            {"counters": "snapshot"},
            {"initial": True},
            {"format": "fp8_e4m3"},
            {"format": {"a": "fp8_e4m3", "b": "fp8_e5m2"}},
            {"format": {"a": "fp8_e5m2", "b": "fp8_e4m3"}},
            {"accumulator": "volta"},
            {"accumulator": {"fused": 23, "rounding": "nearest"}},
            {"accumulator": {"fused": 23, "result_bits": 22}},
            {"accumulator": {"fused": 23, "addend": "after"}},
            {"accumulator": {"fused": 23, "addend": "last"}},
            {"accumulator": {"fused": 23, "zero_exponent": -127}},
            {"accumulator": "ada-fp8"},
            {"accumulator": {"bins": 3}},
            {"accumulator": {"bins": 4}},
            {"accumulator": {"bins": 3, "bin_bits": 15}},
            {"accumulator": {"bins": 3}, "headroom_bits": 15},
        ]
        configs += [TileConfig(**fields) for fields in one_apart]
        assert len({config.digest for config in configs}) == len(configs)


class TestDerived:
    def test_paper(self):
        config = TileConfig()
        assert config.options == PAPER_OPTIONS
        assert (config.window_depth, config.stages, config.needs_full_window) == (4, 2, False)
        assert (config.a_format.width, config.b_format.width) == (16, 16)

    def test_baseline(self):
        baseline = load_preset("paper-16lane", ["tile.out_rows=2"]).baseline
        assert baseline.sparsity == "none"
        assert (baseline.lanes, baseline.out_rows, baseline.window_depth) == (16, 2, 1)
        assert baseline.options == ((0, 0),)
        assert load_preset("dense") == TileConfig().baseline
        assert baseline.baseline == baseline

    def test_baseline_of_any_shape_keeps_the_default_connectivity(self):
        assert TileConfig(sparsity="none", lanes=6, depth=3).options == ((0, 0),)

    def test_explicit_values_override_derived_values(self):
        config = TileConfig(pipeline=3, full_window=True)
        assert (config.stages, config.needs_full_window) == (3, True)
        assert not TileConfig(full_window=False).needs_full_window
        shown = [
            (config.counts, config.snapshot)
            for config in (TileConfig(counters=each) for each in (True, False, "snapshot"))
        ]
        assert shown == [(True, False), (False, False), (True, True)]

    def test_hashable(self):
        assert len({TileConfig(), load_preset("paper"), load_preset("recommended")}) == 2


class TestImports:
    def test_reading_a_preset_needs_neither_amaranth_nor_torch(self):
        script = (
            "import sys, tensordash; tensordash.load_preset('paper', ['tile.rows=2']).to_toml(); "
            "print(sorted(name for name in sys.modules if name.partition('.')[0] in ('amaranth', 'torch', 'numpy')))"
        )
        run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        assert run.stdout.strip() == "[]"

    def test_package_imports_are_lazy(self):
        import tensordash

        assert tensordash.Tile.__module__ == "tensordash.tile.tile"
        assert tensordash.generate.__module__ == "tensordash.emission.verilog"
        with pytest.raises(AttributeError, match="module 'tensordash' has no attribute 'Tyle'"):
            _ = tensordash.Tyle
