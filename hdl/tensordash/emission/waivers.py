"""Lint waivers for Verilator: what it says of this Verilog that is as it should be, signal by signal."""

import re
from collections.abc import Iterable, Mapping

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
    "address": "What lies beyond the memory was found before, or the part that is the bank's is known.",
    "advances": "The baseline has no schedulers: every step advances.",
    "axi_araddr": "Registers have 32 bits: the lowest bits of an address in bytes do not matter.",
    "axi_arprot": "Every access is allowed.",
    "axi_awaddr": "Registers have 32 bits: the lowest bits of an address in bytes do not matter.",
    "axi_awprot": "Every access is allowed.",
    "axi_bresp": "The high bit says that there was an error; which one does not matter.",
    "axi_rresp": "The high bit says that there was an error; which one does not matter.",
    "below": "How far a number is below the least exponent: whether it is was asked for before.",
    "data_begin": "Only whether it is above the highest address is asked.",
    "descriptor_*": "A descriptor has fields of other units, and bits that none has.",
    "descriptor_memory": "Places in memory are places of beats or of units.",
    "descriptor_memory_high": "An address has no more bits than `address_bits`.",
    "descriptor_table": "Entries of a table are words: the lowest bits of an address do not matter.",
    "descriptor_table_high": "An address has no more bits than `address_bits`.",
    "descriptors_payload_shifted": "A part of a beat, moved to its lowest bits.",
    "difference": "A remainder is smaller than what it was divided by.",
    "done": "Places in the ring are lower bits of a count of descriptors.",
    "down": "How far a number is below the least exponent: whether it is was asked for before.",
    "drawn": "Only the carry of rounding is asked.",
    "enable_sum": "What of a distance is beyond the ports of a bank.",
    "enable_sum_*": "What of a distance is beyond the ports of a bank.",
    "entering_count": "One-hot numbers of steps: none and all of them need no wire.",
    "first_araddr": "A burst begins with a beat: lower bits are always zero.",
    "leaving": "One-hot numbers of steps: none and all of them need no wire.",
    "m_axi_bid": "All writes have one ID.",
    "masks_*_place_*": "Where a mask belongs: bits that are in another's number, or of places at which none can be.",
    "next_memory": "Only whether it is above the highest address is asked.",
    "next_table": "Only whether it is above the highest address is asked.",
    "place_0_difference": "Whether a row's end is near: its sign and its upper bits.",
    "place_0_difference_2": "Whether a row's end is near: its sign and its upper bits.",
    "placed_*": "What of a number lies below a sum's least bit, or above its highest.",
    "products": "Finite products alone have a step of their own: their other marks are looked at elsewhere.",
    "queue_base": "The ring of descriptors begins at a multiple of 64.",
    "read_data": "The sign of a mask's value does not matter.",
    "read_output_signal": "A unit has no tokens with itself.",
    "read_output_wait": "A unit has no tokens with itself.",
    "read_ready": "The output unit is built without biases and masks, and reads nothing.",
    "refill": "A window of one step never moves within itself.",
    "relu": "The core is built without it.",
    "scale": "The core is built without it.",
    "scales": "A scale's NaN and its sign are looked at in different places.",
    "scheduler__advance": "The oldest step is always done.",
    "scheduler__remaining": "Nothing remains of the oldest step.",
    "second_araddr": "A burst begins with a beat: lower bits are always zero.",
    "seed": "The core is built without stochastic rounding.",
    "shifted": "A result is without its leading one.",
    "start": "C's exponent, which is looked at before.",
    "staying_count": "One-hot numbers of steps: none and all of them need no wire.",
    "steps": "Zeros, infinities and NaNs show in some bits of a value; the others pass by.",
    "stochastic": "The core is built without it.",
    "sums_payload_sums": "While a bias is due, every piece holds the sums of the first.",
    "total_2": "A carry that the range of the operands leaves zero, or a bit that was asked for before.",
    "limit_rounded_up": "Units from a beat's begin: what is asked for is beats.",
    "walked_limit_difference": "Whether a row's end is near: its sign and its upper bits.",
    "with_place": "Only whether it is above the highest address is asked.",
    "word_shifted": "A word of a beat, moved to its lowest bits.",
    "written_word": "The part that is the bank's is known.",
    "y": "A bias is in the buffer: no more of its place than there are words.",
}
"""Signals of which some bits are of no use, and why; a * stands for a number, or several."""

FAMILY = re.compile(r"(_\d+)+(?=_|$)")
"""Numbers of signals of one kind."""

OTHER = "Some of its bits are of no use in this configuration."

LOOPS = {
    "fused_accumulator": (
        ".pe_*",
        "A level is one vector, of which a bit says more of the others: no loop, bit by bit.",
    ),
}
"""Of components that Verilator finds loops in: what it calls them, and why they are none."""


def waivers(prefix: str, texts: Mapping[str, str], partly_unused: Mapping[str, Iterable[str]]) -> str:
    """A configuration file for Verilator, with no more than what the modules need.

    Parameters
    ----------
    prefix : str
        Of the file that holds several modules.
    texts : mapping of str to str
        Verilog files by name, of a tile or of a core.
    partly_unused : mapping of str to iterable of str
        Of each file, the signals of which nobody reads all bits.
    """
    memories = f"{prefix}_memories.v" in texts
    lines = []
    for file, text in texts.items():
        reasons: dict[str, str] = {}
        for name in partly_unused.get(file, ()):
            family = FAMILY.sub("_*", name)
            if name not in UNUSED and family in UNUSED:
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
