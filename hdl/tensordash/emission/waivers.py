"""Lint waivers for Verilator: warnings about intended Verilog, signal by signal."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

__all__ = ["waivers"]

HEAD = """\
`verilator_config
// Several modules in one file, so that a {what} is a single file.
lint_off -rule DECLFILENAME -file "*{prefix}.v"
"""
MEMORIES = """\
// All memories in one file, which a file with macros can replace.
lint_off -rule DECLFILENAME -file "*{prefix}_memories.v"
"""
MULTICORE = """\
// What several cores have in addition.
lint_off -rule DECLFILENAME -file "*{prefix}_multicore.v"
"""

QUANTISER = """\
// A quantiser with its converters and random bits.
lint_off -rule DECLFILENAME -file "*{prefix}_block_quantiser.v"
"""

UNUSED: dict[str, str] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
"""Signals with unused bits, and the reason. A * stands for one or more numbers."""

FAMILY = re.compile(r"(_\d+)+(?=_|$)")
"""Pattern of numbers in the names of signals of one kind."""

OTHER = "Some of its bits are unused in this configuration."

LOOPS = {
    "fused_accumulator": (
        ".pe_*",
        "A level is one vector whose bits depend on each other. Bit by bit there is no loop.",
    ),
}
"""For components in which Verilator reports loops: a pattern of its messages, and why they are not loops."""


def waivers(prefix: str, texts: Mapping[str, str], partly_unused: Mapping[str, Iterable[str]]) -> str:
    """Return a configuration file for Verilator, with only the waivers that the modules need.

    Parameters
    ----------
    prefix : str
        Prefix of file and module names.
    texts : mapping of str to str
        Verilog files by name, of a tile or of a core.
    partly_unused : mapping of str to iterable of str
        For each file: the signals with bits that are never read.
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
    head += MULTICORE.format(prefix=prefix) * (f"{prefix}_multicore.v" in texts)
    head += QUANTISER.format(prefix=prefix) * (f"{prefix}_block_quantiser.v" in texts)
    return head + "".join(f"{line}\n" for line in lines)
