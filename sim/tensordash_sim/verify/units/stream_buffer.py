"""Bench of a stream buffer: compare each bank's words with lists, and check which banks are ready."""

from random import Random

import cocotb

from tensordash_sim.verify.bench import start_bench
from tensordash_sim.verify.pins import Pins, split
from tensordash_sim.verify.stimulus import packed

Write = tuple[int, int, int, int]
"""The bank, in the numbering of reads, and word, part and data."""


def _drawn(random: Random, shape: dict[str, int]) -> tuple[dict[str, int], list[Write]]:
    """Return the pins of random writes, and the writes."""
    depth, words, parts, bits = (shape[name] for name in ("depth", "words", "parts", "group_bits"))
    pairs = shape.get("pairs", False)
    written = random.choice([0, 1 << random.randrange(depth), random.getrandbits(depth)])
    places = [(random.randrange(words), random.randrange(parts), random.getrandbits(bits)) for _ in range(depth)]
    if not pairs:
        places = places[:1] * depth
    word, part, data = zip(*(places if pairs else places[:1]), strict=True)
    pins = {
        "write_bank": written,
        "write_word": packed(word, (words - 1).bit_length()),
        "write_part": packed([1 << each for each in part], parts),
        "write_data": packed(data, bits),
    }
    return pins, [(k, *place) for k, place in enumerate(places) if written >> k & 1]


@cocotb.test()
async def random_groups(dut) -> None:
    """Write random parts of words to one or more banks, and read each bank independently when it is ready."""
    job, random, pins = start_bench(dut, "stream buffer")
    shape = job.options
    depth, words, parts, bits = (shape[name] for name in ("depth", "words", "parts", "group_bits"))
    pairs = shape.get("pairs", False)
    address_bits = (words - 1).bit_length()
    held = {(bank, word, part): 0 for bank in range(depth) for word in range(words) for part in range(parts)}
    pins, checked = Pins(dut), 0
    await pins.reset(write_bank=0, write_word=0, write_part=0, write_data=0, read_enable=0, read_address=0)
    # Write everything once, so that nothing is undefined.
    for word in range(words):
        for part in range(parts):
            copies = depth if pairs else 1
            pins.drive(
                write_bank=(1 << depth) - 1,
                write_word=packed([word] * copies, address_bits),
                write_part=packed([1 << part] * copies, parts),
                write_data=0,
            )
            await pins.settle()
            await pins.tick()
    shown: list[int | None] = [None] * depth
    for _ in range(round(500 * job.effort)):
        driven, writes = _drawn(random, shape)
        enable = random.getrandbits(depth)
        addresses = [random.randrange(words) for _ in range(depth)]
        pins.drive(**driven, read_enable=enable, read_address=packed(addresses, address_bits))
        await pins.settle()
        if None not in shown:
            offered = split(pins.read("data"), parts * bits, depth)
            assert offered == shown, f"cycle {pins.cycle}: banks show {offered}, not {shown}"
            checked += 1
        # A written bank cannot be read. A single bank can be read at words of the other parity.
        taken = sum({1 << bank for bank, word, _, _ in writes if depth > 1 or (word - addresses[0]) % 2 == 0})
        ready = pins.read("read_ready")
        assert ready == ~taken & ((1 << depth) - 1), f"cycle {pins.cycle}: ready is {ready:b}, written are {taken:b}"
        for bank in range(depth):
            if enable >> bank & ready >> bank & 1:
                shown[bank] = packed([held[bank, addresses[bank], k] for k in range(parts)], bits)
        for bank, word, part, data in writes:
            held[bank, word, part] = data
        await pins.tick()
    assert checked > 300 * job.effort
    # Check the place of each word in the memories, which reads alone cannot check.
    for bank in range(depth if depth > 1 else 0):
        memory = getattr(dut, f"bank_{bank}").memory
        for word in range(words):
            whole = packed([held[bank, word, part] for part in range(parts)], bits)
            assert int(memory[word].value) == whole, f"word {word} of bank {bank} is elsewhere"
