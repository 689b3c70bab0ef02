"""Test configurations of tiles with scales, and designs that refuse scales."""

import pytest

from tensordash import TileConfig, load_preset
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.document import ConfigError
from tensordash.configuration.formats import SCALES
from tensordash.configuration.registers import FORMAT_CODES
from tensordash.emission.verilog import _description
from tensordash.layouts import accumulator_shape
from tensordash.streams.axi_stream import AxiStreamTile

NVFP4 = 'format = "fp4_e2m1"\nscale = "e4m3"'
MXFP8 = 'format = "fp8_e4m3"\naccumulator = "hopper"\nscale = "e8m0"'


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('scale = "e5m2"', "tile.scale must be one of e4m3, e8m0, none, not 'e5m2'"),
        ("scale = 1", "tile.scale must be one of e4m3, e8m0, none, not 1"),
        ('scale = "e4m3"', r'tile.format must be fp4_e2m1 with scale = "e4m3" \(NVFP4\), not a = fp16 and b = fp16'),
        (
            'scale = "e4m3"\nformat = { a = "fp4_e2m1", b = "fp6_e2m3" }',
            r'tile.format must be fp4_e2m1 with scale = "e4m3" \(NVFP4\), not a = fp4_e2m1 and b = fp6_e2m3',
        ),
        (
            f'{NVFP4}\naccumulator = "hopper"',
            'tile.accumulator must be exact with scale = "e4m3", whose products have 43 bits, not fused',
        ),
        (
            'format = "bf16"\naccumulator = "hopper"\nscale = "e8m0"',
            r'tile.format must be floating-point of 8 bits or fewer with scale = "e8m0" \(MX\), '
            "not a = bf16 and b = bf16",
        ),
        (
            'format = "int8"\nscale = "e8m0"',
            r'tile.format must be floating-point of 8 bits or fewer with scale = "e8m0" \(MX\), '
            "not a = int8 and b = int8",
        ),
        (
            'format = "fp4_e2m1"\nscale = "e8m0"',
            r'tile.accumulator must be fused with scale = "e8m0" \(such as hopper\) or binned '
            r"\(\{ bins = 3, bin_bits = 16 \}\), not exact: its products span 516 bits, "
            "8 of a = fp4_e2m1 and b = fp4_e2m1 and 508 of the scales",
        ),
        (
            f'{MXFP8}\nlanes = 12\nconnectivity = "auto"',
            'tile.lanes must divide the 32 values of a block that share a scale with tile.scale = "e8m0", not 12',
        ),
        (
            f'{NVFP4}\nlanes = 32\nconnectivity = "auto"',
            'tile.lanes must divide the 16 values of a block that share a scale with tile.scale = "e4m3", not 32',
        ),
    ],
)
def test_error_messages(table, message):
    with pytest.raises(ConfigError, match=f"^{message}$"):
        TileConfig.from_toml(f"[tile]\n{table}")


@pytest.mark.parametrize("table", [NVFP4, MXFP8])
def test_toml_round_trip(table):
    config = TileConfig.from_toml(f"[tile]\n{table}")
    assert config.numerics.scale is SCALES[config.scale]
    assert TileConfig.from_toml(config.to_toml()) == config
    assert config.digest != TileConfig.from_toml(f"[tile]\n{table}", ["tile.lanes=8"]).digest


def test_a_tile_without_scales_does_not_mention_them():
    """Its TOML and its digest do not depend on the key."""
    assert "scale" not in TileConfig().to_toml()
    assert TileConfig(scale="none") == TileConfig()
    assert TileConfig().digest == "8cb5253bd6bd1349"


def test_rounding_of_scales():
    floor = TileConfig.from_toml(f"[tile]\n{MXFP8}")
    up = TileConfig.from_toml(f"[tile]\n{MXFP8}", ["tile.scale_rounding=up"])
    assert TileConfig.from_toml(up.to_toml()) == up
    assert up.digest != floor.digest
    with pytest.raises(ConfigError, match="^tile.scale_rounding must be one of floor, up, not 'even'$"):
        TileConfig.from_toml(f"[tile]\n{MXFP8}", ["tile.scale_rounding=even"])
    message = '^tile.scale_rounding must be "floor" unless tile.scale is "e8m0", not "up" with "e4m3"$'
    with pytest.raises(ConfigError, match=message):
        TileConfig.from_toml(f"[tile]\n{NVFP4}", ["tile.scale_rounding=up"])


def test_widths():
    nvfp4, mxfp8 = (TileConfig.from_toml(f"[tile]\n{table}") for table in (NVFP4, MXFP8))
    assert accumulator_shape(nvfp4.numerics) == (43 + 1 + 16, -20)
    assert accumulator_shape(mxfp8.numerics) == (32, None)
    assert [config.step_bytes("a") for config in (nvfp4, mxfp8)] == [2 + 1, 4 + 1]
    assert [config.step_values for config in (nvfp4, mxfp8, TileConfig())] == [5, 5, 4]
    described = _description(nvfp4, "t", AxiStreamTile(nvfp4))
    assert (described["derived"]["scale_bits"], described["derived"]["scale_block"]) == (8, 16)
    ports = {name: port["width"] for name, port in described["modules"]["t_tile"].items()}
    assert (ports["a_0_scales"], ports["b_3_scales"], ports["a_0_steps"]) == (32, 32, 64)
    assert nvfp4.input_bits == TileConfig(format="fp4_e2m1").input_bits + 8 * 4 * (8 + 1)


def test_core_refuses_scales():
    core = load_preset("paper").to_mapping()["tile"]
    with pytest.raises(ValueError, match='^tile.scale must be "none" in a core, not "e8m0"$'):
        CoreConfig(
            tile=TileConfig(
                **{
                    **core,
                    "format": "fp8_e4m3",
                    "scale": "e8m0",
                    "accumulator": "hopper",
                    "connectivity": None,
                    "staging": "ring",
                    "counters": "snapshot",
                }
            )
        )
    with pytest.raises(ValueError, match="^tile.headroom_bits must be 16 for int8 in a core, not 15$"):
        CoreConfig(tile=TileConfig(format="int8", headroom_bits=15, staging="ring", counters="snapshot"))
    with pytest.raises(ValueError, match="^tile.format must be of 8 or 16 bits in a core, not fp4_e2m1$"):
        CoreConfig(tile=TileConfig(format="fp4_e2m1", staging="ring", counters="snapshot"))


def test_core_formats_have_a_code(monkeypatch):
    monkeypatch.delitem(FORMAT_CODES, "fp8_e5m2")
    for formats in ({"format": "fp8_e5m2"}, {"format": {"a": "fp8_e4m3", "b": "fp8_e5m2"}}):
        with pytest.raises(
            ValueError, match="^tile.format must be one of fp16, bf16, fp8_e4m3, int8 in a core, not fp8_e5m2$"
        ):
            CoreConfig(tile=TileConfig(**formats, staging="ring", counters="snapshot"))


def test_require_no_scale():
    config = TileConfig.from_toml(f"[tile]\n{MXFP8}")
    with pytest.raises(ConfigError, match='^tile.scale must be "none" for this, not "e8m0"$'):
        config.require_no_scale("for this")
    TileConfig().require_no_scale("for this")
