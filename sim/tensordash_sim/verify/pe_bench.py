"""Lockstep of a PE and its golden accumulator."""

from dataclasses import dataclass, replace

from tensordash import TileConfig
from tensordash.arithmetic.sum_ports import starts_from_c
from tensordash.configuration.numerics import Fused
from tensordash_sim.golden import make_accumulator
from tensordash_sim.verify.bench import start_bench
from tensordash_sim.verify.random_values import largest, largest_scale, random_scale
from tensordash_sim.verify.stimulus import packed

__all__ = ["Bench", "Entry", "same_block"]


@dataclass(frozen=True)
class Entry:
    """Inputs of the PE in one cycle, with the marks that accompany them to their accumulation."""

    lanes: tuple[tuple[int, int, bool], ...] = ()
    """Both operands of each lane, and whether the lane is active."""
    first: bool = False
    last: bool = False
    scales: tuple[tuple[int, int], ...] = ()
    """Both sides' scales of each step of the window, if the PE has scales."""
    chosen: tuple[int, ...] = ()
    """Step of the window that each lane's operands come from."""

    @property
    def pairs(self) -> tuple[tuple[int, ...], ...]:
        """Operand pairs of the active lanes, with their scales."""
        return tuple(
            (a, b, *(self.scales[self.chosen[lane]] if self.scales else ()))
            for lane, (a, b, counts) in enumerate(self.lanes)
            if counts
        )


def same_block(found: int, expected: int, config: TileConfig, width: int) -> bool:
    """Return whether a block equals the golden one in its defined bits.

    The number is undefined if the bits above it mark an infinity or NaN. The sign of a fused sum of zero is undefined.
    """
    if config.numerics.result == "fp32" and expected >> (width - 2):
        return found >> (width - 2) == expected >> (width - 2)
    sign = 1 << (width - 3)
    if isinstance(config.numerics.accumulator, Fused) and not expected & (sign - 1):
        return found & ~sign == expected & ~sign
    return found == expected


class Bench:
    """Bench of a PE and its golden accumulator; each call of `cycle` runs one clock cycle of both.

    Parameters
    ----------
    dut : cocotb handle
        The PE.
    name : str
        Name of the test; with the job's seed, it determines all stimulus.

    Attributes
    ----------
    blocks, overflows : int
        Number of sums started, and of additions that overflowed.
    """

    def __init__(self, dut, name: str) -> None:
        job, self.random, self.pins = start_bench(dut, name)
        self.config, self.effort = job.config, job.effort
        self.dut, self.golden = dut, make_accumulator(self.config)
        self.scale, self.steps = self.config.numerics.scale, self.config.window_depth
        self.has_c = starts_from_c(self.config.numerics)
        self.blocks = self.overflows = 0
        self._width = len(dut.sum_value)
        self._finished: int | None = None
        self._flying = [Entry()] * (self.config.stages - 1)

    async def start(self) -> None:
        """Reset the PE."""
        c = {"sum_c": 0} if self.has_c else {}
        scales = self._scale_pins(Entry())
        await self.pins.reset(a=0, b=0, active=0, sum_hold=0, sum_start=0, sum_take=0, **c, **scales)

    def scaled(self, entry: Entry, specials: float = 0.0, *, neutral: bool = True) -> Entry:
        """Return the entry with scales and chosen steps of the window, if the PE has scales.

        With `neutral`, power-of-two scales of both sides cancel, and numeric scales are positive.
        Otherwise scales are random, with a share `specials` of NaN.
        """
        scale, random = self.scale, self.random
        if scale is None:
            return entry
        pairs = []
        for _ in range(self.steps):
            a, b = (random_scale(random, scale, 0 if neutral else specials) for _ in range(2))
            if scale.number is None and (neutral or random.random() < 0.7):
                b = min(max(2 * scale.bias - a + (0 if neutral else random.randint(-12, 12)), 0), scale.nan - 1)
            elif neutral:
                a, b = max(a & scale.nan, 1), max(b & scale.nan, 1)
            pairs.append((a, b))
        chosen = tuple(random.randrange(self.steps) for _ in range(self.config.lanes))
        return replace(entry, scales=tuple(pairs), chosen=chosen)

    def _scale_pins(self, entry: Entry) -> dict[str, int]:
        if self.scale is None:
            return {}
        pairs = entry.scales or ((0, 0),) * self.steps
        pins = {
            f"{side}_scales": packed(each, self.scale.width)
            for side, each in zip("ab", zip(*pairs, strict=True), strict=True)
        }
        if self.steps > 1:
            pins["chosen"] = packed([1 << step for step in entry.chosen], self.steps)
        return pins

    def largest_scales(self) -> dict[str, int]:
        """Return pin values for the largest scales."""
        if self.scale is None:
            return {}
        scales = ((largest_scale(self.scale),) * 2,) * self.steps
        return self._scale_pins(Entry(scales=scales, chosen=(0,) * self.config.lanes))

    async def reset_in_flight(self, a: int, *, active: int) -> None:
        """Multiply `a` by the largest b in active lanes, one cycle for each stage, and reset the PE in the next."""
        config, pins = self.config, self.pins
        pins.drive(
            a=packed([a] * config.lanes, config.a_format.width),
            b=packed([largest(config.b_format)] * config.lanes, config.b_format.width),
            active=active,
            sum_hold=0,
            sum_start=0,
            sum_take=0,
            **self.largest_scales(),
        )
        for reset in (*[0] * config.stages, 1):
            pins.drive(rst=reset)
            await pins.settle()
            await pins.tick()
        pins.drive(rst=0, active=0)

    async def require_no_overflow(self, message: str) -> None:
        """Run as many cycles as the PE has stages, in which no sum may overflow."""
        for _ in range(self.config.stages):
            await self.pins.settle()
            assert self.pins.read("sum_overflow") == 0, message
            await self.pins.tick()

    async def cycle(self, entering: Entry, *, hold: bool = False, c: int = 0) -> None:
        """Run one cycle and compare; the PE accumulates `entering` and its marks ``stages - 1`` cycles later."""
        config, pins = self.config, self.pins
        accumulated = (*self._flying, entering)[0]
        pins.drive(
            a=packed([a for a, _, _ in entering.lanes], config.a_format.width),
            b=packed([b for _, b, _ in entering.lanes], config.b_format.width),
            active=packed([counts for _, _, counts in entering.lanes], 1),
            **self._scale_pins(entering),
            sum_hold=int(hold),
            sum_start=int(accumulated.first and not hold),
            sum_take=int(accumulated.last and not hold),
            **({"sum_c": c} if self.has_c else {}),
        )
        await pins.settle()
        if self._finished is not None:
            found = pins.read("sum_value")
            assert same_block(found, self._finished, config, self._width), (
                f"cycle {pins.cycle}: block is {found:#x}, golden has {self._finished:#x}"
            )
        if hold:
            assert pins.read("sum_overflow") == 0
        else:
            started = self.blocks or accumulated.first
            overflow = self.golden.accumulate(accumulated.pairs, accumulated.first, c if self.has_c else 0)
            if started:
                assert pins.read("sum_overflow") == overflow, f"cycle {pins.cycle}: golden has overflow {overflow}"
            self.overflows += overflow
            self.blocks += accumulated.first
            if accumulated.last and started:
                self._finished = self.golden.block_bits()
            self._flying = [*self._flying, entering][1:]
        await pins.tick()
