"""Measure the cycle simulator's speed: by lanes and depth, against the golden model and NumPy, and by size of the work.

A row-step is one step of one row of the dense schedule. The comparison counts the same streams with all three, on one
processor core.

    python bench/cycle_speed.py [--steps 1000000] [--zeros 0.5] [--seed 0]
"""

import numba
import numpy as np
from numpy.typing import NDArray

from common import argument_parser, best_time
from tensordash import Connectivity, TileConfig, load_preset
from tensordash_sim.cycles import Scheduler, random_words
from tensordash_sim.golden import schedule_stream

STREAM = 1000
"""Number of steps in a stream."""

SHAPES: dict[str, TileConfig] = {name: load_preset(name) for name in ("paper-depth2", "paper-depth3", "paper")} | {
    "paper-depth5": load_preset("paper-depth5"),
    "8 lanes, 2-deep": TileConfig(lanes=8, depth=2, connectivity=((0, 0), (1, 0), (1, 1), (1, -1))),
    "paper-16lane": load_preset("paper-16lane"),
    "32 lanes, 3-deep": TileConfig(lanes=32, depth=3, connectivity=load_preset("paper-16lane").options),
    "paper, both sides": TileConfig(sparsity="both"),
}


def draw(config: TileConfig, steps: int, zeros: float, seed: int) -> list[NDArray[np.uint32]]:
    """Draw sides B and A of `steps` steps, in streams of `STREAM`."""
    rng = np.random.default_rng(seed)
    streams = -(-steps // STREAM)
    ports = (config.rows, config.columns)
    return [
        random_words(rng, streams * count, STREAM, config.lanes, zeros).reshape(streams, count, STREAM)
        for count in ports
    ]


def numpy_cycles(words: NDArray[np.uint32], config: TileConfig) -> int:
    """Count the cycles of all streams at the same time, lane by lane, in plain NumPy."""
    levels = Connectivity(config.options, lanes=config.lanes, depth=config.depth).levels
    streams, rows, steps = words.shape
    bits = (words[..., None] >> np.arange(config.lanes, dtype=np.uint32) & 1).astype(bool)
    bits = np.concatenate([bits, np.zeros((streams, rows, config.depth, config.lanes), bool)], axis=2)
    place, cycles = np.zeros(streams, np.int64), 0
    everyone = np.arange(streams)[:, None, None], np.arange(rows)[None, :, None]
    while (active := place < steps).any():
        window_steps = np.minimum(place[:, None, None] + np.arange(config.depth), steps + config.depth - 1)
        window = bits[(*everyone, window_steps)]
        for level in levels:
            for lane in level:
                idle = np.ones((streams, rows), bool)
                for step, offset in config.options:
                    source = (lane + offset) % config.lanes
                    taken = idle & window[:, :, step, source]
                    window[:, :, step, source] &= ~taken
                    idle &= ~taken
        bits[(*everyone, window_steps)] = window
        drained = np.logical_and.accumulate(~window.any(axis=(1, 3)), axis=1).sum(axis=1)
        place += np.minimum(drained, steps - place)
        cycles += int(active.sum())
    return cycles


def golden_cycles(words: NDArray[np.uint32], config: TileConfig) -> int:
    """Count the cycles stream by stream with the golden scheduler."""
    marks = (words[..., None] >> np.arange(config.lanes, dtype=np.uint32) & 1).astype(bool)
    return sum(len(schedule_stream(stream, config.options, config.depth)) for stream in marks)


def rate(config: TileConfig, steps: int, zeros: float, seed: int) -> tuple[float, float]:
    """Return row-steps per second, and the speedup of the tile."""
    b, a = draw(config, steps, zeros, seed)
    scheduler = Scheduler(config)
    schedules = scheduler.schedule(b[:1], a[:1]), scheduler.schedule(b, a)
    seconds = best_time(lambda: scheduler.schedule(b, a))
    return b.size / seconds, b.shape[0] * STREAM / int(schedules[1].cycles.sum())


def main() -> None:
    """Print the three tables."""
    parser = argument_parser(__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--zeros", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    numba.set_num_threads(1)
    print(f"one core, {arguments.zeros:.0%} zeros, streams of {STREAM} steps, seed {arguments.seed}\n")
    print(f"{'tile':20} {'M row-steps/s':>14} {'speedup':>8}")
    for name, config in SHAPES.items():
        speed, speedup = rate(config, arguments.steps, arguments.zeros, arguments.seed)
        print(f"{name:20} {speed / 1e6:14.1f} {speedup:8.3f}")

    paper = SHAPES["paper"]
    b, _ = draw(paper, 20 * STREAM, arguments.zeros, arguments.seed)
    cycles = int(Scheduler(paper).schedule(b).cycles.sum())
    print(f"\n{'paper, same streams':20} {'M row-steps/s':>14}")
    for name, work in (
        ("cycles", lambda: int(Scheduler(paper).schedule(b).cycles.sum())),
        ("plain NumPy", lambda: numpy_cycles(b, paper)),
        ("golden", lambda: golden_cycles(b, paper)),
    ):
        if work() != cycles:
            raise AssertionError(f"{name} counts {work()} cycles, not {cycles}")
        print(f"{name:20} {b.size / best_time(work) / 1e6:14.3f}")

    print(f"\n{'paper, work':20} {'M row-steps/s':>14} {'seconds':>8}")
    for times in (1, 10, 100):
        steps = arguments.steps // 10 * times
        speed, _ = rate(paper, steps, arguments.zeros, arguments.seed)
        print(f"{times:>3}x {steps:>15,} {speed / 1e6:14.1f} {steps * paper.rows / speed:8.3f}")


if __name__ == "__main__":
    main()
