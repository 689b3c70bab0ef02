"""Test that the configuration reader returns a valid configuration or raises a ConfigError of one line."""

import tomllib

import pytest
import tomlkit
from hypothesis import given, settings
from hypothesis import strategies as st

from tensordash import ConfigError, TileConfig, load_preset, preset_names
from tensordash_sim.performance.chip import ChipConfig

SCALARS = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(
        ["paper", "fp16", "bf16", "int8", "exact", "volta", "rows", "both", "auto", "zero", 0, 1, 2, 4, 16]
    )
    | st.datetimes()
)
KEYS = st.sampled_from(
    [*TileConfig.__dataclass_fields__, "a", "b", "fused", "rounding", "result_bits", "bins", "bin_bits", "tile"]
) | st.text(max_size=4)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)
DOCUMENTS = st.dictionaries(KEYS, VALUES, max_size=3) | st.dictionaries(KEYS, VALUES, max_size=5).map(
    lambda table: {"tile": table}
)
SETTINGS = settings(derandomize=True, database=None, deadline=None)


def check(read, text: str) -> None:
    """Check that `read` returns a configuration that its own TOML reproduces, or raises an error of one line."""
    try:
        config = read(text)
    except ConfigError as error:
        message = str(error)
    else:
        assert read(config.to_toml()) == config
        return
    assert message
    assert "\n" not in message


def to_toml(document: dict) -> str:
    """Return a document as TOML; empty if it has no TOML."""
    try:
        text = tomlkit.dumps(document)
        tomllib.loads(text)
    except Exception:  # The writer rejects some keys and values.
        return ""
    return text


def fuzz(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(["document", "text", "mutated", "setting"]))
    if kind == "document":
        text = to_toml(data.draw(DOCUMENTS))
        check(TileConfig.from_toml, text)
        check(ChipConfig.from_toml, text)
    elif kind == "text":
        text = data.draw(st.text(max_size=40))
        check(TileConfig.from_toml, text)
        check(ChipConfig.from_toml, text)
    elif kind == "mutated":
        text = load_preset(data.draw(st.sampled_from(preset_names()))).to_toml()
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(start + 6, len(text))))
        middle = data.draw(st.text("0123456789[]{}=,.\"'\n -truefals#", max_size=6) | st.text(max_size=3))
        check(TileConfig.from_toml, text[:start] + middle + text[end:])
    else:
        setting = f"tile.{data.draw(KEYS)}={data.draw(SCALARS)}" if data.draw(st.booleans()) else data.draw(st.text())
        check(lambda text: TileConfig.from_toml(text, [setting]), "")


@settings(SETTINGS, max_examples=300)
@given(data=st.data())
def test_fuzz(data: st.DataObject) -> None:
    fuzz(data)


@pytest.mark.slow
@settings(SETTINGS, max_examples=20_000)
@given(data=st.data())
def test_fuzz_for_longer(data: st.DataObject) -> None:
    fuzz(data)
