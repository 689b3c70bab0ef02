"""Campaigns: which mutants are made of which tiles."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from tensordash import TileConfig, load_preset
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset

from .mutants import BitMutants, Mutants
from .subjects import UNITS, components_of, subject_of
from .wiring import WiringMutants

__all__ = ["KINDS", "Campaign", "campaign_of", "full_campaigns"]

KINDS: Mapping[str, type[BitMutants] | type[WiringMutants]] = MappingProxyType(
    {"bits": BitMutants, "wires": WiringMutants}
)
"""What is wrong: a bit of an operator, or a connection of an instance."""

WIRED_UNITS = ("sequencer", "buffer", "stream_buffer", "layout", "load", "output", "store")
WIRED = ("pe", "tile", "axi_stream", *WIRED_UNITS, "core")
"""Components with instances in them."""

SMALL_CORE = load_any_preset("core", ("core.buffer=8", "core.stream_buffer=4", "core.partial_sums=9"))
"""The core whose parts are mutated: the preset's, with memories that programs fill sooner."""


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """Mutants of one kind of one tile or core.

    Parameters
    ----------
    name : str
        What reports call it.
    config : TileConfig or CoreConfig
        The tile or the core.
    kind : str
        One of `KINDS`.
    parts : tuple of (str, int)
        Components, and how many mutants of each.
    """

    name: str
    config: TileConfig | CoreConfig
    kind: str
    parts: tuple[tuple[str, int], ...]

    def mutants(self, component: str, seed: int, folder: Path) -> Mutants:
        """The mutants of one component; temporary files go to a folder that exists."""
        return KINDS[self.kind](subject_of(self.config, component), dict(self.parts)[component], seed, folder)


def campaign_of(
    config: TileConfig | CoreConfig, name: str, kind: str = "bits", count: int = 300, components: tuple[str, ...] = ()
) -> Campaign:
    """As many mutants of each component.

    Parameters
    ----------
    config : TileConfig or CoreConfig
        The tile or the core.
    name : str
        What reports call it.
    kind : str
        One of `KINDS`.
    count : int
        Mutants, in all.
    components : tuple of str
        Of those that there are; all of them if empty.

    Raises
    ------
    ValueError
        If there is no such component.
    """
    there = tuple(each for each in components_of(config) if kind == "bits" or each in WIRED)
    if unknown := set(components) - set(there):
        raise ValueError(f"must be one of {', '.join(there)}, not {min(unknown)!r}")
    chosen = components or there
    return Campaign(
        name=name, config=config, kind=kind, parts=tuple((each, -(-count // len(chosen))) for each in chosen)
    )


def full_campaigns() -> tuple[Campaign, ...]:
    """What `make mutate` makes: of a small tile, of the 16-bit presets' own modules, of a core, and of their wires."""
    # 8 bits, so that the proofs of the PE apply; little headroom, so that sums overflow.
    small = TileConfig(rows=2, columns=1, format="fp8_e5m2", headroom_bits=4)
    paper, recommended, bf16 = (load_preset(name) for name in ("paper", "recommended", "paper-bf16"))
    more = load_preset("paper", ("tile.initial=true", "tile.out_rows=2", "tile.registered_ready=true"))
    bits = {
        "paper": (paper, (("staging_buffer", 20), ("pe", 60), ("tile", 40))),
        "recommended": (recommended, (("staging_ring", 20), ("tile", 40), ("axi_stream", 20))),
        "paper-bf16": (bf16, (("pe", 60),)),
    }
    # No fewer than there are ports of kinds of instances, so that each is drawn.
    wires = {
        "paper": (paper, (("pe", 20), ("tile", 110), ("axi_stream", 70))),
        "recommended": (recommended, (("tile", 110),)),
        "paper-bf16": (bf16, (("pe", 20),)),
        "paper, C, registered ready": (more, (("tile", 140),)),
    }
    wires_of_units = tuple(zip(WIRED_UNITS, (20, 20, 12, 30, 35, 140, 43), strict=True))
    return (
        campaign_of(small, "2x1 fp8_e5m2", "bits", 360),
        *(_campaign(name, "bits", *each) for name, each in bits.items()),
        *(_campaign(name, "wires", *each) for name, each in wires.items()),
        campaign_of(SMALL_CORE, "core, units", "bits", 300, UNITS),
        _campaign("core, units", "wires", SMALL_CORE, wires_of_units),
        campaign_of(SMALL_CORE, "core", "wires", 340, ("core",)),
    )


def _campaign(name: str, kind: str, config: TileConfig | CoreConfig, parts: tuple[tuple[str, int], ...]) -> Campaign:
    return Campaign(name=name, config=config, kind=kind, parts=parts)
