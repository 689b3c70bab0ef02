"""Configuration: every error by its message, files and settings, digests, levels."""

import re
import subprocess
import sys
import tomllib
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from tensordash import ConfigError, TileConfig, load_preset, preset_names
from tensordash.configuration.connectivity import PAPER_OPTIONS, SEARCHED
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.numerics import Fused
from tensordash.configuration.preset import load_any_preset, preset_text

WRONG_VALUES = [
    ({"rows": 0}, r"tile\.rows must be an integer from 1 to 16, not 0"),
    ({"rows": 17}, r"tile\.rows must be an integer from 1 to 16, not 17"),
    ({"columns": 0}, r"tile\.columns must be an integer from 1 to 16, not 0"),
    ({"columns": -4}, r"tile\.columns must be an integer from 1 to 16, not -4"),
    ({"lanes": 0}, r"tile\.lanes must be an integer from 2 to 32, not 0"),
    ({"lanes": 1}, r"tile\.lanes must be an integer from 2 to 32, not 1"),
    ({"lanes": 33}, r"tile\.lanes must be an integer from 2 to 32, not 33"),
    ({"depth": 1}, r"tile\.depth must be an integer from 2 to 6, not 1"),
    ({"depth": 7}, r"tile\.depth must be an integer from 2 to 6, not 7"),
    ({"sparsity": "columns"}, r"tile\.sparsity must be one of both, none, rows, not 'columns'"),
    (
        {"accumulator": "fp32"},
        r"tile\.accumulator must be \{ fused = F, .* \} or one of ada-fp8, ampere, ampere-fp16, blackwell-fp16, "
        r"blackwell-fp8, cdna1, exact, hopper, hopper-fp16, hopper-fp8, volta, volta-fp16, not 'fp32'",
    ),
    ({"accumulator": {"fused": 7}}, r"tile\.accumulator\.fused must be an integer from 8 to 64, not 7"),
    (
        {"accumulator": {"fused": 24, "zero_exponent": -125}},
        r"tile\.accumulator\.zero_exponent must be an integer from -149 to -126, not -125",
    ),
    (
        {"accumulator": {"fused": 24, "result_bits": 10, "result_exponent_bits": 5, "zero_exponent": -13}},
        r"tile\.accumulator\.zero_exponent must be an integer from -149 to -14, not -13",
    ),
    ({"accumulator": {"fused": 65}}, r"tile\.accumulator\.fused must be an integer from 8 to 64, not 65"),
    (
        {"accumulator": {"fused": 23, "rounding": "up"}},
        r"tile\.accumulator\.rounding must be one of nearest, zero, not 'up'",
    ),
    (
        {"accumulator": {"rounding": "zero"}},
        r"tile\.accumulator must be \{ fused = F, .* \} or one of .*, not a table of rounding",
    ),
    (
        {"accumulator": {"fused": 23, "result_bits": 6}},
        r"tile\.accumulator\.result_bits must be an integer from 7 to 23, not 6",
    ),
    (
        {"accumulator": {"fused": 23, "result_bits": 10, "result_exponent_bits": 4}},
        r"tile\.accumulator\.result_exponent_bits must be an integer from 5 to 8, not 4",
    ),
    (
        {"accumulator": {"fused": 23, "result_exponent_bits": 5}},
        r"tile\.accumulator\.result_exponent_bits must be 8, or 5 with .*result_bits = 10 \(FP16\), not 5 with 23",
    ),
    (
        {"accumulator": "volta-fp16", "format": "bf16"},
        r"tile\.accumulator\.result_exponent_bits must be 8 with scales and for operands of more than 5 exponent bits, "
        r"not 5 for a = bf16 and b = bf16",
    ),
    (
        {"accumulator": {"fused": 23, "result_bits": 24}},
        r"tile\.accumulator\.result_bits must be an integer from 7 to 23, not 24",
    ),
    (
        {"accumulator": {"fused": 23, "addend": "before"}},
        r"tile\.accumulator\.addend must be one of after, inside, last, not 'before'",
    ),
    (
        {"accumulator": {"fused": 23, "addend": "after", "result_bits": 13}},
        r"tile\.accumulator\.result_bits must be 23 with accumulator\.addend = .after., whose sums are FP32, not 13",
    ),
    (
        {"accumulator": {"fused": 23, "zero_exponent": -125}},
        r"tile\.accumulator\.zero_exponent must be an integer from -149 to -126, not -125",
    ),
    (
        {"accumulator": {"fused": 23, "zero_exponent": -150}},
        r"tile\.accumulator\.zero_exponent must be an integer from -149 to -126, not -150",
    ),
    ({"accumulator": {"fused": 23, "bits": 1}}, r"tile\.accumulator must be .*, not a table of fused, bits"),
    ({"accumulator": {}}, r"tile\.accumulator must be .*, not a table of nothing"),
    ({"format": "bf16"}, r"tile\.accumulator must be fused for bf16 \(volta, ampere, hopper or .*\), not exact: .*"),
    ({"format": {"a": "bf16", "b": "fp16"}}, r"tile\.accumulator must be fused for bf16 .*"),
    ({"format": "int8", "accumulator": "volta"}, r"tile\.accumulator must be exact for int8, not fused"),
    ({"format": "int8", "headroom_bits": 17}, r"tile\.headroom_bits must be an integer from 0 to 16 for int8, .*"),
    (
        {"format": {"a": "int8", "b": "fp16"}},
        r"tile\.format must be floating-point on both sides or int8 on both, not a = int8 and b = fp16",
    ),
    ({"headroom_bits": -1}, r"tile\.headroom_bits must be an integer from 0 to 64, not -1"),
    ({"headroom_bits": 65}, r"tile\.headroom_bits must be an integer from 0 to 64, not 65"),
    ({"out_rows": 0}, r"tile\.out_rows must be an integer from 1 to 4, not 0"),
    ({"out_rows": 5}, r"tile\.out_rows must be an integer from 1 to 4, not 5"),
    ({"out_rows": 3}, r"tile\.out_rows must divide tile\.rows = 4, not 3"),
    ({"pipeline": 0}, r"tile\.pipeline must be .auto. or an integer from 1 to 3, not 0"),
    ({"pipeline": 4}, r"tile\.pipeline must be .auto. or an integer from 1 to 3, not 4"),
    ({"format": "fp64"}, r"tile\.format must be .*one of .*fp16.*, not 'fp64'"),
    ({"format": {"a": "fp16"}}, r"tile\.format must have the keys a and b, not a"),
    ({"format": {"a": "fp16", "b": "fp64"}}, r"tile\.format\.b must be one of .*fp16.*, not 'fp64'"),
    (
        {"connectivity": "ring"},
        r"tile\.connectivity must be \"paper\", \"auto\" or a list of \[step, lane offset\], not 'ring'",
    ),
    (
        {"lanes": 8, "connectivity": "paper"},
        r"tile\.connectivity \"paper\" is for tile\.lanes = 4 and tile\.depth = 4, not 8 and 4: use \"auto\", or list ",
    ),
    (
        {"depth": 3, "connectivity": "paper"},
        r"tile\.connectivity \"paper\" is for tile\.lanes = 4 and tile\.depth = 4, not 4 and 3: use \"auto\", or list ",
    ),
    ({"staging": "fifo"}, r"tile\.staging must be one of ring, shift, not 'fifo'"),
    (
        {"staging": "ring", "connectivity": "paper"},
        r"tile\.staging \"ring\" needs a tile\.connectivity whose steps from 1 on all offer the same lane offsets, "
        r"not \(modulo 4 lanes\) 1: \[0, 1, 3\], 2: \[0, 2\], 3: \[0, 3\]; \"auto\" is one",
    ),
    (
        {"staging": "ring", "sparsity": "both", "depth": 3, "connectivity": [[0, 0], [1, 1]]},
        r"tile\.staging \"ring\" needs .*, not \(modulo 4 lanes\) 1: \[1\], 2: \[\]",
    ),
    (
        {"connectivity": [[1, 0], [0, 0]]},
        r"tile\.connectivity must begin with \[0, 0\], not \[1, 0\]",
    ),
    (
        {"connectivity": [[0, 1]]},
        r"tile\.connectivity must begin with \[0, 0\], not \[0, 1\]",
    ),
    (
        {"connectivity": [[0, 0], [4, 0]]},
        r"tile\.connectivity option \[4, 0\] lies outside the window: step must be from 1 to 3",
    ),
    (
        {"connectivity": [[0, 0], [0, 1]]},
        r"tile\.connectivity option \[0, 1\] lies outside the window: step must be from 1 to 3",
    ),
    (
        {"connectivity": [[0, 0], [1, 4]]},
        r"tile\.connectivity option \[1, 4\] lies outside the window: lane offset must be from -3 to 3",
    ),
    (
        {"connectivity": [[0, 0], [1, -4]]},
        r"tile\.connectivity option \[1, -4\] lies outside the window: lane offset must be from -3 to 3",
    ),
    (
        {"connectivity": [[0, 0], [1, 0], [1, 0]]},
        r"tile\.connectivity options \[1, 0\] and \[1, 0\] coincide on 4 lanes",
    ),
    (
        {"connectivity": [[0, 0], [1, 3], [1, -1]]},
        r"tile\.connectivity options \[1, 3\] and \[1, -1\] coincide on 4 lanes",
    ),
]

WRONG_TYPES = [
    ({"rows": "4"}, r"tile\.rows must be an integer from 1 to 16, not '4'"),
    ({"rows": True}, r"tile\.rows must be an integer from 1 to 16, not True"),
    ({"columns": 4.0}, r"tile\.columns must be an integer from 1 to 16, not 4\.0"),
    ({"lanes": None}, r"tile\.lanes must be an integer from 2 to 32, not None"),
    ({"depth": [4]}, r"tile\.depth must be an integer from 2 to 6, not \[4\]"),
    ({"staging": None}, r"tile\.staging must be one of ring, shift, not None"),
    ({"sparsity": 1}, r"tile\.sparsity must be one of both, none, rows, not 1"),
    (
        {"accumulator": {"fused": 23, "zero_exponent": "-132"}},
        r"tile\.accumulator\.zero_exponent must be an integer from -149 to -126, not '-132'",
    ),
    ({"accumulator": False}, r"tile\.accumulator must be .* or one of ada-fp8, .*, volta-fp16, not False"),
    ({"headroom_bits": 1.5}, r"tile\.headroom_bits must be an integer from 0 to 64, not 1\.5"),
    ({"out_rows": "1"}, r"tile\.out_rows must be an integer from 1 to 4, not '1'"),
    ({"initial": 0}, r"tile\.initial must be true or false, not 0"),
    ({"pipeline": "fast"}, r"tile\.pipeline must be .auto. or an integer from 1 to 3, not 'fast'"),
    ({"full_window": 1}, r"tile\.full_window must be .auto., true or false, not 1"),
    ({"full_window": "yes"}, r"tile\.full_window must be .auto., true or false, not 'yes'"),
    ({"registered_ready": 1}, r"tile\.registered_ready must be true or false, not 1"),
    ({"counters": 0}, r"tile\.counters must be .snapshot., true or false, not 0"),
    ({"counters": "yes"}, r"tile\.counters must be .snapshot., true or false, not 'yes'"),
    ({"format": 16}, r"tile\.format must be .*one of .*fp16.*, not 16"),
    ({"format": {"a": "fp16", "b": 16}}, r"tile\.format\.b must be one of .*fp16.*, not 16"),
    ({"connectivity": []}, r"tile\.connectivity must be a list of \[step, lane offset\], not \[\]"),
    ({"connectivity": 8}, r"tile\.connectivity must be a list of \[step, lane offset\], not 8"),
    ({"connectivity": [0, 0]}, r"tile\.connectivity option must be \[step, lane offset\] in integers, not 0"),
    ({"connectivity": [[0, 0, 0]]}, r"tile\.connectivity option must be .* in integers, not \[0, 0, 0\]"),
    ({"connectivity": [[0, 0], [1, "0"]]}, r"tile\.connectivity option must be .* in integers, not \[1, '0'\]"),
    ({"connectivity": [[0, 0], [1.0, 0]]}, r"tile\.connectivity option must be .* in integers, not \[1\.0, 0\]"),
    ({"connectivity": [[0, 0], [True, 0]]}, r"tile\.connectivity option must be .* in integers, not \[True, 0\]"),
]


def names(cases):
    return [re.sub(r"\W+", "-", str(fields)).strip("-") for fields, _ in cases]


class TestErrors:
    @pytest.mark.parametrize(("fields", "message"), WRONG_VALUES, ids=names(WRONG_VALUES))
    def test_wrong_value(self, fields, message):
        with pytest.raises(ValueError, match="^" + message) as caught:
            TileConfig(**fields)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(("fields", "message"), WRONG_TYPES, ids=names(WRONG_TYPES))
    def test_wrong_type(self, fields, message):
        with pytest.raises(TypeError, match="^" + message) as caught:
            TileConfig(**fields)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(("fields", "message"), WRONG_VALUES + WRONG_TYPES, ids=names(WRONG_VALUES + WRONG_TYPES))
    def test_from_mapping_gives_one_kind_of_error(self, fields, message):
        with pytest.raises(ConfigError, match="^" + message):
            TileConfig.from_mapping({"tile": fields})

    def test_keyword_only(self):
        with pytest.raises(TypeError, match="positional"):
            TileConfig(*[4])

    def test_frozen(self):
        with pytest.raises(FrozenInstanceError):
            setattr(TileConfig(), "rows", 2)  # noqa: B010 - type checkers know it as well

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("[tile]\nrwos = 4", r"unknown key tile\.rwos: allowed are rows, columns, lanes, depth"),
            ("[tiles]\nrows = 4", r"unknown key tiles: the only table is \[tile\]"),
            ("rows = 4", r"unknown key rows: the only table is \[tile\]"),
            ("tile = 4", r"tile must be a table, not 4"),
            ("[tile]\nformat = { a = 'fp16', c = 'fp16' }", r"tile\.format must have the keys a and b"),
            ("[tile]\nlanes = 4\nrows = = 2", r"not valid TOML: .*line 3"),
            ("[tile\n", r"not valid TOML: .*line 1"),
            ("[tile]\nrows = 4\nrows = 4\n", r"not valid TOML: .*line 3"),
            ("[tile]\nlanes = 0", r"tile\.lanes must be an integer from 2 to 32, not 0"),
            ("[tile]\nconnectivity = [[0, 0], [4, 0]]", r"tile\.connectivity option \[4, 0\] lies outside the window"),
        ],
    )
    def test_from_toml(self, text, message):
        with pytest.raises(ConfigError, match="^" + message) as caught:
            TileConfig.from_toml(text)
        assert "\n" not in str(caught.value)

    def test_missing_file(self, tmp_path):
        path = tmp_path / "none.toml"
        with pytest.raises(ConfigError, match=re.escape(f"cannot read the configuration {path}: No such file")):
            TileConfig.load(path)

    def test_folder_instead_of_a_file(self, tmp_path):
        with pytest.raises(ConfigError, match="cannot read the configuration .*: Is a directory"):
            TileConfig.load(tmp_path)

    def test_binary_file(self, tmp_path):
        path = tmp_path / "config.toml"
        path.write_bytes(b"\xff\xfe\x00")
        with pytest.raises(ConfigError, match="cannot read the configuration .*: not a text file"):
            TileConfig.load(path)

    def test_load_names_the_file(self, tmp_path):
        path = tmp_path / "config.toml"
        path.write_text("[tile]\nlanes = 0", encoding="utf-8")
        with pytest.raises(ConfigError, match=re.escape(f"{path}: tile.lanes must be")):
            TileConfig.load(path)
        path.write_text("[tile]\n\nlanes =\n", encoding="utf-8")
        with pytest.raises(ConfigError, match=re.escape(f"{path}: not valid TOML") + ".*line 3"):
            TileConfig.load(str(path))

    def test_unknown_preset(self):
        with pytest.raises(ConfigError, match=r"preset must be one of paper, .*recommended-2x8, not 'papper'"):
            load_preset("papper")

    def test_preset_is_no_path(self):
        with pytest.raises(ConfigError, match="preset must be one of"):
            load_preset("../presets/paper")


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
    def test_on_top(self, setting, field, value):
        text = "[tile]\nrows = 2\nformat = { a = 'fp16', b = 'fp16' }"
        config = TileConfig.from_toml(text, [setting])
        assert getattr(config, field) == value

    def test_last_one_wins(self):
        assert load_preset("paper", ["tile.rows=2", "tile.rows=3"]).rows == 3

    def test_on_top_of_a_file(self, tmp_path):
        path = tmp_path / "config.toml"
        path.write_text(preset_text("paper-depth2"), encoding="utf-8")
        assert TileConfig.load(path, ["tile.columns=1"]) == load_preset("paper-depth2", ["tile.columns=1"])

    @pytest.mark.parametrize("setting", ["tile.rows", "=8", "tile.=8", ".rows=8", "", "  =  "])
    def test_malformed(self, setting):
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
    def test_wrong(self, setting, message):
        with pytest.raises(ConfigError, match="^" + message):
            load_preset("paper", [setting])


class TestAuto:
    @pytest.mark.parametrize("setting", ["tile.lanes=8", "tile.depth=3", "tile.staging=ring"])
    def test_the_default_where_the_paper_s_does_not_fit(self, setting):
        config = load_preset("paper", [setting])
        assert config.connectivity == "auto"
        assert config == load_preset("paper", [setting, "tile.connectivity=auto"])
        assert config.baseline.connectivity == "auto"

    def test_named(self):
        assert TileConfig(connectivity="auto").options != TileConfig().options == PAPER_OPTIONS
        assert TileConfig(connectivity="paper") == TileConfig()
        assert TileConfig(connectivity=None) == TileConfig()

    def test_kept_as_written(self):
        config = TileConfig(lanes=8)
        assert config.to_mapping()["tile"]["connectivity"] == "auto"
        assert 'connectivity = "auto"' in config.to_toml()
        listed = TileConfig(lanes=8, connectivity=config.options)
        assert listed.options == config.options
        assert listed.to_mapping() != config.to_mapping()

    def test_the_digest_is_of_what_it_stands_for(self, monkeypatch):
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
        again = TileConfig.from_toml(text)
        assert again == config
        assert again.to_toml() == text
        assert again.digest == config.digest
        assert TileConfig.from_mapping(config.to_mapping()) == config
        path = tmp_path / "config.toml"
        path.write_text(text, encoding="utf-8")
        assert TileConfig.load(path) == config

    def test_cores_are_apart(self):
        assert preset_names("core") == ["core", "core-dense", "core-fp8", "core-wide"]
        assert not set(preset_names()) & set(preset_names("core"))
        assert load_any_preset("core-dense") == load_any_preset("core").baseline
        recommended = load_preset("recommended", ["tile.counters=snapshot"])
        assert load_any_preset("core") == CoreConfig(tile=recommended, partial_sums=64)
        wide, fp8 = load_any_preset("core-wide"), load_any_preset("core-fp8")
        assert (wide.tile.rows, wide.tile.columns) == (4, 16)
        assert (fp8.tile.lanes, fp8.tile.a_format.name, fp8.tile.b_format.name) == (8, "fp8_e4m3", "fp8_e5m2")
        assert load_any_preset("paper", ["tile.rows=2"]) == load_preset("paper", ["tile.rows=2"])

    def test_a_core_is_no_tile(self):
        with pytest.raises(
            ConfigError,
            match="paper, .* not 'core', a core: only generate, verify, prove, mutate, synth, train and map take one",
        ):
            load_preset("core")
        with pytest.raises(ValueError, match="kind must be one of tile, core, not 'chip'"):
            preset_names("chip")
        with pytest.raises(ConfigError, match="recommended-2x8, core, .*, not 'cores'"):
            load_any_preset("cores")

    @pytest.mark.parametrize("name", preset_names("core"))
    def test_presets_of_cores_say_what_they_are(self, name):
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

    def test_empty_document_is_the_paper(self):
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


class TestDigest:
    def test_stable(self):
        assert re.fullmatch("[0-9a-f]{16}", TileConfig().digest)
        assert TileConfig().digest == TileConfig.from_toml("[tile]\nrows = 4").digest

    def test_same_in_other_processes(self):
        script = "import tensordash; print(tensordash.load_preset('paper-16lane').digest)"
        run = subprocess.run(
            [sys.executable, "-c", script], env={"PYTHONHASHSEED": "1"}, capture_output=True, text=True, check=True
        )
        assert run.stdout.strip() == load_preset("paper-16lane").digest

    def test_different(self):
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

    def test_explicit(self):
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

    def test_lazy(self):
        import tensordash

        assert tensordash.Tile.__module__ == "tensordash.tile.tile"
        assert tensordash.generate.__module__ == "tensordash.emission.verilog"
        with pytest.raises(AttributeError, match="module 'tensordash' has no attribute 'Tyle'"):
            _ = tensordash.Tyle
