"""Test of each descriptor field at and near its limits, on a core's Verilog built as a library."""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy

import numpy as np

from tensordash.configuration.descriptors import BYTES, OPERATIONS, UNITS, decode, encode

from ..golden.core.effects import overwrites_masks, read_memory, written_groups, written_memory
from ..golden.core.legal import Sequencer
from ..golden.core.tensors import deflate
from .core_program_bench import ProgramBench
from .programs.field_cases import FieldCase, field_cases

__all__ = ["field_ends"]

CASES_PER_PROGRAM = 64
SOURCE_GROUPS = 63
"""Groups of the buffer that are laid out for a multiply of a core that drops steps."""


def field_ends(bench: ProgramBench, max_errors: int) -> None:
    """Run each field of each descriptor at and near its limits: legal cases in sequence, each error alone.

    Each error needs a soft reset, so at most `max_errors` of them run.
    """
    errors: list[FieldCase] = []
    for name in ("layout_a", "layout_b", "multiply", "load", "store", "record"):
        legal: list[FieldCase] = []
        for case in _cases(bench, name):
            if not _is_quick(bench, case):
                continue
            (legal if _is_legal(bench, case) else errors).append(case)
        for first in range(0, len(legal), CASES_PER_PROGRAM):
            _check_legal(bench, name, legal[first : first + CASES_PER_PROGRAM])
    for case in bench.random.sample(errors, min(len(errors), max_errors)):
        bench.run([*_with_streams(bench, case), encode(OPERATIONS["end"], {})], case.title)
        bench.restart()
    bench.fill()


def _cases(bench: ProgramBench, name: str) -> Iterable[FieldCase]:
    config = bench.config
    groups = range(config.groups // 2) if name.startswith("layout") else range(config.groups // 2, config.groups)
    plain = {"memory": bench.middle % (1 << 32), "memory_high": bench.middle >> 32}
    compressed = {}
    if config.compression:
        count, place = 5, bench.middle + 0x8000
        data, table = deflate(bench.golden.buffer[:count].reshape(count, -1), config, count)
        if name == "load":
            bench.golden.memory.write(place, data)
            entries = np.full(count + 1, table[-1], "<u4")
            entries[0] = 0
            bench.golden.memory.write(place + 0x4000, entries.tobytes())
        compressed = {"compressed": 1, "memory": place % (1 << 32), "memory_high": place >> 32, "count_0": count}
        table_at = place + 0x4000
        compressed |= {"table": table_at % (1 << 32), "table_high": table_at >> 32, "segment": count}
    moves = {"plain": plain, "compressed": compressed}
    return list(field_cases(bench.random, config, (name,), groups, moves))


def _is_quick(bench: ProgramBench, case: FieldCase) -> bool:
    """Return whether a case is short and leaves defined state for later cases."""
    bits, config = case.descriptor(), bench.config
    if Sequencer(config).refusal(bits):
        return True
    _, values = decode(bits)
    if config.drop_steps and case.operation == "layout_b" and values["steps"] > _most_steps(bench, "a"):
        return False  # No multiply could read the streams as laid out.
    if case.operation == "multiply":
        written = written_groups(bits, config)
        away = values["mask_address"] - values["address"]
        # The results may overwrite their own mask, but FP32 results would overwrite mask groups not read yet.
        hides = values["mask"] and (away or values["fp32"])
        masks = {(group + away) % config.groups for group in written} if hides else set()
        biases = {(values["bias_address"] + k) % config.groups for k in range(-1, 64)} if values["bias"] else set()
        if written & (masks | biases):
            return False
        is_short = values["a_streams"] * values["b_streams"] * values["steps"] < 1 << 16
        return is_short and not overwrites_masks(bits, config)
    ring = (bench.ring, BYTES << bench.log2_places)
    return not any(
        begin < ring[0] + ring[1] and ring[0] < begin + size
        for begin, size in (*written_memory(bits, config), *read_memory(bits, config))
    )


def _is_legal(bench: ProgramBench, case: FieldCase) -> bool:
    """Return whether golden executes the case without an error; restore golden's state."""
    golden = bench.golden
    saved = golden.buffer.copy(), {side: array.copy() for side, array in golden.streams.items()}, golden.partial
    memory, counts = bytes(golden.memory.bytes) if case.operation in ("store", "record") else b"", golden.counts
    golden.partial, golden.counts = list(golden.partial), type(counts)()
    laid_streams, golden.laid_streams = golden.laid_streams, deepcopy(golden.laid_streams)
    outcome = golden.run(_with_streams(bench, case))
    golden.buffer[:], golden.partial, golden.counts = saved[0], saved[2], counts
    golden.laid_streams = laid_streams
    for side, array in saved[1].items():
        golden.streams[side][:] = array
    if memory:
        golden.memory.bytes[:] = memory
    return not outcome.error


def _most_steps(bench: ProgramBench, side: str) -> int:
    """Return the steps of the longest stream that a side's stream buffer holds."""
    return bench.config.tile.window_depth * bench.config.stream_words(side)


def _read_streams(bench: ProgramBench, multiply: Mapping[str, int], **tokens: int) -> int:
    """Return a layout of the streams of side B that a multiply reads, from the buffer's first groups."""
    last = min(bench.config.groups, SOURCE_GROUPS) - 1
    fields = {"steps": multiply["steps"], "streams": multiply["b_streams"], "base": multiply["b_base"]}
    walk = {"address_0": 1, "count_0": last + 1, "address_1": -last, "count_1": 4095}
    return encode(OPERATIONS["layout_b"], {**fields, **walk, "x_size": bench.config.tile.lanes, **tokens})


def _with_streams(bench: ProgramBench, case: FieldCase) -> list[int]:
    """Return a case's descriptor, after a layout of its streams if a core that drops steps multiplies them."""
    bits, config = case.descriptor(), bench.config
    _, values = decode(bits)
    if not config.drop_steps or case.operation != "multiply" or Sequencer(config).refusal(bits):
        return [bits]
    words = -(-values["steps"] // config.tile.window_depth)
    if values["b_base"] + values["b_streams"] * words > config.stream_words("b"):
        return [bits]
    bit = {unit: 1 << UNITS.index(unit) for unit in ("layout_b", "multiply")}
    return [_read_streams(bench, values, signal=bit["multiply"]), case.descriptor(wait=bit["layout_b"])]


def _check_legal(bench: ProgramBench, name: str, cases: Sequence[FieldCase]) -> None:
    """Run the cases of an operation in one program, followed by a store of the buffer."""
    config, width = bench.config, bench.config.fp32_groups
    program: list[int] = []
    bit = {unit: 1 << UNITS.index(unit) for unit in UNITS}
    usual = {case: _usual(bench, case) for case in ("layout_a", "layout_b")}
    lays_out = config.drop_steps and name != "layout_b"  # Each multiply has its own layout of side B.
    if lays_out:
        del usual["layout_b"]
    if name.startswith("layout"):
        other = "layout_b" if name == "layout_a" else "layout_a"
        program += [encode(OPERATIONS[other], {**usual[other], "signal": bit["multiply"]})] if other in usual else []
        blocks = config.parts("a") * config.parts("b")
        for k, case in enumerate(cases):
            _, values = decode(case.descriptor())
            # A case may read results of the previous case, which the output unit writes.
            program.append(case.descriptor(wait=bit["output"] if k else 0, signal=bit["multiply"]))
            side, last = name[-1], k == len(cases) - 1
            streams = min(values["streams"], 2)
            multiply = {"a_streams": 1, "b_streams": 1, "steps": values["steps"], f"{side}_streams": streams}
            multiply |= {f"{side}_base": values["base"], "emit": 1, "fp32": 1, "x_size": config.tile.lanes}
            multiply["steps"] = min(multiply["steps"], _most_steps(bench, other[-1]))
            multiply |= {"address": config.groups // 2 + k * 2 * blocks * width, "address_0": width, "count_0": 4095}
            multiply |= {"wait": bit[name] | (0 if k and not lays_out else bit[other])}
            multiply |= {"output_signal": bit["store"] if last else bit[name] | lays_out * bit[other]}
            if lays_out:
                read = {"b_streams": 1, "b_base": 0, **multiply}
                program.append(_read_streams(bench, read, wait=bit["output"] if k else 0, signal=bit["multiply"]))
            program.append(encode(OPERATIONS["multiply"], multiply))
        waits = bit["output"]
    elif name == "multiply":
        for each, fields in usual.items():
            program.append(encode(OPERATIONS[each], {**fields, "signal": bit["multiply"]}))
        # Masks for skipping passes may be results of the previous case.
        reads = [bool(case.fields.get("skip_masked")) for case in cases[1:]]
        waits_of = [bit["layout_a"] | bit["layout_b"], *(bit["output"] * is_read for is_read in reads)]
        signals = [*(bit["multiply"] * is_read for is_read in reads), bit["store"]]
        for k, (case, wait, signal) in enumerate(zip(cases, waits_of, signals, strict=True)):
            tokens = {"wait": wait, "output_signal": signal}
            if lays_out:
                # The layout may read results of the previous case, and this case may write where it reads.
                layout, ends = bit["layout_b"], {"signal": bit["multiply"] | bit["output"]}
                _, values = decode(case.descriptor())
                program.append(_read_streams(bench, values, wait=bit["output"] if k else 0, **ends))
                tokens |= {"wait": wait | layout, "output_wait": layout}
                tokens["output_signal"] |= layout if k < len(cases) - 1 else 0
            program.append(case.descriptor(**tokens))
        waits = bit["output"]
    else:
        unit = OPERATIONS[name].unit
        waits = bit[unit] if unit != "store" else 0
        for k, case in enumerate(cases):
            last = k == len(cases) - 1
            program.append(case.descriptor(signal=waits and bit["store"] if last else 0))
    at = bench.middle + 0x20000
    store = {"memory": at % (1 << 32), "memory_high": at >> 32, "count_0": config.groups, "wait": waits}
    program.append(encode(OPERATIONS["store"], store))
    program.append(encode(OPERATIONS["end"], {}))
    titles = f"{cases[0].title} to {cases[-1].title}"
    bench.run(program, titles)


def _usual(bench: ProgramBench, name: str) -> dict[str, int]:
    """Return the fields of a layout that fills a stream buffer with one-step streams, which multiplies may read."""
    config = bench.config
    streams = config.stream_words(name[-1])
    return {"steps": 1, "streams": streams, "x_size": config.tile.lanes, "address_0": 1, "count_0": 4095}
