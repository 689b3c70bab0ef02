"""Steps of operands for the bench of the tile, and sums that they bring to the ends of their range."""

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
    """Streams of one value for each side: (a, b, c); with scales, the scale of 1 by default."""
    config = job.config
    columns, rows = (
        [[[step_of(config, [value] * config.lanes, scale)] * length for length in lengths]] * count
        for value, count in ((a, config.columns), (b, config.rows))
    )
    return columns, rows, [[[c] * config.columns] * config.rows] * len(lengths) if config.initial else []


def step_of(config: TileConfig, values: list[int], scale: int | None = None) -> list[int]:
    """A step of values, and with scales the scale of 1."""
    kind = config.numerics.scale
    if kind is None:
        return values
    return [*values, scale_of_one(kind) if scale is None else scale]


def special_step(random: Random, config: TileConfig, fmt: Format) -> list[int] | None:
    """A step of NaN: its values, or its scale. None if a tile has none such."""
    kind = config.numerics.scale
    if kind is not None and (random.random() < 0.5 or not has_nan(fmt)):
        return step_of(config, [1] * config.lanes, kind.nan)
    return step_of(config, [nan(fmt)] * config.lanes) if isinstance(fmt, FloatFormat) and fmt.nan else None


def has_nan(fmt: Format) -> bool:
    """Whether a format has NaN."""
    return isinstance(fmt, FloatFormat) and fmt.nan


def nan(fmt: FloatFormat) -> int:
    """A NaN of a format that has any: the pattern of ones below the sign is one."""
    return (1 << (fmt.width - 1)) - 1


async def started(dut, name: str, **parameters) -> tuple:
    """Job, random source and tile after reset."""
    job, random, pins = start_bench(dut, f"{name} {parameters}")
    lockstep = Lockstep(pins, job.config, random, **parameters)
    await lockstep.start()
    return job, random, lockstep


async def near_the_limit(dut, lockstep: Lockstep) -> None:
    """Set all counters, of Verilog and golden, a little below where they stay; where there are any."""
    if not lockstep.config.counts:
        return
    near, rows = COUNTER_LIMIT - 6, lockstep.config.rows
    lockstep.golden.counters = Counters(near, near, near, near, near, near, (near,) * rows)
    await lockstep.pins.settle()
    for name in COUNTERS:
        getattr(dut.counters, f"counts_{name}").value = near
    dut.counters.counts_row_wait.value = sum(near << (32 * row) for row in range(rows))


def has_a_range(job: BenchJob) -> bool:
    """Whether sums can leave a range; and whether they can be set: a netlist has no register of all of a sum."""
    return isinstance(job.config.numerics.accumulator, Exact) and not job.options.get("gates")


class Gate(Arrival):
    """A producer that offers as many steps as are allowed to enter."""

    def __init__(self, random: Random) -> None:
        super().__init__(random, idle=0)
        self.allowed = 0

    def most(self, depth: int) -> int:
        """Steps to offer in this cycle, at most."""
        return min(self.allowed, depth)


async def from_sums(
    dut,
    lockstep: Lockstep,
    sums: dict[tuple[int, int], int],
    final: tuple[list, list],
    reset_after: int | None = None,
    clear_after: int | None = None,
) -> None:
    """One stream, whose sums are set before its `final` step enters.

    Parameters
    ----------
    dut : cocotb handle
        The tile.
    lockstep : Lockstep
        It and its model, at rest.
    sums : dict of (row, column) to int
        As `set_sum` has them.
    final : tuple of two lists, (columns or rows, lanes)
        Bit patterns of the last step of both sides.
    reset_after : int, optional
        Cycles until a reset of one cycle, from when the last step is offered.
    clear_after : int, optional
        Cycles until `clear` is high for one cycle, from when the last step is offered.
    """
    config, arrival, gate = lockstep.config, lockstep.arrival, Gate(lockstep.random)
    lockstep.arrival = gate
    # A window's worth, of which nothing stays there, so that nothing but the last step is missing in the sums.
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
    """A step for every port of both sides, (columns, lanes) and (rows, lanes), whose products all have a sign."""
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
    """The sum of a step's products in each PE of a tile whose sums have a range."""
    sums = {}
    for row, b in enumerate(final[1]):
        for column, a in enumerate(final[0]):
            accumulator = make_accumulator(config)
            assert isinstance(accumulator, FixedPoint)
            lanes, scales = config.lanes, (a[-1], b[-1]) if config.numerics.scale is not None else ()
            accumulator.accumulate([(*pair, *scales) for pair in zip(a[:lanes], b[:lanes], strict=True)], first=True)
            sums[row, column] = accumulator
    return sums
