"""Configuration of a chip: the number of tiles, memories, and the energy of both."""

from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import tomlkit

from tensordash import ConfigError
from tensordash.configuration.document import checked_table, loaded, parsed
from tensordash.configuration.parameters import require_bool, require_int

__all__ = ["ChipConfig", "Energy", "Memory", "Power"]

MAX_COUNT = 1 << 20
"""Largest count in a chip's document: larger than in any chip, and exact in a float."""
MAX_NUMBER = 1e12
"""Largest energy or power in a chip's document."""


def _check_numbers(table: str, instance: Any) -> None:
    """Check that every float field is a number from 0 to `MAX_NUMBER`."""
    allowed = f"a number from 0 to {MAX_NUMBER:g}"
    for each in fields(instance):
        value = getattr(instance, each.name)
        if each.type is not float:
            continue
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise TypeError(f"{table}.{each.name} must be {allowed}, not {value!r}")
        if not 0 <= value <= MAX_NUMBER:  # NaN, too
            raise ValueError(f"{table}.{each.name} must be {allowed}, not {value!r}")
        object.__setattr__(instance, each.name, float(value))


@dataclass(frozen=True, kw_only=True)
class Memory:
    """On-chip memories: AM, BM and CM, which are equal, and the tiles' scratchpads.

    Parameters
    ----------
    banks : int
        Banks of each of the three memories.
    bank_kib : int
        Capacity of a bank.
    access_bytes : int
        Bytes that a bank reads or writes per cycle.
    broadcast : int
        Number of tiles that one read of a row's or a column's steps reaches.
    transposers : int
        Transposers of the chip; each passes a block of `lanes` values per cycle.
    scratchpad_kib : int
        Capacity of all tiles' scratchpads together.

    Source: Table III of the paper for banks and capacities. The paper does not print the width of a port, how tiles
    share reads, or the number of transposers. Four steps per cycle on 16 x 16 tiles that share reads along rows and
    columns need a group of 4 x 4 fp16 values (32 bytes) per cycle from each of 64 banks. 512 transposers have the
    bandwidth of two such memories.
    """

    banks: int = 64
    bank_kib: int = 128
    access_bytes: int = 32
    broadcast: int = 16
    transposers: int = 512
    scratchpad_kib: int = 256

    def __post_init__(self) -> None:
        for each in fields(self):
            require_int(f"memory.{each.name}", getattr(self, each.name), 1, MAX_COUNT)

    @property
    def bytes_per_cycle(self) -> int:
        return self.banks * self.access_bytes

    @property
    def capacity(self) -> int:
        """Bytes of each memory."""
        return self.banks * self.bank_kib * 1024


@dataclass(frozen=True, kw_only=True)
class Energy:
    """Energy of memory accesses.

    Parameters
    ----------
    dram_pj_per_bit : float
        Energy of an LPDDR4 transfer: 8.
    bank_read_pj, bank_write_pj : float
        Energy of accessing 64 bits in a 128 KiB bank (CACTI 7, 65 nm).
    scratchpad_pj : float
        Energy of accessing 64 bits (8 KiB, 45 nm).
    """

    dram_pj_per_bit: float = 8.0
    bank_read_pj: float = 30.0
    bank_write_pj: float = 21.7
    scratchpad_pj: float = 10.0

    def __post_init__(self) -> None:
        _check_numbers("energy", self)


@dataclass(frozen=True, kw_only=True)
class Power:
    """Power of one tile's logic: active power by component in mW, and idle power as a share of active power.

    Parameters
    ----------
    cores, transposers : float
        Components of both the baseline's and TensorDash's tile.
    schedulers, a_muxes, staging : float
        Components that TensorDash adds.
    dense_idle, sparse_idle : float
        Idle power of a tile of the baseline, or of TensorDash, as a share of its active power: 0 to 1.
    provisional : bool
        The figures do not belong to the configured tile.

    Source: Table IV of the paper (65 nm, 500 MHz), divided by its 256 tiles. These figures of the paper's tile apply to
    every tile until results of synthesis replace them. The paper has no idle power; shares of 0 reproduce its figures.
    The shares here are the row "waiting" of ``tensordash synth --preset paper``, divided by its row for 0% zeros.
    """

    cores: float = 23_748 / 256
    transposers: float = 44.4 / 256
    schedulers: float = 187.9 / 256
    a_muxes: float = 283.8 / 256
    staging: float = 1_638.4 / 256
    dense_idle: float = 0.2349
    sparse_idle: float = 0.3065
    provisional: bool = True

    def __post_init__(self) -> None:
        _check_numbers("power", self)
        for name in ("dense_idle", "sparse_idle"):
            if (value := getattr(self, name)) > 1:
                raise ValueError(f"power.{name} must be a number from 0 to 1, not {value!r}")
        require_bool("power.provisional", self.provisional)

    @property
    def dense(self) -> float:
        """Power of a tile of the baseline."""
        return self.cores + self.transposers

    @property
    def sparse(self) -> float:
        """Power of a TensorDash tile."""
        return self.dense + self.schedulers + self.a_muxes + self.staging

    def working(self, skips: bool) -> float:
        """Return a tile's active power; TensorDash's if it skips zeros."""
        return self.sparse if skips else self.dense

    def waiting(self, skips: bool) -> float:
        """Idle power of a tile."""
        return self.working(skips) * (self.sparse_idle if skips else self.dense_idle)


PARTS: dict[str, type] = {"memory": Memory, "energy": Energy, "power": Power}
"""Tables of a chip's document other than `chip`, and the fields of `ChipConfig` that are no integers."""


@dataclass(frozen=True, kw_only=True)
class ChipConfig:
    """An accelerator of many tiles; the defaults are Table III of the paper.

    Parameters
    ----------
    tiles : int
        Number of tiles, all equal.
    clock_mhz : int
        Clock of tiles and on-chip memories.
    dram_channels, dram_channel_bits, dram_mega_transfers : int
        Off-chip memory: 4 channels of LPDDR4-3200. The paper does not print the width of a channel; 16 bits are
        LPDDR4's.
    memory : Memory
        On-chip memories.
    energy : Energy
        Energy of memory accesses.
    power : Power
        Power of tiles.

    Raises
    ------
    TypeError, ValueError
        If a field is illegal. The message names the field, what is allowed and its value.

    Examples
    --------
    >>> chip = ChipConfig()
    >>> chip.tiles * 4 * 4 * 4 * 2 * chip.clock_mhz / 1e6  # TFLOPS at the peak
    16.384
    >>> chip.dram_bytes_per_cycle
    51.2
    """

    tiles: int = 256
    clock_mhz: int = 500
    dram_channels: int = 4
    dram_channel_bits: int = 16
    dram_mega_transfers: int = 3200
    memory: Memory = field(default_factory=Memory)
    energy: Energy = field(default_factory=Energy)
    power: Power = field(default_factory=Power)

    def __post_init__(self) -> None:
        for each in fields(self):
            if each.type is int:
                require_int(f"chip.{each.name}", getattr(self, each.name), 1, MAX_COUNT)
        for name, part in PARTS.items():
            if not isinstance(getattr(self, name), part):
                raise TypeError(f"{name} must be of {part.__name__}, not {getattr(self, name)!r}")

    @property
    def dram_bytes_per_cycle(self) -> float:
        return self.dram_channels * self.dram_channel_bits / 8 * self.dram_mega_transfers / self.clock_mhz

    @classmethod
    def from_toml(cls, text: str) -> "ChipConfig":
        """Build a chip from TOML: tables `chip`, `memory`, `energy` and `power`, every key optional.

        >>> ChipConfig.from_toml("[chip]\\ntiles = 16\\n[memory]\\nbanks = 4").memory.capacity
        524288
        """
        document = parsed(text)
        for key in document:
            if key not in ("chip", *PARTS):
                raise ConfigError(f"unknown key {key}: the tables are chip, {', '.join(PARTS)}")
            checked_table(document, key, [each.name for each in fields(PARTS.get(key, cls)) if each.name not in PARTS])
        try:
            made = {key: kind(**document[key]) for key, kind in PARTS.items() if key in document}
            return cls(**document.get("chip", {}), **made)
        except (TypeError, ValueError) as error:
            raise ConfigError(str(error)) from None

    @classmethod
    def load(cls, path: Path) -> "ChipConfig":
        """Read a TOML file; error messages name the file."""
        return loaded(path, cls.from_toml, "chip")

    def to_mapping(self) -> dict[str, Any]:
        """Return the document of this chip, with every key."""
        table = asdict(self)
        parts = {name: table.pop(name) for name in PARTS}
        return {"chip": table, **parts}

    def to_toml(self) -> str:
        """Return the chip as TOML, with every key."""
        return tomlkit.dumps(self.to_mapping())
