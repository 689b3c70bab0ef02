"""Faults to inject while a core executes a program, with one function for each kind."""

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from random import Random
from types import MappingProxyType

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import BITS, BYTES, HEADER, OPERATIONS, decode

from ...compiler.order import find_races
from ...compiler.unit_cycles import block_cycles_of
from ...golden.core.effects import overwrites_masks, read_memory, written_memory
from ...golden.core.laid_streams import misreads_streams
from ...golden.core.legal import Sequencer
from ..programs.corruptor import with_fields
from ..programs.illegal_programs import CLAUSES, IllegalProgram, illegal_program
from ..verilated_core import CHANNELS, SilentMemoryError
from .core_bench import MAX_PROGRAM_CYCLES, Bench
from .core_coverage import QUEUES, SILENCES, state_points
from .core_draw import CoreJob

__all__ = ["FAULTS", "SILENT_CYCLES", "bits_in_turn", "is_defined"]

SILENT_CYCLES = 3000
"""Cycles without a response after which a memory counts as silent; all memories of a campaign are faster."""
TRIES = 20
"""Programs to draw until one has the operation to fuzz."""
MAX_STEPS = 150_000
"""Maximum steps of a fuzzed layout or multiply; more take too long."""
MAX_POSITIONS = 200_000
"""Maximum multiply positions of a fuzzed multiply; more take too long."""
MAX_OUTPUT_CYCLES = 200_000
"""Maximum cycles of the output unit for a fuzzed multiply."""
SETTLE_CYCLES = 2_000
"""Cycles to run a core after a fault, so that a wrong access would occur."""
RESET_LEAD_CYCLES = 6
"""Cycles from a read of `done` to the start of a soft reset."""


def bits_in_turn(job: CoreJob) -> Iterator[tuple[str, int]]:
    """Yield operations and bits of their descriptors in the campaign's order, starting where the previous job ends."""
    all_bits = [(name, bit) for name in OPERATIONS for bit in range(BITS)]
    Random(f"soak bits {job.seed}").shuffle(all_bits)
    fuzzed = job.goals.faults * FAULTS["field fuzzed"][0] * 4 // 500  # slightly fewer than the job fuzzes
    for place in count(job.index * fuzzed):
        yield all_bits[place % len(all_bits)]


def fuzz(bench: Bench) -> bool:
    """Flip a bit of a descriptor, or set a field to an extreme value."""
    random = bench.random
    name, bit = next(bench.bits)
    for _ in range(TRIES):
        made = bench.legal()
        places = [k for k, bits in enumerate(made.descriptors) if decode(bits)[0] is OPERATIONS[name]]
        if not places:
            continue
        place = random.choice(places)
        bits = made.descriptors[place]
        fuzzed = bits ^ 1 << bit
        field = next((each for each in (*HEADER[1:], *OPERATIONS[name].fields) if each.mask >> bit & 1), None)
        if field is not None and random.random() < 0.2:
            extreme = random.choice((0, field.mask, random.getrandbits(BITS) & field.mask))
            fuzzed = bits & ~field.mask | extreme & ~(1 << bit) | fuzzed & 1 << bit
        descriptors = [*made.descriptors]
        descriptors[place] = fuzzed
        if not is_defined(bench.config, descriptors, place, made.base):
            continue
        title = f"bit {bit} of {name} {place}, {made.title}"
        changed = IllegalProgram(
            descriptors=descriptors, memory=made.memory, base=made.base, title=title, bounds=made.bounds
        )
        bench.check(changed, defined=place + 1)
        bench.coverage.fuzzed(name, bit)
        return True
    return False


def is_defined(config: CoreConfig, descriptors: list[int], place: int, ring: int) -> bool:
    """Return whether docs/core.md defines the outcome of a fuzzed program, and golden reaches it soon.

    Parameters
    ----------
    config : CoreConfig
        The core.
    descriptors : list of int
        The program.
    place : int
        Index of the fuzzed descriptor; all others are legal.
    ring : int
        Address of the program.
    """
    sequencer = Sequencer(config)
    refused = next((k for k, bits in enumerate(descriptors) if sequencer.refusal(bits)), len(descriptors))
    if refused == place:
        return True
    operation, values = decode(descriptors[place])
    assert operation is not None
    seen = [*descriptors[:refused]]
    if refused == len(descriptors) and OPERATIONS["end"] not in (decode(bits)[0] for bits in descriptors):
        return False  # The program has no end and raises no interrupt.
    if operation.name in ("load", "store"):
        groups = values["count_0"] * values["count_1"] * values["count_2"] * values["count_3"]
        if groups > config.groups:  # The core moves no more than these.
            inside = max(1, min(groups, config.groups - values["address"]))
            seen[place] = with_fields(descriptors[place], count_0=inside, count_1=1, count_2=1, count_3=1)
    elif operation.name.startswith("layout"):
        if values["streams"] * config.parts(operation.name[-1]) * values["steps"] > MAX_STEPS:
            return False
    elif operation.name == "multiply":
        tile, steps = config.tile, values["a_streams"] * values["b_streams"] * values["steps"]
        words = -(-values["steps"] // tile.window_depth)
        fits = all(values[f"{side}_streams"] * words <= config.stream_words(side) for side in "ab")
        blocks = values["a_streams"] * values["b_streams"]
        if blocks * block_cycles_of(config, values) > MAX_OUTPUT_CYCLES:
            return False
        if steps > MAX_STEPS or (fits and steps * tile.multipliers > MAX_POSITIONS):
            return False
        if overwrites_masks(descriptors[place], config):
            return False
    if config.drop_steps and misreads_streams(descriptors[:refused], config):
        return False
    written = written_memory(descriptors[place], config)
    read = [run for bits in seen for run in read_memory(bits, config)]
    others = [run for k, bits in enumerate(seen) if k != place for run in written_memory(bits, config)]
    if any(_meet(one, other) for one in written for other in (*read, *others, (ring, BYTES * len(descriptors)))):
        return False
    return not find_races(config, seen)


def _meet(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[0] + other[1] and other[0] < one[0] + one[1]


def illegal(bench: Bench) -> bool:
    """Run a program that breaks one or two rules."""
    if bench.device.base:
        return False
    random = bench.random
    name = min(random.sample(list(CLAUSES), 5), key=lambda each: bench.coverage.met("illegal program", each))
    try:
        made = illegal_program(random, bench.config, name, second=random.choice([*CLAUSES, "", ""]))
    except ValueError:  # No program of this core can break the rule.
        return False
    bench.check(made)
    bench.coverage.add("illegal program", name)
    return True


def failing(bench: Bench) -> bool:
    """Let memory respond with SLVERR or DECERR at addresses that the program uses."""
    made, config, random = bench.legal(), bench.config, bench.random
    places: dict[str, list[tuple[int, int]]] = {"fetch": [(made.base, BYTES * len(made.descriptors))]}
    for bits in made.descriptors:
        operation, values = decode(bits)
        assert operation is not None
        runs = read_memory(bits, config) or written_memory(bits, config)
        if operation.name == "record":
            places.setdefault("record", []).extend(runs)
        elif runs and values["compressed"]:
            places.setdefault(f"{operation.name} compressed", []).append(runs[0])
            places.setdefault(f"table of a {operation.name}", []).extend(runs[1:])
        elif runs:
            places.setdefault(operation.name, []).extend(runs)
    lines, line, names = set(), config.axi_bits // 8, []
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        name = min(
            random.sample(sorted(places), min(3, len(places))),
            key=lambda each: bench.coverage.met("failing memory", each),
        )
        address, count = random.choice(places[name])
        lines.add((address + random.choice((0, random.randrange(count), count - 1))) // line)
        names.append(name)
    wanted = bench.check(made, lines)
    if len(names) == 1 and wanted.error in ("fetch", "read", "write"):
        bench.coverage.add("failing memory", names[0])
    return True


def silent(bench: Bench) -> bool:
    """Silence a channel of memory: the host reports it, and a soft reset ends once memory responds."""
    made, device, random = bench.legal(), bench.device, bench.random
    bench.check(made)
    channel = random.choice(list(CHANNELS))
    after = random.randrange(max(1, bench.moved[channel]))
    bench.prepare(made)
    device.silence(channel, after)
    device.begin(made.base, len(made.descriptors))
    try:
        device.wait(MAX_PROGRAM_CYCLES)
    except SilentMemoryError as error:
        message = str(error)
    else:
        device.silence("")
        bench.stopped(made, made.descriptors, device.outcome().done)
        return False
    assert CHANNELS[channel] in message, f"memory is silent on {channel}, but the error is: {message}"
    assert device.read("status") & 1, "memory is silent, and the core is not busy"
    done = device.read("done")
    device.write("control", 2)
    for _ in range(random.randint(1, 40)):
        assert device.read("status") & 2, "a soft reset is over before memory has answered"
    device.silence("")
    bench.stopped(made, made.descriptors, done)
    place = list(CHANNELS).index(channel)
    bench.coverage.add("silent memory", SILENCES[2 * place + ("tensors" in message) if place < 2 else place + 2])
    return True


def reset(bench: Bench) -> bool:
    """Soft-reset the core in one of the least covered states, or in a random cycle."""
    made, device, random = bench.legal(), bench.device, bench.random
    states = [state for state in bench.states if state.name not in ("reset", "error")]
    points = {point: state_points([state]) for state in states for point in state_points([state])}
    bench.prepare(made)
    seed = random.getrandbits(60)
    device.sow(seed)
    began = device.cycle
    device.begin(made.base, len(made.descriptors))
    cycles = random.choice((1, 50, 400, 3000))
    if points and random.random() < 0.7:
        point = min(
            random.sample(sorted(points), min(4, len(points))), key=lambda each: bench.coverage.met("soft reset", each)
        )
        state = next(each for each in states if point in state_points([each]))
        value = range(1 if state.width == 1 else 0, state.values)[state_points([state]).index(point)]
        skipped = random.choice((0, 0, random.randrange(600)))
        if (not skipped or not device.wait(skipped)) and device.until(state, value, MAX_PROGRAM_CYCLES):
            # Run the program again, up to the same cycle.
            lead = device.cycle - began - RESET_LEAD_CYCLES + random.choice((0, 0, 0, -1, 1))
            bench.prepare(made)
            device.sow(seed)
            began = device.cycle
            device.begin(made.base, len(made.descriptors))
            cycles = max(1, lead - (device.cycle - began))
    device.wait(cycles)
    done = device.read("done")
    bench.reset()
    bench.stopped(made, made.descriptors, done)
    return True


def queue(bench: Bench) -> bool:
    """Use the queue in a way that a host may, or in one that it must not."""
    name = min(bench.random.sample(QUEUES, 3), key=lambda each: bench.coverage.met("queue", each))
    made = bench.legal()
    {
        "tail beyond the ring": _beyond,
        "tail moved in steps": _in_steps,
        "tail moved back": _back,
        "base moved while it rests": _moved_at_rest,
        "base moved while it fetches": _moved,
        "size changed while it fetches": _resized,
    }[name](bench, made)
    bench.coverage.add("queue", name)
    return True


def _ring(made: IllegalProgram) -> tuple[IllegalProgram, int]:
    """Fill a ring with `end` descriptors after the program; return it and the logarithm of the ring's places."""
    size = max(0, (len(made.descriptors) - 1).bit_length())
    ends = [OPERATIONS["end"].code] * ((1 << size) - len(made.descriptors))
    full = [*made.descriptors, *ends]
    return IllegalProgram(
        descriptors=full, memory=made.memory, base=made.base, title=made.title, bounds=made.bounds
    ), size


def _all_done(bench: Bench, count: int) -> None:
    """Wait until `count` descriptors, including `end` descriptors, are done."""
    device, began = bench.device, bench.device.cycle
    while (done := device.read("done")) < count:
        assert not device.wait(50), f"{device.outcome()}, and it should be none"
        assert device.cycle - began < MAX_PROGRAM_CYCLES, (
            f"{done} of {count} descriptors are done after {MAX_PROGRAM_CYCLES} cycles"
        )


def _beyond(bench: Bench, made: IllegalProgram) -> None:
    """Move the tail beyond the ring: descriptors run a second time, with no token to order the two runs."""
    full, size = _ring(made)
    count = len(full.descriptors) + bench.random.randint(1, len(full.descriptors))
    executed = [*full.descriptors, *full.descriptors][:count]
    bench.prepare(full)
    bench.device.begin(full.base, count, size=size, causes=2)
    _all_done(bench, count)
    bench.stopped(full, executed, count, any_order=bool(find_races(bench.config, executed)))


def _in_steps(bench: Bench, made: IllegalProgram) -> None:
    """Run a program in a ring with fewer places than descriptors, filled as places become free."""
    device, random, total = bench.device, bench.random, len(made.descriptors)
    size = random.randint(0, max(0, (total - 1).bit_length() - 1))
    bench.prepare(made)
    device.begin(made.base, 0, size=size, causes=2)
    put, began = 0, device.cycle
    while put < total:
        free = (1 << size) - put + device.read("head")
        for _ in range(random.randint(0, min(free, total - put))):
            device.put([made.descriptors[put]], made.base + BYTES * (put % (1 << size)))
            put += 1
        device.write("tail", put)
        assert not device.wait(random.choice((1, 20, 200))), f"{device.outcome()}, and it should be none"
        assert device.cycle - began < MAX_PROGRAM_CYCLES, (
            f"{put} of {total} descriptors are put after {MAX_PROGRAM_CYCLES} cycles"
        )
    _all_done(bench, total)
    bench.stopped(made, made.descriptors, total)


def _moved_at_rest(bench: Bench, made: IllegalProgram) -> None:
    """Move the ring between two descriptors, to another address and size."""
    device, random, total = bench.device, bench.random, len(made.descriptors)
    first = random.randint(1, total - 1)
    bench.prepare(made)
    device.begin(made.base, first, causes=2)
    _all_done(bench, first)
    size = max(0, (total - 1).bit_length()) + random.randint(0, 2)
    other = made.base + 2 * BYTES * total
    device.put(made.descriptors[first:], other + BYTES * first)
    device.write("queue_base", other % (1 << 32))
    device.write("queue_size", size)
    device.write("tail", total)
    _all_done(bench, total)
    bench.stopped(made, made.descriptors, total)


def _back(bench: Bench, made: IllegalProgram) -> None:
    """Move the tail back: the core fetches around the ring, for an undefined time."""
    full, size = _ring(made)
    device, random = bench.device, bench.random
    bench.prepare(full)
    device.begin(full.base, len(full.descriptors), size=size, causes=2)
    device.wait(random.choice((1, 100, SETTLE_CYCLES)))
    device.write("tail", max(0, device.read("head") - random.randint(0, 2)))
    device.wait(SETTLE_CYCLES)
    bench.stopped(full, full.descriptors, 0, any_order=True)


def _moved(bench: Bench, made: IllegalProgram) -> None:
    """Move the ring while the core fetches: it fetches memory outside the program, zeros or `end` descriptors."""
    device, random = bench.device, bench.random
    other = made.base + 4 * BYTES * (1 << (len(made.descriptors) - 1).bit_length())
    bench.prepare(made)
    if random.random() < 0.5:
        device.put([OPERATIONS["end"].code] * len(made.descriptors), other)
    put = bytes(device.memory)  # The core must not change it.
    made.memory.bytes[:] = put
    device.begin(made.base, len(made.descriptors), causes=2)
    device.wait(random.choice((1, 20, 100)))
    device.write("queue_base", other % (1 << 32))
    device.wait(SETTLE_CYCLES)
    bench.stopped(made, made.descriptors, 0, any_order=True)


def _resized(bench: Bench, made: IllegalProgram) -> None:
    """Resize the ring while the core fetches: it fetches descriptors a second time, or zeros."""
    device, random = bench.device, bench.random
    bench.prepare(made)
    device.begin(made.base, len(made.descriptors), causes=2)
    device.wait(random.choice((1, 20, 100)))
    device.write("queue_size", random.randrange(16))
    device.wait(SETTLE_CYCLES)
    bench.stopped(made, made.descriptors, 0, any_order=True)


FAULTS: Mapping[str, tuple[int, Callable[[Bench], bool]]] = MappingProxyType(
    {
        "field fuzzed": (45, fuzz),
        "illegal program": (12, illegal),
        "failing memory": (17, failing),
        "silent memory": (8, silent),
        "queue": (8, queue),
        "soft reset": (10, reset),
    }
)
"""Kinds of faults: the share in percent, and the function that injects a fault and returns whether it did."""
