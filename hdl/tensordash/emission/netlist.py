"""A module as Amaranth converts it, made ready for Yosys: names that Verilog can have, and no port without a use."""

import re
from functools import partial

from .keywords import KEYWORDS
from .memories import without_contents

__all__ = ["require_names", "tidy"]

WIRE = re.compile(r"  wire (.*?)(\\\S+)$")
NAME = re.compile(r"\\\S+")
FIRST_PORTS = {"\\clk": 1, "\\rst": 2}


def require_names(text: str, component: str) -> None:
    """Check that everything in a module has a name that Verilog can have.

    Parameters
    ----------
    text : str
        As Amaranth wrote it.
    component : str
        What the module is of, for the error.

    Raises
    ------
    ValueError
        For a name that is none, or a word of Verilog.
    """
    for found in re.findall(r"^  (?:wire .*|cell \S+ |memory .*)\\(\S+)$", text, re.MULTILINE):
        name = re.sub(r"\$\d+$", "", found)
        if name in KEYWORDS:
            raise ValueError(f"{component} has a signal or submodule {name}, which is a word of Verilog")
        if name.startswith("$") or re.fullmatch(r"U\$\d+", found):
            raise ValueError(f"{component} has a signal or submodule without a name ({found}): give it one")


def tidy(text: str, driven: set[str], read: set[str]) -> str:
    """RTLIL of one module.

    Parameters
    ----------
    text : str
        As Amaranth wrote it.
    driven, read : set of str
        Names of the wires that registers and instances drive, and of those that instances read.

    Returns
    -------
    str
        The same with ports numbered from 1, clk and rst in front; without a reset that nobody reads; without wires for
        the fields of a structure; and without attributes, but for a rank that tells Yosys which of a wire's names it
        keeps: what drives it, then what the module calls it, then what reads it. Memories have no contents.
    """
    lines = without_contents(text).splitlines()
    used = {name for line in lines if not line.startswith("  wire ") for name in NAME.findall(line)}
    names = _plain_names(lines)
    kept: list[str] = []
    for line in lines:
        wire = WIRE.fullmatch(line)
        if wire is None:
            if not line.lstrip().startswith("attribute ") and not re.match(r"connect \\\S*[.\[]", line):
                kept.append(line)
            continue
        if re.search(r"[.\[]", wire[2]) or (wire[2] == "\\rst" and "\\rst" not in used):
            continue
        name = names.get(wire[2], wire[2])[1:]
        rank = 2 if name in driven else 0 if name in read else 1
        kept += [f"  attribute \\rank{i} 1" for i in range(rank)]
        kept.append(re.sub(r"(?<=put )(\d+)", partial(_moved, wire[2]), line))
    return NAME.sub(lambda found: names.get(found[0], found[0]), "\n".join(kept) + "\n")


def _moved(name: str, number: re.Match[str]) -> str:
    """The place of a port."""
    return str(FIRST_PORTS.get(name, int(number[1]) + 3))


def _plain_names(lines: list[str]) -> dict[str, str]:
    """Of each name that Amaranth had to number, ``\\name$7``, one like ``\\name_2``."""
    found = dict.fromkeys(name for line in lines for name in NAME.findall(line))
    taken = set(found)
    plain = {}
    for name in found:
        if "$" in name.removeprefix("\\$"):
            base, number = name.rpartition("$")[0], 2
            while (candidate := f"{base}_{number}") in taken:
                number += 1
            taken.add(candidate)
            plain[name] = candidate
    return plain
