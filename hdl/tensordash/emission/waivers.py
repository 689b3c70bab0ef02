"""Lint waivers for Verilator: what it says of this Verilog that is as it should be, signal by signal."""

import re

from .unused import partly_unused

__all__ = ["waivers"]

HEAD = """\
`verilator_config
// Several modules in one file, so that a {what} is one file to take away.
lint_off -rule DECLFILENAME -file "*{prefix}.v"
"""
MEMORIES = """\
// All memories in one file, which another one with macros can stand in for.
lint_off -rule DECLFILENAME -file "*{prefix}_memories.v"
"""

QUANTISER = """\
// A quantiser with its converters and random bits.
lint_off -rule DECLFILENAME -file "*{prefix}_block_quantiser.v"
"""

UNUSED = {
    "tkeep": "Whether a step is there shows in some bytes of it.",
    "steps": "Zeros, infinities and NaNs show in some bits of a value; the others pass by.",
    "advances": "The baseline has no schedulers: every step advances.",
    "refill": "A window of one step never moves within itself.",
    "flags__raised": "A bit of it has a name of its own, or no cause here.",
    "kept": "The oldest step is known from elsewhere.",
    "entering_count": "One-hot numbers of steps: none and all of them need no wire.",
    "leaving": "One-hot numbers of steps: none and all of them need no wire.",
    "staying_count": "One-hot numbers of steps: none and all of them need no wire.",
    "window": "The oldest step: what is left of it stays nowhere.",
    "following": "The oldest step is known from elsewhere, and so is a sum behind its marks.",
    "scheduler__advance": "The oldest step is always done.",
    "scheduler__remaining": "Nothing remains of the oldest step.",
    "start": "C's exponent, which is looked at before.",
    "bits": "Below what rounding looks at.",
    "c_level": "Only its lowest bit differs from the exponent.",
    "total": "A carry that the range of the operands leaves zero, or a bit that was asked for before.",
    "total_2": "A carry that the range of the operands leaves zero, or a bit that was asked for before.",
} | {
    "address": "What lies beyond the memory was found before, or the part that is the bank's is known.",
    "address_*": "Of all places only whether they are beyond the buffer is looked at here, or where they are in it.",
    "away_*": "What has so far to go that it has none left: its lower bits were looked at before.",
    "axi_araddr": "Registers have 32 bits: the lowest bits of an address in bytes do not matter.",
    "axi_arprot": "Every access is allowed.",
    "axi_awaddr": "Registers have 32 bits: the lowest bits of an address in bytes do not matter.",
    "axi_awprot": "Every access is allowed.",
    "axi_bresp": "The high bit says that there was an error; which one does not matter.",
    "axi_rresp": "The high bit says that there was an error; which one does not matter.",
    "beat": "One-hot numbers of beats: the last is known from the others.",
    "behind_masks_*": "Where masks that are fewer than a beat end: its highest bit is zero.",
    "below": "How far a number is below the least exponent: whether it is was asked for before.",
    **dict.fromkeys(("descriptor", "descriptor_*"), "A descriptor has fields of other units, and bits that none has."),
    "ends": "Places in a beat: what is asked for is the beat.",
    "entry": "Places in a beat: what is asked for is the beat.",
    "exponent": "The range of the operands leaves the highest bit zero.",
    "interrupt_enable": "The register has the bits that there are causes.",
    "kept_*": "Values that stay where they are do not need to be chosen.",
    "m_axi_bid": "All writes have one ID.",
    "masks_*_kept_*": "Places of a network at which no mask can be.",
    "masks_*_place_*": "Where a mask belongs: bits that are in another's number, or of places at which none can be.",
    "most": "Its lowest bits are zero: a group's units at most, times groups.",
    "moves_*": "What would move beyond the end does not.",
    **dict.fromkeys(("first_araddr", "second_araddr"), "A burst begins with a beat: lower bits are always zero."),
    "placed_*": "What of a number lies below a sum's least bit, or above its highest.",
    **dict.fromkeys(("bounds_base", "bounds_limit"), "Bounds are pages: the lowest bits of an address do not matter."),
    "queue_base": "The ring of descriptors begins at a multiple of 64.",
    "ahead": "The last bank is before no head.",
    "read_data": "The sign of a mask's value does not matter.",
    "read_ready": "The output unit is built without biases and masks, and reads nothing.",
    "relu": "The core is built without it.",
    "scale": "The core is built without it.",
    "seed": "The core is built without stochastic rounding.",
    "significand": "Below what rounding looks at.",
    "stochastic": "The core is built without it.",
    "shifted": "A result is without its leading one.",
    "sums_payload": "The mark of a block's last row was looked at before.",
    "there": "Of the last part it has a name of its own.",
    "to_edge": "Only whether a burst reaches the edge is asked.",
    "unit_counters__events": "Counts of the tile come from the tile.",
    "upwards": "Units from a beat's begin: what is asked for is beats.",
    "valid": "The last stage's mark is in a register of its own.",
    "values_*_before_*": "How many of two values come before: no more than there are, so that its high bit is zero.",
    "write_address": "Regions are chosen by the highest bits, words by the others.",
    "writer__beats_payload": "A record's upper half is zero.",
    "zeros_*": "Counts of zeros whose highest bit was looked at before.",
}
"""Signals of which some bits are of no use, and why; a * stands for a number, or several."""

FAMILY = re.compile(r"(_\d+)+(?=_|$)")
"""Numbers of signals of one kind."""

OTHER = "Some of its bits are of no use in this configuration."
EXPRESSION = "Part of an expression, which has no name in the source: some of its bits are not wanted."

LOOPS = {
    "fused_accumulator": (
        ".pe_*",
        "A level is one vector, of which a bit says more of the others: no loop, bit by bit.",
    ),
}
"""Of components that Verilator finds loops in: what it calls them, and why they are none."""


def waivers(prefix: str, texts: dict[str, str]) -> str:
    """A configuration file for Verilator, with no more than what the modules need.

    Parameters
    ----------
    prefix : str
        Of the file that holds several modules.
    texts : dict of str to str
        Verilog files by name, of a tile or of a core.
    """
    memories = f"{prefix}_memories.v" in texts
    lines = []
    for file, text in texts.items():
        beside = "".join(other for name, other in texts.items() if name != file)
        reasons: dict[str, str] = {}
        for name in partly_unused(text, beside):
            family = FAMILY.sub("_*", name)
            if re.fullmatch(r"_\d+_", name):
                reasons[name] = EXPRESSION
            elif name not in UNUSED and family in UNUSED:
                reasons[family] = UNUSED[family]
            else:
                reasons[name] = UNUSED.get(name, OTHER)
        for name, reason in reasons.items():
            lines.append(f'// {reason}\nlint_off -rule UNUSEDSIGNAL -file "*{file}" -match "*: \'{name}\'*"')
        for component, (match, reason) in LOOPS.items():
            if f"module {prefix}_{component}(" in text:
                lines.append(f'// {reason}\nlint_off -rule UNOPTFLAT -file "*{file}" -match "*{match}"')
    head = HEAD.format(prefix=prefix, what="core" if memories else "tile")
    head += MEMORIES.format(prefix=prefix) * memories
    head += QUANTISER.format(prefix=prefix) * (f"{prefix}_block_quantiser.v" in texts)
    return head + "".join(f"{line}\n" for line in lines)
