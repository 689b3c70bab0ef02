"""Configuration of a tile: independent parameters, checked when built. Everything else is derived from them."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

from .connectivity import PAPER_OPTIONS, Connectivity, Option, auto_options
from .document import ConfigError, TomlConfig, checked_table
from .formats import FORMATS, RESULT_FORMATS, SCALE_ROUNDINGS, Format
from .numerics import ACCUMULATOR_TABLES, ACCUMULATORS, NO_SCALE, Binned, Exact, Fused, Numerics, accumulator_of_table
from .parameters import require_bool, require_choice, require_int

__all__ = ["ConfigError", "SideFormats", "TileConfig"]

SPARSITIES = ("none", "rows", "both")
STAGINGS = ("shift", "ring")
SNAPSHOT = "snapshot"
MAX_INPUT_BITS = 2**16 - 2
"""Maximum number of a module's input bits: Amaranth numbers them in 16 bits, from 2 on."""


class SideFormats(NamedTuple):
    """Names of the operand formats of a tile whose sides differ."""

    a: str
    b: str


@dataclass(frozen=True, kw_only=True)
class TileConfig(TomlConfig):
    """A tile: its shape, number formats and scheduling. By default every parameter has the paper's value.

    Parameters
    ----------
    rows, columns : int
        Geometry, 1 to 16 rows and 1 to 32 columns. The row side (ports b) enters by row, the column side (ports a) by
        column.
    lanes : int
        Multipliers of a PE, 2 to 32.
    depth : int
        Steps in a staging buffer, the dense step included, 2 to 6.
    connectivity : "paper", "auto" or list of [step, lane offset]
        Positions that a lane may take its pair from, in priority order. "paper" is for 4 lanes and 4 steps. "auto", the
        best one known, is for any. The default is "paper" for 4 lanes and 4 steps that shift, and "auto" otherwise.
    staging : "shift" or "ring"
        "shift": steps move through the staging buffers, and ports offer the oldest step first. "ring": each step stays
        in one slot, and ports offer step t since reset on line t modulo `depth`. "ring" needs a connectivity whose
        steps from 1 on all offer the same lane offsets.
    format : str or {"a": str, "b": str}
        Operand format of both sides, or of each: fp16, bf16, tf32, fp8_e4m3, fp8_e5m2, fp6_e2m3, fp6_e3m2, fp4_e2m1,
        int8.
    accumulator : str, {"fused": int, "rounding": str, ...} or {"bins": int, "bin_bits": int}
        "exact": fixed point, rounded once. "volta", "ampere", "hopper", "cdna1", "ada-fp8", "hopper-fp8",
        "blackwell-fp8": FP32 with the alignment of that GPU's matrix units. "volta-fp16", "ampere-fp16", "hopper-fp16",
        "blackwell-fp16": the same with FP16 results. `fused`: another number of fraction bits, 8 to 64, with `rounding`
        ("zero", the default, or "nearest"), `result_bits`, `result_exponent_bits`, `addend` and `zero_exponent` as in
        `Fused`. `bins`, 3 or 4, of `bin_bits`, 8 to 32 (16): digits of products in a sum's highest bins, rounded once.
    scale : "none", "e8m0" or "e4m3"
        Scale of the values of a step, on both sides: none; a power of two, as in OCP's MX formats; or an 8-bit number,
        as in NVFP4. `lanes` divides the blocks of 32 and 16 values.
    scale_rounding : "floor" or "up"
        How the block quantiser rounds a scale of "e8m0" to a power of two. "floor", as in the OCP specification: a
        block's largest values may saturate. "up": none saturates.
    sparsity : "none", "rows" or "both"
        Pairs to skip: none (the dense baseline), those whose B is zero, or those with any zero.
    initial : bool
        A C input: results are A*B + C.
    headroom_bits : int
        Bits of an exact accumulator above the largest product, or of a binned one above each bin, 0 to 64 (int8: 0 to
        16).
    out_rows : int
        Rows of results per output beat. It divides `rows`.
    pipeline : "auto" or int
        Register stages of a PE, operands to accumulator, 1 to 3.
    full_window : "auto" or bool
        Schedule only when the window holds all the steps it can. "auto" is true for fused accumulators, whose results
        would otherwise depend on when operands arrive, and false for exact and binned ones.
    registered_ready : bool
        Buffer two beats at the output, so that nothing inside is combinational from `out_ready`.
    counters : bool or "snapshot"
        Whether the tile has counters. "snapshot": a bus reads a copy that it takes of all counters.

    Raises
    ------
    TypeError, ValueError
        With the field, its value and what is allowed.

    Examples
    --------
    >>> config = TileConfig(rows=2, columns=2)
    >>> config.window_depth, config.baseline.window_depth
    (4, 1)
    >>> TileConfig.from_toml("[tile]\\nrows = 2", ["tile.columns=3"]).columns
    3
    >>> TileConfig(lanes=0)
    Traceback (most recent call last):
    ValueError: tile.lanes must be an integer from 2 to 32, not 0
    """

    rows: int = 4
    columns: int = 4
    lanes: int = 4
    depth: int = 4
    connectivity: str | tuple[Option, ...] | None = None
    staging: str = "shift"
    format: str | Mapping[str, str] | SideFormats = "fp16"
    accumulator: str | Mapping[str, Any] | Fused | Binned = "exact"
    scale: str = NO_SCALE
    scale_rounding: str = SCALE_ROUNDINGS[0]
    sparsity: str = "rows"
    initial: bool = False
    headroom_bits: int = 16
    out_rows: int = 1
    pipeline: str | int = "auto"
    full_window: str | bool = "auto"
    registered_ready: bool = False
    counters: str | bool = True

    def __post_init__(self) -> None:
        require_int("tile.rows", self.rows, 1, 16)
        require_int("tile.columns", self.columns, 1, 32)
        require_int("tile.lanes", self.lanes, 2, 32)
        require_int("tile.depth", self.depth, 2, 6)
        require_choice("tile.sparsity", self.sparsity, SPARSITIES)
        require_choice("tile.staging", self.staging, STAGINGS)
        require_int("tile.out_rows", self.out_rows, 1, self.rows)
        if self.rows % self.out_rows:
            raise ValueError(f"tile.out_rows must divide tile.rows = {self.rows}, not {self.out_rows}")
        require_bool("tile.initial", self.initial)
        if self.pipeline != "auto":
            require_int("tile.pipeline", self.pipeline, 1, 3, alternative='"auto" or ')
        if self.full_window != "auto":
            require_bool("tile.full_window", self.full_window, alternative='"auto", ')
        require_bool("tile.registered_ready", self.registered_ready)
        if self.counters != SNAPSHOT:
            require_bool("tile.counters", self.counters, alternative='"snapshot", ')
        self._check_formats()
        self._check_accumulator()
        self._check_connectivity()
        self._check_staging()
        self._check_size()

    def _check_formats(self) -> None:
        formats = self.format._asdict() if isinstance(self.format, SideFormats) else self.format
        if not isinstance(formats, Mapping):
            require_choice("tile.format", formats, FORMATS, alternative="{ a = ..., b = ... } or ")
            return
        if set(formats) != {"a", "b"}:
            raise ValueError(f"tile.format must have the keys a and b, not {', '.join(map(str, formats)) or 'none'}")
        for side, name in formats.items():
            require_choice(f"tile.format.{side}", name, FORMATS)
        sides = SideFormats(**formats)
        object.__setattr__(self, "format", sides.a if sides.a == sides.b else sides)

    def _check_accumulator(self) -> None:
        try:
            Exact(self.headroom_bits)  # checked even where a fused accumulator does not use it
            accumulator = (
                accumulator_of_table(self.accumulator) if isinstance(self.accumulator, Mapping) else self.accumulator
            )
            if isinstance(accumulator, Binned):
                accumulator = replace(accumulator, headroom_bits=self.headroom_bits)
            elif isinstance(accumulator, Fused):
                accumulator = next((name for name, known in ACCUMULATORS.items() if known == accumulator), accumulator)
            else:
                require_choice("accumulator", accumulator, [*ACCUMULATORS, "exact"], alternative=ACCUMULATOR_TABLES)
            object.__setattr__(self, "accumulator", accumulator)
            self.numerics  # noqa: B018  its own checks
        except (TypeError, ValueError) as error:
            raise type(error)(f"tile.{error}") from None
        scale = self.numerics.scale
        if scale is not None and scale.block % self.lanes:
            raise ValueError(
                f"tile.lanes must divide the {scale.block} values of a block that share a scale "
                f'with tile.scale = "{scale.name}", not {self.lanes}'
            )
        require_choice("tile.scale_rounding", self.scale_rounding, SCALE_ROUNDINGS)
        if self.scale_rounding != SCALE_ROUNDINGS[0] and self.scale != "e8m0":
            raise ValueError(
                f'tile.scale_rounding must be "{SCALE_ROUNDINGS[0]}" unless tile.scale is "e8m0", '
                f'not "{self.scale_rounding}" with "{self.scale}"'
            )

    def _check_connectivity(self) -> None:
        connectivity = self.connectivity
        if connectivity is None:
            connectivity = "paper" if (self.lanes, self.depth, self.staging) == (4, 4, "shift") else "auto"
        if isinstance(connectivity, str):
            if connectivity not in ("paper", "auto"):
                raise ValueError(
                    f'tile.connectivity must be "paper", "auto" or a list of [step, lane offset], not {connectivity!r}'
                )
            # The baseline schedules nothing: its connectivity may have any shape.
            if connectivity == "paper" and self.sparsity != "none" and (self.lanes, self.depth) != (4, 4):
                raise ValueError(
                    'tile.connectivity "paper" is for tile.lanes = 4 and tile.depth = 4, '
                    f'not {self.lanes} and {self.depth}: use "auto", or list the options as [step, lane offset]'
                )
            object.__setattr__(self, "connectivity", connectivity)
            return
        try:
            checked = Connectivity(connectivity, lanes=self.lanes, depth=self.depth)
        except (TypeError, ValueError) as error:
            raise type(error)(f"tile.{error}") from None
        named = (self.lanes, self.depth) == (4, 4) and checked.options == PAPER_OPTIONS
        object.__setattr__(self, "connectivity", "paper" if named else checked.options)

    def _check_staging(self) -> None:
        if not self.ring or Connectivity(self.options, lanes=self.lanes, depth=self.depth).rotation_invariant:
            return
        offsets = [
            sorted({offset % self.lanes for step, offset in self.options if step == s}) for s in range(self.depth)
        ]
        shown = ", ".join(f"{step}: {each}" for step, each in enumerate(offsets) if step)
        raise ValueError(
            'tile.staging "ring" needs a tile.connectivity whose steps from 1 on all offer the same lane offsets, '
            f'not (modulo {self.lanes} lanes) {shown}; "auto" is one'
        )

    def _check_size(self) -> None:
        if self.input_bits > MAX_INPUT_BITS:
            shape = ", ".join(f"tile.{name} = {getattr(self, name)}" for name in ("rows", "columns", "lanes", "depth"))
            raise ValueError(
                f"{shape} and formats of {self.a_format.width} and {self.b_format.width} bits "
                f"give the AXI4-Stream tile {self.input_bits} input bits: a module must have at most {MAX_INPUT_BITS}"
            )

    # Derived

    @property
    def input_bits(self) -> int:
        """Input bits of the AXI4-Stream tile, the module with the most.

        >>> TileConfig().input_bits
        2324
        """
        steps = self.columns * self.step_bytes("a") + self.rows * self.step_bytes("b")  # one step of each port
        data = 8 * steps * self.window_depth
        beats = data + data // 8 + 2 * (self.rows + self.columns)  # tdata, tkeep; tlast and tvalid
        result = RESULT_FORMATS[self.numerics.result].width
        beats_of_c = self.initial * (result * self.columns * self.out_rows + 2)
        return beats + beats_of_c + self.snapshot + 4  # m_axis_tready, clear, clk, rst

    def step_bytes(self, side: str) -> int:
        """Return the bytes of a step of side "a" or "b" on AXI4-Stream: its lanes in order, padded, then its scale.

        >>> TileConfig().step_bytes("a"), TileConfig(format="tf32", accumulator="ampere").step_bytes("b")
        (8, 10)
        >>> TileConfig(format="fp6_e2m3", accumulator="hopper", scale="e8m0").step_bytes("a")
        4
        """
        fmt = self.a_format if side == "a" else self.b_format
        return -(-fmt.width * self.lanes // 8) + self.numerics.scale_bits // 8

    @property
    def a_format(self) -> Format:
        """Format of the column side, on the ports a."""
        return FORMATS[self.format.a if isinstance(self.format, SideFormats) else str(self.format)]

    @property
    def b_format(self) -> Format:
        """Format of the row side, on the ports b."""
        return FORMATS[self.format.b if isinstance(self.format, SideFormats) else str(self.format)]

    @cached_property
    def numerics(self) -> Numerics:
        """Formats, accumulator and C input.

        >>> str(TileConfig(format="bf16", accumulator="volta").numerics.accumulator)
        'fused 23, zero'
        """
        accumulator: Any = self.accumulator  # mappings have become Fused or Binned
        if isinstance(accumulator, str):
            accumulator = ACCUMULATORS[accumulator] if accumulator != "exact" else Exact(self.headroom_bits)
        return Numerics(
            a_format=self.a_format,
            b_format=self.b_format,
            accumulator=accumulator,
            initial=self.initial,
            scale_name=self.scale,
        )

    @cached_property
    def options(self) -> tuple[Option, ...]:
        """The connectivity's options in priority order; the baseline has only (0, 0)."""
        if self.sparsity == "none":
            return ((0, 0),)
        if isinstance(self.connectivity, tuple):
            return self.connectivity
        return PAPER_OPTIONS if self.connectivity == "paper" else auto_options(self.lanes, self.depth, ring=self.ring)

    @property
    def multipliers(self) -> int:
        """Number of multipliers: rows x columns x lanes."""
        return self.rows * self.columns * self.lanes

    @property
    def window_depth(self) -> int:
        """Steps that the tile holds and a port offers: `depth`, or 1 for the baseline."""
        return 1 if self.sparsity == "none" else self.depth

    @property
    def ring(self) -> bool:
        """Whether the staging buffers are rings; the baseline has none."""
        return self.staging == "ring" and self.sparsity != "none"

    def require_no_scale(self, who: str) -> None:
        """Refuse a tile with scales.

        Raises
        ------
        ConfigError
            If the configuration has scales. The message ends with `who`.
        """
        if self.numerics.scale is not None:
            raise ConfigError(f'tile.scale must be "{NO_SCALE}" {who}, not "{self.scale}"')

    @property
    def step_values(self) -> int:
        """Number of a step's values, including its scale if it has one.

        >>> TileConfig().step_values, TileConfig(format="fp4_e2m1", scale="e4m3").step_values
        (4, 5)
        """
        return self.lanes + (self.numerics.scale is not None)

    @property
    def stages(self) -> int:
        """Register stages of a PE, operands to accumulator."""
        return 2 if self.pipeline == "auto" else int(self.pipeline)

    @property
    def needs_full_window(self) -> bool:
        """Whether a schedule waits for min(depth, steps left in the stream) steps."""
        if self.full_window == "auto":
            return isinstance(self.numerics.accumulator, Fused)
        return bool(self.full_window)

    @property
    def counts(self) -> bool:
        """Whether there are counters."""
        return bool(self.counters)

    @property
    def snapshot(self) -> bool:
        """Whether the counters' outputs are a copy of them."""
        return self.counters == SNAPSHOT

    @property
    def baseline(self) -> "TileConfig":
        """This tile's configuration without sparsity."""
        return replace(self, sparsity="none")

    # Files

    @classmethod
    def from_mapping(cls, document: Mapping[str, Any]) -> "TileConfig":
        """Build from a parsed document: one table `tile`, every key optional.

        Raises
        ------
        ConfigError
            Unknown keys, wrong types and wrong values, in one line.
        """
        known = [field.name for field in fields(cls)]
        for key in document:
            if key != "tile":
                hint = f"; write tile.{key}" if key in known else ""
                if key == "core":
                    hint = "; with a table [core] it is a core's, and this command takes no core"
                raise ConfigError(f"unknown key {key}: the only table is [tile] in a tile's configuration{hint}")
        table = checked_table(document, "tile", known)
        try:
            return cls(**table)
        except (TypeError, ValueError) as error:
            raise ConfigError(str(error)) from None

    def to_mapping(self) -> dict[str, Any]:
        """Return the document of this configuration, without keys of a scale that have their default value."""
        table = {field.name: getattr(self, field.name) for field in fields(self)}
        if self.scale == NO_SCALE:
            del table["scale"]
        if self.scale_rounding == SCALE_ROUNDINGS[0]:
            del table["scale_rounding"]
        if isinstance(self.connectivity, tuple):
            table["connectivity"] = [list(option) for option in self.connectivity]
        if isinstance(self.format, SideFormats):
            table["format"] = self.format._asdict()
        if isinstance(self.accumulator, Fused | Binned):
            table["accumulator"] = self.accumulator.table()
        return {"tile": table}

    @cached_property
    def digest(self) -> str:
        """First 16 hexadecimal digits of the SHA-256 of the canonical configuration and the options of "auto"."""
        document = self.to_mapping()
        if self.connectivity == "auto":
            document["options"] = self.options
        text = json.dumps(document, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]
