"""Bench of the buffer: rules of its arbitration, and what reads give."""

from random import Random

import cocotb

from tensordash_sim.verify.bench import start_bench
from tensordash_sim.verify.pins import Pins


class Port:
    """A port's request, which stays as it is until it is taken.

    Parameters
    ----------
    pins : Pins
        The buffer.
    name : str
        What the port's pins begin with.
    shape : dict
        The buffer's parameters.
    """

    def __init__(self, pins: Pins, name: str, shape: dict[str, int]) -> None:
        self.pins, self.name, self.shape = pins, name, shape
        self.valid, self.waited = False, 0
        self.enable, self.address, self.data = 0, [0] * shape["lanes"], [0] * shape["lanes"]

    def draw(self, random: Random, rate: float, groups: list[int]) -> None:
        """Ask for something, perhaps."""
        if self.valid or random.random() >= rate:
            return
        lanes, bits = self.shape["lanes"], self.shape["lanes"] * self.shape["width"]
        self.valid, self.waited = True, 0
        self.enable = random.getrandbits(lanes)
        # Mostly neighbours, as units ask for them.
        first = random.choice(groups)
        self.address = [random.choice([first, random.choice(groups)]) for _ in range(lanes)]
        self.data = [random.getrandbits(bits) for _ in range(lanes)]

    def drive(self, *, writes: bool) -> None:
        """Put it on the pins."""
        bits = (self.shape["groups"] - 1).bit_length()
        packed = sum(each << k * bits for k, each in enumerate(self.address))
        values = {"valid": int(self.valid), "enable": self.enable, "address": packed}
        if writes:
            width = self.shape["lanes"] * self.shape["width"]
            values["data"] = sum(each << k * width for k, each in enumerate(self.data))
        self.pins.drive(**{f"{self.name}_{key}": value for key, value in values.items()})

    def places(self) -> set[tuple[int, int]]:
        """Return the banks and regions that it wants."""
        size = self.shape["groups"] // self.shape["regions"]
        return {(k, self.address[k] // size) for k in range(self.shape["lanes"]) if self.enable >> k & 1}

    def words(self) -> set[tuple[int, int]]:
        """Return the banks and groups that it wants."""
        return {(k, self.address[k]) for k in range(self.shape["lanes"]) if self.enable >> k & 1}


def granted(ports: list[Port], pins: Pins) -> list[Port]:
    """Return the granted requests; fail if the choice is wrong."""
    where = f"cycle {pins.cycle}"
    asking = [port for port in ports if port.valid]
    taken = [port for port in asking if pins.read(f"{port.name}_ready")]
    busy: set[tuple[int, int]] = set()
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
    """All ports at once, on few groups of all regions; a reset in the midst, which leaves what is held alone."""
    job, random, pins = start_bench(dut, f"buffer {rate}")
    shape, lanes = job.options, job.options["lanes"]
    reads = [Port(pins, f"reads_{k}", shape) for k in range(shape["readers"])]
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
        if hasattr(dut, "rst"):  # a buffer with one port of each kind has nothing to reset
            pins.drive(rst=int(reset))
        await pins.settle()
        for port, bank, value in expected:
            bits = lanes * shape["width"]
            # Other banks may never have read anything, and be undefined.
            shown = str(getattr(dut, f"{port.name}_data").value)[(lanes - 1 - bank) * bits :][:bits]
            assert shown == f"{value:0{bits}b}", f"cycle {pins.cycle}: bank {bank} of {port.name} is {shown}"
            checked += 1
        reading, writing = granted(reads, pins), granted(writes, pins)
        written = {word for port in writing for word in port.words()}
        expected = [
            (port, bank, held[bank, group])
            for port in reading
            for bank, group in sorted(port.words())
            if (bank, group) in held and (bank, group) not in written
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
