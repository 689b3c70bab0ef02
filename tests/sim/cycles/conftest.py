"""Draw random tiles and streams."""

import numpy as np

from tensordash import TileConfig, load_preset
from tensordash.configuration.preset import preset_names


def random_config(rng: np.random.Generator) -> TileConfig:
    """Draw a preset, or a tile with random shape and options in int8, whose golden model is fast."""
    sparsity = str(rng.choice(["none", "rows", "rows", "both"]))
    if rng.random() < 0.2:
        preset = load_preset(preset_names()[rng.integers(len(preset_names()))])
        return TileConfig(**(preset.to_mapping()["tile"] | {"format": "int8", "accumulator": "exact", "scale": "none"}))
    rows, lanes, depth = int(rng.integers(1, 7)), int(rng.integers(2, 10)), int(rng.integers(2, 7))
    if rng.random() < 0.1:
        lanes = int(rng.choice([16, 31, 32]))
    places = [(step, offset) for step in range(1, depth) for offset in range(lanes)]
    chosen = rng.permutation(len(places))[: rng.integers(0, 10)]
    return TileConfig(
        rows=rows,
        columns=int(rng.integers(1, 4)),
        lanes=lanes,
        depth=depth,
        connectivity=((0, 0), *(places[index] for index in chosen)),
        sparsity=sparsity,
        format="int8",
        out_rows=int(rng.choice([size for size in range(1, rows + 1) if rows % size == 0])),
        pipeline=int(rng.integers(1, 4)),
        full_window=bool(rng.integers(2)),
    )


def random_mask(rng: np.random.Generator, ports: int, steps: int, lanes: int) -> np.ndarray:
    """Draw masks whose density differs by row and over time, from all zeros to none."""
    density = rng.choice([0.0, 0.1, 0.5, 0.9, 1.0, rng.random()], size=(ports, 1, 1))
    if rng.random() < 0.3:
        density = density * rng.choice([0.0, 1.0], size=(1, steps, 1))
    return rng.random((ports, steps, lanes)) < density


def random_streams(rng: np.random.Generator, config: TileConfig) -> list[tuple[np.ndarray, np.ndarray]]:
    """Draw both sides of up to six streams, most of them short."""
    short = (1, 2, config.depth)
    streams = []
    for _ in range(rng.integers(1, 7)):
        steps = int(rng.integers(1, 30)) if rng.random() < 0.3 else short[rng.integers(3)]
        sides = [random_mask(rng, ports, steps, config.lanes) for ports in (config.columns, config.rows)]
        streams.append((sides[0], sides[1]))
    return streams
