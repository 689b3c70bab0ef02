"""Bench of the output unit: send blocks of the golden core's sums, and compare the buffer with golden's."""

import cocotb
import numpy as np

from tensordash.configuration.descriptors import OPERATIONS, decode, encode
from tensordash.configuration.formats import FP32, FloatFormat
from tensordash_sim.golden import BinnedAccumulator, ExactAccumulator
from tensordash_sim.golden.core.effects import overwrites_masks, written_groups
from tensordash_sim.golden.core.sums import make_sum
from tensordash_sim.verify.programs.field_cases import field_cases
from tensordash_sim.verify.units.output_bench import Bench, random_fields


@cocotb.test()
@cocotb.parametrize(stall=[0.0, 0.5])
async def random_descriptors(dut, stall: float) -> None:
    """Execute descriptors with random fields in sequence, with and without pauses on every port."""
    bench = Bench(dut, f"output {stall}")
    await bench.begin()
    # Partial sums are undefined after power-up, so write all of them first.
    full = {"a_streams": 1, "b_streams": bench.config.partial_sums, "steps": 1, "x_size": 1, "stride": 1}
    room = bench.config.stream_words("b")
    for first in range(0, bench.config.partial_sums, room):
        count = min(room, bench.config.partial_sums - first)
        await bench.execute({**full, "b_streams": count, "partial": first}, stall)
    for _ in range(max(2, round(12 * bench.job.effort))):
        fields = random_fields(bench.random, bench.config)
        while overwrites_masks(encode(OPERATIONS["multiply"], fields), bench.config):
            fields = random_fields(bench.random, bench.config)
        if bench.config.skip_masked:
            bench.place_masks()
        if bench.random.random() < 0.7:
            bench.place_biases(fields["bias_address"])
        await bench.execute(fields, stall)


@cocotb.test()
async def biases(dut) -> None:
    """Add biases to sums whose bits all affect the results, and to sums near the limits of their range."""
    bench = Bench(dut, "output biases")
    if not bench.config.bias:
        return
    await bench.begin()
    bench.golden.weights = {"far": 1, "tiny": 3, "tie": 1}
    blocks = min(4, bench.config.partial_sums)
    lanes, first = bench.config.tile.lanes, bench.config.groups // 2
    for turn in range(max(4, round(8 * bench.job.effort))):
        bench.place_biases(first)
        steps = {"x_3": lanes, "y_3": 1}
        fields = {"a_streams": blocks, "b_streams": 1, "steps": 1, "stride": 1, "x_size": 1 << 12, "seed": turn + 1}
        if turn % 4 == 3:  # Store partial sums; the next descriptor adds them and biases.
            await bench.execute({**fields, "b_streams": 1}, 0.2)
        more = {"add": int(turn % 4 == 3), "transposed": turn % 2, "emit": 1, "bias": 1, "fp32": 1}
        await bench.execute({**fields, **steps, **more, "bias_address": first}, 0.2)


@cocotb.test()
async def masks(dut) -> None:
    """Apply masks of zeros of both signs, and of values with a single random bit."""
    bench = Bench(dut, "output masks")
    if not bench.config.mask:
        return
    await bench.begin()
    first, width = bench.config.groups // 2, bench.config.value_bits
    expected = bench.golden.buffer[first:]
    for turn in range(max(8, round(16 * bench.job.effort))):
        bits = [
            bench.random.choice((0, 0, 1 << (width - 1), 1 << bench.random.randrange(width))) for _ in expected.flat
        ]
        expected[...] = bench.buffer.groups[first:] = np.reshape(bits, expected.shape)
        fields = {"a_streams": 3, "b_streams": 3, "steps": 1, "stride": 1, "x_size": 1 << 12, "seed": turn + 1}
        fields |= {"x_3": bench.config.tile.lanes, "emit": 1, "mask": 1, "mask_address": first}
        await bench.execute({**fields, "fp32": int(turn % 4 == 3), "transposed": turn // 2 % 2}, 0.0)


@cocotb.test()
async def skipped_passes(dut) -> None:
    """Skip some passes of each multiply, while rows of other passes wait for late marks."""
    bench = Bench(dut, "output skipped passes")
    if not bench.config.skip_masked:
        return
    await bench.begin()
    lanes, first = bench.config.tile.lanes, bench.config.groups // 2
    for turn in range(max(3, round(6 * bench.job.effort))):
        bench.place_masks()
        fields = {"a_streams": 3, "b_streams": 3, "steps": 2, "stride": 1, "x_size": 1 << 12, "x_3": lanes, "emit": 1}
        fields |= {"skip_masked": 1, "mask_address": first, "fp32": turn % 2, "transposed": turn // 2 % 2}
        await bench.execute({**fields, "seed": turn + 1}, 0.7)


@cocotb.test()
async def long_loops(dut) -> None:
    """Run loops 258 times, with as many biases, and loops with a count of 2 plus one higher bit."""
    bench = Bench(dut, "output long loops")
    config, turns = bench.config, 258
    await bench.begin()
    a_streams = min(config.stream_words("a"), 20)
    b_streams = -(-turns // (a_streams * config.parts("a") * config.parts("b"))) + 1
    bias_groups = turns * 4 * config.tile.lanes // config.group_bytes + 2
    result_groups = turns // config.tile.lanes + 2
    for loop in range(3):
        fields = {"steps": 1, "stride": 1, "x_size": 1 << 12, f"x_{loop}": 1, f"y_{loop}": 1, "emit": 1}
        fields |= {f"count_{k}": 1 for k in range(3)} | {"x_3": -turns // 2, "y_3": -turns // 2}
        if config.bias and bias_groups + result_groups < config.groups:
            fields |= {"bias": 1, "bias_address": config.groups - bias_groups}
        if b_streams <= config.stream_words("b"):
            await bench.execute({**fields, "a_streams": a_streams, "b_streams": b_streams, f"count_{loop}": turns}, 0.0)
        few = {"a_streams": 2, "b_streams": 2, "x_3": 20, "y_3": 20}
        for bit in range(2, 12):  # Without that bit, the count would be 2.
            await bench.execute({**fields, **few, f"count_{loop}": (1 << bit) + 2}, 0.0)


@cocotb.test()
async def random_bits(dut) -> None:
    """Round stochastically results that are finite and nonzero in most formats."""
    bench = Bench(dut, "output random bits")
    if not (bench.config.stochastic and bench.config.scale):
        return
    await bench.begin()
    bench.golden.weights = {"as it is": 1}
    sums = make_sum(bench.config.tile)
    middle = 0 if isinstance(sums, BinnedAccumulator) else -sums.width // 5
    for turn in range(max(3, round(4 * bench.job.effort))):
        fields = {"a_streams": 2, "b_streams": 1, "steps": 2, "stride": 1, "x_size": 1 << 12}
        fields |= {"x_3": bench.config.tile.lanes, "scale": middle + bench.random.randint(-8, 8)}
        fields |= {"emit": 1, "stochastic": 1, "transposed": turn % 2, "seed": bench.random.getrandbits(32)}
        await bench.execute(fields, 0.2)


@cocotb.test()
async def ends_of_formats(dut) -> None:
    """Scale sums to the limits of FP32's range and of the results' range."""
    bench = Bench(dut, "output ends of formats")
    if not bench.config.scale:
        return
    await bench.begin()
    bench.golden.weights = {"far": 1}
    sums = make_sum(bench.config.tile)
    if isinstance(sums, BinnedAccumulator):
        bench.golden.top = min(-sums.unit // sums.bin_bits, sums.max_top)  # the bin of 1
        largest = sums.unit + bench.golden.top * sums.bin_bits + sums.width - 1
    else:
        largest = (sums.exponent if isinstance(sums, ExactAccumulator) else 0) + sums.width - 1
    for turn in range(max(4, round(8 * bench.job.effort))):
        fmt = FP32 if turn % 2 else bench.config.tile.a_format
        bits = (1 << fmt.exponent_bits) - 1 - fmt.bias if isinstance(fmt, FloatFormat) else fmt.width - 1
        scale = bits - largest + bench.random.randint(-2, 2)
        fields = {"a_streams": 2, "b_streams": 2, "steps": 2, "stride": 1, "x_size": 1 << 12, "seed": turn + 1}
        fields |= {"x_3": bench.config.tile.lanes, "scale": max(-128, min(scale, 127)), "emit": 1}
        await bench.execute({**fields, "fp32": turn % 2, "transposed": turn // 2 % 2}, 0.2)
    for scale in (-128, -127, 126, 127):
        await bench.execute({**fields, "fp32": 1, "scale": scale}, 0.0)


@cocotb.test()
async def ties(dut) -> None:
    """Round sums at and next to the middle between two numbers of FP32 or of the results' format."""
    bench = Bench(dut, "output ties")
    await bench.begin()
    bench.golden.weights = {"tie": 1}
    for turn in range(max(4, round(8 * bench.job.effort))):
        fields = {"a_streams": 4, "b_streams": 4, "steps": 2, "stride": 1, "x_size": 1 << 12, "seed": turn + 1}
        fields |= {"x_3": bench.config.tile.lanes, "emit": 1, "fp32": turn % 2, "transposed": turn // 2 % 2}
        if bench.config.scale and bench.config.tile.numerics.result == "int32":  # Integers need a scale for ties.
            fields |= {"scale": -bench.random.randint(1, 24), "fp32": 0}
        await bench.execute(fields, 0.2)


@cocotb.test()
async def resets(dut) -> None:
    """Reset in a random cycle of a descriptor, then execute it completely."""
    bench = Bench(dut, "output resets")
    await bench.begin()
    for turn in range(max(4, round(8 * bench.job.effort))):
        fields, cut = {**random_fields(bench.random, bench.config), "add": 0}, bench.random.randint(1, 40)
        if turn % 2:  # Reset within a group that takes the most cycles.
            fields |= {"a_streams": 3, "b_streams": 3, "stride": 2 if turn % 4 == 1 else 4, "x_size": 40, "emit": 1}
            cut += 20
        before = bench.golden.buffer.copy()
        if await bench.execute(fields, 0.3, cut=cut):
            continue
        bench.golden.buffer[...] = before
        bench.buffer.groups[...] = before
        bench.golden.counts = type(bench.golden.counts)()
        bench.buffer.forget()
        await bench.execute(fields, 0.3)


@cocotb.test()
async def beyond_the_end(dut) -> None:
    """Check that positions and partial sums outside their memories cause an error and write nothing elsewhere."""
    bench = Bench(dut, "output beyond")
    await bench.begin()
    ordinary = {"a_streams": 1, "b_streams": 2, "steps": 1, "x_size": 4, "emit": 1}
    await bench.execute({**ordinary, "address": bench.config.groups - 1, "address_3": 1}, 0.2)
    before = bench.buffer.groups.copy()
    fields = {**ordinary, "emit": 0, "partial": bench.config.partial_sums - 1}
    await bench.execute(fields, 0.2)
    assert (bench.buffer.groups == before).all()


@cocotb.test()
async def places_of_partial_sums(dut) -> None:
    """Store different partial sums in each place, and read the places at and next to powers of two."""
    bench = Bench(dut, "output places")
    config, room = bench.config, bench.config.stream_words("b")
    await bench.begin()
    bench.golden.weights = {"as it is": 1}
    usual = {"a_streams": 1, "steps": 1, "stride": 1, "x_size": 1 << 12, "x_3": config.tile.lanes}
    for number, first in enumerate(range(0, config.partial_sums, room)):
        count = min(room, config.partial_sums - first)
        await bench.execute(
            {**usual, "b_streams": count, "partial": first, "a_base": number % config.stream_words("a")}, 0.0
        )
    powers = [1 << bit for bit in range(1, config.partial_sums.bit_length()) if 1 << bit < config.partial_sums]
    for first in sorted({0, *(power - 1 for power in powers), config.partial_sums - 2}):
        await bench.execute({**usual, "b_streams": 2, "partial": first, "add": 1, "emit": 1, "fp32": 1}, 0.0)


@cocotb.test()
async def ends_of_counts(dut) -> None:
    """Set counts just below a carry and below their largest value, where they saturate."""
    bench = Bench(dut, "output ends of counts")
    await bench.begin()
    bench.golden.weights = {"far": 1}
    usual = {"steps": 1, "stride": 1, "x_size": 1 << 12, "x_3": bench.config.tile.lanes, "a_streams": 1}
    await bench.execute({**usual, "b_streams": min(9, bench.config.partial_sums)}, 0.0)
    for carry in (1 << 16, 1 << 20, 1 << 31, 1 << 32):
        for name in ("zeros", "non_finite", "overflow"):
            count = carry - bench.random.randint(1, 3)
            setattr(bench.golden.counts, name, count)
            getattr(dut, name).value = count  # The port is the register.
        # Sums near the limits of their range overflow and become infinite; ReLU sets about half of them to zero.
        relu = int(bench.config.relu)
        fields = {**usual, "b_streams": 3, "add": 1, "emit": 1, "relu": relu, "seed": 1}
        await bench.execute({**fields, "scale": 127 if bench.config.scale else 0}, 0.0)


@cocotb.test()
async def ends_of_fields(dut) -> None:
    """Execute descriptors with each field at and near its limits, if their streams fit the stream buffers."""
    bench = Bench(dut, "output ends of fields")
    config = bench.config
    await bench.begin()
    words, depth = {side: config.stream_words(side) for side in "ab"}, config.tile.window_depth
    for first in range(0, config.partial_sums, words["b"]):
        count = min(words["b"], config.partial_sums - first)
        await bench.execute({"a_streams": 1, "b_streams": count, "steps": 1, "x_size": 1, "partial": first}, 0.0)
    groups = range(config.groups // 2, config.groups)
    cases = list(field_cases(bench.random, config, ("multiply",), groups, {"plain": {}, "compressed": {}}))
    for case in bench.random.sample(cases, min(len(cases), round(500 * bench.job.effort))):
        _, values = decode(case.descriptor())
        each = -(-values["steps"] // depth)
        if any(values[f"{side}_base"] + values[f"{side}_streams"] * each > words[side] for side in "ab"):
            continue  # The multiply unit, not this one, reports that error.
        written = written_groups(case.descriptor(), config)
        away = values["mask_address"] - values["address"]
        # The results may overwrite their own mask, but FP32 results would overwrite mask groups not read yet.
        apart = away or values["fp32"]
        masks = {(group + away) % config.groups for group in written} if values["mask"] and apart else set()
        biases = {(values["bias_address"] + k) % config.groups for k in range(-1, 32)} if values["bias"] else set()
        if not written & (masks | biases):
            await bench.execute(dict(case.fields), 0.0)
