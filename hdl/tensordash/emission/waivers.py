"""Lint waivers for Verilator: what it says of this Verilog that is as it should be, signal by signal."""

import re

from .unused import partly_unused

__all__ = ["waivers"]

HEAD = """\
`verilator_config
// Several modules in one file, so that a tile is one file to take away.
lint_off -rule DECLFILENAME -file "*{prefix}.v"
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
}
"""Signals of which some bits are of no use, and why."""

OTHER = "Some of its bits are of no use in this configuration."
EXPRESSION = "Part of an expression, which has no name in the source: some of its bits are not wanted."

LOOPS = {
    "scheduler": (".scheduler*", "Selections of a scheduler depend on one another level by level: no loop."),
    "control": ("refill'", "Bits that depend on lower bits of the same vector: no loop, bit by bit."),
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
        Verilog files by name.
    """
    lines = []
    for file, text in texts.items():
        for name in partly_unused(text):
            reason = EXPRESSION if re.fullmatch(r"_\d+_", name) else UNUSED.get(name, OTHER)
            lines.append(f'// {reason}\nlint_off -rule UNUSEDSIGNAL -file "*{file}" -match "*: \'{name}\'*"')
        for component, (match, reason) in LOOPS.items():
            if f"module {prefix}_{component}(" in text:
                lines.append(f'// {reason}\nlint_off -rule UNOPTFLAT -file "*{file}" -match "*{match}"')
    return HEAD.format(prefix=prefix) + "".join(f"{line}\n" for line in lines)
