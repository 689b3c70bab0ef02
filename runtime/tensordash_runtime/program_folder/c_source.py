"""Render a program folder as freestanding C99: initial contents, calls and tensors."""

import json
import zlib
from collections.abc import Iterator

import numpy as np

from tensordash.configuration.descriptors import BYTES

from .folder import ProgramFolder
from .host_source import render_host_calls
from .plan import HostCall

__all__ = ["render_c"]

LINE_BYTES = 32
"""Bytes of the initial contents in a line."""
HEADER = """\
/* {name}: a program folder of TensorDash as C99, for the core with configuration {digest}.
 *
 * Copy `tensordash_initial` to the base, then execute `tensordash_calls` in order.
 * docs/program-folder.md is the reference.
 */
#ifndef TENSORDASH_PROGRAM_H
#define TENSORDASH_PROGRAM_H

#include <stdint.h>

#define TENSORDASH_PROGRAM_VERSION {version}
/* The configuration's digest, equal to the registers `digest` and `digest_high`. */
#define TENSORDASH_PROGRAM_DIGEST UINT32_C(0x{digest_low})
#define TENSORDASH_PROGRAM_DIGEST_HIGH UINT32_C(0x{digest_high})
/* Memory for programs and tensors: first address, bytes, and bytes to copy to it before the first call. */
#define TENSORDASH_PROGRAM_BASE UINT64_C({base:#x})
#define TENSORDASH_PROGRAM_BYTES UINT32_C({size})
#define TENSORDASH_PROGRAM_INITIAL_BYTES UINT32_C({initial_bytes})
#define TENSORDASH_PROGRAM_CALLS {calls}
#define TENSORDASH_PROGRAM_TENSORS {tensors}
/* Estimated cycles of the core in all programs. */
#define TENSORDASH_PROGRAM_CYCLES UINT32_C({cycles})

/* A program in memory if `descriptors` is not 0, else host call number `host_call`. */
struct tensordash_call {{
  uint64_t address;     /* address of the first descriptor */
  uint64_t record;      /* address of the 32 bytes to which the program writes its counts */
  uint32_t descriptors; /* number of descriptors, including the end */
  uint32_t host_call;
}};

struct tensordash_tensor {{
  const char *name;
  uint64_t address;
  uint32_t bytes;
  uint32_t crc32;      /* CRC-32 (zlib) of its bytes after one step from the initial contents */
  uint8_t is_initial;  /* a call reads it before any call writes it */
  uint8_t is_input;    /* the host sets it before each step */
  uint8_t is_output;
}};

extern const uint32_t tensordash_initial[];
extern const struct tensordash_call tensordash_calls[];
extern const struct tensordash_tensor tensordash_tensors[];

/* Indices in `tensordash_tensors`. */
enum {{
{indices}
}};
{host_call}
#endif
"""
HOST_CALL = """
/* Computes host call `index` (host.c); `memory` points to the byte at the base and is aligned to 4 bytes. */
void tensordash_host_call(uint32_t index, uint8_t *memory);
/* Returns the name of the call's function; calls of the same function return the same pointer. */
const char *tensordash_host_function(uint32_t index);
"""
SOURCE = """\
/* Contents of {name}; see program.h. */
#include "program.h"

#ifndef TENSORDASH_PROGRAM_SECTION
#define TENSORDASH_PROGRAM_SECTION /* e.g. __attribute__((section(".tensordash"))) */
#endif

TENSORDASH_PROGRAM_SECTION const uint32_t tensordash_initial[] = {{
{words}
}};

const struct tensordash_call tensordash_calls[] = {{
{calls}
}};

const struct tensordash_tensor tensordash_tensors[] = {{
{tensors}
}};
"""


def render_c(folder: ProgramFolder) -> dict[str, str]:
    """Return the C files of a program folder, by name."""
    plan, places = folder.plan, folder.memory_map
    names = [f"  TENSORDASH_TENSOR_{c_name(name)} = {k}" for k, name in enumerate(plan.tensors)]
    calls = list(_calls(folder))
    host_calls = any(isinstance(call, HostCall) for call in plan.calls)
    digest = plan.config.digest
    header = HEADER.format(
        name=_comment(plan.name),
        version=1,
        digest=digest,
        digest_low=digest[8:],
        digest_high=digest[:8],
        base=places.base,
        size=places.size,
        initial_bytes=places.initial_bytes,
        calls=len(calls),
        tensors=len(plan.tensors),
        cycles=sum(each["cycles"] for each in folder.programs),
        indices=",\n".join(names),
        host_call=HOST_CALL if host_calls else "",
    )
    source = SOURCE.format(
        name=_comment(plan.name),
        words="\n".join(_words(folder.initial)),
        calls="\n".join(calls),
        tensors="\n".join(_tensors(folder)),
    )
    files = {"program.h": header, "program.c": source}
    return {**files, "host.c": render_host_calls(plan, places)} if host_calls else files


def c_name(name: str) -> str:
    """Convert a tensor's name to a part of a C identifier, in capital letters.

    >>> c_name("conv1.weight")
    'CONV1_WEIGHT'
    """
    return "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in name).upper()


def _comment(text: str) -> str:
    return text.replace("*/", "* /").replace("\n", " ")


def _words(data: bytes | memoryview) -> Iterator[str]:
    """Yield lines of eight words; `data` has full words."""
    swapped = np.frombuffer(data, "<u4").astype(">u4").tobytes()
    for k in range(0, len(swapped), LINE_BYTES):
        yield f"  0x{swapped[k : k + LINE_BYTES].hex(' ', 4).replace(' ', ', 0x')},"


def _calls(folder: ProgramFolder) -> Iterator[str]:
    programs = host_calls = 0
    places = folder.memory_map
    for stage in folder.plan.stages:
        if isinstance(stage, HostCall):
            yield f"  {{0, 0, 0, {host_calls}}}, /* {stage.function} */"
            host_calls += 1
            continue
        region, record = places.programs[programs], places.records[programs]
        names = _comment(", ".join(product.name for product in stage))
        addresses = f"UINT64_C({region.address:#x}), UINT64_C({record.address:#x})"
        yield f"  {{{addresses}, {region.bytes // BYTES}, 0}}, /* {names} */"
        programs += 1


def _tensors(folder: ProgramFolder) -> Iterator[str]:
    plan, initial = folder.plan, set(folder.plan.initial)
    for name in plan.tensors:
        region = folder.memory_map.tensors[name]
        crc = zlib.crc32(folder.expected_bytes(name))
        flags = ", ".join(str(int(name in names)) for names in (initial, plan.inputs, plan.outputs))
        yield f"  {{{json.dumps(name)}, UINT64_C({region.address:#x}), {region.bytes}, {crc:#010x}, {flags}}},"
