"""Bench of the registers: random accesses with any pauses against what REGISTERS says."""

from random import Random

import cocotb

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.registers import COUNTERS, IDENTITY, REGISTERS, named
from tensordash_sim.verify.job import current_job
from tensordash_sim.verify.pins import Pins
from tensordash_sim.verify.units.bounds import bounds_value


class Port:
    """An AXI4-Lite master that lets address, data and answers wait as it likes."""

    IDLE = {
        **{f"axi_{name}": 0 for name in ("awaddr", "awprot", "awvalid", "wdata", "wstrb", "wvalid", "bready")},
        **{f"axi_{name}": 0 for name in ("araddr", "arprot", "arvalid", "rready")},
    }

    def __init__(self, pins: Pins, random: Random) -> None:
        self.pins, self.random = pins, random

    async def write(self, address: int, data: int, strobe: int = 15) -> None:
        """Write a register."""
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
            addressed |= bool(shown_address and pins.read("axi_awready"))
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
        """Read a register."""
        random, pins = self.random, self.pins
        addressed = shown = False
        held, began = None, pins.cycle
        while True:
            shown = not addressed and (shown or random.random() < 0.5)
            ready = random.random() < 0.5
            pins.drive(axi_arvalid=int(shown), axi_araddr=address if shown else 0, axi_rready=int(ready))
            await pins.settle()
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


CODES = {"fp16": 1, "bf16": 2, "fp8_e4m3": 3, "fp8_e5m2": 4}
"""Of operand formats, from docs/core.md."""


def features_of(config: CoreConfig) -> int:
    """The register, from its table in docs/core.md."""
    flags = [config.bias, config.scale, config.relu, config.mask, config.stochastic, config.compression]
    flags.append(config.tile.sparsity != "none")
    built = sum(int(flag) << 16 + k for k, flag in enumerate(flags))
    return config.value_bits | config.partial_sums - 1 << 8 | built


@cocotb.test()
async def events_while_causes_are_cleared(dut) -> None:
    """An event in any cycle around the one in which its cause is cleared: one in that cycle or later stays."""
    pins, cause = Pins(dut), named("cause").offset
    status = dict.fromkeys(("head", "done", "error", "error_index", "busy", "failed", "ended", "idle", "counters"), 0)
    await pins.reset(**Port.IDLE, **status)
    port, before, after = Port(pins, Random(current_job().seed)), 0, 0
    for event, bit in (("ended", 1), ("failed", 2)):
        for at in range(6):
            pins.drive(axi_awvalid=1, axi_awaddr=cause, axi_wvalid=1, axi_wdata=3, axi_wstrb=15, axi_bready=1)
            taken = None
            for cycle in range(8):
                # Causes are set by an error's first cycle, and by each cycle with an `end`.
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


@cocotb.test()
async def random_accesses(dut) -> None:
    """Every register, read and written; addresses without one; causes, soft resets and a reset."""
    job = current_job()
    random, config = Random(f"{job.seed} registers"), job.config
    cocotb.log.info("seed %s", job.seed)
    pins = Pins(dut)
    port = Port(pins, random)
    status = {
        name: random.getrandbits(4 if name == "error" else 32) for name in ("head", "done", "error", "error_index")
    }
    counters = [random.getrandbits(32) for _ in COUNTERS]
    await pins.reset(
        **port.IDLE,
        **status,
        busy=1,
        failed=0,
        ended=0,
        idle=0,
        counters=sum(count << 32 * k for k, count in enumerate(counters)),
    )
    tile = config.tile
    fixed = {
        "identity": IDENTITY,
        "digest": int(config.digest, 16) & 0xFFFFFFFF,
        "digest_high": int(config.digest, 16) >> 32,
        "shape": tile.lanes | tile.rows << 8 | tile.columns << 16 | tile.window_depth << 24,
        "groups": config.groups,
        "stream_words": config.stream_words("a") - 1 | config.stream_words("b") - 1 << 16,
        "features": features_of(config),
        "formats": CODES[tile.a_format.name] | CODES[tile.b_format.name] << 8 | config.axi_bits << 16,
        "status": 1,
        **status,
        **{name: counters[k] for k, (name, _) in enumerate(COUNTERS)},
    }
    masks = {
        "control": 1,
        "queue_base": 0xFFFFFFC0,
        "queue_base_high": (1 << (config.address_bits - 32)) - 1,
        "queue_size": 15,
        "tail": 0xFFFFFFFF,
        "interrupt_enable": 3,
        "bounds_base": 0xFFFFF000,
        "bounds_base_high": (1 << (config.address_bits - 32)) - 1,
        "bounds_limit": 0xFFFFF000,
        "bounds_limit_high": (1 << (config.address_bits - 32)) - 1,
    }
    after_reset = dict.fromkeys(masks, 0)
    after_reset |= {"bounds_limit": 0xFFFFFFFF, "bounds_limit_high": masks["bounds_limit_high"]}
    kept = dict(after_reset)

    def merged(name: str, data: int, mask: int) -> int:
        """What a register keeps of a write, from docs/core.md."""
        value = (kept[name] & ~mask | data & mask) & masks[name]
        if name == "bounds_limit":
            value |= 0xFFF
        unfit = 0xFFFFFFFF & ~masks[name]  # of the high half of an address
        if name.endswith("_high") and unfit:
            stays = kept[name] & unfit and unfit & ~mask
            value |= (unfit & -unfit) * bool(data & mask & unfit or stays)
        return value

    caused = 0
    # Each once for certain.
    for turn in range(len(REGISTERS) + round(300 * job.effort)):
        if turn % 20 == 0:  # The reported status changes.
            counters = [random.getrandbits(32) for _ in COUNTERS]
            status = {each: random.getrandbits(4 if each == "error" else 32) for each in status}
            fixed |= {**status, **{each: counters[k] for k, (each, _) in enumerate(COUNTERS)}}
            pins.drive(**status, counters=sum(count << 32 * k for k, count in enumerate(counters)))
            pins.drive(ended=1)  # sets its cause, which stands until it is cleared
            await pins.settle()
            await pins.tick()
            pins.drive(ended=0)
            await pins.settle()
            caused = 1
        register = REGISTERS[turn] if turn < len(REGISTERS) else random.choice(REGISTERS)
        if turn >= len(REGISTERS) and random.random() < 0.5:
            register = named(random.choice(list(masks)))  # those that keep what is written
        name, address = register.name, register.offset
        if turn >= len(REGISTERS) and random.random() < 0.1:
            address, name = random.choice([0x2C0, 0x64, 0x7C, 0xB8, 0xFFC, 0x100]), ""
        if turn >= len(REGISTERS) and random.random() < 0.5:
            data, strobe = random.getrandbits(32), random.choice([15, random.getrandbits(4), random.getrandbits(4)])
            mask = sum(255 << 8 * k for k in range(4) if strobe >> k & 1)
            if name == "control":
                data &= ~2
            if name == "cause":
                caused &= ~(data & mask)
            if name in kept:
                kept[name] = merged(name, data, mask)
            await port.write(address, data, strobe)
        else:
            seen = await port.read(address)
            wanted = caused if name == "cause" else kept.get(name, fixed.get(name, 0))
            assert seen == wanted, f"{name} is {seen:#x}, not {wanted:#x}"
    # Every bit of every byte alone: what is written goes in, what is not stays.
    for name in masks:
        for old, new in ((0xFFFFFFFF, 0), (0, 0xFFFFFFFF)):
            reset = 2 if name == "control" else 0  # not now
            await port.write(named(name).offset, old & ~reset)
            kept[name] = merged(name, old, 0xFFFFFFFF)
            for k in range(4):
                byte = 255 << 8 * k
                await port.write(named(name).offset, new & ~reset, 1 << k)
                kept[name] = merged(name, new, byte)
                seen = await port.read(named(name).offset)
                assert seen == kept[name], f"{name} is {seen:#x}, not {kept[name]:#x}, when its byte {k} is written"
    # What the core gets of addresses, and whether they fit.
    for fits in (True, False) if config.address_bits < 64 else (True,):
        base, limit = 0x7_5123_5000 % (1 << config.address_bits), 0x9_8765_4FFF % (1 << config.address_bits)
        more = 0 if fits else 1 << 63
        for name, value in {"queue_base": base & -64, "bounds_base": base, "bounds_limit": limit}.items():
            await port.write(named(name).offset, value & 0xFFFFFFFF)
            await port.write(named(f"{name}_high").offset, (value | more) >> 32)
            kept[name] = value & 0xFFFFFFFF
            kept[f"{name}_high"] = value >> 32 | (0 if fits else 1 << config.address_bits - 32)
        unfit = 0 if fits else 1 << config.address_bits
        assert pins.read("queue_base") == base & -64 | unfit
        pages = bounds_value(config.address_bits, base | unfit, limit if fits else None)
        assert pins.read("bounds") == pages, f"bounds are {pins.read('bounds'):#x}, not {pages:#x}"
    # Causes: set by events, cleared by ones.
    await port.write(named("interrupt_enable").offset, 2)
    await port.write(named("cause").offset, 3)
    pins.drive(ended=1)
    await pins.settle()
    await pins.tick()
    pins.drive(ended=0)
    await pins.settle()
    assert not pins.read("irq")
    assert await port.read(named("cause").offset) == 1
    pins.drive(failed=1)
    assert await port.read(named("status").offset) == 5
    assert await port.read(named("cause").offset) == 3
    assert pins.read("irq")
    await port.write(named("cause").offset, 2)
    assert await port.read(named("cause").offset) == 1, "an error that stands sets its cause once"
    await pins.settle()
    assert not pins.read("irq")
    # A soft reset waits until all is idle, and leaves the ring's place.
    await port.write(named("control").offset, 3)
    await pins.settle()
    for _ in range(5):
        assert pins.read("halt")
        assert not pins.read("restart")
        await pins.tick()
        await pins.settle()
    assert await port.read(named("status").offset) == 7
    pins.drive(idle=1, failed=0)
    await pins.settle()
    assert pins.read("restart")
    await pins.tick()
    pins.drive(idle=0)
    await pins.settle()
    assert not pins.read("halt")
    for name in masks:
        wanted = kept[name] if name.startswith(("queue_", "bounds_")) else 0
        assert await port.read(named(name).offset) == wanted, f"{name} after a soft reset"
    assert await port.read(named("cause").offset) == 0
    pins.drive(rst=1)
    await pins.settle()
    await pins.tick()
    pins.drive(rst=0)
    for name, wanted in after_reset.items():
        assert await port.read(named(name).offset) == wanted, f"{name} after a reset"
