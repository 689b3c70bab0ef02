"""Test the error messages of configurations."""

import re
from dataclasses import FrozenInstanceError

import pytest

from tensordash import ConfigError, TileConfig, load_preset
from tensordash.configuration.any_config import load_any_config
from tensordash.configuration.formats import FloatFormat
from tensordash.configuration.numerics import Binned, Exact, Fused, Numerics

WRONG_VALUES = [
    ({"rows": 0}, r"rows must be an integer from 1 to 16, not 0"),
    ({"rows": 17}, r"rows must be an integer from 1 to 16, not 17"),
    ({"columns": 0}, r"columns must be an integer from 1 to 32, not 0"),
    ({"columns": 33}, r"columns must be an integer from 1 to 32, not 33"),
    ({"lanes": 0}, r"lanes must be an integer from 2 to 32, not 0"),
    ({"lanes": 1}, r"lanes must be an integer from 2 to 32, not 1"),
    ({"lanes": 33}, r"lanes must be an integer from 2 to 32, not 33"),
    ({"depth": 1}, r"depth must be an integer from 2 to 6, not 1"),
    ({"depth": 7}, r"depth must be an integer from 2 to 6, not 7"),
    ({"sparsity": "columns"}, r"sparsity must be one of both, none, rows, not 'columns'"),
    (
        {"accumulator": "fp32"},
        r"accumulator must be \{ fused = F, .* \} or one of ada-fp8, ampere, ampere-fp16, blackwell-fp16, "
        r"blackwell-fp8, cdna1, exact, hopper, hopper-fp16, hopper-fp8, volta, volta-fp16, not 'fp32'",
    ),
    ({"accumulator": {"fused": 7}}, r"accumulator\.fused must be an integer from 8 to 64, not 7"),
    (
        {"accumulator": {"fused": 24, "zero_exponent": -125}},
        r"accumulator\.zero_exponent must be an integer from -149 to -126, not -125",
    ),
    (
        {"accumulator": {"fused": 24, "result_bits": 10, "result_exponent_bits": 5, "zero_exponent": -13}},
        r"accumulator\.zero_exponent must be an integer from -149 to -14, not -13",
    ),
    ({"accumulator": {"fused": 65}}, r"accumulator\.fused must be an integer from 8 to 64, not 65"),
    ({"accumulator": {"fused": 23, "rounding": "up"}}, r"accumulator\.rounding must be one of nearest, zero, not 'up'"),
    (
        {"accumulator": {"rounding": "zero"}},
        r"accumulator must be \{ fused = F, .* \} or one of .*, not a table of rounding",
    ),
    (
        {"accumulator": {"fused": 23, "result_bits": 6}},
        r"accumulator\.result_bits must be an integer from 7 to 23, not 6",
    ),
    (
        {"accumulator": {"fused": 23, "result_bits": 10, "result_exponent_bits": 4}},
        r"accumulator\.result_exponent_bits must be an integer from 5 to 8, not 4",
    ),
    (
        {"accumulator": {"fused": 23, "result_exponent_bits": 5}},
        r"accumulator\.result_exponent_bits must be 8, or 5 with .*result_bits = 10 \(FP16\), not 5 with 23",
    ),
    (
        {"accumulator": "volta-fp16", "format": "bf16"},
        r"accumulator\.result_exponent_bits must be 8 with scales and for operands of more than 5 exponent bits, "
        r"not 5 for a = bf16 and b = bf16",
    ),
    (
        {"accumulator": {"fused": 23, "result_bits": 24}},
        r"accumulator\.result_bits must be an integer from 7 to 23, not 24",
    ),
    (
        {"accumulator": {"fused": 23, "addend": "before"}},
        r"accumulator\.addend must be one of after, inside, last, not 'before'",
    ),
    (
        {"accumulator": {"fused": 23, "addend": "after", "result_bits": 13}},
        r"accumulator\.result_bits must be 23 with accumulator\.addend = .after., whose sums are FP32, not 13",
    ),
    (
        {"accumulator": {"fused": 23, "zero_exponent": -125}},
        r"accumulator\.zero_exponent must be an integer from -149 to -126, not -125",
    ),
    (
        {"accumulator": {"fused": 23, "zero_exponent": -150}},
        r"accumulator\.zero_exponent must be an integer from -149 to -126, not -150",
    ),
    ({"accumulator": {"fused": 23, "bits": 1}}, r"accumulator must be .*, not a table of fused, bits"),
    ({"accumulator": {}}, r"accumulator must be .*, not a table of nothing"),
    (
        {"format": "bf16"},
        r"accumulator must be fused for bf16 \(volta, ampere, hopper or .*\) or binned "
        r"\(\{ bins = 3, bin_bits = 16 \}\), not exact: .*",
    ),
    ({"format": {"a": "bf16", "b": "fp16"}}, r"accumulator must be fused for bf16 .*"),
    ({"format": "int8", "accumulator": "volta"}, r"accumulator must be exact for int8, not fused"),
    ({"format": "int8", "accumulator": {"bins": 3}}, r"accumulator must be exact for int8, not binned"),
    ({"accumulator": {"bins": 2}}, r"accumulator\.bins must be an integer from 3 to 4, not 2"),
    ({"accumulator": {"bins": 5}}, r"accumulator\.bins must be an integer from 3 to 4, not 5"),
    ({"accumulator": {"bins": 3, "bin_bits": 33}}, r"accumulator\.bin_bits must be an integer from 8 to 32, not 33"),
    ({"accumulator": {"bins": 3, "bin_bits": 7}}, r"accumulator\.bin_bits must be an integer from 8 to 32, not 7"),
    (
        {"accumulator": {"bins": 3, "bin_bits": 10}},
        r"accumulator\.bin_bits must be an integer from 11 to 32 with accumulator\.bins = 3 for a = fp16 and b = fp16, "
        r"whose products have 22 bits, not 10",
    ),
    (
        {"accumulator": {"bins": 3, "headroom_bits": 2}},
        r"accumulator must be .*, not a table of bins, headroom_bits",
    ),
    ({"accumulator": {"bins": 3, "fused": 23}}, r"accumulator must be .*, not a table of bins, fused"),
    ({"format": "int8", "headroom_bits": 17}, r"headroom_bits must be an integer from 0 to 16 for int8, .*"),
    (
        {"format": {"a": "int8", "b": "fp16"}},
        r"format must be floating-point on both sides or int8 on both, not a = int8 and b = fp16",
    ),
    ({"headroom_bits": -1}, r"headroom_bits must be an integer from 0 to 64, not -1"),
    ({"headroom_bits": 65}, r"headroom_bits must be an integer from 0 to 64, not 65"),
    ({"out_rows": 0}, r"out_rows must be an integer from 1 to 4, not 0"),
    ({"out_rows": 5}, r"out_rows must be an integer from 1 to 4, not 5"),
    ({"out_rows": 3}, r"out_rows must divide tile\.rows = 4, not 3"),
    ({"pipeline": 0}, r"pipeline must be .auto. or an integer from 1 to 3, not 0"),
    ({"pipeline": 4}, r"pipeline must be .auto. or an integer from 1 to 3, not 4"),
    ({"format": "fp64"}, r"format must be .*one of .*fp16.*, not 'fp64'"),
    ({"format": {"a": "fp16"}}, r"format must have the keys a and b, not a"),
    ({"format": {"a": "fp16", "b": "fp64"}}, r"format\.b must be one of .*fp16.*, not 'fp64'"),
    (
        {"connectivity": "ring"},
        r"connectivity must be \"paper\", \"auto\" or a list of \[step, lane offset\], not 'ring'",
    ),
    (
        {"lanes": 8, "connectivity": "paper"},
        r"connectivity \"paper\" is for tile\.lanes = 4 and tile\.depth = 4, not 8 and 4: use \"auto\", or list ",
    ),
    (
        {"depth": 3, "connectivity": "paper"},
        r"connectivity \"paper\" is for tile\.lanes = 4 and tile\.depth = 4, not 4 and 3: use \"auto\", or list ",
    ),
    ({"staging": "fifo"}, r"staging must be one of ring, shift, not 'fifo'"),
    (
        {"staging": "ring", "connectivity": "paper"},
        r"staging \"ring\" needs a tile\.connectivity whose steps from 1 on all offer the same lane offsets, "
        r"not \(modulo 4 lanes\) 1: \[0, 1, 3\], 2: \[0, 2\], 3: \[0, 3\]; \"auto\" is one",
    ),
    (
        {"staging": "ring", "sparsity": "both", "depth": 3, "connectivity": [[0, 0], [1, 1]]},
        r"staging \"ring\" needs .*, not \(modulo 4 lanes\) 1: \[1\], 2: \[\]",
    ),
    ({"connectivity": [[1, 0], [0, 0]]}, r"connectivity must begin with \[0, 0\], not \[1, 0\]"),
    ({"connectivity": [[0, 1]]}, r"connectivity must begin with \[0, 0\], not \[0, 1\]"),
    (
        {"connectivity": [[0, 0], [4, 0]]},
        r"connectivity option \[4, 0\] lies outside the window: step must be from 1 to 3",
    ),
    (
        {"connectivity": [[0, 0], [0, 1]]},
        r"connectivity option \[0, 1\] lies outside the window: step must be from 1 to 3",
    ),
    (
        {"connectivity": [[0, 0], [1, 4]]},
        r"connectivity option \[1, 4\] lies outside the window: lane offset must be from -3 to 3",
    ),
    (
        {"connectivity": [[0, 0], [1, -4]]},
        r"connectivity option \[1, -4\] lies outside the window: lane offset must be from -3 to 3",
    ),
    ({"connectivity": [[0, 0], [1, 0], [1, 0]]}, r"connectivity options \[1, 0\] and \[1, 0\] coincide on 4 lanes"),
    ({"connectivity": [[0, 0], [1, 3], [1, -1]]}, r"connectivity options \[1, 3\] and \[1, -1\] coincide on 4 lanes"),
]

WRONG_TYPES = [
    ({"rows": "4"}, r"rows must be an integer from 1 to 16, not '4'"),
    ({"rows": True}, r"rows must be an integer from 1 to 16, not True"),
    ({"columns": 4.0}, r"columns must be an integer from 1 to 32, not 4\.0"),
    ({"lanes": None}, r"lanes must be an integer from 2 to 32, not None"),
    ({"depth": [4]}, r"depth must be an integer from 2 to 6, not \[4\]"),
    ({"staging": None}, r"staging must be one of ring, shift, not None"),
    ({"sparsity": 1}, r"sparsity must be one of both, none, rows, not 1"),
    (
        {"accumulator": {"fused": 23, "zero_exponent": "-132"}},
        r"accumulator\.zero_exponent must be an integer from -149 to -126, not '-132'",
    ),
    ({"accumulator": {"bins": 3.0}}, r"accumulator\.bins must be an integer from 3 to 4, not 3\.0"),
    ({"accumulator": False}, r"accumulator must be .* or one of ada-fp8, .*, volta-fp16, not False"),
    ({"headroom_bits": 1.5}, r"headroom_bits must be an integer from 0 to 64, not 1\.5"),
    ({"out_rows": "1"}, r"out_rows must be an integer from 1 to 4, not '1'"),
    ({"initial": 0}, r"initial must be true or false, not 0"),
    ({"pipeline": "fast"}, r"pipeline must be .auto. or an integer from 1 to 3, not 'fast'"),
    ({"full_window": 1}, r"full_window must be .auto., true or false, not 1"),
    ({"full_window": "yes"}, r"full_window must be .auto., true or false, not 'yes'"),
    ({"registered_ready": 1}, r"registered_ready must be true or false, not 1"),
    ({"counters": 0}, r"counters must be .snapshot., true or false, not 0"),
    ({"counters": "yes"}, r"counters must be .snapshot., true or false, not 'yes'"),
    ({"format": 16}, r"format must be .*one of .*fp16.*, not 16"),
    ({"format": {"a": "fp16", "b": 16}}, r"format\.b must be one of .*fp16.*, not 16"),
    ({"connectivity": []}, r"connectivity must be a list of \[step, lane offset\], not \[\]"),
    ({"connectivity": 8}, r"connectivity must be a list of \[step, lane offset\], not 8"),
    ({"connectivity": [0, 0]}, r"connectivity option must be \[step, lane offset\] in integers, not 0"),
    ({"connectivity": [[0, 0, 0]]}, r"connectivity option must be .* in integers, not \[0, 0, 0\]"),
    ({"connectivity": [[0, 0], [1, "0"]]}, r"connectivity option must be .* in integers, not \[1, '0'\]"),
    ({"connectivity": [[0, 0], [1.0, 0]]}, r"connectivity option must be .* in integers, not \[1\.0, 0\]"),
    ({"connectivity": [[0, 0], [True, 0]]}, r"connectivity option must be .* in integers, not \[True, 0\]"),
]


def names(cases):
    return [re.sub(r"\W+", "-", str(fields)).strip("-") for fields, _ in cases]


class TestErrors:
    @pytest.mark.parametrize(("fields", "message"), WRONG_VALUES, ids=names(WRONG_VALUES))
    def test_wrong_value(self, fields, message):
        with pytest.raises(ValueError, match=r"^tile\." + message) as caught:
            TileConfig(**fields)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(("fields", "message"), WRONG_TYPES, ids=names(WRONG_TYPES))
    def test_wrong_type(self, fields, message):
        with pytest.raises(TypeError, match=r"^tile\." + message) as caught:
            TileConfig(**fields)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(("fields", "message"), WRONG_VALUES + WRONG_TYPES, ids=names(WRONG_VALUES + WRONG_TYPES))
    def test_from_mapping_raises_config_errors(self, fields, message):
        with pytest.raises(ConfigError, match=r"^tile\." + message):
            TileConfig.from_mapping({"tile": fields})

    def test_keyword_only(self):
        with pytest.raises(TypeError, match="positional"):
            TileConfig(*[4])

    def test_frozen(self):
        with pytest.raises(FrozenInstanceError):
            setattr(TileConfig(), "rows", 2)  # noqa: B010 - type checkers also report it

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("[tile]\nrwos = 4", r"unknown key tile\.rwos: allowed are rows, columns, lanes, depth"),
            ("[tiles]\nrows = 4", r"unknown key tiles: the only table is \[tile\]"),
            ("rows = 4", r"unknown key rows: the only table is \[tile\] in a tile's configuration; write tile\.rows$"),
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

    @pytest.mark.parametrize("load", [TileConfig.load, load_any_config])
    def test_settings_are_named_with_the_file(self, load, tmp_path):
        path = tmp_path / "my.toml"
        path.write_text("[tile]\nrows = 2\n")
        message = f"{path} with tile.lanes=0, tile.depth=3: tile.lanes must be an integer from 2 to 32, not 0"
        with pytest.raises(ConfigError, match="^" + re.escape(message)):
            load(path, ["tile.lanes=0", "tile.depth=3"])

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

    def test_path_is_refused_as_a_preset(self):
        with pytest.raises(ConfigError, match="preset must be one of"):
            load_preset("../presets/paper")


@pytest.mark.parametrize("accumulator", [Exact(16), Fused(25, "zero"), Binned(3)], ids=("exact", "fused", "binned"))
def test_formats_beyond_fp32(accumulator):
    wide = FloatFormat(name="wide", exponent_bits=9, fraction_bits=2)
    with pytest.raises(ValueError, match=r"^format must have at most 8 exponent bits, .* not 9 as wide$"):
        Numerics(a_format=wide, b_format=wide, accumulator=accumulator)
