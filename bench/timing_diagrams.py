"""Draw the timing diagrams of docs/integration.md with WaveDrom, from simulations of a tile and a core.

python bench/timing_diagrams.py [FOLDER]
"""

import json
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import wavedrom
from amaranth.hdl import ResetInserter, Signal
from amaranth.sim import Simulator

from tensordash import Tile, TileConfig
from tensordash.configuration.core_config import CoreConfig
from tensordash.streams.axi_stream import AxiStreamTile
from tensordash_sim.golden import Producer, encode
from tensordash_sim.verify.core_playback import play_example

Cycle = Mapping[str, int | str | None]
"""Value of each signal in a cycle, before its clock edge; None if it does not matter."""

CONFIG = TileConfig(rows=2, columns=1)
PORTS = ("b_0", "b_1", "a_0")


def streams(lengths: Sequence[int]) -> dict[str, list]:
    """Draw small integers for every port, as bits (stream, T, lanes); half of B is zero."""
    random = np.random.default_rng(3)
    drawn = {
        port: [random.integers(1, 4, (length, 4)) * (random.random((length, 4)) < (0.5 if port[0] == "b" else 1))
               for length in lengths]
        for port in PORTS
    }  # fmt: skip
    return {
        port: [encode(part.astype(float), CONFIG.b_format).tolist() for part in parts] for port, parts in drawn.items()
    }


def pick(pattern: str, cycle: int) -> int:
    """Return a pattern's digit in a cycle; the last digit repeats."""
    return int(pattern[min(cycle, len(pattern) - 1)])


def simulate_tile(
    lengths: Sequence[int],
    cycles: int,
    *,
    offers: Mapping[str, str],
    ready: str = "1",
    reset: str = "0",
    clear: str = "0",
    c: str | None = None,
) -> list[Cycle]:
    """Simulate a tile and return each cycle of its own ports.

    Parameters
    ----------
    lengths : sequence of int
        Steps of the streams.
    cycles : int
        Number of cycles.
    offers : mapping of str to str
        Maximum number of steps that a port offers, by cycle; "all" is for the other ports.
    ready, reset, clear : str
        `out_ready`, `rst` and `clear`, by cycle.
    c : str, optional
        1 in a cycle in which the source may offer a beat of C; None for a tile without C.
    """
    config = TileConfig(rows=2, columns=1, initial=c is not None)
    dut, rst = Tile(config), Signal()
    operands = streams(lengths)
    seen: list[Cycle] = []

    async def bench(ctx: Any) -> None:
        sources, beats, held = _sources(operands), 0, False
        for cycle in range(cycles):
            offered = {}
            ctx.set(rst, pick(reset, cycle))
            ctx.set(dut.clear, pick(clear, cycle))
            ctx.set(dut.out.ready, pick(ready, cycle))
            for port, source in sources.items():
                offer = source.offer(pick(offers.get(port, offers["all"]), cycle))
                offered[port] = offer
                signal = getattr(dut, port[0])[int(port[2])]
                for slot, step in enumerate(offer.steps):
                    for lane, value in enumerate(step):
                        ctx.set(signal.steps[slot][lane], value)
                ctx.set(signal.available, offer.available)
                ctx.set(signal.last, offer.last)
            if c is not None:
                held = beats < 2 * len(lengths) and (held or bool(pick(c, cycle)))
                ctx.set(dut.c.valid, held)
                ctx.set(dut.c.payload.last, beats % 2)
                ctx.set(dut.c.payload.values[0][0], _fp32(10 * (beats + 1)))
            taken = ctx.get(dut.a[0].taken)
            seen.append(_tile_cycle(ctx, dut, rst, offered, beats if c is not None and held else None))
            if pick(reset, cycle):
                sources = _sources(operands)
            else:
                for source in sources.values():
                    source.take(taken)
                if held and ctx.get(dut.c.ready):
                    beats, held = beats + 1, False
            await ctx.tick()

    _simulate(ResetInserter(rst)(dut), bench)
    return seen


def _sources(operands: Mapping[str, list]) -> dict[str, Producer]:
    return {port: Producer(parts) for port, parts in operands.items()}


def _tile_cycle(ctx: Any, dut: Any, rst: Any, offered: Mapping[str, Any], c_beat: int | None) -> Cycle:
    valid = ctx.get(dut.out.valid)
    cycle: dict[str, int | str | None] = {"rst": ctx.get(rst), "clear": ctx.get(dut.clear)}
    for port, offer in offered.items():
        signal = getattr(dut, port[0])[int(port[2])]
        cycle |= {f"{port}_available": offer.available, f"{port}_last": int(offer.last)}
        cycle[f"{port}_taken"] = ctx.get(signal.taken)
    if hasattr(dut, "c"):
        cycle |= {"c_valid": ctx.get(dut.c.valid), "c_ready": ctx.get(dut.c.ready)}
        cycle["c_payload"] = None if c_beat is None else _beat(ctx, dut.c.payload)
    cycle |= {"out_valid": valid, "out_ready": ctx.get(dut.out.ready)}
    cycle["out_payload"] = _beat(ctx, dut.out.payload) if valid else None
    return cycle | {name: ctx.get(getattr(dut, name)) for name in ("cycles", "steps", "stall_input", "stall_output")}


def simulate_axi_stream(lengths: Sequence[int], cycles: int, *, valid: str) -> list[Cycle]:
    """Simulate the AXI4-Stream top, as `simulate_tile`. In cycles with a 1 in `valid`, every port may offer a beat."""
    dut = AxiStreamTile(CONFIG)
    depth, step_bytes = CONFIG.window_depth, CONFIG.lanes * CONFIG.b_format.width // 8
    seen: list[Cycle] = []

    async def bench(ctx: Any) -> None:
        sources, held = _sources(streams(lengths)), False
        for cycle in range(cycles):
            held = held or bool(pick(valid, cycle))
            offers = {port: source.offer(depth) for port, source in sources.items()}
            ctx.set(dut.m_axis.tready, 1)
            for port, offer in offers.items():
                beat = getattr(dut, f"s_axis_{port[0]}{port[2]}")
                values = np.array(offer.steps, np.uint16).tobytes()  # Little endian: the first value is lowest.
                ctx.set(beat.tdata, int.from_bytes(values, "little"))
                ctx.set(beat.tkeep, (1 << offer.available * step_bytes) - 1)
                ctx.set(beat.tlast, int(offer.last))
                ctx.set(beat.tvalid, held and offer.available > 0)
            shown = offers["b_0"]
            is_valid = bool(ctx.get(dut.s_axis_b0.tvalid))
            out = ctx.get(dut.m_axis.tvalid)
            seen.append(
                {
                    "s_axis_b0_tvalid": int(is_valid),
                    "s_axis_b0_tready": ctx.get(dut.s_axis_b0.tready),
                    "s_axis_b0_tdata": f"{shown.available} step{'s' * (shown.available > 1)}" if is_valid else None,
                    "s_axis_b0_tkeep": f"{ctx.get(dut.s_axis_b0.tkeep):08X}" if is_valid else None,
                    "s_axis_b0_tlast": int(shown.last) if is_valid else None,
                    "m_axis_tvalid": out,
                    "m_axis_tready": ctx.get(dut.m_axis.tready),
                    "m_axis_tdata": _number(ctx.get(dut.m_axis.tdata)) if out else None,
                    "m_axis_tlast": ctx.get(dut.m_axis.tlast) if out else None,
                    "cycles": ctx.get(dut.cycles),
                    "steps": ctx.get(dut.steps),
                }
            )
            if is_valid and seen[-1]["s_axis_b0_tready"]:
                held = False
                for source, offer in zip(sources.values(), offers.values(), strict=True):
                    source.take(offer.available)
            await ctx.tick()

    _simulate(dut, bench)
    return seen


def _beat(ctx: Any, payload: Any) -> str:
    return _number(ctx.get(payload.values[0][0]))


def _number(bits: int) -> str:
    return f"{np.uint32(bits).view(np.float32):g}"


def _fp32(number: float) -> int:
    return int(np.float32(number).view(np.uint32))


def _simulate(design: Any, bench: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
    simulator = Simulator(design)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


LINE_SUFFIXES = ("rst", "clear", "valid", "ready", "last", "busy", "irq")
"""Suffixes of signals that are drawn as a line. Other signals are drawn as numbers."""


def wavedrom_source(title: str, seen: Sequence[Cycle], names: Sequence[str], *, clock: bool = True) -> dict[str, Any]:
    """Return a WaveDrom source: the clock if a column is one cycle, and the named signals; "" is a gap."""
    rows: list[dict[str, Any]] = [{"name": "clk", "wave": "p" + "." * (len(seen) - 1)}] * clock
    for name in names:
        if not name:
            rows.append({})
            continue
        values = [cycle[name] for cycle in seen]
        fresh = [i == 0 or values[i] != values[i - 1] for i in range(len(values))]
        line = name.endswith(LINE_SUFFIXES)
        marks = [("x" if value is None else str(value) if line else "=") for value in values]
        row: dict[str, Any] = {
            "name": name,
            "wave": "".join(mark if new else "." for mark, new in zip(marks, fresh, strict=True)),
        }
        if not line:
            row["data"] = [str(value) for value, new in zip(values, fresh, strict=True) if new and value is not None]
        rows.append(row)
    return {"signal": rows, "head": {"text": title}, "foot": {"tock": 0}}


OUTPUT_SIGNALS = ["out_valid", "out_ready", "out_payload"]


def diagrams() -> dict[str, dict[str, Any]]:
    """Return WaveDrom sources by name."""
    b0 = ["b_0_available", "b_0_last", "b_0_taken"]
    return {
        "stream": wavedrom_source(
            "two streams, of 6 and of 3 steps, all offered at once",
            simulate_tile([6, 3], 13, offers={"all": "4"}),
            [*b0, "", *OUTPUT_SIGNALS, "", "cycles", "steps", "stall_input"],
        ),
        "gaps": wavedrom_source(
            "one stream of 6 steps; ports offer different numbers of steps, and the least enters",
            simulate_tile([6], 13, offers={"all": "4", "b_0": "24104", "b_1": "0043", "a_0": "4411444"}),
            [*(f"{port}_available" for port in PORTS), "a_0_last", "a_0_taken", "", *OUTPUT_SIGNALS, "", "stall_input"],
        ),
        "back_pressure": wavedrom_source(
            "streams of 2 steps, out_ready is low: a beat waits, the tile freezes, nothing is lost",
            simulate_tile([2] * 6, 20, offers={"all": "4"}, ready="00000000000011"),
            [*b0, "", *OUTPUT_SIGNALS, "", "cycles", "stall_output"],
        ),
        "c_input": wavedrom_source(
            "initial = true: the first schedule waits for a whole block of C (10 and 20, then 30 and 40)",
            simulate_tile([4, 4], 17, offers={"all": "4"}, c="0011011"),
            [*b0, "", "c_valid", "c_ready", "c_payload", "", *OUTPUT_SIGNALS, "", "cycles", "stall_input"],
        ),
        "reset": wavedrom_source(
            "a reset in the middle of a stream of 8 steps, whose source starts over; clear zeroes the counters",
            simulate_tile([8], 16, offers={"all": "4"}, reset="00010", clear="00000000000000100"),
            ["rst", "clear", "", *b0, "", *OUTPUT_SIGNALS, "", "cycles", "steps"],
        ),
        "axi_stream": wavedrom_source(
            "the AXI4-Stream top: streams of 9 and of 4 steps; tkeep of a beat's 32 bytes",
            simulate_axi_stream([9, 4], 16, valid="0110111"),
            [
                *(f"s_axis_b0_t{name}" for name in ("valid", "ready", "data", "keep", "last")),
                "",
                *(f"m_axis_t{name}" for name in ("valid", "ready", "data", "last")),
                "",
                "cycles",
                "steps",
            ],
        ),
        **core_diagrams(),
    }


CORE = CoreConfig.from_toml(
    "[core]\nbuffer = 8\nstream_buffer = 1\nmask = false\nstochastic = false\ncompression = false\n"
)
COLUMN_CYCLES = 8
"""Cycles of a column in the diagram of a whole program."""
UNITS = ("load", "layout_b", "layout_a", "multiply", "output", "store")


def core_diagrams() -> dict[str, dict[str, Any]]:
    """Return diagrams of a core's program: its first cycles, and the whole run."""
    seen = play_example(CORE)
    shown = {"awvalid": "s_axi_awaddr", "wvalid": "s_axi_wdata", "arvalid": "m_axi_araddr"}
    begin: list[Cycle] = []
    for cycle in seen[:20]:
        offered = {name: f"{cycle[name]:02X}" if cycle[f"{name[:6]}{valid}"] else None for valid, name in shown.items()}
        beat = cycle["m_axi_rvalid"]
        begin.append({**cycle, **offered, "m_axi_rlast": cycle["m_axi_rlast"] if beat else None})
    columns: list[Cycle] = []
    for at in range(0, len(seen), COLUMN_CYCLES):
        part = seen[at : at + COLUMN_CYCLES]
        busy = {f"{unit}_busy": max(cycle[f"{unit}_busy"] for cycle in part) for unit in UNITS}
        columns.append({**part[-1], **busy, "irq": max(cycle["irq"] for cycle in part)})
    write = [f"s_axi_{name}" for name in ("awvalid", "awaddr", "wvalid", "wdata", "bvalid")]
    read = [f"m_axi_{name}" for name in ("arvalid", "araddr", "rvalid", "rlast")]
    return {
        "core_begin": wavedrom_source(
            "the host writes 9 to tail for nine descriptors; memory responds after 4 cycles",
            begin,
            [*write, "", "tail", *read, "head"],
        ),
        "core_program": wavedrom_source(
            f"a program of nine descriptors, {COLUMN_CYCLES} cycles per column: descriptors and busy units",
            columns,
            ["tail", "head", "done", "", *(f"{unit}_busy" for unit in UNITS), "", "irq"],
            clock=False,
        ),
    }


def on_white(picture: str) -> str:
    """Add a white background to a picture, because its lines are black and pages may be dark."""
    end = picture.index(">") + 1
    return f'{picture[:end]}<rect width="100%" height="100%" fill="white" />{picture[end:]}'


def main(folder: Path) -> None:
    """Write every diagram's source and picture."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in diagrams().items():
        text = json.dumps(source, indent=1) + "\n"
        (folder / f"{name}.json").write_text(text, encoding="utf-8")
        (folder / f"{name}.svg").write_text(on_white(wavedrom.render(text).tostring()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("docs/waves"))
