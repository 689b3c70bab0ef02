"""Draw operands, and drive a tile with any arrival and back-pressure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from tensordash.configuration.formats import FORMATS, FP32, FloatFormat, Format
from tensordash_sim.golden import Beat, Offer, Outputs, Producer, Tile

FP16 = FORMATS["fp16"]


def float_format(name: str) -> FloatFormat:
    fmt = FORMATS[name]
    assert isinstance(fmt, FloatFormat)
    return fmt


def edges(fmt: Format) -> list[int]:
    """Return the least, the largest and other nonzero finite edge cases of both signs."""
    sign = 1 << (fmt.width - 1)
    if not isinstance(fmt, FloatFormat):
        return [1, sign - 1, sign, sign + 1, 2 * sign - 1]
    hidden = 1 << fmt.fraction_bits
    magnitudes = [1, hidden - 1, hidden, hidden + 1, fmt.bias * hidden, fmt.bias * hidden + hidden // 3, fmt.largest]
    return [bits | minus for bits in magnitudes for minus in (0, sign)]


def specials(fmt: Format) -> list[int]:
    """Return infinities and NaN."""
    if not isinstance(fmt, FloatFormat) or not fmt.nan:
        return []
    sign = 1 << (fmt.width - 1)
    if not fmt.infinities:
        return [sign - 1, 2 * sign - 1]
    infinity = fmt.largest + 1
    quiet = infinity | 1 << (fmt.fraction_bits - 1)
    return [infinity, sign | infinity, quiet, sign | quiet | 1, infinity + 1]


class Operands:
    """Draw bit patterns, including edge cases."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def finite(self, shape: tuple[int, ...], density: float = 0.5, fmt: Format = FP16) -> np.ndarray:
        """Draw finite patterns, many of them edge cases or zeros of either sign."""
        dtype = np.uint8 if fmt.width <= 8 else np.uint16 if fmt.width == 16 else np.uint32
        sign = 1 << (fmt.width - 1)
        any_bits = self.rng.integers(0, 2 * sign, shape)
        zeros = np.zeros(shape, np.int64)
        if isinstance(fmt, FloatFormat):
            any_bits = np.where((any_bits & (sign - 1)) > fmt.largest, any_bits ^ (sign >> 1), any_bits)
            zeros = self.rng.choice(np.array([0, sign]), shape)
        bits = np.where(self.rng.random(shape) < 0.3, self.rng.choice(np.array(edges(fmt)), shape), any_bits)
        return np.where(self.rng.random(shape) < density, bits, zeros).astype(dtype)

    def special(
        self, shape: tuple[int, ...], density: float = 0.5, share: float = 0.02, fmt: Format = FP16
    ) -> np.ndarray:
        """Draw patterns, with a share of infinities and NaN if the format has them."""
        bits = self.finite(shape, density, fmt)
        if not specials(fmt):
            return bits
        chosen = self.rng.choice(np.array(specials(fmt)), shape)
        return np.where(self.rng.random(shape) < share, chosen, bits).astype(bits.dtype)

    def initial(self, config, share: float = 0.0) -> np.ndarray:
        """Draw a block of C."""
        shape = (config.rows, config.columns)
        if config.numerics.result == "int32":
            return self.rng.integers(0, 1 << 32, shape, dtype=np.uint32)
        # Most values are near the sums, so that both cancel or round together.
        near = (self.rng.standard_normal(shape) * 2.0 ** self.rng.integers(-20, 20, shape)).astype(np.float32)
        return np.where(self.rng.random(shape) < 0.7, near.view(np.uint32), self.special(shape, 0.8, share, FP32))

    def streams(self, config, lengths: Sequence[int], density: float = 0.5, share: float = 0.0) -> list:
        """Draw (a, b), or (a, b, c) for tiles with a C input, for each length."""
        streams = []
        for steps in lengths:
            a = self.special((config.columns, steps, config.lanes), density, share, config.a_format)
            b = self.special((config.rows, steps, config.lanes), density, share, config.b_format)
            streams.append((a, b, self.initial(config, share)) if config.initial else (a, b))
        return streams


@pytest.fixture
def operands(rng):
    return Operands(rng)


def beats_of(c: np.ndarray, config) -> list[Beat]:
    """Return the beats of a block of C."""
    blocks = c.reshape(-1, config.out_rows, config.columns).tolist()
    return [Beat(tuple(map(tuple, values)), values is blocks[-1]) for values in blocks]


@dataclass
class Trace:
    blocks: list[np.ndarray]
    outputs: list[Outputs]


@pytest.fixture
def drive():
    """Run streams on a tile.

    In each cycle, a port offers at most `most(port)` steps, and the output is ready if `ready()`. The driver offers a
    beat of C if `c_valid()`.
    """

    def run(
        tile: Tile,
        streams: Sequence,
        most: Callable[[int], int] = lambda port: 99,
        ready: Callable[[], bool] = lambda: True,
        limit: int = 20_000,
        c_valid: Callable[[], bool] = lambda: True,
    ) -> Trace:
        config = tile.config
        ports = [Producer([stream[0][n].tolist() for stream in streams]) for n in range(config.columns)]
        ports += [Producer([stream[1][n].tolist() for stream in streams]) for n in range(config.rows)]
        c_beats = [beat for stream in streams for beat in beats_of(stream[2], config)] if config.initial else []
        trace = Trace([], [])
        block: list = []
        held = None
        for _ in range(limit):
            offers = [port.offer(min(most(n), config.window_depth)) for n, port in enumerate(ports)]
            out_ready = ready()
            c = c_beats[0] if c_beats and c_valid() else None
            outputs = tile.cycle(offers[: config.columns], offers[config.columns :], out_ready, c=c)
            trace.outputs.append(outputs)
            if c is not None and outputs.c_ready:
                c_beats.pop(0)
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
    """Return the offers of producers without steps."""
    return lambda config: ([Offer()] * config.columns, [Offer()] * config.rows)
