"""What docs/cost.md says of a core with its memories, of the part `core` of docs/cost.json."""

from collections.abc import Mapping
from typing import Any

__all__ = ["core_table", "core_words"]

STREAM_BANK, PARTIAL_SUMS = "128x256", "512x198"
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
    bank, one_port = ours["memory_costs"][STREAM_BANK], document["one_port_um2"][STREAM_BANK]
    two_ports = bank["cacti"]["area_um2"]
    areas = [design["area_um2"]["logic and memories, cacti"] for design in (ours, theirs)]
    freed = areas[0] - bank["count"] * (two_ports - one_port)
    reads, writes = ours["step"]["accesses"][f"output_unit {PARTIAL_SUMS}"]
    wished = {name: f"The wish was {goal}: {reached[name]}." for name, goal in GOALS.items()}
    return [
        f"- **Area** with memories is {ratio['area_with_memories']:.3f} times the dense core's by CACTI, "
        f"{ratio['area_with_macros']:.3f} by macros, {ratio['area']:.3f} of the logic alone. "
        f"{wished['area_with_memories']} Buffer and partial sums are the same in both; but a stream buffer of four "
        "banks that are read apart takes more than one bank of the same size.",
        f"- **Energy** of a training step is {ratio['energy_with_memories']:.3f} times the dense core's by CACTI, "
        f"{ratio['energy_with_macros']:.3f} by macros, {ratio['energy']:.3f} of the logic alone. "
        f"{wished['energy_with_memories']} It takes {ratio['cycles']:.3f} of the cycles; meanwhile logic draws "
        f"{1e3 * watts[0]:.0f} mW, in the dense core {1e3 * watts[1]:.0f} ({1e3 * around[0]:.0f} and "
        f"{1e3 * around[1]:.0f} of it around the tile).",
        f"- Memories take {memories[0]:.0%} of that energy, in the dense core {memories[1]:.0%} (by CACTI): a step of "
        "a stream is read once for each pass in both, but from a bank that is a quarter as deep.",
        "- **DRAM** is apart: both move the same tensors, but for what is loaded again. At 8 pJ a bit it takes "
        f"{energy[0]['dram']:.1f} uJ and {energy[1]['dram']:.1f} uJ; with it the ratio is "
        f"{ratio['energy_with_dram']:.3f}.",
        "- **What is left**: a layout writes one of the four banks of a stream buffer in a cycle. With one port each, "
        f"and writes that wait where a bank is read, a bank would have {1e-6 * one_port:.4f} mm2 instead of "
        f"{1e-6 * two_ports:.4f}, and the area with memories would be {freed / areas[1]:.3f} times the dense core's, "
        "whose one bank is read in every cycle. And the output unit reads partial sums for each block, added or not: "
        f"{reads:,} reads for {writes:,} writes.",
    ]
