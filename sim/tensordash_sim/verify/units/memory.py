"""Bench of a memory: compare its words with a list."""

import cocotb

from tensordash_sim.verify.bench import start_bench
from tensordash_sim.verify.pins import Pins


@cocotb.test()
async def random_words(dut) -> None:
    """Read words and write parts of words at random; check that read data stay stable in cycles without a read."""
    job, random, pins = start_bench(dut, "memory")
    words, bits, enables, ports = (job.options[name] for name in ("words", "bits", "enables", "ports"))
    part = bits // enables
    known: list[int | None] = [None] * words  # None until all parts of a word have been written
    written = [[False] * enables for _ in range(words)]
    held = [0] * words
    shown: int | None = None
    pins, checked = Pins(dut), 0
    idle = {"enable": 0, "address": 0} if ports == 1 else {"read_enable": 0, "write_address": 0, "read_address": 0}
    await pins.reset(write_enable=0, write_data=0, **idle)
    for _ in range(round(600 * job.effort)):
        enable = random.getrandbits(enables) & random.getrandbits(enables) if random.random() < 0.5 else 0
        write, data = random.randrange(words), random.getrandbits(bits)
        read = random.random() < 0.5
        if ports == 1:
            # A cycle with a write reads nothing. Without `enable`, the memory ignores the other pins.
            address, works = write, random.random() < 0.8
            pins.drive(enable=int(works), write_enable=enable, write_data=data, address=write)
            read, enable = works and not enable, enable if works else 0
        else:
            address = random.choice([each for each in range(words) if each != write])
            pins.drive(write_enable=enable, write_address=write, write_data=data)
            pins.drive(read_enable=int(read), read_address=address)
        await pins.settle()
        if shown is not None:
            assert pins.read("read_data") == shown, f"cycle {pins.cycle}: read_data is not {shown:#x}"
            checked += 1
        if read:
            shown = known[address]
        for k in range(enables):
            if enable >> k & 1:
                mask = ((1 << part) - 1) << (k * part)
                held[write] = held[write] & ~mask | data & mask
                written[write][k] = True
        if all(written[write]):
            known[write] = held[write]
        await pins.tick()
    assert checked > 100 * job.effort
