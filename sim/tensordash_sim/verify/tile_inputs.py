"""Steps of operands for the tile's bench, and sums that they bring to the limits of the range."""

from random import Random

from tensordash import TileConfig
from tensordash.configuration.formats import FloatFormat, Format
from tensordash.configuration.numerics import Exact
from tensordash_sim.golden import ExactAccumulator, IntegerAccumulator, make_accumulator
from tensordash_sim.golden.ports import COUNTER_LIMIT, Counters
from tensordash_sim.verify.bench import start_bench
from tensordash_sim.verify.job import BenchJob
from tensordash_sim.verify.lockstep import COUNTERS, Lockstep
from tensordash_sim.verify.random_values import EXPONENTS, scale_of_one, signed_value
from tensordash_sim.verify.registers import accumulator_in, set_sum
from tensordash_sim.verify.stimulus import Arrival

__all__ = ["FixedPoint", "Gate", "constant_inputs", "from_sums", "has_a_range", "has_nan", "nan", "near_the_limit"]
__all__ += ["products", "signed_steps", "special_step", "started", "step_of"]

FixedPoint = ExactAccumulator | IntegerAccumulator


def constant_inputs(job, lengths: list[int], a: int, b: int, c: int, scale: int | None = None):
    """Return streams (a, b, c) with one value per side; with a scale format, the scale is 1 by default."""
    config = job.config
    columns, rows = (
        [[[step_of(config, [value] * config.lanes, scale)] * length for length in lengths]] * count
        for value, count in ((a, config.columns), (b, config.rows))
    )
    return columns, rows, [[[c] * config.columns] * config.rows] * len(lengths) if config.initial else []


def step_of(config: TileConfig, values: list[int], scale: int | None = None) -> list[int]:
    """Return a step of values; with a scale format, append `scale`, or 1 if None."""
    kind = config.numerics.scale
    if kind is None:
        return values
    return [*values, scale_of_one(kind) if scale is None else scale]


def special_step(random: Random, config: TileConfig, fmt: Format) -> list[int] | None:
    """Return a step with NaN values or a NaN scale, or None if the tile has neither."""
    kind = config.numerics.scale
    if kind is not None and (random.random() < 0.5 or not has_nan(fmt)):
        return step_of(config, [1] * config.lanes, kind.nan)
    return step_of(config, [nan(fmt)] * config.lanes) if isinstance(fmt, FloatFormat) and fmt.nan else None


def has_nan(fmt: Format) -> bool:
    """Return whether a format has NaN."""
    return isinstance(fmt, FloatFormat) and fmt.nan


def nan(fmt: FloatFormat) -> int:
    """Return a NaN of a format with NaN: all bits below the sign are ones."""
    return (1 << (fmt.width - 1)) - 1


async def started(dut, name: str, **parameters) -> tuple:
    """Reset the tile; return the job, the random source and the lockstep."""
    job, random, pins = start_bench(dut, f"{name} {parameters}")
    lockstep = Lockstep(pins, job.config, random, **parameters)
    await lockstep.start()
    return job, random, lockstep


async def near_the_limit(dut, lockstep: Lockstep) -> None:
    """Set all counters of Verilog and golden, if the tile has any, to just below the limit where they saturate."""
    if not lockstep.config.counts:
        return
    near, rows = COUNTER_LIMIT - 6, lockstep.config.rows
    lockstep.golden.counters = Counters(near, near, near, near, near, near, (near,) * rows)
    await lockstep.pins.settle()
    for name in COUNTERS:
        getattr(dut.counters, f"counts_{name}").value = near
    dut.counters.counts_row_wait.value = sum(near << (32 * row) for row in range(rows))


def has_a_range(job: BenchJob) -> bool:
    """Return whether sums have a range and can be set; a netlist has no single register for a sum."""
    return isinstance(job.config.numerics.accumulator, Exact) and not job.options.get("gates")


class Gate(Arrival):
    """Arrival pattern that offers up to `allowed` steps."""

    def __init__(self, random: Random) -> None:
        super().__init__(random, idle=0)
        self.allowed = 0

    def most(self, depth: int) -> int:
        """Return the maximum number of steps to offer in this cycle."""
        return min(self.allowed, depth)


async def from_sums(
    dut,
    lockstep: Lockstep,
    sums: dict[tuple[int, int], int],
    final: tuple[list, list],
    reset_after: int | None = None,
    clear_after: int | None = None,
) -> None:
    """Run one stream, and set its sums before its `final` step enters.

    Parameters
    ----------
    dut : cocotb handle
        The tile.
    lockstep : Lockstep
        The tile and its model, idle.
    sums : dict of (row, column) to int
        Sums in the units of `set_sum`.
    final : tuple of two lists, (columns or rows, lanes)
        Bit patterns of the last step of both sides.
    reset_after : int, optional
        Cycles from the offer of the last step to a reset of one cycle.
    clear_after : int, optional
        Cycles from the offer of the last step to a `clear` of one cycle.
    """
    config, arrival, gate = lockstep.config, lockstep.arrival, Gate(lockstep.random)
    lockstep.arrival = gate
    # A full window that leaves the window completely, so that only the last step is missing in the sums.
    nothing = [step_of(config, [0] * config.lanes)] * (config.window_depth - 1)
    a, b = ([[[step, *nothing, step]] for step in side] for side in final)
    lockstep.feed(a, b, [[[0] * config.columns] * config.rows] if config.initial else [])
    gate.allowed = config.window_depth
    for _ in range(config.window_depth + config.stages + config.rows // config.out_rows + 2):
        gate.allowed -= (await lockstep.cycle()).taken
    assert gate.allowed == 0
    for (row, column), number in sums.items():
        golden = lockstep.golden.datapath.accumulators[row][column]
        set_sum(accumulator_in(dut, row, column), golden, number)
    gate.allowed = 1
    if clear_after is not None:
        for _ in range(clear_after):
            gate.allowed -= (await lockstep.cycle()).taken
        gate.allowed -= (await lockstep.cycle(clear=True)).taken
    if reset_after is None:
        await lockstep.run()
    else:
        for _ in range(reset_after):
            gate.allowed -= (await lockstep.cycle()).taken
        await lockstep.cycle(reset=True)
        gate.allowed = 0
        for _ in range(config.stages + 2):
            await lockstep.cycle()
    lockstep.arrival = arrival


def signed_steps(random: Random, config: TileConfig, sign: int) -> tuple[list, list]:
    """Return a step for each port of both sides, (columns, lanes) and (rows, lanes); all products have one sign."""
    exponents, flipped = random.choice(EXPONENTS)[0], random.getrandbits(1)
    return tuple(  # type: ignore[return-value]
        [
            step_of(config, [signed_value(random, fmt, side, exponents) for _ in range(config.lanes)])
            for _ in range(count)
        ]
        for fmt, side, count in (
            (config.a_format, flipped, config.columns),
            (config.b_format, flipped ^ sign, config.rows),
        )
    )


def products(config: TileConfig, final: tuple[list, list]) -> dict[tuple[int, int], FixedPoint]:
    """Return each PE's accumulator after one step, for a tile whose sums have a range."""
    sums = {}
    for row, b in enumerate(final[1]):
        for column, a in enumerate(final[0]):
            accumulator = make_accumulator(config)
            assert isinstance(accumulator, FixedPoint)
            lanes, scales = config.lanes, (a[-1], b[-1]) if config.numerics.scale is not None else ()
            accumulator.accumulate([(*pair, *scales) for pair in zip(a[:lanes], b[:lanes], strict=True)], first=True)
            sums[row, column] = accumulator
    return sums
