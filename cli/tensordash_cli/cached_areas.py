"""Areas of tiles and cores, cached in a folder, so that a repeated search reads them."""

import hashlib
import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import tensordash
from tensordash import TileConfig
from tensordash.configuration.core_config import CoreConfig
from tensordash_storage.files import code_digest
from tensordash_storage.jobs import LOCAL, AnswerStore, Job, Runner

__all__ = ["cached_areas", "cached_core_areas"]


def cached_areas(configs: Sequence[TileConfig], folder: Path, runner: Runner = LOCAL) -> list[dict[str, float]]:
    """Return tiles' areas over their baselines' (`area_ratio`) and the added gates a PE (`added_ge_per_pe`).

    Parameters
    ----------
    configs : sequence of TileConfig
        Tiles that skip zeros.
    folder : Path
        The cache; the code, Yosys and the library are parts of its keys.
    runner : Runner
        Runs the mapping of tiles.

    Raises
    ------
    JobError
        As in `Runner.run`.
    """
    jobs = [Job(_key(config), _measure, (config,)) for config in configs]
    store = AnswerStore(folder, lambda found: {name: float(found[name]) for name in ("area_ratio", "added_ge_per_pe")})
    areas = dict(runner.run(jobs, store, title="areas"))
    return [areas[job.key] for job in jobs]


def cached_core_areas(configs: Sequence[CoreConfig], folder: Path, runner: Runner = LOCAL) -> list[dict[str, float]]:
    """Return cores' areas in um2: "logic", and logic and memories by "cacti" and by "macros".

    Parameters
    ----------
    configs : sequence of CoreConfig
        Cores.
    folder, runner
        As for `cached_areas`; CACTI is a part of the keys, too.

    Raises
    ------
    JobError
        As in `Runner.run`.
    CactiError
        If CACTI is not installed, or fails.
    """
    from tensordash_synth.cacti import cacti_digest
    from tensordash_synth.memories import SOURCES

    names = ("logic", *SOURCES)
    jobs = [Job(_key(config, cacti_digest()), _measure_core, (config,)) for config in configs]
    store = AnswerStore(folder, lambda found: {name: float(found[name]) for name in names})
    areas = dict(runner.run(jobs, store, title="areas"))
    return [areas[job.key] for job in jobs]


def _measure(config: TileConfig) -> dict[str, float]:
    from tensordash_synth import measure_areas

    areas = measure_areas(config)
    total, baseline = areas.ge_per_pe("total")
    return {"area_ratio": total / baseline, "added_ge_per_pe": total - baseline}


def _measure_core(config: CoreConfig) -> dict[str, float]:
    from tensordash_synth import measure_core_areas

    return measure_core_areas(config, jobs=1)


def _key(config: TileConfig | CoreConfig, *tools: str) -> str:
    """Hash everything that the figures depend on."""
    import tensordash_synth

    code = code_digest(*(Path(package.__file__ or "").parent for package in (tensordash, tensordash_synth)))
    library = hashlib.sha256(tensordash_synth.default_liberty().read_bytes()).hexdigest()
    options = config.tile.options if isinstance(config, CoreConfig) else config.options
    text = json.dumps([config.to_mapping(), options, code, library, version("pyosys"), *tools], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
