"""Areas of tiles, cached in a folder, so that a repeated search reads them."""

import hashlib
import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import tensordash
from tensordash import TileConfig
from tensordash_storage.files import code_digest
from tensordash_storage.jobs import LOCAL, AnswerStore, Job, Runner

__all__ = ["cached_areas"]


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
    from tensordash_synth import default_liberty

    jobs = [Job(_key(config, default_liberty()), _measure, (config,)) for config in configs]
    store = AnswerStore(folder, lambda found: {name: float(found[name]) for name in ("area_ratio", "added_ge_per_pe")})
    areas = dict(runner.run(jobs, store, title="areas"))
    return [areas[job.key] for job in jobs]


def _measure(config: TileConfig) -> dict[str, float]:
    from tensordash_synth import measure_areas

    areas = measure_areas(config)
    total, baseline = areas.ge_per_pe("total")
    return {"area_ratio": total / baseline, "added_ge_per_pe": total - baseline}


def _key(config: TileConfig, liberty: Path) -> str:
    """Hash everything that the figures depend on."""
    import tensordash_synth

    code = code_digest(*(Path(package.__file__ or "").parent for package in (tensordash, tensordash_synth)))
    library = hashlib.sha256(liberty.read_bytes()).hexdigest()
    text = json.dumps([config.to_mapping(), config.options, code, library, version("pyosys")], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
