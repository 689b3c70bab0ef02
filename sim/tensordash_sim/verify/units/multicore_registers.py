"""Bench of a register switch with join registers at its ports: compare random accesses with a model."""

from random import Random

import cocotb

from tensordash.movers.axi import PAGE
from tensordash_sim.verify.bench import start_bench
from tensordash_sim.verify.pins import Pins

ADDRESS_BITS = 12
WORD = (1 << 32) - 1


class Model:
    """Registers of all ports, as docs/integration.md defines them: the words that were written."""

    def __init__(self, ports: int, address_bits: int) -> None:
        high = (1 << address_bits - 32) - 1
        self.masks = (WORD - PAGE + 1, high, WORD - PAGE + 1, high, 0xFFFF)
        self.words = [[0] * len(self.masks) for _ in range(ports)]

    def place(self, address: int) -> tuple[int, int]:
        """Return the port and the word of an address."""
        return min(address >> ADDRESS_BITS, len(self.words) - 1), (address & (1 << ADDRESS_BITS) - 1) >> 2

    def write(self, address: int, data: int, strobe: int) -> None:
        port, word = self.place(address)
        if word < len(self.masks):
            mask = sum(255 << 8 * k for k in range(4) if strobe >> k & 1)
            self.words[port][word] = (self.words[port][word] & ~mask | data & mask) & self.masks[word]

    def read(self, address: int) -> int:
        port, word = self.place(address)
        return 0 if word >= len(self.masks) else self.words[port][word] | (PAGE - 1 if word == 2 else 0)


class Channel:
    """Accesses in order: requests that stay until they are taken, and answers that are taken at random."""

    def __init__(self, pins: Pins, random: Random, requests: tuple[str, ...], answer: str) -> None:
        self.pins, self.random, self.requests, self.answer = pins, random, requests, answer
        self.waiting: dict[str, dict[str, int]] = {}
        self.offered: set[str] = set()
        self.expected: list[int] = []
        self.ready = False
        self.count = self.age = 0

    def drive(self, values: dict[str, dict[str, int]]) -> None:
        """Begin an access with these values, unless one waits, and drive the pins."""
        self.waiting = self.waiting or values
        self.offered |= {name for name in self.waiting if self.random.random() < 0.5}
        self.ready = self.random.random() < 0.5
        self.pins.drive(**{f"s_axi_{self.answer}ready": int(self.ready)})
        for name in self.requests:
            is_offered = name in self.offered
            self.pins.drive(**{f"s_axi_{name}valid": int(is_offered)})
            shown = self.waiting.get(name, {}).items() if is_offered else ()
            self.pins.drive(**{f"s_axi_{key}": value for key, value in shown})

    def observe(self) -> tuple[bool, int | None]:
        """Return whether an access is taken in this cycle, and what the access that is answered expects."""
        ended = None
        if self.pins.read(f"s_axi_{self.answer}valid"):
            assert self.expected, f"an answer on {self.answer} that was not asked for"
            if self.ready:
                ended = self.expected.pop(0)
                self.count += 1
                self.age = 0
        self.age += 1
        assert self.age < 200, f"an access on {self.answer} hangs"
        for name in {name for name in self.offered if self.pins.read(f"s_axi_{name}ready")}:
            del self.waiting[name]
            self.offered.remove(name)
        return not self.waiting, ended


@cocotb.test()
async def random_accesses(dut) -> None:
    """Read and write at the same time at all ports, beyond the last port, and at addresses without a register."""
    job, random, pins = start_bench(dut, "multicore registers")
    ports, bits = job.options["ports"], job.config.address_bits
    model = Model(ports, bits)
    writes, reads = Channel(pins, random, ("aw", "w"), "b"), Channel(pins, random, ("ar",), "r")
    names = (
        "awaddr",
        "awprot",
        "awvalid",
        "wdata",
        "wstrb",
        "wvalid",
        "bready",
        "araddr",
        "arprot",
        "arvalid",
        "rready",
    )
    await pins.reset(**{f"s_axi_{name}": 0 for name in names}, **{f"expired_{port}": 0 for port in range(ports)})
    write, read = (0, 0, 0), 0
    ways = 1 << (ports - 1).bit_length()
    for _ in range(round(6000 * job.effort)):
        address = random.randrange(ways) << ADDRESS_BITS | random.choice([*range(24), 0x40, 0x404, 0xFF0])
        if not writes.waiting:
            strobe = random.choice([15, random.getrandbits(4)])
            write = address, random.choice([random.getrandbits(32), WORD, 0]), strobe
        writes.drive({"aw": {"awaddr": write[0]}, "w": {"wdata": write[1], "wstrb": write[2]}})
        if not reads.waiting:
            read = random.choice([address, write[0], random.randrange(ways) << ADDRESS_BITS | 16])
        reads.drive({"ar": {"araddr": read}})
        expired = [random.random() < 0.02 for _ in range(ports)]
        pins.drive(**{f"expired_{port}": int(each) for port, each in enumerate(expired)})
        await pins.settle()
        assert pins.read("s_axi_bresp") == pins.read("s_axi_rresp") == 0
        for port, words in enumerate(model.words):
            base, limit = (words[k] | words[k + 1] << 32 for k in (0, 2))
            shown = base // PAGE | limit // PAGE << (bits - PAGE.bit_length() + 2)
            assert pins.read(f"shared_{port}") == shown, f"port {port} shares {pins.read(f'shared_{port}'):#x}"
            assert pins.read(f"patience_{port}") == words[4]
        before = model.read(read)
        is_read, expected = reads.observe()
        assert expected is None or pins.read("s_axi_rdata") == expected, f"{pins.read('s_axi_rdata'):#x} was read"
        if is_read:
            reads.expected.append(before)
        is_written, _ = writes.observe()
        if is_written:
            model.write(*write)
            writes.expected.append(0)
        for port, each in enumerate(expired):
            model.words[port][4] *= not each
        await pins.tick()
    assert min(writes.count, reads.count) > 300 * job.effort
