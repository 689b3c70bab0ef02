"""Measure how readable the generated Verilog is, and the CPU time of `tensordash generate`.

    python bench/verilog.py [--json] [PRESET...]

All counts but `lines`, `comment_percent` and `files` are over all `.v` files of a preset. A wire that equals one bit
range of a vector names a field. Neither single_use_wires nor field_ranges count such wires. A pin of an instance
(`instance__port`) names a field only if the vector is also a pin. The presets are paper, recommended and core.

lines: lines of `tensordash.v`
all_lines: lines of all files; `files` counts the lines of each file
longest_line: characters of the longest line of code or comment
longest_attribute: characters of the longest attribute `(* ... *)`; its string cannot be broken into lines
numbered_names: wires and registers with a number for a name (`_012_`, `name$3`)
single_use_wires: wires used once that could be replaced by their own expression, of at most 100 characters
state_numbers: comparisons of a state with a literal, and literals as labels of a case over a state
field_ranges: bit ranges of a descriptor, its words and its beats, without those that name a field
comment_percent: percentage of the lines of `tensordash.v` with a comment in the body of a module
cpu_seconds: user and system time of `tensordash generate` in its own process
"""

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

PRESETS = ("paper", "recommended", "core")
MAIN = "tensordash.v"
"""File with the tile or the core. Other files have memories, wrappers and units that are placed separately."""
MAX_INLINED = 100
"""Maximum characters of an expression that fits on a line."""

MODULE = re.compile(r"^module (\w+).*?^endmodule\b", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
ATTRIBUTE = re.compile(r"\(\*.*?\*\)", re.DOTALL)
# An identifier, escaped or not. After a dot, it would be a port of an instance; after a base, a digit.
NAME = re.compile(r"(?<![\w$.'\\])(\\\S+|[A-Za-z_][\w$]*)")
DECLARATION = re.compile(
    r"^\s*(?:(?:input|output)\s+)?(wire|reg)\b\s*(?:signed\s*)?(?:\[[^\]]*\]\s*)?([^;=]*?)\s*(=|;|,?$)"
)
NUMBERED = re.compile(r"_\d+_|\\?[\w.]*\$\d+")
ASSIGN = re.compile(r"\bassign\s+(\w+)\s*=\s*([^;]*);|\bwire\s+(?:signed\s+)?(?:\[[^\]]*\]\s*)?(\w+)\s*=\s*([^;]*);")
LITERAL = r"\d*'s?[bdho][0-9a-fA-FxzXZ_?]+|\b\d+\b"
STATE = r"\w*state\w*"
COMPARED = re.compile(rf"\b{STATE}\s*[!=]==?\s*(?:{LITERAL})|(?:{LITERAL})\s*[!=]==?\s*{STATE}\b|[~!]\s*\|\s*{STATE}\b")
CASE = re.compile(rf"\bcase[xz]?\s*\(\s*{STATE}\s*\)(.*?)\bendcase\b", re.DOTALL)
LABEL = re.compile(rf"^\s*(?:{LITERAL})\s*(?:,[^:;]*)?:", re.MULTILINE)
RANGE = re.compile(r"\bwire\s+(?:\[[^\]]*\]\s*)?(\w+)\s*=\s*(\w+)\s*\[[^\]]*\];")
FIELD = re.compile(r"\b(?:\w+_)?descriptor(?:_\d+|_payload)?\[\s*\d+\s*(?::\s*\d+\s*)?\]")


def count(files: dict[str, str]) -> dict[str, Any]:
    """Return the figures of a preset's Verilog files; `files` has their texts by name."""
    lines = [line for text in files.values() for line in text.splitlines()]
    attributes = [line for line in lines if ATTRIBUTE.fullmatch(line.strip())]
    main = files[MAIN].splitlines()
    bodies = [module[0].partition(");")[2] for module in MODULE.finditer(files[MAIN])]
    comments = sum("//" in line for body in bodies for line in body.splitlines())
    modules = [module[0] for text in files.values() for module in MODULE.finditer(text)]
    totals: Counter[str] = Counter()
    for module in modules:
        code = ATTRIBUTE.sub("", COMMENT.sub("", module))
        totals["numbered_names"] += len(numbered_names(code))
        totals["single_use_wires"] += len(single_use_wires(code))
        totals["state_numbers"] += len(COMPARED.findall(code))
        totals["state_numbers"] += sum(len(LABEL.findall(case[1])) for case in CASE.finditer(code))
        totals["field_ranges"] += len(FIELD.findall(RANGE.sub("", statements(code))))
    return {
        "lines": len(main),
        "all_lines": len(lines),
        "files": {name: len(text.splitlines()) for name, text in files.items()},
        **{name: totals[name] for name in ("numbered_names", "single_use_wires", "state_numbers", "field_ranges")},
        "longest_line": max(len(line) for line in lines if line not in attributes),
        "longest_attribute": max(map(len, attributes), default=0),
        "comment_percent": round(100 * comments / len(main), 2),
    }


def declared(code: str) -> dict[str, str]:
    """Return the kind (`wire` or `reg`) of each net that a module declares, without ports."""
    names = {}
    for line in code.splitlines():
        found = DECLARATION.match(line)
        if found and not re.match(r"\s*(?:input|output)\b", line):
            for name in re.findall(r"\\\S+|[A-Za-z_][\w$]*", re.sub(r"\[[^\]]*\]", "", found[2])):
                names[name] = found[1]
    return names


def statements(code: str) -> str:
    """Return the code of a module without its declarations."""
    plain = r"^\s*(?:(?:input|output)\s+)?(?:wire|reg)\b[^=;]*;$|^\s*(?:input|output)\b.*$"
    return re.sub(plain, "", code, flags=re.MULTILINE)


def named_fields(code: str) -> set[str]:
    """Return wires that name one bit range of a vector; a pin of an instance only names a range of another pin."""
    return {
        name
        for name, vector in RANGE.findall(code)
        if "__" not in name or re.match(rf"{vector}_[a-z]", name) is not None
    }


def numbered_names(code: str) -> list[str]:
    """Return wires and registers with a number for a name: `_012_` or `name$3`."""
    return [name for name in declared(code) if NUMBERED.fullmatch(name)]


def single_use_wires(code: str) -> list[str]:
    """Return wires with one use that their own expression could replace on a line.

    An expression cannot replace a wire with a bit range. A connection to an instance is a use.
    """
    uses = Counter(NAME.findall(statements(code)))
    sliced = set(re.findall(r"(\w+)\s*\[", code))
    wires = {name for name, kind in declared(code).items() if kind == "wire"} - named_fields(code)
    found = []
    for assign in ASSIGN.finditer(code):
        name, expression = (assign[1], assign[2]) if assign[1] else (assign[3], assign[4])
        fits = len(" ".join(expression.split())) <= MAX_INLINED
        if name in wires and name not in sliced and fits and uses[name] == 2:  # The assignment is one of the two.
            found.append(name)
    return found


def generate(preset: str) -> tuple[dict[str, str], float]:
    """Return the Verilog files of a preset, and CPU seconds of generating them."""
    with tempfile.TemporaryDirectory() as folder:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-c", "from tensordash_cli.main import run; run()"]
        subprocess.run([*command, "generate", "--preset", preset, "-o", folder], check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        files = {path.name: path.read_text(encoding="utf-8") for path in sorted(Path(folder).glob("*.v"))}
    return files, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    """Print the figures as a table, or as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("presets", nargs="*", default=PRESETS, metavar="PRESET")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    figures = {}
    for preset in arguments.presets:
        files, seconds = generate(preset)
        figures[preset] = {**count(files), "cpu_seconds": round(seconds, 1)}
    if arguments.json:
        print(json.dumps(figures, indent=2))
        return
    print(f"{'':18}" + "".join(f"{preset:>14}" for preset in figures))
    for name in [name for name in figures[arguments.presets[0]] if name != "files"]:
        print(f"{name:18}" + "".join(f"{figures[preset][name]:>14,}" for preset in figures))
    for preset, values in figures.items():
        print(f"{preset}: " + ", ".join(f"{name} {lines:,}" for name, lines in values["files"].items()))


if __name__ == "__main__":
    main()
