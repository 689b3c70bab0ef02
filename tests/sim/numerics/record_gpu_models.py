"""Records what a published model of GPUs' matrix units computes, as `gpu_models.json`.

The model is MMA-Sim (P. Xie et al., "MMA-Sim: Bit-Accurate Reference Model of Tensor Cores and Matrix Cores",
arXiv:2511.10909; package `mmasim`), found identical to V100, A100, H100 and others by its authors on random
operands. It is not a dependency: run this file where it and PyTorch are installed.
"""

import json
from importlib import import_module
from pathlib import Path

import numpy as np

from tensordash.configuration.formats import FORMATS
from tensordash_sim.verify.corner_cases import DotCases, dot_cases

PATH = Path(__file__).with_name("gpu_models.json")
INSTRUCTIONS = [  # architecture, instruction, format of a and b, products that it adds at once, our accumulator
    ("Volta", "m8n8k4.f32.f16.f16.f32", "fp16", "fp16", 4, "volta"),
    ("Ampere", "m16n8k16.f32.f16.f16.f32", "fp16", "fp16", 8, "ampere"),
    ("Ampere", "m16n8k16.f32.bf16.bf16.f32", "bf16", "bf16", 8, "ampere"),
    ("Hopper", "m16n8k16.f32.f16.f16.f32", "fp16", "fp16", 16, "hopper"),
    ("Hopper", "m16n8k16.f32.bf16.bf16.f32", "bf16", "bf16", 16, "hopper"),
    ("RTX Blackwell", "m16n8k32.kind::f8f6f4.f32.e4m3.e4m3.f32", "fp8_e4m3", "fp8_e4m3", 32, "hopper"),
    ("RTX Blackwell", "m16n8k32.kind::f8f6f4.f32.e5m2.e4m3.f32", "fp8_e5m2", "fp8_e4m3", 32, "hopper"),
]


def results(architecture: str, instruction: str, a_name: str, b_name: str, cases: DotCases) -> np.ndarray:
    """D = A*B + C by MMA-Sim: FP32 bits, (count,); the steps of a case follow each other."""
    torch, simulator = import_module("torch"), import_module("mmasim.nv_ptx.sim")
    dtypes = {
        "fp16": torch.float16,
        "bf16": torch.bfloat16,
        "fp8_e4m3": torch.float8_e4m3fn,
        "fp8_e5m2": torch.float8_e5m2,
    }

    def tensor(name: str, bits: np.ndarray):
        signed = bits.reshape(len(cases), -1).view(np.int16 if bits.itemsize == 2 else np.uint8)
        return torch.from_numpy(signed.copy()).view(dtypes[name])

    c = torch.from_numpy(cases.c.view(np.int32)).view(torch.float32)
    d = simulator.MMA(architecture, instruction).dpa(tensor(a_name, cases.a), tensor(b_name, cases.b), c)
    return d.view(torch.int32).numpy().view(np.uint32)


def record(count: int = 100) -> None:
    """Write the file: `count` single steps of each instruction."""
    entries = []
    for architecture, instruction, a_name, b_name, lanes, accumulator in INSTRUCTIONS:
        cases = dot_cases(np.random.default_rng(9), FORMATS[a_name], FORMATS[b_name], count, lanes=lanes)
        d = results(architecture, instruction, a_name, b_name, cases)
        widths = 2 * lanes * cases.a.itemsize, 2 * lanes * cases.b.itemsize, 8, 8
        entries.append(
            {
                "gpu": architecture,
                "instruction": instruction,
                "format": {"a": a_name, "b": b_name},
                "accumulator": accumulator,
                "lanes": lanes,
                "a b c d": [
                    " ".join(f"{bits:0{digits}x}" for bits, digits in zip(case, widths, strict=True))
                    for case in zip(_joined(cases.a), _joined(cases.b), cases.c.tolist(), d.tolist(), strict=True)
                ],
            }
        )
    source = f"MMA-Sim {import_module('importlib.metadata').version('mmasim')}, by {Path(__file__).name}"
    PATH.write_text(json.dumps({"source": source, "results": entries}, indent=1) + "\n", encoding="utf-8")


def _joined(steps: np.ndarray) -> list[int]:
    """The operands of one step as one number, lane 0 at the top."""
    return [int.from_bytes(bits.astype(f">u{bits.itemsize}").tobytes(), "big") for bits in steps]


if __name__ == "__main__":
    record()
