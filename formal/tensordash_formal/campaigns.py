"""Mutation campaigns: configurations, components and numbers of mutants."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from tensordash import TileConfig, load_preset
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset

from .mutants import BitMutants, Mutants
from .subjects import JOINS, UNITS, components_of, subject_of
from .wiring import WiringMutants

__all__ = ["KINDS", "Campaign", "campaign_of", "full_campaigns"]

KINDS: Mapping[str, type[BitMutants] | type[WiringMutants]] = MappingProxyType(
    {"bits": BitMutants, "wires": WiringMutants}
)
"""Kinds of mutants. `bits` change one bit of an operator; `wires` change a connection of an instance."""

UNITS_WITH_INSTANCES = ("sequencer", "buffer", "stream_buffer", "layout", "load", "output", "store")
COMPONENTS_WITH_INSTANCES = ("pe", "tile", "axi_stream", *UNITS_WITH_INSTANCES, *JOINS, "core")
"""Components that contain instances, and so have wiring mutants."""

SMALL_CORE = load_any_preset("core", ("core.buffer=8", "core.stream_buffer=4", "core.partial_sums=9"))
"""The mutated core: preset `core` with memories small enough for test programs to fill."""


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """A campaign: mutants of one kind for one tile or core.

    Parameters
    ----------
    name : str
        Name in reports.
    config : TileConfig or CoreConfig
        The tile or the core.
    kind : str
        One of `KINDS`.
    parts : tuple of (str, int)
        Components, and the number of mutants of each.
    """

    name: str
    config: TileConfig | CoreConfig
    kind: str
    parts: tuple[tuple[str, int], ...]

    def mutants(self, component: str, seed: int, folder: Path) -> Mutants:
        """Build the mutants of one component, with an existing folder for temporary files."""
        return KINDS[self.kind](subject_of(self.config, component), dict(self.parts)[component], seed, folder)


def campaign_of(
    config: TileConfig | CoreConfig, name: str, kind: str = "bits", count: int = 300, components: tuple[str, ...] = ()
) -> Campaign:
    """Build a campaign that distributes mutants evenly over components.

    Parameters
    ----------
    config : TileConfig or CoreConfig
        The tile or the core.
    name : str
        Name in reports.
    kind : str
        One of `KINDS`.
    count : int
        Total number of mutants.
    components : tuple of str
        Components to mutate; all of them if empty.

    Raises
    ------
    ValueError
        If there is no such component.
    """
    known = tuple(each for each in components_of(config) if kind == "bits" or each in COMPONENTS_WITH_INSTANCES)
    if unknown := set(components) - set(known):
        raise ValueError(f"must be one of {', '.join(known)}, not {min(unknown)!r}")
    chosen = components or known
    return Campaign(
        name=name, config=config, kind=kind, parts=tuple((each, -(-count // len(chosen))) for each in chosen)
    )


def full_campaigns() -> tuple[Campaign, ...]:
    """Build the campaigns of `make mutate`: a small tile, modules of the 16-bit presets, a core, and their wires."""
    # The proofs of the PE apply to 8-bit formats. With little headroom, sums overflow.
    small = TileConfig(rows=2, columns=1, format="fp8_e5m2", headroom_bits=4)
    paper, recommended, bf16 = (load_preset(name) for name in ("paper", "recommended", "paper-bf16"))
    paper_with_c = load_preset("paper", ("tile.initial=true", "tile.out_rows=2", "tile.registered_ready=true"))
    bits = {
        "paper": (paper, (("staging_buffer", 20), ("pe", 60), ("tile", 40))),
        "recommended": (recommended, (("staging_ring", 20), ("tile", 40), ("axi_stream", 20))),
        "paper-bf16": (bf16, (("pe", 60),)),
    }
    # At least one mutant for each port of each kind of instance.
    wires = {
        "paper": (paper, (("pe", 20), ("tile", 110), ("axi_stream", 70))),
        "recommended": (recommended, (("tile", 110),)),
        "paper-bf16": (bf16, (("pe", 20),)),
        "paper, C, registered ready": (paper_with_c, (("tile", 140),)),
    }
    wires_of_units = tuple(zip(UNITS_WITH_INSTANCES, (20, 20, 12, 30, 35, 140, 43), strict=True))
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
