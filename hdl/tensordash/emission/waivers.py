"""Lint waivers for Verilator: what it says of this Verilog that is as it should be, signal by signal."""

import re

__all__ = ["waivers"]

HEAD = """\
`verilator_config
// Several modules in one file, so that a tile is one file to take away.
lint_off -rule DECLFILENAME -file "*{prefix}.v"
"""

UNUSED = {
    "tkeep": "Steps are whole: the first byte of each tells.",
    "steps": "Zeros, infinities and NaNs show in some bits of a value; the others pass by.",
    "advances": "The baseline has no schedulers: every step advances.",
    "refill": "A window of one step never moves within itself.",
    "counters__raised": "Its first bit has a name of its own.",
    "entering_count": "One-hot numbers of steps: none and all of them need no wire.",
    "leaving": "One-hot numbers of steps: none and all of them need no wire.",
    "left": "One-hot numbers of steps: none and all of them need no wire.",
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

EXPRESSION = ("_*_", "Part of an expression, which has no name in the source: some of its bits are not wanted.")

UNOPTIMIZED = {
    "left_*": (".left_*'", "Selections of a scheduler depend on one another level by level: no loop."),
    "scheduler__select": (
        ".scheduler__select'",
        "Selections of a scheduler depend on one another level by level: no loop.",
    ),
    "control__refill": (".control__refill'", "Bits that depend on lower bits of the same vector: no loop, bit by bit."),
    "c_level": (".pe_*'", "A level is one vector, of which one bit tells more about the others: no loop, bit by bit."),
}
"""Signals that Verilator takes for loops: what it calls them or what is made of them, and why they are none."""


def waivers(prefix: str, texts: dict[str, str]) -> str:
    """A configuration file for Verilator, with no more than what the modules have.

    Parameters
    ----------
    prefix : str
        Of the file that holds several modules.
    texts : dict of str to str
        Verilog files by name.
    """
    lines = []
    for file, text in texts.items():
        names = set(re.findall(r"\b[A-Za-z_]\w*\b", text))
        unused = {**{name: reason for name, reason in UNUSED.items() if name in names}, EXPRESSION[0]: EXPRESSION[1]}
        loops = [
            match for name, match in UNOPTIMIZED.items() if any(each.startswith(name.rstrip("*")) for each in names)
        ]
        lines += [
            f'// {reason}\nlint_off -rule UNUSEDSIGNAL -file "*{file}" -match "*: \'{name}\'*"'
            for name, reason in unused.items()
        ]
        lines += [f'// {reason}\nlint_off -rule UNOPTFLAT -file "*{file}" -match "*{name}"' for name, reason in loops]
    return HEAD.format(prefix=prefix) + "".join(f"{line}\n" for line in lines)
