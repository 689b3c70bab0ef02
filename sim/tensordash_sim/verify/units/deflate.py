"""Bench of deflate: compare bytes and strobes with golden deflate."""

import cocotb

from tensordash_sim.golden.core.tensors import deflate
from tensordash_sim.verify.bench import start_bench
from tensordash_sim.verify.stimulus import packed
from tensordash_sim.verify.units.tensors import min_cycles, random_tensor


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.4], stall=[0.0, 0.4])
async def random_groups(dut, idle: float, stall: float) -> None:
    """Send tensors with random shares of zeros, compressed or plain; check bytes, and the cycles without pauses."""
    job, random, pins = start_bench(dut, f"deflate {idle} {stall}")
    config = job.config
    width, data_bits = config.value_bits, config.axi_bits
    beat_bytes, unit_bytes = data_bits // 8, width // 8
    wide = {"offset": 0} if data_bits > 128 else {}
    names = ("start", "plain", "mute", "groups_valid", "groups_payload", "flush", "beats_ready")
    await pins.reset(**dict.fromkeys(names, 0), **wide)
    for tensor in range(round(24 * job.effort)):
        groups, plain, needs = random_tensor(random, config)
        offset = 16 * random.randrange(data_bits // 128) if wide and not plain else 0
        expected = deflate(groups, config, len(groups))[0]
        if plain:
            expected = b"".join(value.to_bytes(unit_bytes, "little") for group in groups for value in group)
        pins.drive(start=1, plain=int(plain), groups_valid=0, flush=0, **({"offset": offset // 16} if wide else {}))
        await pins.settle()
        await pins.tick()
        pins.drive(start=0)
        least = min_cycles(needs, offset // unit_bytes, beat_bytes // unit_bytes)
        cut = random.random() < 0.1
        written: list[tuple[int, int]] = []
        began, held, shown, flush, place, units = pins.cycle, None, False, False, 0, 0
        while True:
            shown = bool(groups) and (shown or random.random() >= idle)
            flush |= not groups and not plain and random.random() >= idle
            payload = packed(groups[0], width) if shown else 0
            ready = int(random.random() >= stall)
            mute = int(not ready and random.random() < 0.5)
            pins.drive(groups_valid=int(shown), groups_payload=payload, flush=int(flush), beats_ready=ready, mute=mute)
            await pins.settle()
            assert bool(pins.read("whole_beats")) == pins.read("beats_valid")
            assert pins.read("units") == units or shown or plain or flush
            if (flush or (plain and not groups)) and not pins.read("beats_valid"):
                break
            if pins.read("beats_valid"):
                beat = pins.read("beats_payload")
                data, strobe = beat & ((1 << data_bits) - 1), beat >> data_bits
                assert not (mute and data), f"cycle {pins.cycle}: data are {data:x}, not 0, while `mute` is high"
                low = sum((data >> 8 * i & 255) << 8 * i for i in range(beat_bytes) if not strobe >> i & 1)
                assert not low, f"cycle {pins.cycle}: bytes whose strobes are low are not zero"
                if not mute:
                    assert held is None or held == beat, f"cycle {pins.cycle}: a beat changed while it waited"
                    held = beat
                if ready:
                    written += [(place + i, data >> 8 * i & 255) for i in range(beat_bytes) if strobe >> i & 1]
                    place, held = place + beat_bytes, None
            if shown and pins.read("groups_ready"):
                if not plain:
                    assert pins.read("units") == units
                units += needs.pop(0)
                groups.pop(0)
                shown = False
            await pins.tick()
            assert pins.cycle - began < 4000, "deflate hangs"
            if cut and random.random() < 0.2:  # The next start discards a partial tensor.
                break
        if cut:
            continue
        if not idle and not stall:
            assert pins.cycle - began <= least + 2, f"tensor {tensor}: {pins.cycle - began} cycles for {least}"
        assert written == [(offset + i, byte) for i, byte in enumerate(expected)], f"tensor {tensor}: bytes differ"
