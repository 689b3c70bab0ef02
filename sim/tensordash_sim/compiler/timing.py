"""Estimate of a core's time for a program, from its descriptors alone, without executing them.

Each unit takes its descriptors in order, as soon as they are fetched and their tokens have arrived. Its time for a
descriptor follows the hardware's pages. The estimate includes the shared resources that matter: fetches wait for a
load's bursts, and the tile waits for layouts that write the banks that it reads.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import gcd, prod

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import BITS, HEADER, OPERATIONS, UNITS, decode

from .clock import run_clock
from .clock_state import DESCRIPTOR, Core
from .footprint import walk_mask
from .pair_cycles import pair_cycles
from .row_streams import EvenPaces, Paces
from .unit_cycles import (
    LATENCY,
    LAYOUT_CYCLES,
    LENGTH_CYCLES,
    MAX_BURST_BEATS,
    STORE_CYCLES,
    block_cycles_of,
    burst_count,
    group_beats,
    layout_cycles,
    load_cycles,
    store_cycles,
)

__all__ = ["Timing", "clock_core", "clock_rows", "timing"]

MIN_FETCH_BEATS = 4
"""Minimum of cycles from one descriptor to the next."""
BIAS_READ_CYCLES = 2
"""Cycles in which the output unit reads the biases of a group."""
FIELDS = frozenset(
    (
        *("operation", "wait", "signal", "output_wait", "output_signal", "address", "steps", "streams", "stride"),
        *("count_0", "count_1", "count_2", "count_3", "a_streams", "b_streams", "nvfp4"),
        *("add", "emit", "transposed", "fp32", "bias", "mask", "skip_masked"),
    )
)
"""Fields of descriptors that affect their times."""
NO_PROPERTIES: dict[str, float] = dict.fromkeys(DESCRIPTOR.names or (), 0)


@dataclass
class Timing:
    """The estimated time of a program.

    Attributes
    ----------
    cycles : int
        Cycles of the program.
    busy : dict of str to float
        By unit, the cycles in which the unit has a descriptor.
    """

    cycles: int = 0
    busy: dict[str, float] = field(default_factory=lambda: dict.fromkeys(UNITS, 0.0))


@lru_cache(maxsize=64)
def _time_mask(config: CoreConfig, operation: str) -> int:
    """Return the bits of an operation's descriptors that determine their times."""
    fields = (*HEADER, *OPERATIONS[operation].fields)
    mask = sum(field.mask for field in fields if field.name in FIELDS)
    has_pairs = operation.startswith("layout") and config.layout_groups == 2
    return mask | walk_mask(operation) if has_pairs else mask


def _properties(config: CoreConfig, bits: int, values: Mapping[str, int], latency: int) -> tuple[float, ...]:
    """Return the entries of `DESCRIPTOR` of a descriptor, without its paces."""
    operation, _ = decode(bits, frozenset())
    assert operation is not None
    if not operation.unit:
        return tuple((NO_PROPERTIES | {"unit": -1}).values())
    row = _describe(config, bits, operation.name, values, latency)
    row |= {"unit": UNITS.index(operation.unit), "wait": values["wait"], "signal": values["signal"]}
    return tuple((NO_PROPERTIES | row).values())


def _describe(config: CoreConfig, bits: int, name: str, values: Mapping[str, int], latency: int) -> dict[str, float]:
    """Return the properties of a descriptor that determine its time, as entries of `DESCRIPTOR`."""
    if name in ("load", "store"):
        groups, runs = _runs(values)
        is_nvfp4 = bool(values.get("nvfp4"))
        beats = group_beats(config, is_nvfp4=is_nvfp4)
        return {
            "cycles": load_cycles(config, groups, runs, latency, is_nvfp4=is_nvfp4)
            if name == "load"
            else store_cycles(config, groups, runs, latency),
            "beats": groups * beats,
            "group_beats": beats,
            "bursts": burst_count(groups, runs, beats),
            "burst": min(values["count_0"] * beats, MAX_BURST_BEATS),
            "region": values["address"] * config.regions // config.groups,
        }
    if name == "record":
        return {"cycles": latency + STORE_CYCLES}
    if name == "multiply":
        return {
            "is_multiply": 1,
            "cycles": block_cycles_of(config, values),
            "region": values["address"] * config.regions // config.groups,
            "words": -(-values["steps"] // config.tile.window_depth),
            "bias_cycles": values["bias"] * BIAS_READ_CYCLES * config.parts("a"),
            "mask_cycles": values["skip_masked"] * config.parts("a") * config.parts("b"),
            **{key: values[key] for key in ("output_wait", "output_signal", "a_streams", "b_streams", "mask")},
        }
    runs = values["streams"] * config.parts(name[-1])
    has_pairs, drops = config.layout_groups == 2, config.drop_steps and name == "layout_b"
    return {
        "is_layout": 1,
        "cycles": LAYOUT_CYCLES + drops * LENGTH_CYCLES + pair_cycles(config, bits)
        if has_pairs
        else layout_cycles(config, runs, values["steps"], values["stride"]),
        "period": gcd(values["stride"], config.tile.lanes),
        "groups": runs * values["steps"],
    }


def _runs(values: Mapping[str, int]) -> tuple[int, int]:
    """Return the numbers of groups and of runs of a move."""
    runs = prod(values[f"count_{k}"] for k in (1, 2, 3))
    return runs * values["count_0"], runs


def timing(
    config: CoreConfig, program: Sequence[int], *, speedup: float | Paces = 1.0, latency: int = LATENCY
) -> Timing:
    """Estimate the cycles of a program on a core.

    Parameters
    ----------
    config : CoreConfig
        The core.
    program : sequence of int
        Legal descriptors. Compressed moves count as uncompressed ones.
    speedup : float or Paces
        Steps over cycles of the tile in all passes, without padding of a stream's last word; 1 for the dense tile. Then
        no pass is skipped. Or the paces of this program's streams, which may have skipped passes.
    latency : int
        Latency of memory in cycles. Memory transfers one beat per cycle in each direction.

    Examples
    --------
    >>> from .program import Program
    >>> program = Program()
    >>> program.add("load", memory=0, address=0, count_0=64)
    0
    >>> program.add("end")
    1
    >>> 178 < timing(CoreConfig(), program.descriptors).cycles < 300
    True
    """
    rows, cycles, losses = clock_rows(config, program, speedup, latency)
    end, busy = run_clock(rows, cycles, losses, clock_core(config, latency))
    return Timing(round(end), dict(zip(UNITS, busy.tolist(), strict=True)))


def clock_rows(
    config: CoreConfig, program: Sequence[int], speedup: float | Paces, latency: int
) -> tuple[NDArray, NDArray[np.float64], NDArray[np.float64]]:
    """Return the rows of `DESCRIPTOR` of a program, and `cycles` and `losses` of all its paces.

    Parameters are those of `timing`.
    """
    paces = speedup if isinstance(speedup, Paces) else EvenPaces(config, speedup)
    masks = {operation.code: _time_mask(config, operation.name) for operation in OPERATIONS.values()}
    numbers: dict[int, int] = {}
    kinds = [numbers.setdefault(bits & masks[bits & HEADER[0].mask], len(numbers)) for bits in program]
    fields = [decode(bits, FIELDS)[1] for bits in numbers]
    table = [_properties(config, bits, values, latency) for bits, values in zip(numbers, fields, strict=True)]
    rows = np.array(table, DESCRIPTOR)[kinds]
    multiplies = rows["is_multiply"].nonzero()[0]
    chosen = [paces.of(index, fields[kinds[index]]) for index in multiplies.tolist()]
    for name, sizes in (
        ("pace", [each.cycles.size for each in chosen]),
        ("losses", [len(each.losses) for each in chosen]),
    ):
        ends = np.cumsum([0, *sizes])
        rows[name][multiplies], rows[f"next_{name}"][multiplies] = ends[:-1], ends[1:]
    cycles = np.concatenate([np.zeros(0), *(pace.cycles.ravel() for pace in chosen)])
    losses = np.concatenate([pace.losses for pace in chosen]) if chosen else np.zeros((0, 1))
    return rows, cycles, losses


def clock_core(config: CoreConfig, latency: int, cores: int = 1) -> Core:
    """Return the clock's parameters of a core, one of `cores` at a memory port."""
    return Core(
        window=config.window,
        prefetch=config.prefetch,
        outstanding=config.outstanding,
        fetch_cycles=BITS // config.axi_bits,
        interval_cycles=max(MIN_FETCH_BEATS, BITS // config.axi_bits),
        latency=float(latency),
        is_dense=config.tile.sparsity == "none",
        has_pairs=config.layout_groups == 2,
        cores=cores,
    )
