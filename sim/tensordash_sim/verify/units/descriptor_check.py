"""Bench of the descriptor check: compare every bit and rule of every operation with the golden sequencer."""

from collections import Counter
from random import Random

import cocotb

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import BITS, HEADER, OPERATIONS, UNITS, Field, encode
from tensordash.configuration.registers import ERRORS
from tensordash_sim.golden.core.legal import Sequencer
from tensordash_sim.verify.job import current_job
from tensordash_sim.verify.pins import Pins
from tensordash_sim.verify.units.sequencer_programs import random_fields, random_program

BEAT = 128


class Checked:
    """Driver of a descriptor check.

    Parameters
    ----------
    pins : Pins
        Pins of the check.
    config : CoreConfig
        The core.
    """

    def __init__(self, pins: Pins, config: CoreConfig) -> None:
        self.pins, self.config = pins, config

    async def reset(self) -> None:
        """Reset the check, and so the tokens."""
        self.golden = Sequencer(self.config)
        self.pins.drive(rst=1, take=0)
        await self.pins.settle()
        await self.pins.tick()
        self.pins.drive(rst=0)

    async def show(self, bits: int) -> str:
        """Send a descriptor, and compare the error with golden's; return the error's name."""
        expected = self.golden.refusal(bits)
        for beat in range(BITS // BEAT):
            self.pins.drive(data=bits >> BEAT * beat & ((1 << BEAT) - 1), beat=beat, take=1)
            await self.pins.settle()
            if beat == BITS // BEAT - 1:
                error = self.pins.read("error")
                assert error == (ERRORS[expected] if expected else 0), f"{bits:#x}: {error}, golden has {expected}"
                assert self.pins.read("operation") == bits % 16
            await self.pins.tick()
        return expected


async def started(dut) -> tuple[Checked, Random]:
    """Return a check's driver after reset, and the random source."""
    job, pins = current_job(), Pins(dut)
    cocotb.log.info("seed %s", job.seed)
    await pins.reset(data=0, beat=0, take=0)
    checked = Checked(pins, job.config)
    await checked.reset()
    return checked, Random(f"{job.seed} check")


@cocotb.test()
async def every_bit(dut) -> None:
    """Check a legal descriptor of each operation, all its bits flipped one by one, all codes, and words of ones."""
    checked, random = await started(dut)
    found: Counter[str] = Counter()
    for name, operation in OPERATIONS.items():
        for place in range(BITS):
            bits = encode(operation, random_fields(random, checked.config, name))
            if place % 16 == 0:
                found[await checked.show(bits)] += 1
                await checked.reset()
            found[await checked.show(bits ^ 1 << place)] += 1
            await checked.reset()
    for code in range(16):
        for rest in (0, (1 << BITS) - 16, random.getrandbits(BITS) & -16):
            found[await checked.show(rest | code)] += 1
            await checked.reset()
    assert set(found) == {"", "operation", "reserved", "field", "tokens"}, found


def edges(field: Field) -> list[int]:
    """Return bit patterns of a field around its legal range, including its least and greatest values."""
    return sorted({value % (1 << field.width) for value in (0, 1, 2, 4, 5, 8, 16, 32, 64, -1, -2, -128)})


@cocotb.test()
async def every_field(dut) -> None:
    """Check each field at the edges of its values, with legal other fields, for compressed and plain moves."""
    checked, random = await started(dut)
    for name, operation in OPERATIONS.items():
        for field in (*HEADER[1:], *operation.fields):
            for value in edges(field):
                bits = encode(operation, random_fields(random, checked.config, name))
                await checked.show(bits & ~field.mask | value << field.low)
                await checked.reset()


@cocotb.test()
async def every_pair_of_units(dut) -> None:
    """Check one token too many and one too few for each pair of units, also at an `end`."""
    checked, _ = await started(dut)
    ways = {unit: (next(each for each in OPERATIONS.values() if each.unit == unit), "") for unit in UNITS[:4]}
    ways |= {"output": (OPERATIONS["multiply"], "output_"), "store": (OPERATIONS["record"], "")}
    for producer, (gives, give) in ways.items():
        for consumer, (takes, take) in ways.items():
            giving = encode(gives, {f"{give}signal": 1 << UNITS.index(consumer)})
            taking = encode(takes, {f"{take}wait": 1 << UNITS.index(producer)})
            for signals, taken, last in ((16, 0, giving), (15, 16, taking), (3, 3, 7), (3, 2, 7), (0, 1, taking)):
                await checked.reset()
                program = [giving] * signals + [taking] * taken
                errors = [await checked.show(bits) for bits in (program if last != 7 else [*program, last])]
                assert not any(errors[:-1])
                assert errors[-1] == ("" if (signals, taken) == (3, 3) else "tokens")


@cocotb.test()
async def random_programs(dut) -> None:
    """Check programs with tokens, most of them with an error."""
    checked, random = await started(dut)
    for _ in range(round(60 * current_job().effort)):
        await checked.reset()
        for bits in random_program(random, checked.config, random.choice([5, 20, 60])):
            if await checked.show(bits):
                break
