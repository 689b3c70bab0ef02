"""Write the table of presets into docs/configuration.md."""

from collections.abc import Iterator

from common import DOCS, argument_parser, render, replace_between
from tensordash.configuration.config import TileConfig
from tensordash.configuration.numerics import Binned
from tensordash.configuration.preset import load_any_preset, preset_names, preset_text
from tensordash_storage.files import atomic_write

PAGE = DOCS / "configuration.md"
BEGIN, END = "<!-- presets -->", "<!-- /presets -->"


def rows() -> Iterator[tuple[str, str, str, str, str]]:
    """Yield name, operands, accumulator, shape of the tile and comment of each preset, those of tiles first."""
    for name in (*preset_names("tile"), *preset_names("core")):
        config = load_any_preset(name)
        tile = config if isinstance(config, TileConfig) else config.tile
        shape = f"{tile.rows}x{tile.columns}, {tile.lanes} lanes, {tile.window_depth} deep"
        shown = f"[`{name}`](#int8)" if tile.a_format.name == "int8" else f"`{name}`"
        yield shown, operands(tile), accumulator(tile), shape, comment(name)


def operands(tile: TileConfig) -> str:
    """Return the formats of a tile's operands, and of its scales.

    >>> operands(TileConfig(format="fp8_e4m3", accumulator="hopper", scale="e8m0"))
    'fp8_e4m3, scales e8m0'
    """
    formats = " x ".join(dict.fromkeys((tile.a_format.name, tile.b_format.name)))
    return formats if tile.scale == "none" else f"{formats}, scales {tile.scale}"


def accumulator(tile: TileConfig) -> str:
    """Return the name of a tile's accumulator, or the size of its bins."""
    found = tile.accumulator
    return f"{found.bins} bins of {found.bin_bits} bits" if isinstance(found, Binned) else str(found)


def comment(name: str) -> str:
    """Return the comment at the beginning of a preset, without its full stop."""
    return preset_text(name).partition("\n")[0].removeprefix("# ").removesuffix(".")


def fill_page(text: str) -> str:
    """Return the page with the current table."""
    return replace_between(text, BEGIN, END, render("presets", rows=rows()))


if __name__ == "__main__":
    argument_parser(__doc__).parse_args()
    atomic_write(PAGE, fill_page(PAGE.read_text(encoding="utf-8")))
