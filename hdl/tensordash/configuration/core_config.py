"""Configuration of a core: a tile, and the memories and movers around it."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from .config import TileConfig
from .document import ConfigError, TomlConfig, checked_table
from .numerics import Binned, Exact
from .parameters import require_bool, require_int
from .registers import FORMAT_CODES

__all__ = ["MAX_CORES", "SWITCHES", "CoreConfig"]

MAX_GROUPS = 1 << 16
"""Descriptors address groups in 16 bits."""
MAX_CORES = 16
"""Maximum number of cores at one memory port."""
MAX_LAYOUT_GROUPS = 2
MAX_PROT = 7
NVFP4_VALUE_BITS = 16
"""Bits of the operand formats that hold every product of an NVFP4 element and its scale."""
CACHE_ATTRIBUTES = (0b0000, 0b0001, 0b0010, 0b0011, 0b0110, 0b0111, 0b1010, 0b1011, 0b1110, 0b1111)
"""Values of AxCACHE that AXI4 defines (ARM IHI 0022E, table A4-5)."""
SWITCHES = ("bias", "scale", "relu", "mask", "stochastic", "compression", "nvfp4", "skip_masked", "drop_steps")
"""Features that a core may be built without."""


@dataclass(frozen=True, kw_only=True)
class CoreConfig(TomlConfig):
    """A core: its tile, its memories and its optional features.

    Parameters
    ----------
    tile : TileConfig
        The tile: 4 or 8 lanes, rows and columns multiples of them, formats of one width, an exact or binned
        accumulator, staging rings (or the dense baseline), no C input.
    buffer : int
        KiB of the buffer, a power of two.
    regions : int
        Regions of the buffer that are read and written independently: 1, 2, 4 or 8.
    stream_buffer : int
        KiB of each side's stream buffer.
    layout_groups : int
        Maximum number of groups that each layout reads and writes per cycle: 1, or 2 with a tile of several steps per
        cycle. With 2, each bank of the buffer has two memories in each region.
    partial_sums : int
        Blocks of partial sums, 1 to 256.
    result_cycles : int
        Cycles in which the output unit adds partial sums or biases to a row of a block, a divisor of `tile.columns`.
        With 2 it adds to half of a row at a time, with half of the adders. Rows without additions always take one.
    axi_bits : int
        Width of the AXI4 data bus, a power of two, 32 to 512 and no more than a group.
    address_bits : int
        Width of its addresses, 32 to 64.
    axi_prot : int
        AxPROT of every burst, 0 to 7. Bit 0: privileged; bit 1: non-secure; bit 2: instruction.
    axi_cache : int
        AxCACHE of every burst, a value that AXI4 defines. Bit 0: bufferable; bit 1: modifiable; bits 2 and 3: allocate.
    outstanding : int
        Maximum number of outstanding read bursts of loads, 1 to 255. Runs of one group need about memory's latency in
        cycles, divided by the beats of a group.
    prefetch : int
        Descriptors that the command queue holds or fetches ahead of the sequencer: a power of two, 2 to 128.
    window : int
        Descriptors that the sequencer holds, including those in execution: 4, 8, 16 or 32.
    bias, scale, relu, mask, stochastic : bool
        Features of the output unit to build.
    compression : bool
        Whether moves can inflate and deflate.
    nvfp4 : bool
        Whether loads can expand NVFP4 tensors. Both formats must be fp16 or bf16, and the bus must have at most half
        of a group's bits.
    skip_masked : bool
        Whether multiplies can skip passes whose results the mask makes zero. Requires `mask`, and a
        `tile.depth` that is a power of two.
    drop_steps : bool
        Whether `layout_b` drops steps whose values are all zeros. Requires `skip_masked`, a `layout_groups` of 2, a
        `tile.sparsity` of "rows", and as many rows as lanes.

    Raises
    ------
    TypeError, ValueError
        With the field, its value and what is allowed.

    Source: docs/core.md.

    Examples
    --------
    >>> config = CoreConfig(tile=TileConfig(staging="ring", counters="snapshot"))
    >>> config.group_bits, config.groups, config.stream_words("a"), config.streamed_steps
    (256, 2048, 128, 512)
    >>> CoreConfig.from_toml("[core]\\nbuffer = 32", ["tile.rows=8"]).parts("b")
    2
    >>> CoreConfig(tile=TileConfig(staging="ring", counters="snapshot", rows=6))
    Traceback (most recent call last):
    ValueError: tile.rows must be a multiple of tile.lanes = 4 in a core, not 6
    """

    tile: TileConfig = field(default_factory=lambda: TileConfig(staging="ring", counters="snapshot"))
    buffer: int = 64
    regions: int = 4
    stream_buffer: int = 16
    layout_groups: int = 1
    partial_sums: int = 16
    result_cycles: int = 2
    axi_bits: int = 128
    address_bits: int = 40
    axi_prot: int = 0b000
    axi_cache: int = 0b0011
    outstanding: int = 128
    prefetch: int = 32
    window: int = 16
    bias: bool = True
    scale: bool = True
    relu: bool = True
    mask: bool = True
    stochastic: bool = True
    compression: bool = True
    nvfp4: bool = False
    skip_masked: bool = False
    drop_steps: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.tile, TileConfig):
            raise TypeError(f"tile must be a TileConfig, not {self.tile!r}")
        self._check_tile()
        _require_power("core.buffer", self.buffer, 1, 8192)
        _require_power("core.regions", self.regions, 1, 8)
        require_int("core.stream_buffer", self.stream_buffer, 1, 1024)
        require_int("core.layout_groups", self.layout_groups, 1, MAX_LAYOUT_GROUPS)
        if self.layout_groups > 1 and self.tile.window_depth == 1:
            raise ValueError(
                'core.layout_groups must be 1 with a tile of one step a cycle (tile.sparsity = "none"), '
                f"not {self.layout_groups}: two groups would keep it from reading"
            )
        require_int("core.partial_sums", self.partial_sums, 1, 256)
        require_int("core.result_cycles", self.result_cycles, 1, self.tile.columns)
        if self.tile.columns % self.result_cycles:
            raise ValueError(
                f"core.result_cycles must be a divisor of tile.columns = {self.tile.columns}, not {self.result_cycles}"
            )
        _require_power("core.axi_bits", self.axi_bits, 32, 512)
        if self.axi_bits > self.group_bits:
            raise ValueError(f"core.axi_bits must be at most a group, {self.group_bits}, not {self.axi_bits}")
        require_int("core.address_bits", self.address_bits, 32, 64)
        require_int("core.axi_prot", self.axi_prot, 0, MAX_PROT)
        _require_cache(self.axi_cache)
        require_int("core.outstanding", self.outstanding, 1, 255)
        _require_power("core.prefetch", self.prefetch, 2, 128)
        _require_power("core.window", self.window, 4, 32)
        for name in SWITCHES:
            require_bool(f"core.{name}", getattr(self, name))
        self._check_nvfp4()
        if self.skip_masked and not self.mask:
            raise ValueError("core.skip_masked must be false with core.mask = false, not true")
        if self.skip_masked and self.tile.window_depth & (self.tile.window_depth - 1):
            raise ValueError(
                f"core.skip_masked must be false unless tile.depth is a power of two, not true with {self.tile.depth}"
            )
        self._check_drop_steps()
        self._check_sizes()

    def _check_drop_steps(self) -> None:
        tile = self.tile
        for name, value, needed in (
            ("core.skip_masked", self.skip_masked, True),
            ("core.layout_groups", self.layout_groups, MAX_LAYOUT_GROUPS),
            ("tile.sparsity", tile.sparsity, "rows"),
            ("tile.rows", tile.rows, tile.lanes),
        ):
            if self.drop_steps and value != needed:
                raise ValueError(
                    f"core.drop_steps must be false unless {name} is {json.dumps(needed)}, "
                    f"not true with {json.dumps(value)}"
                )

    def _check_nvfp4(self) -> None:
        a, b = self.tile.a_format, self.tile.b_format
        if self.nvfp4 and (a != b or self.value_bits != NVFP4_VALUE_BITS):
            raise ValueError(
                f"core.nvfp4 must be false unless both operands are fp16 or both are bf16, "
                f"not true with {a.name} and {b.name}"
            )
        if self.nvfp4 and self.axi_bits > self.group_bits // 2:
            raise ValueError(
                f"core.axi_bits must be at most half of a group, {self.group_bits // 2}, with core.nvfp4 = true, "
                f"not {self.axi_bits}"
            )

    def _check_tile(self) -> None:
        tile = self.tile
        if tile.lanes not in (4, 8):
            raise ValueError(f"tile.lanes must be 4 or 8 in a core, not {tile.lanes}")
        for name in ("rows", "columns"):
            if getattr(tile, name) % tile.lanes:
                raise ValueError(
                    f"tile.{name} must be a multiple of tile.lanes = {tile.lanes} in a core, not {getattr(tile, name)}"
                )
        a, b = tile.a_format, tile.b_format
        if a.width != b.width:
            raise ValueError(f"tile.format must be formats of one width in a core, not {a.name} and {b.name}")
        tile.require_no_scale("in a core")
        if a.width not in (8, 16):
            raise ValueError(f"tile.format must be of 8 or 16 bits in a core, not {a.name}")
        for name in (a.name, b.name):
            if name not in FORMAT_CODES:
                raise ValueError(f"tile.format must be one of {', '.join(FORMAT_CODES)} in a core, not {name}")
        if not isinstance(tile.numerics.accumulator, Exact | Binned):
            raise ValueError(
                f'tile.accumulator must be "exact" or binned ({{ bins = 3, bin_bits = 16 }}) in a core, '
                f"not {tile.accumulator!r}"
            )
        if tile.numerics.result == "int32" and tile.headroom_bits != 16:
            raise ValueError(f"tile.headroom_bits must be 16 for int8 in a core, not {tile.headroom_bits}")
        if tile.sparsity != "none" and not tile.ring:
            raise ValueError(f'tile.staging must be "ring" in a core, not {tile.staging!r}')
        if tile.initial:
            raise ValueError("tile.initial must be false in a core: its output unit adds")
        if tile.registered_ready:
            raise ValueError("tile.registered_ready must be false in a core")
        if not tile.snapshot:
            raise ValueError(f'tile.counters must be "snapshot" in a core, not {tile.counters!r}')
        if tile.out_rows != 1:
            raise ValueError(f"tile.out_rows must be 1 in a core, not {tile.out_rows}")

    def _check_sizes(self) -> None:
        min_groups = self.regions * self.layout_groups
        if not min_groups <= self.groups <= MAX_GROUPS:
            raise ValueError(
                f"core.buffer must have {min_groups} to {MAX_GROUPS} groups of {self.group_bits // 8} bytes, "
                f"not {self.buffer} KiB"
            )
        for side in "ab":
            if not 2 <= self.stream_words(side) <= MAX_GROUPS:
                raise ValueError(
                    f"core.stream_buffer must have 2 to {MAX_GROUPS} words of {self.step_bits(side)} bits in each of "
                    f"{self.tile.window_depth} banks, not {self.stream_buffer} KiB"
                )
        products = self.streamed_steps * self.tile.lanes
        if products > 1 << self.tile.headroom_bits:
            raise ValueError(
                f"tile.headroom_bits must be at least {(products - 1).bit_length()} in a core whose streams may have "
                f"{products} products, not {self.tile.headroom_bits}"
            )

    # Derived

    @cached_property
    def value_bits(self) -> int:
        """Bits of an operand."""
        return self.tile.a_format.width

    @cached_property
    def group_bits(self) -> int:
        """Bits of a group."""
        return self.tile.lanes**2 * self.value_bits

    @cached_property
    def group_bytes(self) -> int:
        """Bytes of a group."""
        return self.group_bits // 8

    @cached_property
    def groups(self) -> int:
        """Groups in the buffer."""
        return self.buffer * 1024 // self.group_bytes

    @cached_property
    def fp32_groups(self) -> int:
        """Groups of memory that a group of FP32 results takes."""
        return 32 // self.value_bits

    @property
    def result_columns(self) -> int:
        """Columns to which the output unit adds per cycle."""
        return self.tile.columns // self.result_cycles

    def parts(self, side: str) -> int:
        """Return the groups in a step of a side, "a" or "b"."""
        return (self.tile.columns if side == "a" else self.tile.rows) // self.tile.lanes

    def step_bits(self, side: str) -> int:
        """Return the bits of a step of a side."""
        return self.parts(side) * self.group_bits

    def stream_words(self, side: str) -> int:
        """Return the words in each bank of a side's stream buffer."""
        return self.stream_buffer * 8192 // self.step_bits(side) // self.tile.window_depth

    @property
    def streamed_steps(self) -> int:
        """Steps of the longest stream that fits both stream buffers."""
        return self.tile.window_depth * min(self.stream_words("a"), self.stream_words("b"))

    @property
    def baseline(self) -> "CoreConfig":
        """This core's configuration with the dense tile, layouts of one group per cycle, and all steps."""
        return replace(self, tile=self.tile.baseline, layout_groups=1, drop_steps=False)

    # Files

    @classmethod
    def from_mapping(cls, document: Mapping[str, Any]) -> "CoreConfig":
        """Build from a parsed document: tables `tile` and `core`, every key optional.

        Raises
        ------
        ConfigError
            Unknown keys, wrong types and wrong values, in one line.
        """
        known = [each.name for each in fields(cls) if each.name != "tile"]
        for key in document:
            if key not in ("tile", "core"):
                hint = f"; write core.{key}" if key in known else ""
                raise ConfigError(f"unknown key {key}: the only tables are [tile] and [core]{hint}")
        table = checked_table(document, "core", known)
        tile = document.get("tile", {})
        tile = TileConfig.from_mapping(
            {"tile": {"staging": "ring", "counters": "snapshot", **tile} if isinstance(tile, Mapping) else tile}
        )
        try:
            return cls(tile=tile, **table)
        except (TypeError, ValueError) as error:
            raise ConfigError(str(error)) from None

    def to_mapping(self) -> dict[str, Any]:
        """Return the document of this configuration.

        It lacks `layout_groups` if 1, and `nvfp4`, `skip_masked` and `drop_steps` if false, so that older digests stay
        valid.
        """
        table = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "tile"}
        later = {"layout_groups": 1, "nvfp4": False, "skip_masked": False, "drop_steps": False}
        for name, default in later.items():
            if table[name] == default:
                del table[name]
        return {**self.tile.to_mapping(), "core": table}

    @cached_property
    def digest(self) -> str:
        """First 16 hexadecimal digits of the SHA-256 of the canonical configuration."""
        document = {**self.to_mapping(), "tile": self.tile.digest}
        text = json.dumps(document, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _require_cache(value: Any) -> None:
    """Check that AXI4 defines a value of AxCACHE."""
    allowed = f"core.axi_cache must be one of {', '.join(map(str, CACHE_ATTRIBUTES))}, not {value!r}"
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(allowed)
    if value not in CACHE_ATTRIBUTES:
        raise ValueError(allowed)


def _require_power(name: str, value: Any, low: int, high: int) -> None:
    """Check that a value is a power of two from `low` to `high`."""
    allowed = f"{name} must be a power of two from {low} to {high}, not {value!r}"
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(allowed)
    if not low <= value <= high or value & (value - 1):
        raise ValueError(allowed)
