"""What docs/cost.md says of a core with its memories, of the part `core` of docs/cost.json."""

from collections.abc import Mapping
from typing import Any

__all__ = ["core_table", "core_words"]

STREAM_BANK = "128x256_1_port"
DENSE_BANK = "256x256_1_port"
BUFFER_BANK = "512x64"
PARTIAL_SUMS = "512x198"
GOALS = {"area_with_memories": 1.05, "energy_with_memories": 0.65}


def core_table(results: Mapping[str, Any]) -> str:
    """What the command prints, without its notes and what docs/core.md has: logic by unit."""
    paragraphs = results["core"]["table"].split("\n\n")
    first = next(place for place, each in enumerate(paragraphs) if each.lstrip().startswith("memory "))
    return "\n".join(["```", "# tensordash synth --preset core", "\n\n".join(paragraphs[first:-1]), "```"])


def core_words(results: Mapping[str, Any]) -> list[str]:
    """Paragraphs."""
    document = results["core"]
    ratio, (ours, theirs) = document["ratio"], (document[design] for design in ("tensordash", "baseline"))
    energy = [design["step"]["energy_uj"] for design in (ours, theirs)]
    both = [each["logic and memories, cacti"] for each in energy]
    memories = [1 - each["logic"] / whole for each, whole in zip(energy, both, strict=True)]
    watts = [sum(design["step"]["watts"].values()) for design in (ours, theirs)]
    around = [sum(watts for unit, watts in each["step"]["watts"].items() if unit != "tile") for each in (ours, theirs)]
    reached = {name: "reached" if ratio[name] <= goal else "missed" for name, goal in GOALS.items()}
    bank, dense_bank = ours["memory_costs"][STREAM_BANK], theirs["memory_costs"][DENSE_BANK]
    one_port, two_ports = bank["cacti"]["area_um2"], document["other_ports_um2"][STREAM_BANK]
    areas = [design["area_um2"]["logic and memories, cacti"] for design in (ours, theirs)]
    streams = [each["count"] * each["cacti"]["area_um2"] for each in (bank, dense_bank)]
    in_one = [area + _in_one_piece(document, design) for area, design in zip(areas, (ours, theirs), strict=True)]
    before = areas[0] + bank["count"] * two_ports - streams[0], areas[1] + 2 * document["dense_stream_um2"] - streams[1]
    dense_as_it_was = areas[0] / before[1]
    buffer = ours["memory_costs"][BUFFER_BANK]
    freed = buffer["count"] * (buffer["cacti"]["area_um2"] - document["other_ports_um2"][BUFFER_BANK])
    reads, writes = ours["step"]["accesses"][f"output_unit {PARTIAL_SUMS}"]
    wished = {name: f"The goal was {goal}: {reached[name]}." for name, goal in GOALS.items()}
    return [
        f"- **Area** with memories is {ratio['area_with_memories']:.3f} times the dense core's by CACTI, "
        f"{ratio['area_with_macros']:.3f} by macros, {ratio['area']:.3f} of the logic alone. "
        f"{wished['area_with_memories']} Buffer and partial sums are the same in both; but a stream buffer of four "
        f"banks that are read apart takes {1e-6 * streams[0] / 2:.4f} mm2, and one of two {1e-6 * streams[1] / 2:.4f}. "
        "Each memory, of either core, is the smallest that CACTI makes of it in 1, 2, 4 or 8 pieces side by side; with "
        f"all in one piece, which are larger and slower, the ratio would be {in_one[0] / in_one[1]:.3f}.",
        "- **One port** is enough for a stream buffer: a layout writes one of four banks in a cycle, and a bank that "
        "is written when it should be read reads a cycle later, when the tile mostly has enough steps of the others. A "
        f"bank has {1e-6 * one_port:.4f} mm2, with two ports {1e-6 * two_ports:.4f}. The dense core reads a step in "
        "every cycle: it has even words in one memory and odd ones in another, also with one port each, and "
        f"{1e-6 * streams[1] / 2:.4f} mm2 on a side instead of {1e-6 * document['dense_stream_um2']:.4f} in one memory "
        f"with two ports. With two ports in both cores the ratio was {before[0] / before[1]:.3f}; it would be "
        f"{dense_as_it_was:.3f} had the dense core kept its own. What it costs in cycles: "
        "[decisions.md](decisions.md#the-core).",
        f"- **Energy** of a training step is {ratio['energy_with_memories']:.3f} times the dense core's by CACTI, "
        f"{ratio['energy_with_macros']:.3f} by macros, {ratio['energy']:.3f} of the logic alone. "
        f"{wished['energy_with_memories']} It takes {ratio['cycles']:.3f} of the cycles; meanwhile logic draws "
        f"{1e3 * watts[0]:.0f} mW, in the dense core {1e3 * watts[1]:.0f} ({1e3 * around[0]:.0f} and "
        f"{1e3 * around[1]:.0f} of it around the tile).",
        f"- Memories take {memories[0]:.0%} of that energy, in the dense core {memories[1]:.0%} (by CACTI): a step of "
        "a stream is read once for each pass in both, from a bank that is half as deep.",
        "- **DRAM** is apart: both move the same tensors, but for what is loaded again. At 8 pJ a bit it takes "
        f"{energy[0]['dram']:.1f} uJ and {energy[1]['dram']:.1f} uJ; with it the ratio is "
        f"{ratio['energy_with_dram']:.3f}.",
        f"- **What is left**: with one port in each bank of the buffer, both cores would lose {1e-6 * freed:.3f} mm2 "
        f"(and the ratio would be {(areas[0] - freed) / (areas[1] - freed):.3f}); but then loads and layouts would "
        "wait for each other where they meet in a region, as they do when the next part of a tensor is loaded. And the "
        f"output unit reads partial sums for each block, added or not: {reads:,} reads for {writes:,} writes.",
    ]


def _in_one_piece(document: Mapping[str, Any], design: Mapping[str, Any]) -> float:
    """What a design's memories would take more."""
    return sum(
        each["count"] * (document["one_piece_um2"][shape] - each["cacti"]["area_um2"])
        for shape, each in design["memory_costs"].items()
    )
