"""Bench of a stream buffer: words of each bank against lists of them, and which banks can be read."""

import cocotb

from tensordash_sim.verify.bench import start_bench
from tensordash_sim.verify.pins import Pins, split


@cocotb.test()
async def random_groups(dut) -> None:
    """Parts of words written anywhere, to one bank or several, and reads of each bank on its own, where it can."""
    job, random, pins = start_bench(dut, "stream buffer")
    shape = job.options
    depth, words, parts, bits = (shape[name] for name in ("depth", "words", "parts", "group_bits"))
    address_bits = (words - 1).bit_length()
    held = {(bank, word, part): 0 for bank in range(depth) for word in range(words) for part in range(parts)}
    pins, checked = Pins(dut), 0
    await pins.reset(write_bank=0, write_word=0, write_part=0, write_data=0, read_enable=0, read_address=0)
    # Everything once, so that nothing is undefined.
    for word in range(words):
        for part in range(parts):
            pins.drive(write_bank=(1 << depth) - 1, write_word=word, write_part=1 << part)
            await pins.settle()
            await pins.tick()
    shown: list[int | None] = [None] * depth
    for _ in range(round(500 * job.effort)):
        banks = random.choice([0, 1 << random.randrange(depth), random.getrandbits(depth)])
        word, part, data = random.randrange(words), random.randrange(parts), random.getrandbits(bits)
        enable = random.getrandbits(depth)
        addresses = [random.randrange(words) for _ in range(depth)]
        pins.drive(
            write_bank=banks,
            write_word=word,
            write_part=1 << part,
            write_data=data,
            read_enable=enable,
            read_address=sum(each << k * address_bits for k, each in enumerate(addresses)),
        )
        await pins.settle()
        if None not in shown:
            offered = split(pins.read("data"), parts * bits, depth)
            assert offered == shown, f"cycle {pins.cycle}: banks show {offered}, not {shown}"
            checked += 1
        # A bank that is written cannot be read; of a single one, only its words of the other parity.
        taken = banks if depth > 1 or (word - addresses[0]) % 2 == 0 else 0
        ready = pins.read("read_ready")
        assert ready == ~taken & ((1 << depth) - 1), f"cycle {pins.cycle}: ready is {ready:b}, written are {taken:b}"
        for bank in range(depth):
            if enable >> bank & ready >> bank & 1:
                shown[bank] = sum(held[bank, addresses[bank], k] << k * bits for k in range(parts))
            if banks >> bank & 1:
                held[bank, word, part] = data
        await pins.tick()
    assert checked > 300 * job.effort
    # Where a word is: what is read alone does not tell, as long as it is always sought where it was put.
    for bank in range(depth if depth > 1 else 0):
        memory = getattr(dut, f"bank_{bank}").memory
        for word in range(words):
            whole = sum(held[bank, word, part] << part * bits for part in range(parts))
            assert int(memory[word].value) == whole, f"word {word} of bank {bank} is elsewhere"
