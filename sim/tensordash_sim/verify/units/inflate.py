"""Bench of inflate: tensors that golden deflate made, whole, cut, and with masks that lie."""

from random import Random

import cocotb
import numpy as np

from tensordash_sim.golden.core.tensors import deflate, inflate
from tensordash_sim.verify.job import current_job
from tensordash_sim.verify.pins import Pins


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.4], stall=[0.0, 0.4])
async def random_tensors(dut, idle: float, stall: float) -> None:
    """All groups, in parts, and whether the units were right; a beat or a group in every cycle where nothing pauses."""
    job = current_job()
    random = Random(f"{job.seed} inflate {idle} {stall}")
    cocotb.log.info("seed %s", job.seed)
    config = job.config
    width, size = config.value_bits, config.tile.lanes**2
    per_beat = config.axi_bits // width
    pins = Pins(dut)
    part = max(config.tile.lanes, min(per_beat, size))
    names = ("start", "plain", "offset", "limit", "groups", "beats_valid", "beats_payload", "out_ready")
    await pins.reset(**dict.fromkeys(names, 0))
    wrongs = rights = 0
    for tensor in range(round(24 * job.effort)):
        count = random.choice([1, 2, random.randint(3, 40)])
        share = random.choice([0.0, 0.1, 0.5, 0.9, 1.0])
        plain = random.random() < 0.2
        groups = [
            [random.getrandbits(width) if random.random() < share else 0 for _ in range(size)] for _ in range(count)
        ]
        data, _ = deflate(groups, config, count)
        units = np.frombuffer(data, f"<u{width // 8}").tolist()
        if plain:
            units = [value for group in groups for value in group]
        needs = [size if plain else size // width + sum(value != 0 for value in group) for group in groups]
        error = random.choice(["", "", "", "fewer", "more", "mask"]) if not plain else ""
        if error == "fewer":
            units = units[: random.randint(1, len(units))]
        elif error == "more":
            units += [random.getrandbits(width) for _ in range(random.randint(1, 9))]
        elif error == "mask":
            units[0] ^= 1 << random.randrange(width)
        whole = np.array(groups) if plain else inflate(np.array(units), config, count)
        offset = random.randrange(per_beat) if not plain else 0
        sent = [random.getrandbits(width) for _ in range(offset)] + units
        sent += [random.getrandbits(width) for _ in range(-len(sent) % per_beat)]
        beats = [
            sum(unit << (i * width) for i, unit in enumerate(sent[k : k + per_beat]))
            for k in range(0, len(sent), per_beat)
        ]
        limit = random.getrandbits(20) if plain else offset + len(units)
        pins.drive(start=1, plain=int(plain), offset=offset, limit=limit, groups=count, beats_valid=0)
        await pins.settle()
        await pins.tick()
        pins.drive(start=0)
        given: list[int] = []
        parts = values = 0
        held, began = None, pins.cycle
        shown, cut = False, tensor == 7
        while beats or pins.read("active") or (plain and len(given) < count):
            shown = bool(beats) and (shown or random.random() >= idle)
            pins.drive(
                beats_valid=int(shown),
                beats_payload=beats[0] if shown else 0,
                out_ready=int(random.random() >= stall),
            )
            await pins.settle()
            if pins.read("out_valid"):
                which, last, out = pins.read("parts"), pins.read("last"), pins.read("out_payload")
                assert held is None or held == (which, out), f"cycle {pins.cycle}: a group changed while it waited"
                held = which, out
                if pins.read("out_ready"):
                    assert which, f"cycle {pins.cycle}: no part of a group"
                    assert not which & parts, f"cycle {pins.cycle}: a part of a group that was there"
                    assert last == ((which | parts).bit_count() == size // part)
                    for k in range(size // part):
                        if which >> k & 1:
                            values |= (out >> k * part * width & ((1 << part * width) - 1)) << k * part * width
                    parts |= which
                    if last:
                        given.append(values)
                        parts = values = 0
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
        # What each group takes, if units are there as they are needed.
        place, least = offset, 0
        for need in needs:
            least += max(1, (place + need) // per_beat - place // per_beat)
            place += need
        pins.drive(beats_valid=0)
        if cut:
            pins.drive(rst=1)
            await pins.settle()
            await pins.tick()
            pins.drive(rst=0)
            continue
        assert plain or pins.read("wrong") == (whole is None), f"tensor {tensor}: golden says wrong is {whole is None}"
        found = [[group >> (j * width) & ((1 << width) - 1) for j in range(size)] for group in given]
        if whole is not None:
            assert found == whole.tolist(), f"tensor {tensor}: groups differ"
            rights += 1
            if not idle and not stall:
                # A part that ends with the beat that is offered leaves none for the next one.
                least += 4 + (count // 4 if size // part > 2 else 0)
                assert taken <= least, f"tensor {tensor}: {taken} cycles for {least}"
        else:
            assert len(found) <= count
            wrongs += 1
    assert wrongs > 1
    assert rights > 3
