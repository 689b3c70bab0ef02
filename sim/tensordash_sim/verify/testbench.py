"""Testbench in plain Verilog for users without Python, with operands and the golden model's results in files."""

import re
from collections.abc import Sequence
from importlib import resources
from random import Random

import numpy as np

from tensordash import TileConfig
from tensordash.configuration.numerics import Fused
from tensordash.emission.verilog import check_prefix

from ..golden.matmul import MatmulResult, run_streams
from .lockstep import COUNTERS, FLAGS
from .stimulus import BlockSource, packed, packed_beat, random_inputs

__all__ = ["render_testbench"]

LENGTHS = (1, 2, 5, 24, 3, 9, 17, 4)
"""Steps of the streams, some shorter and some longer than the window."""

C_FILE = """\
  reg [BEAT-1:0] c_file [0:BEATS-1];
  reg c_valid;
  wire c_ready;
  reg [BEAT-1:0] c_payload;
  integer c_next;

"""

C_DRIVER = """
  // An offered beat of C stays until it is accepted.
  always @(posedge clk) begin
    if (rst) begin
      c_next = 0;
      c_valid <= 0;
    end else begin
      if (c_valid && c_ready) c_next = c_next + 1;
      if (!c_valid || c_ready) c_valid <= c_next < BEATS && !pause(0);
      c_payload <= c_file[c_next < BEATS ? c_next : 0];
    end
  end
"""


COUNTER_WIRES = """\
  wire [31:0] cycles, steps, effectual, input_limited, stall_output;
  wire [32*ROWS-1:0] row_wait;
"""


def render_testbench(config: TileConfig, prefix: str = "tensordash", seed: int = 0) -> dict[str, str]:
    """Return the files of a self-checking testbench for the files of `tensordash.emission.verilog.render`.

    The testbench plays streams of random operands at full rate, then with gaps, back-pressure and a reset.
    It compares every result, and at full rate counters and flags, with the golden model's.

    Parameters
    ----------
    config : TileConfig
        The tile.
    prefix : str
        Prefix of file and module names.
    seed : int
        Seed of the operands and of the testbench's pauses.

    Returns
    -------
    dict of str to str
        By file name: ``PREFIX_tile_tb.v`` (the module ``PREFIX_tile_tb``, Verilog-2005) and its input files.
        ``PREFIX_tile_tb_a.hex`` and ``_b.hex`` have a step in each line, ``_ends.hex`` a 1 for the last step of a
        stream, ``_out.hex`` the beats of results and, with a C input, ``_c.hex`` the beats of C.

    Raises
    ------
    ValueError
        For a prefix that no module name can begin with.
    """
    name = f"{check_prefix(prefix)}_tile_tb"
    random = Random(seed)
    a, b, c = random_inputs(random, config, list(LENGTHS))
    # Thin out all rows: with independent densities, the densest row would leave little to skip.
    lanes = config.lanes
    b = [
        [
            [[value * (random.random() < 0.4) for value in step[:lanes]] + step[lanes:] for step in stream]
            for stream in port
        ]
        for port in b
    ]
    operands = [
        ([port[i] for port in a], [port[i] for port in b], *([c[i]] if config.initial else []))
        for i in range(len(LENGTHS))
    ]
    golden = run_streams([tuple(np.array(side, np.uint64) for side in stream) for stream in operands], config)
    files = {
        "a": _steps(a, config.a_format.width, config.lanes),
        "b": _steps(b, config.b_format.width, config.lanes),
        "ends": [str(int(step == length)) for length in LENGTHS for step in range(1, length + 1)],
        "out": _beats(golden.c_bits.tolist(), config),
        **({"c": _beats(c, config)} if config.initial else {}),
    }
    template = resources.files(__package__).joinpath("tile_tb.v").read_text(encoding="utf-8")
    values = _values(config, golden) | {"SEED": str(seed)}
    text = re.sub(r"@([A-Z_]+)@", lambda found: values.get(found[1], found[0]), template).replace("@PREFIX@", prefix)
    return {
        f"{name}.v": text,
        **{f"{name}_{kind}.hex": "\n".join(lines) + "\n" for kind, lines in files.items()},
    }


def _steps(ports: Sequence[Sequence[Sequence[Sequence[int]]]], width: int, lanes: int) -> list[str]:
    """Return the steps of one side, (port, stream, T, lanes), as one line per step, the last port in the highest bits.

    A step's scale, if any, is above its values.
    """
    words = [
        [packed([packed(step[:lanes], width), *step[lanes:]], width * lanes) for stream in port for step in stream]
        for port in ports
    ]
    bits = width * lanes + 8 * (len(ports[0][0][0]) - lanes)
    return [_hex(packed(step, bits), bits * len(ports)) for step in zip(*words, strict=True)]


def _beats(blocks: Sequence[Sequence[Sequence[int]]], config: TileConfig) -> list[str]:
    """Return blocks, (stream, rows, columns), as one line per beat, in the ports' format."""
    return [_hex(packed_beat(beat), _beat_bits(config)) for beat in BlockSource(blocks, config.out_rows).beats]


def _beat_bits(config: TileConfig) -> int:
    return 32 * config.columns * config.out_rows + 1


def _hex(number: int, bits: int) -> str:
    return f"{number:0{-(-bits // 4)}x}"


def _values(config: TileConfig, golden: MatmulResult) -> dict[str, str]:
    """Return the template's values for this tile."""
    depth, beats = config.window_depth, config.rows // config.out_rows * len(LENGTHS)
    # A fused accumulator's order of sums may depend on arrival, unless schedules wait for a full window.
    gaps = not isinstance(config.numerics.accumulator, Fused) or config.needs_full_window or depth == 1
    counters = golden.counters  # The checks omit stall_input, which counts on after the last result.
    checks = []
    if config.counts:
        checks += [(name, name, getattr(counters, name)) for name in COUNTERS if name != "stall_input"]
        checks += [("row_wait", f"row_wait[{32 * row} +: 32]", waits) for row, waits in enumerate(counters.row_wait)]
    checks += [(flag, f"{{31'd0, {flag}}}", int(getattr(golden, flag))) for flag in FLAGS]
    numbers = {
        "STREAMS": len(LENGTHS),
        "COLUMNS": config.columns,
        "ROWS": config.rows,
        "DEPTH": depth,
        "A_STEP": config.a_format.width * config.lanes,
        "B_STEP": config.b_format.width * config.lanes,
        **({"SCALE": config.numerics.scale_bits} if config.numerics.scale_bits else {}),
        "COUNT": depth.bit_length(),
        "BEAT": _beat_bits(config),
        "STEPS": sum(LENGTHS),
        "BEATS": beats,
        "GAPS": int(gaps),
        "PLACE": "step % DEPTH" if config.ring else "slot",
        "CYCLES": golden.counters.cycles,
    }
    return {
        **{name: str(number) for name, number in numbers.items()},
        "PORTS": "\n".join(_ports(config)),
        **_scale_texts(config.numerics.scale_bits),
        "COUNTERS": _counters(config),
        "COUNTER_WIRES": COUNTER_WIRES if config.counts else "",
        "CLEARED": '    check("cycles (clear)", cycles, 0);' if config.counts else "",
        "COUNTED": '    check("steps", steps, STEPS);' if config.counts else "",
        "CHECKS": "\n".join(f'    check("{name}", {found}, {expected});' for name, found, expected in checks),
        "C_FILE": C_FILE if config.initial else "\n",
        "C_DRIVER": C_DRIVER if config.initial else "",
        "C_READ": '    $readmemh("@PREFIX@_tile_tb_c.hex", c_file);\n' if config.initial else "",
    }


def _scale_texts(bits: int) -> dict[str, str]:
    """Return the template's texts for scales, which are above a step's values in the files."""
    if not bits:
        return dict.fromkeys(("SCALE_BITS", "A_SCALES", "B_SCALES", "ANY_SCALES", "A_SCALE", "B_SCALE"), "") | {
            "A_WORD": "A_STEP",
            "B_WORD": "B_STEP",
        }
    texts = {
        "SCALE_BITS": "  localparam SCALE = @SCALE@;            // bits of a scale, above its step in the files\n",
        "ANY_SCALES": "      a_scales <= {COLUMNS*DEPTH*SCALE{1'b1}};\n      b_scales <= {ROWS*DEPTH*SCALE{1'b1}};\n",
    }
    for side, count in (("A", "COLUMNS"), ("B", "ROWS")):
        low = side.lower()
        texts[f"{side}_WORD"] = f"({side}_STEP+SCALE)"
        texts[f"{side}_SCALES"] = f"  reg [{count}*DEPTH*SCALE-1:0] {low}_scales;\n"
        texts[f"{side}_SCALE"] = (
            f"        for (slot = 0; slot < count; slot = slot + 1)\n"
            f"          {low}_scales[(port*DEPTH + place(next + slot, slot))*SCALE +: SCALE]\n"
            f"            <= {low}_file[next + slot][port*({side}_STEP+SCALE)+{side}_STEP +: SCALE];\n"
        )
    return {name: text.replace("@SCALE@", str(bits)) for name, text in texts.items()}


def _counters(config: TileConfig) -> str:
    """Return the connections of the counters; a snapshot is taken in every cycle."""
    names = ("cycles", "steps", "effectual", "input_limited", "stall_output", "row_wait") if config.counts else ()
    lines = [f"    {', '.join(f'.{name}({name})' for name in names)}, .stall_input(),"] if names else []
    if config.snapshot:
        lines.append("    .snapshot(1'b1),")
    if config.ring:
        lines.append("    .entry_line(),")
    return "\n".join(lines)


def _ports(config: TileConfig) -> list[str]:
    """Return the connections of the rows' and columns' ports, and of C."""
    lines = []
    for side, count in (("a", config.columns), ("b", config.rows)):
        for i in range(count):
            taken = "taken" if (side, i) == ("a", 0) else ""  # equal on all ports
            steps = f"DEPTH*{side.upper()}_STEP"
            lines.append(
                f"    .{side}_{i}_steps({side}_steps[{i}*{steps} +: {steps}]), "
                + f".{side}_{i}_scales({side}_scales[{i}*DEPTH*SCALE +: DEPTH*SCALE]), "
                * bool(config.numerics.scale_bits)
                + f".{side}_{i}_available({side}_available[{i}*COUNT +: COUNT]), "
                f".{side}_{i}_last({side}_last[{i}]), .{side}_{i}_taken({taken}),"
            )
    if config.initial:
        lines.append("    .c_valid(c_valid), .c_ready(c_ready), .c_payload(c_payload),")
    return lines
