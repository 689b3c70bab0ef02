"""Bench of deflate: bytes and strobes against golden deflate."""

from random import Random

import cocotb

from tensordash_sim.core.tensors import deflate
from tensordash_sim.verify.job import current_job
from tensordash_sim.verify.pins import Pins


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.4], stall=[0.0, 0.4])
async def random_groups(dut, idle: float, stall: float) -> None:
    """Tensors of any share of zeros; a group in every cycle where nothing pauses and the bus keeps up."""
    job = current_job()
    random = Random(f"{job.seed} deflate {idle} {stall}")
    cocotb.log.info("seed %s", job.seed)
    config = job.config
    width, size = config.value_bits, config.tile.lanes**2
    beat_bytes, unit_bytes = config.axi_bits // 8, width // 8
    masks = size // width
    pins = Pins(dut)
    inputs = {"start": 0, "offset": 0, "groups_valid": 0, "groups_payload": 0, "flush": 0, "beats_ready": 0}
    await pins.reset(**inputs)
    for tensor in range(round(24 * job.effort)):
        count = random.choice([1, 2, random.randint(3, 40)])
        share = random.choice([0.0, 0.1, 0.5, 1.0])
        groups = [
            [random.getrandbits(width) if random.random() < share else 0 for _ in range(size)] for _ in range(count)
        ]
        expected, _ = deflate(groups, config, count)
        offset = random.randrange(beat_bytes // unit_bytes)
        pins.drive(start=1, offset=offset, groups_valid=0, flush=0)
        await pins.settle()
        await pins.tick()
        pins.drive(start=0)
        written: list[tuple[int, int]] = []
        began, held, shown, flush, place = pins.cycle, None, False, False, 0
        while True:
            shown = bool(groups) and (shown or random.random() >= idle)
            flush |= not groups and random.random() >= idle
            payload = sum(value << (i * width) for i, value in enumerate(groups[0])) if shown else 0
            pins.drive(
                groups_valid=int(shown),
                groups_payload=payload,
                flush=int(flush),
                beats_ready=int(random.random() >= stall),
            )
            await pins.settle()
            assert bool(pins.read("whole")) == pins.read("beats_valid")
            if flush and not pins.read("beats_valid"):
                break
            if pins.read("beats_valid"):
                beat = pins.read("beats_payload")
                data, strobe = beat & ((1 << config.axi_bits) - 1), beat >> config.axi_bits
                # Bytes of strobes that are low are any.
                seen = sum((data >> 8 * i & 255) << 8 * i for i in range(beat_bytes) if strobe >> i & 1), strobe
                assert held is None or held == seen, f"cycle {pins.cycle}: a beat changed while it waited"
                held = seen
                if pins.read("beats_ready"):
                    written += [(place + i, seen[0] >> 8 * i & 255) for i in range(beat_bytes) if strobe >> i & 1]
                    place, held = place + beat_bytes, None
            if shown and pins.read("groups_ready"):
                need = masks + sum(value != 0 for value in groups[0])
                assert pins.read("need") == need
                groups.pop(0)
                shown = False
            await pins.tick()
            assert pins.cycle - began < 4000, "it hangs"
        if not idle and not stall and not share:
            least = max(count, (len(expected) + offset * unit_bytes) // beat_bytes)
            assert pins.cycle - began <= least + 3, f"tensor {tensor}: {pins.cycle - began} cycles for {least}"
        begin = offset * unit_bytes
        assert written == [(begin + i, byte) for i, byte in enumerate(expected)], f"tensor {tensor}: bytes differ"
        if tensor == 7:
            pins.drive(rst=1, flush=0)
            await pins.settle()
            await pins.tick()
            pins.drive(rst=0)
