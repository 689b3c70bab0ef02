"""Areas of tiles, cached in a folder: a repeated search reads them from there."""

import hashlib
import json
from importlib.metadata import version
from pathlib import Path

import tensordash
from tensordash import TileConfig
from tensordash_storage.files import atomic_write, code_digest

__all__ = ["cached_area"]


def cached_area(config: TileConfig, folder: Path) -> dict[str, float]:
    """Return a tile's area over its baseline's (`area_ratio`) and the added gates a PE (`added_ge_per_pe`).

    Parameters
    ----------
    config : TileConfig
        A tile that skips zeros.
    folder : Path
        The cache; figures of other code, Yosys or library have other keys.
    """
    from tensordash_synth import default_liberty

    path = folder / f"{_key(config, default_liberty())}.json"
    try:
        cached = json.loads(path.read_text(encoding="utf-8"))
        return {name: float(cached[name]) for name in ("area_ratio", "added_ge_per_pe")}
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        found = _measured(config)
        atomic_write(path, json.dumps(found) + "\n")
        return found


def _measured(config: TileConfig) -> dict[str, float]:
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
