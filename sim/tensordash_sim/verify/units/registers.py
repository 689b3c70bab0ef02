"""Bench of the registers: compare random accesses, with random pauses, with docs/core.md."""

from random import Random

import cocotb

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.registers import COUNTERS, IDENTITY, REGISTERS, named
from tensordash_sim.verify.bench import start_bench
from tensordash_sim.verify.job import current_job
from tensordash_sim.verify.pins import Pins
from tensordash_sim.verify.stimulus import packed
from tensordash_sim.verify.units.bounds import bounds_value


class Port:
    """AXI4-Lite master that delays addresses, data and responses at random."""

    IDLE = {
        **{f"axi_{name}": 0 for name in ("awaddr", "awprot", "awvalid", "wdata", "wstrb", "wvalid", "bready")},
        **{f"axi_{name}": 0 for name in ("araddr", "arprot", "arvalid", "rready")},
    }

    def __init__(self, pins: Pins, random: Random) -> None:
        self.pins, self.random = pins, random

    def check_pulses(self, written: int = 0) -> None:
        """Check that `take` and `clear` are high only in the cycle of a write of `snapshot`, according to its bits."""
        pulses = self.pins.read("take") | self.pins.read("clear") << 1
        assert pulses == written & 3, f"take and clear are {pulses:#b}, not {written & 3:#b}"

    async def write(self, address: int, data: int, strobe: int = 15) -> None:
        random, pins = self.random, self.pins
        addressed = sent = answered = shown_address = shown_data = False
        began = pins.cycle
        while not answered:
            shown_address = not addressed and (shown_address or random.random() < 0.5)
            shown_data = not sent and (shown_data or random.random() < 0.5)
            ready = random.random() < 0.5
            pins.drive(axi_awvalid=int(shown_address), axi_awaddr=address if shown_address else 0)
            pins.drive(axi_wvalid=int(shown_data), axi_wdata=data if shown_data else 0)
            pins.drive(axi_wstrb=strobe if shown_data else 0, axi_bready=int(ready))
            await pins.settle()
            is_taken = bool(shown_address and pins.read("axi_awready"))
            addressed |= is_taken
            writes_snapshot = is_taken and address >> 2 == named("snapshot").offset >> 2 and strobe & 1
            self.check_pulses(data if writes_snapshot else 0)
            sent |= bool(shown_data and pins.read("axi_wready"))
            if pins.read("axi_bvalid"):
                assert addressed
                assert sent
                assert pins.read("axi_bresp") == 0
                answered = ready
            await pins.tick()
            assert pins.cycle - began < 200, "a write hangs"
        pins.drive(axi_bready=0, axi_awvalid=0, axi_wvalid=0)

    async def read(self, address: int) -> int:
        random, pins = self.random, self.pins
        addressed = shown = False
        held, began = None, pins.cycle
        while True:
            shown = not addressed and (shown or random.random() < 0.5)
            ready = random.random() < 0.5
            pins.drive(axi_arvalid=int(shown), axi_araddr=address if shown else 0, axi_rready=int(ready))
            await pins.settle()
            self.check_pulses()
            addressed |= bool(shown and pins.read("axi_arready"))
            if pins.read("axi_rvalid"):
                assert addressed
                assert pins.read("axi_rresp") == 0
                data = pins.read("axi_rdata")
                assert held is None or held == data, "an answer changed while it waited"
                held = data
            await pins.tick()
            assert pins.cycle - began < 200, "a read hangs"
            if held is not None and ready:
                pins.drive(axi_rready=0, axi_arvalid=0)
                return held


CODES = {"fp16": 1, "bf16": 2, "fp8_e4m3": 3, "fp8_e5m2": 4, "int8": 5}
"""Codes of operand formats, from docs/core.md."""


def features_of(config: CoreConfig) -> int:
    """Return the value of `features`, from its table in docs/core.md."""
    flags = [config.bias, config.scale, config.relu, config.mask, config.stochastic, config.compression]
    flags += [config.tile.sparsity != "none", config.nvfp4, config.skip_masked, config.drop_steps]
    built = sum(int(flag) << 16 + k for k, flag in enumerate(flags))
    return config.value_bits | config.partial_sums - 1 << 8 | built


@cocotb.test()
async def events_while_causes_are_cleared(dut) -> None:
    """Check events in cycles near the clearing of their cause: an event in that cycle or later sets the cause."""
    pins, cause = Pins(dut), named("cause").offset
    status = dict.fromkeys(("head", "done", "error", "error_index", "busy", "failed", "ended", "idle", "counters"), 0)
    await pins.reset(**Port.IDLE, **status)
    port, before, after = Port(pins, Random(current_job().seed)), 0, 0
    for event, bit in (("ended", 1), ("failed", 2)):
        for at in range(6):
            pins.drive(axi_awvalid=1, axi_awaddr=cause, axi_wvalid=1, axi_wdata=3, axi_wstrb=15, axi_bready=1)
            taken = None
            for cycle in range(8):
                # The first cycle of an error, and each cycle with an `end`, set a cause.
                pins.drive(**{event: int(cycle == at or (cycle > at and event == "failed"))})
                await pins.settle()
                if taken is None and pins.read("axi_awready"):
                    assert pins.read("axi_wready")
                    taken = cycle
                await pins.tick()
                if taken is not None:
                    pins.drive(axi_awvalid=0, axi_wvalid=0)
            assert taken is not None
            pins.drive(axi_bready=0)
            seen, stays = await port.read(cause), at >= taken
            assert seen == (bit if stays else 0), f"{event} in cycle {at}, cleared in cycle {taken}: cause is {seen}"
            before, after = before + (not stays), after + stays
            pins.drive(**{event: 0})
            await port.write(cause, 3)
    assert before
    assert after


IDLE_EVENTS = dict.fromkeys(("failed", "ended", "idle"), 0)


def fixed_values(config: CoreConfig) -> dict[str, int]:
    """Return the values of registers without a state, from docs/core.md."""
    tile = config.tile
    return {
        "identity": IDENTITY,
        "digest": int(config.digest, 16) & 0xFFFFFFFF,
        "digest_high": int(config.digest, 16) >> 32,
        "shape": tile.lanes | tile.rows << 8 | tile.columns << 16 | tile.window_depth << 24,
        "groups": config.groups,
        "stream_words": config.stream_words("a") - 1 | config.stream_words("b") - 1 << 16,
        "features": features_of(config),
        "formats": CODES[tile.a_format.name] | CODES[tile.b_format.name] << 8 | config.axi_bits << 16,
        "status": 1,
    }


def writable_masks(config: CoreConfig) -> dict[str, int]:
    """Return the writable bits of registers, from docs/core.md."""
    high = (1 << (config.address_bits - 32)) - 1
    return {
        "control": 1,
        **{"queue_base": 0xFFFFFFC0, "queue_base_high": high, "queue_size": 15},
        "tail": 0xFFFFFFFF,
        "interrupt_enable": 3,
        **{"bounds_base": 0xFFFFF000, "bounds_base_high": high},
        **{"bounds_limit": 0xFFFFF000, "bounds_limit_high": high},
    }


class Model:
    """Model of the registers, with the contents that docs/core.md defines.

    Attributes
    ----------
    held : dict
        Values of the writable registers.
    fixed : dict
        Values of the read-only registers.
    caused : int
        Value of `cause`.
    """

    def __init__(self, pins: Pins, random: Random, config: CoreConfig) -> None:
        self.pins, self.random, self.port, self.config = pins, random, Port(pins, random), config
        self.masks = writable_masks(config)
        self.after_reset = dict.fromkeys(self.masks, 0)
        self.after_reset |= {"bounds_limit": 0xFFFFFFFF, "bounds_limit_high": self.masks["bounds_limit_high"]}
        self.held, self.caused, self.fixed = dict(self.after_reset), 0, fixed_values(config)

    def draw_status(self) -> dict[str, int]:
        """Draw values of the core's status and counters; return the pins with them."""
        status = {
            name: self.random.getrandbits(4 if name == "error" else 32)
            for name in ("head", "done", "error", "error_index")
        }
        counters = [self.random.getrandbits(32) for _ in COUNTERS]
        self.fixed |= {**status, **{name: counters[k] for k, (name, _) in enumerate(COUNTERS)}}
        return {**status, "counters": packed(counters, 32)}

    async def write(self, name: str, data: int, strobe: int = 15, at: int | None = None) -> None:
        """Write a register, or with `at` another address, in the model and at the port."""
        mask = sum(255 << 8 * k for k in range(4) if strobe >> k & 1)
        if name == "cause":
            self.caused &= ~(data & mask)
        if name in self.held:
            self.held[name] = self._merged(name, data, mask)
        await self.port.write(named(name).offset if at is None else at, data, strobe)

    def _merged(self, name: str, data: int, mask: int) -> int:
        """Return the value of a register after a write, from docs/core.md."""
        value = (self.held[name] & ~mask | data & mask) & self.masks[name]
        if name == "bounds_limit":
            value |= 0xFFF
        unfit = 0xFFFFFFFF & ~self.masks[name]  # bits of an address's high half that the bus lacks
        if name.endswith("_high") and unfit:
            stays = self.held[name] & unfit and unfit & ~mask
            value |= (unfit & -unfit) * bool(data & mask & unfit or stays)
        return value

    async def check(self, name: str, when: str = "", at: int | None = None) -> None:
        """Read a register, or with `at` another address, and compare with the model."""
        seen = await self.port.read(named(name).offset if at is None else at)
        wanted = self.caused if name == "cause" else self.held.get(name, self.fixed.get(name, 0))
        assert seen == wanted, f"{name} is {seen:#x}, not {wanted:#x}{when}"

    async def end_program(self) -> None:
        """Let `ended` set its cause, which stays set until it is cleared."""
        self.pins.drive(ended=1)
        await self.pins.settle()
        await self.pins.tick()
        self.pins.drive(ended=0)
        await self.pins.settle()
        self.caused |= 1

    async def access_any(self, turn: int) -> None:
        """Read or write a random register, or an address without one; the first turns read each register once."""
        random, first_round = self.random, turn < len(REGISTERS)
        register = REGISTERS[turn] if first_round else random.choice(REGISTERS)
        if not first_round and random.random() < 0.5:
            register = named(random.choice(list(self.masks)))
        name, address = register.name, register.offset
        if not first_round and random.random() < 0.1:
            address, name = random.choice([0x2C0, 0x64, 0x7C, 0xB8, 0xFFC, 0x100]), ""
        if not first_round and random.random() < 0.5:
            data, strobe = random.getrandbits(32), random.choice([15, random.getrandbits(4), random.getrandbits(4)])
            await self.write(name, data & ~2 if name == "control" else data, strobe, at=address)
        else:
            await self.check(name, at=address)

    async def write_bytes(self, name: str) -> None:
        """Write each byte of a register alone, and check that the other bytes do not change."""
        for old, new in ((0xFFFFFFFF, 0), (0, 0xFFFFFFFF)):
            reset = 2 if name == "control" else 0  # Do not start a soft reset.
            await self.write(name, old & ~reset)
            for k in range(4):
                await self.write(name, new & ~reset, 1 << k)
                await self.check(name, f", when its byte {k} is written")

    async def check_addresses(self, *, fits: bool) -> None:
        """Check the outputs with addresses, with values that fit the bus or do not."""
        bits, pins = self.config.address_bits, self.pins
        base, limit = 0x7_5123_5000 % (1 << bits), 0x9_8765_4FFF % (1 << bits)
        for name, value in {"queue_base": base & -64, "bounds_base": base, "bounds_limit": limit}.items():
            await self.write(name, value & 0xFFFFFFFF)
            await self.write(f"{name}_high", (value | (0 if fits else 1 << 63)) >> 32)
        unfit = 0 if fits else 1 << bits
        assert pins.read("queue_base") == base & -64 | unfit
        pages = bounds_value(bits, base | unfit, limit if fits else None)
        assert pins.read("bounds") == pages, f"bounds are {pins.read('bounds'):#x}, not {pages:#x}"


async def check_causes(model: Model) -> None:
    """Check that events set causes, and that writing ones clears them."""
    pins, port = model.pins, model.port
    await model.write("interrupt_enable", 2)
    await model.write("cause", 3)
    await model.end_program()
    assert not pins.read("irq")
    assert await port.read(named("cause").offset) == 1
    pins.drive(failed=1)
    assert await port.read(named("status").offset) == 5
    assert await port.read(named("cause").offset) == 3
    assert pins.read("irq")
    await model.write("cause", 2)
    assert await port.read(named("cause").offset) == 1, "a standing error sets its cause once"
    await pins.settle()
    assert not pins.read("irq")


async def check_snapshot(model: Model) -> None:
    """Check that each bit of `snapshot` acts alone if the lowest byte is written, and that no other register acts."""
    for data in range(4):
        for strobe in (15, 1, 14):
            await model.write("snapshot", data, strobe)
        await model.write("interrupt_enable", data)


async def check_soft_reset(model: Model) -> None:
    """Check that a soft reset waits until all units are idle, and keeps the ring's registers and the bounds."""
    pins = model.pins
    await model.write("control", 3)
    await pins.settle()
    for _ in range(5):
        assert pins.read("halt")
        assert not pins.read("restart")
        await pins.tick()
        await pins.settle()
    assert await model.port.read(named("status").offset) == 7
    pins.drive(idle=1, failed=0)
    await pins.settle()
    assert pins.read("restart")
    await pins.tick()
    pins.drive(idle=0)
    await pins.settle()
    assert not pins.read("halt")
    model.held |= {name: 0 for name in model.held if not name.startswith(("queue_", "bounds_"))}
    model.caused = 0
    for name in (*model.masks, "cause"):
        await model.check(name, " after a soft reset")


@cocotb.test()
async def random_accesses(dut) -> None:
    """Check reads and writes of every register and of other addresses, causes, soft resets and a reset."""
    job, random, pins = start_bench(dut, "registers")
    model = Model(pins, random, job.config)
    await pins.reset(**Port.IDLE, **IDLE_EVENTS, busy=1, **model.draw_status())
    for turn in range(len(REGISTERS) + round(300 * job.effort)):
        if turn % 20 == 0:  # Change the core's status.
            pins.drive(**model.draw_status())
            await model.end_program()
        await model.access_any(turn)
    for name in model.masks:
        await model.write_bytes(name)
    for fits in (True, False) if job.config.address_bits < 64 else (True,):
        await model.check_addresses(fits=fits)
    await check_causes(model)
    await check_snapshot(model)
    await check_soft_reset(model)
    await pins.restart()
    model.held = dict(model.after_reset)
    for name in model.masks:
        await model.check(name, " after a reset")
