"""Seeded operands, and a driver with arbitrary arrival and back-pressure."""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from tensordash_sim.golden import Offer, Outputs, Producer, Tile


@pytest.fixture
def rng(request):
    seed = zlib.crc32(request.node.name.encode())
    print(f"seed of {request.node.name}: {seed}")
    return np.random.default_rng(seed)


class Operands:
    """fp16 bit patterns that try what goes wrong."""

    EDGES = np.array([0x0001, 0x8001, 0x03FF, 0x0400, 0x8400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF, 0x3555], dtype=np.uint16)
    SPECIALS = np.array([0x7C00, 0xFC00, 0x7E00, 0xFE01, 0x7C01], dtype=np.uint16)

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def finite(self, shape: tuple[int, ...], density: float = 0.5) -> np.ndarray:
        """Any finite pattern, edge cases often; zeros of both signs elsewhere."""
        any_bits = self.rng.integers(0, 1 << 16, shape).astype(np.uint16)
        any_bits[(any_bits & 0x7C00) == 0x7C00] ^= 0x4000
        bits = np.where(self.rng.random(shape) < 0.3, self.rng.choice(self.EDGES, shape), any_bits)
        signed_zeros = self.rng.choice(np.array([0x0000, 0x8000], dtype=np.uint16), shape)
        return np.where(self.rng.random(shape) < density, bits, signed_zeros).astype(np.uint16)

    def special(self, shape: tuple[int, ...], density: float = 0.5, share: float = 0.02) -> np.ndarray:
        """The same with a share of infinities and NaN."""
        bits = self.finite(shape, density)
        return np.where(self.rng.random(shape) < share, self.rng.choice(self.SPECIALS, shape), bits).astype(np.uint16)

    def streams(self, config, lengths: Sequence[int], density: float = 0.5, draw=None) -> list:
        """One (a, b) for each length."""
        draw = draw or self.finite
        shapes = [(n, steps, config.lanes) for steps in lengths for n in (config.columns, config.rows)]
        arrays = [draw(shape, density) for shape in shapes]
        return list(zip(arrays[::2], arrays[1::2], strict=True))


@pytest.fixture
def operands(rng):
    return Operands(rng)


@dataclass
class Trace:
    blocks: list[np.ndarray]
    outputs: list[Outputs]


@pytest.fixture
def drive():
    """Run streams with `most(port)` steps offered by each port in each cycle and `ready()` at the output."""

    def run(
        tile: Tile,
        streams: Sequence,
        most: Callable[[int], int] = lambda port: 99,
        ready: Callable[[], bool] = lambda: True,
        limit: int = 20_000,
    ) -> Trace:
        config = tile.config
        ports = [Producer([a[n].tolist() for a, _ in streams]) for n in range(config.columns)]
        ports += [Producer([b[n].tolist() for _, b in streams]) for n in range(config.rows)]
        trace = Trace([], [])
        block: list = []
        held = None
        for _ in range(limit):
            offers = [port.offer(min(most(n), config.window_depth)) for n, port in enumerate(ports)]
            out_ready = ready()
            outputs = tile.cycle(offers[: config.columns], offers[config.columns :], out_ready)
            trace.outputs.append(outputs)
            for port in ports:
                port.take(outputs.taken)
            assert held is None or outputs.out == held, "a beat must hold until it is taken"
            held = None if out_ready else outputs.out
            if outputs.out is not None and out_ready:
                block += outputs.out.values
                assert outputs.out.last == (len(block) == config.rows)
                if outputs.out.last:
                    trace.blocks.append(np.array(block, dtype=np.uint32))
                    block = []
            if len(trace.blocks) == len(streams):
                return trace
        raise AssertionError(f"{len(trace.blocks)} of {len(streams)} blocks after {limit} cycles")

    return run


@pytest.fixture
def nothing():
    """Offers of producers that have nothing."""
    return lambda config: ([Offer()] * config.columns, [Offer()] * config.rows)
