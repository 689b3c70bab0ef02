"""Bench of the buffer: check the rules of its arbitration, and the data of reads."""

from random import Random

import cocotb

from tensordash_sim.verify.bench import start_bench
from tensordash_sim.verify.pins import Pins


class Port:
    """A port's request, which is stable until it is granted.

    Parameters
    ----------
    pins : Pins
        Pins of the buffer.
    name : str
        Prefix of the port's pins.
    shape : dict
        The buffer's parameters.
    pair : bool
        Whether the port reads a position in each half of a bank.
    """

    def __init__(self, pins: Pins, name: str, shape: dict[str, int], *, pair: bool = False) -> None:
        self.pins, self.name, self.shape, self.pair = pins, name, shape, pair
        self.halves = 2 if shape.get("pair_readers") else 1
        self.count = shape["lanes"] * (1 + pair)
        self.valid, self.waited = False, 0
        self.enable, self.address, self.data = 0, [0] * self.count, [0] * self.count

    def draw(self, random: Random, rate: float, groups: list[int]) -> None:
        """Draw a request with probability `rate`, unless one is pending."""
        if self.valid or random.random() >= rate:
            return
        bits = self.shape["lanes"] * self.shape["width"]
        self.valid, self.waited = True, 0
        self.enable = random.getrandbits(self.count)
        # Most positions have the same group, as in units' requests.
        first = random.choice(groups)
        self.address = [random.choice([first, random.choice(groups)]) for _ in range(self.count)]
        if self.pair:
            # Two groups that differ in their lowest bit are in different halves: choose the one in the place's half.
            self.address = [each & -2 | (each // 2).bit_count() & 1 ^ k & 1 for k, each in enumerate(self.address)]
        self.data = [random.getrandbits(bits) for _ in range(self.count)]

    def drive(self, *, writes: bool) -> None:
        """Drive the pins with the request."""
        bits = (self.shape["groups"] - 1).bit_length() - self.pair
        packed = sum(each >> self.pair << k * bits for k, each in enumerate(self.address))
        values = {"valid": int(self.valid), "enable": self.enable, "address": packed}
        if writes:
            width = self.shape["lanes"] * self.shape["width"]
            values["data"] = sum(each << k * width for k, each in enumerate(self.data))
        self.pins.drive(**{f"{self.name}_{key}": value for key, value in values.items()})

    def places(self) -> set[tuple[int, int, int]]:
        """Return the requested banks, their halves and regions."""
        size = self.shape["groups"] // self.shape["regions"]
        return {(bank, group.bit_count() % self.halves, group // size) for bank, group in self.words()}

    def words(self) -> set[tuple[int, int]]:
        """Return the requested banks and groups."""
        return {(self.bank(k), self.address[k]) for k in range(self.count) if self.enable >> k & 1}

    def bank(self, k: int) -> int:
        """Return the bank of the port's place k."""
        return k >> self.pair


def granted(ports: list[Port], pins: Pins) -> list[Port]:
    """Return the granted requests; check that no two conflict and that no port waits without reason or too long."""
    where = f"cycle {pins.cycle}"
    asking = [port for port in ports if port.valid]
    taken = [port for port in asking if pins.read(f"{port.name}_ready")]
    busy: set[tuple[int, int, int]] = set()
    for port in taken:
        assert not busy & port.places(), f"{where}: two ports are let through to one bank of a region"
        busy |= port.places()
    for port in asking:
        if port not in taken:
            assert busy & port.places(), f"{where}: {port.name} waits for nothing"
            port.waited += 1
            assert port.waited < len(ports), f"{where}: {port.name} has waited for {port.waited} cycles"
    return taken


@cocotb.test()
@cocotb.parametrize(rate=[1.0, 0.4])
async def random_requests(dut, rate: float) -> None:
    """Send random requests on all ports, for few groups of all regions; a reset must not change the content."""
    job, random, pins = start_bench(dut, f"buffer {rate}")
    shape, lanes = job.options, job.options["lanes"]
    reads = [Port(pins, f"reads_{k}", shape, pair=k < shape.get("pair_readers", 0)) for k in range(shape["readers"])]
    writes = [Port(pins, f"writes_{k}", shape) for k in range(shape["writers"])]
    size = shape["groups"] // shape["regions"]
    groups = [region * size + each for region in range(shape["regions"]) for each in (0, size - 1)]
    held: dict[tuple[int, int], int] = {}
    for port in reads + writes:
        port.drive(writes=port in writes)
    await pins.reset()
    expected: list[tuple[Port, int, int]] = []
    checked, cycles = 0, round(300 * job.effort)
    for cycle in range(cycles):
        for port in reads + writes:
            port.draw(random, rate, groups)
            port.drive(writes=port in writes)
        reset = cycle == cycles // 2
        if hasattr(dut, "rst"):  # A buffer with one port of each kind has no registers to reset.
            pins.drive(rst=int(reset))
        await pins.settle()
        for port, bank, value in expected:
            bits = lanes * shape["width"]
            # Banks that have never read are undefined.
            shown = str(getattr(dut, f"{port.name}_data").value)[(port.count - 1 - bank) * bits :][:bits]
            assert shown == f"{value:0{bits}b}", f"cycle {pins.cycle}: bank {bank} of {port.name} is {shown}"
            checked += 1
        reading, writing = granted(reads, pins), granted(writes, pins)
        written = {word for port in writing for word in port.words()}
        expected = [
            (port, k, held[word])
            for port in reading
            for k in range(port.count)
            if port.enable >> k & 1 and (word := (port.bank(k), port.address[k])) in held and word not in written
        ]
        for port in writing:
            held.update({(bank, group): port.data[bank] for bank, group in port.words()})
        for port in reading + writing:
            port.valid = False
        if reset:
            for port in reads + writes:
                port.waited = 0
        await pins.tick()
    assert checked > cycles / 2
