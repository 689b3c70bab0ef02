"""Render a plan's host calls as freestanding C99: functions of `host_calls.c`, and tables of tensors and calls."""

import re
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.formats import FloatFormat, Format
from tensordash_sim.emulator import encode

from .host_calls import FUNCTIONS, POOL
from .linking import MemoryMap
from .plan import HostCall, Plan
from .tensors import Groups

__all__ = ["render_host_calls"]

C_FILES = ("host_calls.c", "host_pooling.c", "host_normalization.c", "host_updates.c", "host_dispatch.c")
MATH_IN_C = "host_math.c"
MAX_TENSORS = 7
MAX_PARAMETERS = 10

UNUSED_GROUPS = "{{{1, 1}, {1, 1}, {1, 1}}, {1, 1}, {1, 1}, 0}"
"""Row of an otherwise empty table of groups."""

HEAD = """\
/* Host calls of {name}; see program.h. Results are bit-equal to the emulator's.
 *
 * Compile without contraction to fused multiply-adds (-ffp-contract=off). The code needs a little-endian machine and
 * memcpy; a compiler may add calls of memset.
 */
#include "program.h"

#include <float.h>
#include <stddef.h>

#if FLT_EVAL_METHOD != 0
#error "single precision must be computed in single precision: FLT_EVAL_METHOD must be 0 (-msse2 -mfpmath=sse)"
#endif

/* In a freestanding program, compilers would otherwise call a function for each copy of four bytes. */
#ifdef __GNUC__
#define memcpy __builtin_memcpy
#else
void *memcpy(void *to, const void *from, size_t bytes);
#endif

{defines}

"""


def render_host_calls(plan: Plan, memory_map: MemoryMap) -> str:
    """Return the C source of a plan's host calls.

    Parameters
    ----------
    plan : Plan
        The step, with at least one host call.
    memory_map : MemoryMap
        Addresses of its tensors.
    """
    calls = [call for call in plan.calls if isinstance(call, HostCall)]
    used = dict.fromkeys(name for call in calls for name in call.tensors.values())
    orders = list(dict.fromkeys(groups for name in used if (groups := plan.tensors[name].groups) is not None))
    tables = [
        _table("groups", "GROUPS", [_groups(groups) for groups in orders] or [UNUSED_GROUPS]),
        _table("tensor", "TENSORS", [_tensor(plan, memory_map, name, orders) for name in used]),
        _table("host_call", "HOST_CALLS", [_call(call, list(used)) for call in calls]),
    ]
    head = HEAD.format(name=plan.name.replace("*/", "* /"), defines=_defines(plan.config))
    source = _with_formats("\n".join(_read(name) for name in C_FILES), plan.config)
    source = source.replace("/* TABLES */\n", "\n".join(tables)).replace("/* MATH */\n", _read(MATH_IN_C))
    return head + _only_used(source, {call.function.upper() for call in calls})


def _read(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _only_used(source: str, functions: set[str]) -> str:
    """Remove the cases of other host functions, and the C functions that are then unused."""
    others = "|".join(name.upper() for name in FUNCTIONS if name.upper() not in functions)
    source = re.sub(rf"^ +case ({others}): .*\n", "", source, flags=re.MULTILINE)
    definitions: list[str] = []
    # Blank lines separate definitions, and each definition precedes its callers.
    for definition in reversed(source.split("\n\n")):
        name = re.search(r"^static [\w *]+\b(\w+)\(", definition, re.MULTILINE)
        if name is None or any(f"{name[1]}(" in other for other in definitions):
            definitions.append(definition)
    return "\n\n".join(reversed(definitions))


def _defines(config: CoreConfig) -> str:
    """Return the core's lanes and value widths as macros."""
    lanes, width = config.tile.lanes, config.value_bits
    return _macros({"LANES": lanes, "WORD_CHANNELS": lanes * width // 32, "VALUE_BITS": width})


def _macros(values: Mapping[str, int]) -> str:
    return "\n".join(f"#define {name} {value if value >= 0 else f'({value})'}" for name, value in values.items())


def _with_formats(source: str, config: CoreConfig) -> str:
    """Repeat the functions between the FORMAT marks for each operand format, with its macros."""
    before, rest = source.split("/* FORMAT */\n")
    functions, after = rest.split("/* END FORMAT */\n")
    first, second = config.tile.a_format, config.tile.b_format
    parts = [_format_macros(first), functions]
    if second == first:
        parts.append("#define ENCODE(tensor, number) encode(number)\n#define DECODE(tensor, bits) decode(bits)\n")
    else:
        macros = _format_macros(second)
        parts += [f"#undef {line.split()[1]}\n" for line in macros.splitlines()]
        parts += [macros, re.sub(r"\b(encode|decode)\b", r"\1_second", functions)]
        choose = "((tensor)->format == OPERAND ? {0}code({1}) : {0}code_second({1}))"
        parts.append(f"#define ENCODE(tensor, number) {choose.format('en', 'number')}\n")
        parts.append(f"#define DECODE(tensor, bits) {choose.format('de', 'bits')}\n")
    return "".join((before, *parts, after))


def _format_macros(fmt: Format) -> str:
    assert isinstance(fmt, FloatFormat)
    values = {
        "FRACTION_BITS": fmt.fraction_bits,
        "LEAST_EXPONENT": fmt.least_exponent,
        "LARGEST": fmt.largest,
        "BEYOND": fmt.beyond,
        "HAS_INFINITIES": int(fmt.infinities),
        "OPERAND_NAN": int(encode(np.full(1, np.nan, np.float32), fmt)[0]),
    }
    return _macros(values) + "\n"


def _table(kind: str, name: str, rows: list[str]) -> str:
    return "\n".join([f"static const struct {kind} {name}[] = {{", *(f"    {row}," for row in rows), "};", ""])


def _groups(groups: Groups) -> str:
    dimensions = [f"{{{size}, {stride}}}" for size, stride in (*groups.outer, groups.channels, groups.positions)]
    return f"{{{{{', '.join(dimensions[:3])}}}, {', '.join(dimensions[3:])}, {int(groups.turned)}}}"


def _tensor(plan: Plan, memory_map: MemoryMap, name: str, orders: list[Groups]) -> str:
    tensor, region = plan.tensors[name], memory_map.tensors[name]
    kinds = {plan.config.tile.b_format.name: "SECOND_OPERAND", plan.config.tile.a_format.name: "OPERAND"}
    kind = kinds.get(tensor.format, tensor.format.upper())
    order = "PLAIN" if tensor.groups is None else orders.index(tensor.groups)
    return f"{{{region.address - memory_map.base}, {region.bytes}, {tensor.size}, {kind}, {order}}} /* {name} */"


def _call(call: HostCall, used: list[str]) -> str:
    function = FUNCTIONS[call.function]
    roles = dict.fromkeys((*function.read, *function.written))
    places = [str(used.index(call.tensors[role])) if role in call.tensors else "NONE" for role in roles]
    places += ["NONE"] * (MAX_TENSORS - len(places))
    parameters = _parameters(call.function, call.parameters)
    parameters += [0] * (MAX_PARAMETERS - len(parameters))
    numbers = ", ".join(f"{each:#x}" if each > 1 << 16 else str(each) for each in parameters)
    return f"{{{call.function.upper()}, {{{', '.join(places)}}}, {{{numbers}}}}}"


def _parameters(function: str, parameters: Mapping[str, Any]) -> list[int]:
    """Return a call's constants in the order of the C function's parameters."""
    shapes = parameters.get("shapes", {})
    floats = {name: _float_bits(each) for name, each in parameters.items() if isinstance(each, float)}
    if function == "sum_channels":
        samples, channels, *plane = shapes["gradient"]
        return [samples, channels, prod(plane)]
    if function == "softmax_cross_entropy":
        return [*shapes["scores"], floats["gradient_scale"]]
    if function in ("max_pool", "max_pool_backward"):
        samples, channels, rows, columns = shapes["x"]
        return [*(parameters[name] for name in POOL), samples * channels, rows, columns]
    return [floats.get(name, parameters[name]) for name in FUNCTIONS[function].parameters if name in parameters]


def _float_bits(number: float) -> int:
    return int(np.float32(number).view(np.uint32))
