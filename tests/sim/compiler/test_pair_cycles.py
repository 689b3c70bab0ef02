"""Compare cycles of layouts with pairs of groups with a count of one group after the other."""

from dataclasses import replace
from random import Random

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import OPERATIONS, encode
from tensordash_sim.compiler.pair_cycles import pair_cycles
from tensordash_sim.golden.core.loop_walk import LoopWalk

CONFIG = CoreConfig.from_toml("", ["core.layout_groups=2", "core.buffer=1"])


def draw_layout(random):
    loops = {f"count_{k}": random.choice([1, 2, 3, 5]) for k in range(5)}
    for k in range(6):
        loops[f"address_{k}"] = random.choice([0, 1, 2, 3, -1])
        loops[f"x_{k}"] = random.choice([0, 0, 1, 4, -3])
        loops[f"y_{k}"] = random.choice([0, 0, 1])
    sizes = {"streams": random.randrange(1, 4), "steps": random.randrange(1, 12), "stride": random.choice([1, 3])}
    places = {"address": random.randrange(28), "x": random.randrange(-5, 5), "y": 0, "x_size": random.randrange(1, 30)}
    return {**loops, **sizes, **places, "y_size": 4, "checked": random.getrandbits(1), "base": 0, "transposed": 0}


def reads_and_banks(values, pads):
    """Yield for each written group its step, which group it reads from each bank, and the banks that it writes."""
    walk, lanes, depth = LoopWalk(values, 6), CONFIG.tile.lanes, CONFIG.tile.window_depth
    for _ in range(values["streams"]):
        for step in range(values["steps"]):
            reads = {}
            for port in range(lanes):
                position = walk.x + port * values["stride"]
                group = (walk.address + position // lanes) % (1 << 16)
                row = not values["checked"] or 0 <= walk.y < values["y_size"]
                if 0 <= position < values["x_size"] and group < CONFIG.groups and row:
                    reads[position % lanes] = group
            end = depth if pads and step == values["steps"] - 1 else step % depth + 1
            yield step, reads, set(range(step % depth, end))
            walk.step()


def count_cycles(values, *, crosses_streams=True):
    cycles, before = 0, None
    for step, reads, banks in reads_and_banks(values, pads=crosses_streams):
        if before is not None and (step or crosses_streams):
            meets = any(
                reads.get(bank, group) != group and (bin(reads[bank]).count("1") - bin(group).count("1")) % 2 == 0
                for bank, group in before[0].items()
            )
            if not (banks & before[1] or meets):
                before = None
                continue
        cycles, before = cycles + 1, (reads, banks)
    return cycles


@pytest.mark.parametrize("seed", range(30))
def test_pairs(seed):
    values = draw_layout(Random(seed))
    assert pair_cycles(CONFIG, encode(OPERATIONS["layout_b"], values)) == count_cycles(values)


@pytest.mark.parametrize("seed", range(30))
def test_pairs_of_streams_with_dropped_steps(seed):
    """A group never shares a cycle with a group of the next stream of side B."""
    values = draw_layout(Random(seed))
    config = replace(CONFIG, skip_masked=True, drop_steps=True)
    apart = count_cycles(values, crosses_streams=False)
    assert pair_cycles(config, encode(OPERATIONS["layout_b"], values)) == apart
    assert pair_cycles(config, encode(OPERATIONS["layout_a"], values)) == count_cycles(values)
    assert apart <= count_cycles(values) + values["streams"]


def test_power_of_two_strides_take_half_of_the_cycles():
    values = dict.fromkeys(draw_layout(Random(0)), 0) | {f"count_{k}": 1 for k in range(5)}
    values |= {"count_0": 64, "streams": 1, "steps": 64, "stride": 1, "x_size": 4}
    cycles = {}
    for stride in (1, 2, 3, 4, 8):
        config = CoreConfig(layout_groups=2)
        cycles[stride] = pair_cycles(config, encode(OPERATIONS["layout_b"], values | {"address_0": stride}))
    assert cycles == {1: 32, 2: 32, 3: 52, 4: 32, 8: 32}


def test_strides_of_several_turns():
    values = draw_layout(Random(1)) | {"stride": 2, "steps": 7, "streams": 3}
    assert pair_cycles(CONFIG, encode(OPERATIONS["layout_a"], values)) == 3 * 7 * 2
