"""Bench of inflate: tensors that golden deflate made, whole, cut, and with masks that lie."""

from random import Random

import cocotb
import numpy as np

from tensordash_sim.core.tensors import deflate, inflate
from tensordash_sim.verify.job import current_job
from tensordash_sim.verify.pins import Pins


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.4], stall=[0.0, 0.4])
async def random_tensors(dut, idle: float, stall: float) -> None:
    """Every group, and whether the units were right; a group in every cycle where nothing pauses and most is zero."""
    job = current_job()
    random = Random(f"{job.seed} inflate {idle} {stall}")
    cocotb.log.info("seed %s", job.seed)
    config = job.config
    width, size = config.value_bits, config.tile.lanes**2
    per_beat = config.axi_bits // width
    pins = Pins(dut)
    inputs = {"start": 0, "offset": 0, "units": 0, "groups": 0, "beats_valid": 0, "beats_payload": 0, "out_ready": 0}
    await pins.reset(**inputs)
    wrongs = rights = 0
    for tensor in range(round(24 * job.effort)):
        count = random.choice([1, 2, random.randint(3, 40)])
        share = random.choice([0.0, 0.1, 0.5, 1.0])
        groups = [
            [random.getrandbits(width) if random.random() < share else 0 for _ in range(size)] for _ in range(count)
        ]
        data, _ = deflate(groups, config, count)
        units = np.frombuffer(data, f"<u{width // 8}").tolist()
        error = random.choice(["", "", "", "fewer", "more", "mask"])
        if error == "fewer":
            units = units[: random.randint(1, len(units))]
        elif error == "more":
            units += [random.getrandbits(width) for _ in range(random.randint(1, 9))]
        elif error == "mask":
            units[0] ^= 1 << random.randrange(width)
        whole = inflate(np.array(units), config, count)
        offset = random.randrange(per_beat)
        sent = [random.getrandbits(width) for _ in range(offset)] + units
        sent += [random.getrandbits(width) for _ in range(-len(sent) % per_beat)]
        beats = [
            sum(unit << (i * width) for i, unit in enumerate(sent[k : k + per_beat]))
            for k in range(0, len(sent), per_beat)
        ]
        pins.drive(start=1, offset=offset, units=len(units), groups=count, beats_valid=0)
        await pins.settle()
        await pins.tick()
        pins.drive(start=0)
        given: list[int] = []
        held, began = None, pins.cycle
        shown, cut = False, tensor == 7
        while beats or pins.read("active"):
            shown = bool(beats) and (shown or random.random() >= idle)
            pins.drive(
                beats_valid=int(shown),
                beats_payload=beats[0] if shown else 0,
                out_ready=int(random.random() >= stall),
            )
            await pins.settle()
            if pins.read("out_valid"):
                group = pins.read("out_payload")
                assert held is None or held == group, f"cycle {pins.cycle}: a group changed while it waited"
                held = group
                if pins.read("out_ready"):
                    given.append(group)
                    held = None
            if shown and pins.read("beats_ready"):
                beats.pop(0)
                shown = False
            await pins.tick()
            await pins.settle()
            assert pins.cycle - began < 4000, "it hangs"
            if cut and pins.cycle - began > 9:
                break
        taken = pins.cycle - began
        pins.drive(beats_valid=0)
        if cut:
            pins.drive(rst=1)
            await pins.settle()
            await pins.tick()
            pins.drive(rst=0)
            continue
        assert pins.read("wrong") == (whole is None), f"tensor {tensor}: golden says wrong is {whole is None}"
        values = [[group >> (j * width) & ((1 << width) - 1) for j in range(size)] for group in given]
        if whole is not None:
            assert values == whole.tolist(), f"tensor {tensor}: groups differ"
            rights += 1
            if not idle and not stall and not share:
                least = max(count, len(sent) // per_beat)
                assert taken <= least + 3, f"tensor {tensor}: {taken} cycles for {least}"
        else:
            assert len(values) <= count
            wrongs += 1
    assert wrongs > 1
    assert rights > 3
