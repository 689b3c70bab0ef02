"""Bench of inflate: send tensors from golden deflate, complete, truncated, and with wrong masks."""

from random import Random

import cocotb
import numpy as np

from tensordash_sim.golden.core.tensors import deflate, inflate
from tensordash_sim.verify.bench import start_bench
from tensordash_sim.verify.pins import Pins, split
from tensordash_sim.verify.stimulus import packed
from tensordash_sim.verify.units.tensors import min_cycles, random_tensor


def falsify(random: Random, units: list[int], width: int) -> list[int]:
    """Return units with a random error, or unchanged."""
    error = random.choice(["", "", "", "fewer", "more", "mask"])
    if error == "fewer":
        return units[: random.randint(1, len(units))]
    if error == "more":
        return units + [random.getrandbits(width) for _ in range(random.randint(1, 9))]
    if error == "mask":
        return [units[0] ^ 1 << random.randrange(width), *units[1:]]
    return units


class Groups:
    """Collector of the unit's groups, which arrive in parts of several values."""

    def __init__(self, pins: Pins, width: int, size: int, part: int) -> None:
        self.pins, self.width, self.size, self.part = pins, width, size, part
        self.groups: list[int] = []
        self._parts = self._values = 0
        self._held: tuple[int, int] | None = None

    def observe(self) -> None:
        """Collect the parts of this cycle, and check the handshake."""
        pins, count, bits = self.pins, self.size // self.part, self.part * self.width
        if not pins.read("out_valid"):
            return
        which, last, out = pins.read("parts"), pins.read("last"), pins.read("out_payload")
        assert self._held in (None, (which, out)), f"cycle {pins.cycle}: a group changed while it waited"
        self._held = which, out
        if not pins.read("out_ready"):
            return
        assert which, f"cycle {pins.cycle}: no part of a group"
        assert not which & self._parts, f"cycle {pins.cycle}: a part of a group was sent twice"
        assert last == ((which | self._parts).bit_count() == count)
        for k in range(count):
            if which >> k & 1:
                self._values |= (out >> k * bits & ((1 << bits) - 1)) << k * bits
        self._parts |= which
        if last:
            self.groups.append(self._values)
            self._parts = self._values = 0
        self._held = None


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.4], stall=[0.0, 0.4])
async def random_tensors(dut, idle: float, stall: float) -> None:
    """Check all groups, whether the number of units is right, and the cycles without pauses."""
    job, random, pins = start_bench(dut, f"inflate {idle} {stall}")
    config = job.config
    width, size = config.value_bits, config.tile.lanes**2
    per_beat = config.axi_bits // width
    part = max(config.tile.lanes, min(per_beat, size))
    names = ("start", "plain", "offset", "limit", "groups", "beats_valid", "beats_payload", "out_ready")
    await pins.reset(**dict.fromkeys(names, 0))
    wrongs = rights = 0
    for tensor in range(round(24 * job.effort)):
        groups, plain, needs = random_tensor(random, config)
        count = len(groups)
        whole: np.ndarray | None
        units, whole = [value for group in groups for value in group], np.array(groups)
        if not plain:
            data, _ = deflate(groups, config, count)
            units = falsify(random, np.frombuffer(data, f"<u{width // 8}").tolist(), width)
            whole = inflate(np.array(units), config, count)
        offset = random.randrange(per_beat) if not plain else 0
        sent = [random.getrandbits(width) for _ in range(offset)] + units
        sent += [random.getrandbits(width) for _ in range(-len(sent) % per_beat)]
        beats = [packed(sent[k : k + per_beat], width) for k in range(0, len(sent), per_beat)]
        limit = random.getrandbits(20) if plain else offset + len(units)
        pins.drive(start=1, plain=int(plain), offset=offset, limit=limit, groups=count, beats_valid=0)
        await pins.settle()
        await pins.tick()
        pins.drive(start=0)
        returned, began, shown, cut = Groups(pins, width, size, part), pins.cycle, False, tensor == 7
        while beats or pins.read("active") or (plain and len(returned.groups) < count):
            shown = bool(beats) and (shown or random.random() >= idle)
            ready = int(random.random() >= stall)
            pins.drive(beats_valid=int(shown), beats_payload=beats[0] if shown else 0, out_ready=ready)
            await pins.settle()
            returned.observe()
            if shown and pins.read("beats_ready"):
                beats.pop(0)
                shown = False
            await pins.tick()
            await pins.settle()
            assert pins.cycle - began < 4000, "inflate hangs"
            if cut and pins.cycle - began > 9:
                break
        taken = pins.cycle - began
        pins.drive(beats_valid=0)
        if cut:
            await pins.restart()
            continue
        assert plain or pins.read("wrong") == (whole is None), f"tensor {tensor}: golden has wrong is {whole is None}"
        found = [split(group, width, size) for group in returned.groups]
        if whole is not None:
            assert found == whole.tolist(), f"tensor {tensor}: groups differ"
            rights += 1
            if not idle and not stall:
                # After a part that ends with the offered beat, no value is left for the next part.
                least = min_cycles(needs, offset, per_beat) + 4 + (count // 4 if size // part > 2 else 0)
                assert taken <= least, f"tensor {tensor}: {taken} cycles for {least}"
        else:
            assert len(found) <= count
            wrongs += 1
    assert wrongs > 1
    assert rights > 3
