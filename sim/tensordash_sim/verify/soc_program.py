"""A compiled matrix product as C arrays: what a system executes if `tensordash soc` gets no program folder."""

import zlib
from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from tensordash.configuration.core_config import CoreConfig

from ..compiler.images import TensorImage
from ..compiler.layer import Layer
from ..compiler.pipeline import compile_problem
from ..compiler.problem import Problem
from ..golden.core.golden_core import GoldenCore, Memory

__all__ = ["example_c_program"]

SIZE = 1 << 16
SAMPLES = 8
CHANNELS = 16
FILTERS = 8
SHARE_OF_ZEROS = 0.5

HEADER = """\
/* A product of {samples} x {channels} by {channels} x {filters} for the core with configuration {digest}. */
#ifndef TENSORDASH_PROGRAM_H
#define TENSORDASH_PROGRAM_H

#include <stdint.h>

#define TENSORDASH_PROGRAM_DIGEST UINT32_C(0x{low})
#define TENSORDASH_PROGRAM_DIGEST_HIGH UINT32_C(0x{high})
#define TENSORDASH_PROGRAM_BASE UINT64_C({base:#x})
#define TENSORDASH_PROGRAM_BYTES UINT32_C({size})
#define TENSORDASH_PROGRAM_CALLS 1
#define TENSORDASH_PROGRAM_TENSORS {tensors}

struct tensordash_call {{
  uint64_t address;
  uint32_t descriptors;
  uint32_t host_call;
}};

struct tensordash_tensor {{
  const char *name;
  uint64_t address;
  uint32_t bytes;
  uint32_t crc32; /* of its bytes after the program */
}};

extern const uint32_t tensordash_initial[];
extern const struct tensordash_call tensordash_calls[];
extern const struct tensordash_tensor tensordash_tensors[];

#endif
"""
SOURCE = """\
#include "program.h"

TENSORDASH_PROGRAM_SECTION const uint32_t tensordash_initial[] = {{
{words}
}};

const struct tensordash_call tensordash_calls[] = {{{{UINT64_C({address:#x}), {descriptors}, 0}}}};

const struct tensordash_tensor tensordash_tensors[] = {{
{tensors}
}};
"""


def example_c_program(config: CoreConfig, base: int, seed: int = 0) -> Mapping[str, str]:
    """Return ``program.h`` and ``program.c`` of a matrix product, as docs/program-folder.md names their contents.

    Parameters
    ----------
    config : CoreConfig
        The core.
    base : int
        First address of program and tensors, a multiple of 4096.
    seed : int
        Of the operands.
    """
    layer = Layer(samples=1, channels=CHANNELS, filters=FILTERS, size=(1, SAMPLES))
    random = np.random.default_rng(seed)
    values = {name: _random_bits(random, config, layer.whole_shape(name)) for name in ("A", "W")}
    values["A"][random.random(values["A"].shape) < SHARE_OF_ZEROS] = 0
    memory = Memory(SIZE, base)
    image = TensorImage(config, memory, layer, "AxW", values, rows="A")
    program = compile_problem(Problem(layer=layer, operation="AxW", rows="A"), config, image.tensors)
    memory.write(image.end, program.image())
    end = image.end + len(program.image())
    initial = np.frombuffer(memory.bytes[: end - base], "<u4").tolist()
    outcome = GoldenCore(config, memory).run(program.descriptors)
    assert not outcome.error, outcome
    places = [*sorted(image.tensors.items(), key=lambda item: item[1]), ("", image.end)]
    rows = []
    for (name, address), (_, after) in pairwise(places):
        crc = zlib.crc32(bytes(memory.bytes[address - base : after - base]))
        rows.append(f'  {{"{name}", UINT64_C({address:#x}), {after - address}, {crc:#010x}}},')
    return {
        "program.h": HEADER.format(
            samples=SAMPLES,
            channels=CHANNELS,
            filters=FILTERS,
            digest=config.digest,
            low=config.digest[8:],
            high=config.digest[:8],
            base=base,
            size=SIZE,
            tensors=len(rows),
        ),
        "program.c": SOURCE.format(
            words="\n".join(
                "  " + " ".join(f"{word:#x}," for word in initial[k : k + 8]) for k in range(0, len(initial), 8)
            ),
            address=image.end,
            descriptors=len(program.descriptors),
            tensors="\n".join(rows),
        ),
    }


def _random_bits(random: np.random.Generator, config: CoreConfig, shape: tuple[int, ...]) -> np.ndarray:
    """Bit patterns of ordinary magnitude: sign and low bits random, one high exponent bit, so that no sum overflows."""
    width = config.value_bits
    unsigned = np.dtype(f"u{width // 8}")
    magnitudes = random.integers(1 << (width - 3), 3 << (width - 4), shape)
    return (magnitudes | random.integers(0, 2, shape) << (width - 1)).astype(unsigned)
