"""Manifests of program folders: plan, memory map and programs as JSON (docs/program-folder.md)."""

import zlib
from collections.abc import Mapping
from typing import Any

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import BYTES
from tensordash_sim.compiler.program import RECORD_BYTES

from ..errors import ProgramFolderError
from .folder import PROGRAM_FIGURES, ProgramFolder
from .linking import MemoryMap, Region
from .plan import HostCall, Plan, Product
from .tensors import StepTensor

__all__ = ["FORMAT", "VERSION", "expected_figures", "manifest_of", "parse_manifest"]

FORMAT = "tensordash program folder"
VERSION = 2


def manifest_of(folder: ProgramFolder) -> dict[str, Any]:
    """Return the manifest as JSON types (docs/program-folder.md)."""
    plan, places, config = folder.plan, folder.memory_map, folder.plan.config
    calls: list[dict[str, int]] = []
    products: list[dict[str, Any]] = []
    host_calls: list[dict[str, Any]] = []
    programs: list[dict[str, Any]] = []
    for stage in plan.stages:
        if isinstance(stage, HostCall):
            calls.append({"host_call": len(host_calls)})
            host_calls.append(stage.to_json())
            continue
        calls.append({"program": len(programs)})
        region, number = places.programs[len(programs)], len(products)
        programs.append(
            {
                "address": region.address,
                "descriptors": region.bytes // BYTES,
                "record": places.records[len(programs)].address,
                "products": list(range(number, number + len(stage))),
                **folder.programs[len(programs)],
            }
        )
        products += [product.to_json() for product in stage]
    writers, initial = plan.written, plan.initial
    tensors = []
    for name, tensor in plan.tensors.items():
        region = places.tensors[name]
        tensors.append(
            tensor.to_json()
            | {
                "address": region.address,
                "bytes": region.bytes,
                "initial": name in initial,
                "writer": writers.get(name),
                "crc32": zlib.crc32(folder.expected_bytes(name)),
            }
        )
    return {
        "format": FORMAT,
        "version": VERSION,
        "name": plan.name,
        "configuration": {
            "digest": config.digest,
            "lanes": config.tile.lanes,
            "value_bits": config.value_bits,
            "axi_bits": config.axi_bits,
        },
        "memory": {
            "base": places.base,
            "size": places.size,
            "initial_bytes": places.initial_bytes,
        },
        "expected": expected_figures(folder),
        "calls": calls,
        "inputs": list(plan.inputs),
        "outputs": list(plan.outputs),
        "programs": programs,
        "products": products,
        "host_calls": host_calls,
        "tensors": tensors,
    }


def expected_figures(folder: ProgramFolder) -> dict[str, int]:
    """Return the sums of all programs' expected cycles and moved bytes."""
    return {name: sum(each[name] for each in folder.programs) for name in PROGRAM_FIGURES}


def parse_manifest(document: Mapping[str, Any], config: CoreConfig) -> tuple[Plan, MemoryMap, list[dict[str, int]]]:
    """Build plan, memory map and figures of programs from a manifest."""
    tensors = {each["name"]: StepTensor.from_json(each) for each in document["tensors"]}
    calls: list[Product | HostCall] = []
    for call in document["calls"]:
        if "host_call" in call:
            calls.append(HostCall.from_json(document["host_calls"][call["host_call"]]))
        else:
            program = document["programs"][call["program"]]
            calls += [Product.from_json(document["products"][k]) for k in program["products"]]
    plan = Plan(
        name=document["name"],
        config=config,
        tensors=tensors,
        calls=tuple(calls),
        inputs=tuple(document["inputs"]),
        outputs=tuple(document["outputs"]),
    )
    regions = {}
    for each in document["tensors"]:
        region = Region(name=each["name"], address=each["address"], bytes=each["bytes"])
        size = tensors[region.name].memory_bytes(config)
        if region.bytes != size:
            raise ProgramFolderError(f"bytes of {region.name} must be {size}, as its shape takes, not {region.bytes}")
        regions[region.name] = region
    memory, programs = document["memory"], document["programs"]
    memory_map = MemoryMap(
        base=memory["base"],
        size=memory["size"],
        initial_bytes=memory["initial_bytes"],
        tensors=regions,
        programs=tuple(
            Region(name=f"program {k}", address=each["address"], bytes=each["descriptors"] * BYTES)
            for k, each in enumerate(programs)
        ),
        records=tuple(
            Region(name=f"record {k}", address=each["record"], bytes=RECORD_BYTES) for k, each in enumerate(programs)
        ),
    )
    return plan, memory_map, [{name: each[name] for name in PROGRAM_FIGURES} for each in programs]
