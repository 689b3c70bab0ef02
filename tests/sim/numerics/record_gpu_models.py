"""Record the results of a published model of GPUs' matrix units as `gpu_models.json`.

The model is MMA-Sim (P. Xie et al., "MMA-Sim: Bit-Accurate Reference Model of Tensor Cores and Matrix Cores",
arXiv:2511.10909; package `mmasim`). Its authors found it identical to V100, A100, H100 and others on random operands.
The project does not depend on it: run `python -m tests.sim.numerics.record_gpu_models` where it and PyTorch are
installed.
"""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from tensordash.configuration.formats import FORMATS, FloatFormat

from .dot_cases import DotCases, dot_cases

NAN = 0x7FFFFFFF
"""The file records each NaN as these bits."""
PATH = Path(__file__).with_name("gpu_models.json")
HOPPER_WGMMA, BLACKWELL = "m64n8k32.f32.{}.{}", "m64n8k32.kind::f8f6f4.f32.{}.{}"
AMPERE_ZERO, HOPPER_ZERO = ({"fused": f, "zero_exponent": zero} for f, zero in ((24, -132), (25, -133)))
INSTRUCTIONS: list[tuple[str, str, str, str, int, int, Any]] = [
    # architecture, instruction, formats of a and b, products added at once, steps, accumulator of this project
    ("Volta", "m8n8k4.f32.f16.f16.f32", "fp16", "fp16", 4, 1, "volta"),
    ("Ampere", "m16n8k16.f32.f16.f16.f32", "fp16", "fp16", 8, 1, "ampere"),
    ("Ampere", "m16n8k16.f32.bf16.bf16.f32", "bf16", "bf16", 8, 1, "ampere"),
    ("Hopper", "m16n8k16.f32.f16.f16.f32", "fp16", "fp16", 16, 1, "hopper"),
    ("Hopper", "m16n8k16.f32.bf16.bf16.f32", "bf16", "bf16", 16, 1, "hopper"),
    ("RTX Blackwell", "m16n8k32.kind::f8f6f4.f32.e4m3.e4m3.f32", "fp8_e4m3", "fp8_e4m3", 32, 1, "hopper"),
    ("RTX Blackwell", "m16n8k32.kind::f8f6f4.f32.e5m2.e4m3.f32", "fp8_e5m2", "fp8_e4m3", 32, 1, "hopper"),
    ("Ada Lovelace", "m16n8k32.f32.e4m3.e4m3.f32", "fp8_e4m3", "fp8_e4m3", 16, 2, "ada-fp8"),
    ("Ada Lovelace", "m16n8k32.f32.e5m2.e5m2.f32", "fp8_e5m2", "fp8_e5m2", 16, 2, "ada-fp8"),
    ("Ada Lovelace", "m16n8k32.f32.e5m2.e4m3.f32", "fp8_e5m2", "fp8_e4m3", 16, 2, "ada-fp8"),
    ("Hopper", HOPPER_WGMMA.format("e4m3", "e4m3"), "fp8_e4m3", "fp8_e4m3", 32, 1, "hopper-fp8"),
    ("Hopper", HOPPER_WGMMA.format("e5m2", "e5m2"), "fp8_e5m2", "fp8_e5m2", 32, 1, "hopper-fp8"),
    ("Hopper", HOPPER_WGMMA.format("e4m3", "e5m2"), "fp8_e4m3", "fp8_e5m2", 32, 1, "hopper-fp8"),
    ("Blackwell", BLACKWELL.format("e4m3", "e4m3"), "fp8_e4m3", "fp8_e4m3", 32, 1, "hopper"),
    ("Ampere", "m16n8k8.f32.tf32.tf32.f32", "tf32", "tf32", 4, 2, "ampere"),
    ("Hopper", "m64n8k8.f32.tf32.tf32", "tf32", "tf32", 8, 1, "hopper"),
    ("Volta", "m8n8k4.f16.f16.f16.f16", "fp16", "fp16", 4, 1, "volta-fp16"),
    ("Ampere", "m16n8k16.f16.f16.f16.f16", "fp16", "fp16", 8, 1, "ampere-fp16"),
    ("Hopper", "m16n8k16.f16.f16.f16.f16", "fp16", "fp16", 16, 1, "hopper-fp16"),
    ("CDNA1", "f32_32x32x8f16", "fp16", "fp16", 4, 1, "cdna1"),
    ("Ampere", "m16n8k16.f32.bf16.bf16.f32", "bf16", "bf16", 8, 1, AMPERE_ZERO),
    ("Hopper", "m16n8k16.f32.bf16.bf16.f32", "bf16", "bf16", 16, 1, HOPPER_ZERO),
]


def low_cases(rng: np.random.Generator, fmt: FloatFormat, count: int, *, steps: int, lanes: int) -> DotCases:
    """Draw products around and below 2**-126 with a small C or none, for which zero's exponent matters.

    Every other case has a power of two and a much smaller one of the other sign, which alignment keeps or cuts off.
    """
    shape = count, steps, lanes
    exponent = rng.integers(-140, -128, (count, 1, 1)) + rng.integers(0, 6, shape)
    apart = np.arange(count) % 2 == 1
    exponent[apart, :, 0] = rng.integers(-138, -129, (count, 1))[apart]
    exponent[apart, :, 1] = rng.integers(-161, -154, (count, 1))[apart]
    a_field = rng.integers(1, 90, shape)
    ones = (1 << fmt.fraction_bits) - 1
    fractions = [np.where(apart[:, None, None], 0, rng.integers(0, ones + 1, shape)) for _ in range(2)]
    signs = [rng.integers(0, 2, shape) << (fmt.width - 1) for _ in range(2)]
    a, b = (
        sign | field << fmt.fraction_bits | fraction
        for sign, field, fraction in zip(signs, (a_field, exponent + 2 * fmt.bias - a_field), fractions, strict=True)
    )
    nonzero = rng.random(shape) < 0.8
    nonzero[apart] = np.arange(lanes) < 2
    top = 1 << (fmt.width - 1)
    a[apart, :, 1] = a[apart, :, 1] & ~top | ((a ^ b)[apart, :, 0] ^ b[apart, :, 1] ^ top) & top
    pattern = np.uint16 if fmt.width == 16 else np.uint32
    c = np.where(rng.random(count) < 0.9, 0, rng.integers(0, 1 << 24, count)).astype(np.uint32)
    return DotCases(np.where(nonzero, a, 0).astype(pattern), b.astype(pattern), c, np.full(count, "low"))


def tie_cases(rng: np.random.Generator, count: int, *, lanes: int) -> DotCases:
    """Draw 2**-25 or 3 * 2**-25, halfway between two FP16 numbers, with a product of +-2**-48 to 2**-41.

    The small product decides the rounding, unless the exponent of a zero accumulator makes alignment cut it off.
    """
    a, b = (np.zeros((count, 1, lanes), np.uint16) for _ in range(2))
    b[...] = rng.integers(0, 0x7C00, b.shape)
    row = np.arange(count)
    large, small = np.array([rng.permutation(lanes)[:2] for _ in range(count)]).T
    power, sign, odd = row % 8, row // 8 % 2, 1 + row // 16 % 2 * 2
    a[row, 0, large] = np.float16(2.0**-12).view(np.uint16)
    b[row, 0, large] = (odd * 2.0**-13).astype(np.float16).view(np.uint16)
    a[row, 0, small] = 1 << power // 2 | sign << 15
    b[row, 0, small] = 1 << power - power // 2
    return DotCases(a, b, np.zeros(count, np.uint32), np.full(count, "tie"))


def is_half(instruction: str) -> bool:
    """Return whether C and results are FP16."""
    return ".f16.f16.f16.f16" in instruction


def with_half_c(*parts: DotCases) -> DotCases:
    """Yield cases in order, with C in FP16."""
    a, b, c, kind = (np.concatenate([getattr(part, name) for part in parts]) for name in ("a", "b", "c", "kind"))
    with np.errstate(over="ignore"):
        half = c.view(np.float32).astype(np.float16).astype(np.float32).view(np.uint32)
    return DotCases(a, b, half, kind)


def results(architecture: str, instruction: str, a_name: str, b_name: str, cases: DotCases) -> np.ndarray:
    """Compute D = A*B + C with MMA-Sim, step by step; return FP32 bits, (count,)."""
    torch = import_module("torch")
    simulator = import_module("mmasim.amd.sim" if architecture.startswith("CDNA") else "mmasim.nv_ptx.sim")
    dtypes = {
        "fp16": torch.float16,
        "bf16": torch.bfloat16,
        "fp8_e4m3": torch.float8_e4m3fn,
        "fp8_e5m2": torch.float8_e5m2,
        "tf32": torch.float32,
    }

    def tensor(name: str, bits: np.ndarray):
        bits = bits << 13 if name == "tf32" else bits
        signed = bits.reshape(len(cases), -1).view({1: np.uint8, 2: np.int16, 4: np.int32}[bits.itemsize])
        return torch.from_numpy(signed.copy()).view(dtypes[name])

    c = torch.from_numpy(cases.c.view(np.int32)).view(torch.float32)
    c = c.to(torch.float16) if is_half(instruction) else c
    kind = simulator.MFMA if architecture.startswith("CDNA") else simulator.MMA
    if instruction.startswith("m64"):
        kind = simulator.WGMMA if architecture == "Hopper" else simulator.TCGen05MMA
    d = kind(architecture, instruction).dpa(tensor(a_name, cases.a), tensor(b_name, cases.b), c)
    bits = d.to(torch.float32).view(torch.int32).numpy().view(np.uint32)
    return np.where(np.isnan(bits.view(np.float32)), np.uint32(NAN), bits)


def record(count: int = 100) -> None:
    """Write the file, with `count` cases of each instruction."""
    entries = []
    for architecture, instruction, a_name, b_name, lanes, steps, accumulator in INSTRUCTIONS:
        a_format, b_format = FORMATS[a_name], FORMATS[b_name]
        rng = np.random.default_rng(9)
        if isinstance(accumulator, dict):
            assert isinstance(a_format, FloatFormat)
            cases = low_cases(rng, a_format, count, steps=steps, lanes=lanes)
        elif is_half(instruction):
            cases = with_half_c(
                dot_cases(rng, a_format, b_format, count // 2, steps=steps, lanes=lanes),
                tie_cases(rng, count - count // 2, lanes=lanes),
            )
        else:
            cases = dot_cases(rng, a_format, b_format, count, steps=steps, lanes=lanes)
        d = results(architecture, instruction, a_name, b_name, cases)
        widths = 2 * lanes * steps * cases.a.itemsize, 2 * lanes * steps * cases.b.itemsize, 8, 8
        entries.append(
            {
                "gpu": architecture,
                "instruction": instruction,
                "format": {"a": a_name, "b": b_name},
                "accumulator": accumulator,
                "lanes": lanes,
                **({"steps": steps} if steps > 1 else {}),
                "a b c d": [
                    " ".join(f"{bits:0{digits}x}" for bits, digits in zip(case, widths, strict=True))
                    for case in zip(_joined(cases.a), _joined(cases.b), cases.c.tolist(), d.tolist(), strict=True)
                ],
            }
        )
    source = f"MMA-Sim {import_module('importlib.metadata').version('mmasim')}, by {Path(__file__).name}"
    PATH.write_text(json.dumps({"source": source, "results": entries}, indent=1) + "\n", encoding="utf-8")


def _joined(steps: np.ndarray) -> list[int]:
    """Return a case's operands as one number, with lane 0 of the first step at the top."""
    return [int.from_bytes(bits.astype(f">u{bits.itemsize}").tobytes(), "big") for bits in steps]


if __name__ == "__main__":
    record()
