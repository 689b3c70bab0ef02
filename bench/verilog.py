"""How the generated Verilog reads: lines, names without meaning, literals for states, and CPU time of `generate`.

    python bench/verilog.py [--json] [PRESET...]

Counts are of all `.v` files of a preset, except `lines`, `comment_percent` and `files`. A wire that is one bit range
of a vector names a field, unless it is the pin of an instance (`instance__port`) and the vector is none: neither
single_use_wires nor field_ranges count it. Presets: paper, recommended, core.

lines: lines of `tensordash.v`
all_lines: lines of all files; `files` has those of each
longest_line, longest_attribute: characters of the longest line of code or comment, and of an attribute `(* ... *)`,
    which stands on one line: its string cannot be broken
numbered_names: wires and registers called by a number (`_012_`, `name$3`)
single_use_wires: wires that one expression uses and whose own expression, of at most 100 characters, could stand there
state_numbers: comparisons of a state with a literal, and literals as labels of a case over it
field_ranges: bit ranges of a descriptor, of its words and of its beats; one of a field that has a name is none
comment_percent: lines of `tensordash.v` with a comment inside of module bodies, of all of its lines
cpu_seconds: user and system time of `tensordash generate` in a process of its own
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
"""The file with the tile or the core; beside it stand memories, wrappers and units that are placed alone."""
MAX_INLINED = 100
"""Characters of an expression that fits on a line."""

MODULE = re.compile(r"^module (\w+).*?^endmodule\b", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
ATTRIBUTE = re.compile(r"\(\*.*?\*\)", re.DOTALL)
# Names: an identifier, escaped or not; one after a dot is a port of an instance, one after a base is a digit.
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
    """Figures of the Verilog files of a preset, by their names.

    Parameters
    ----------
    files : dict of str to str
        Texts by file name.
    """
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
    """Kind (`wire` or `reg`) of each net that a module declares and that is no port."""
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
    """Wires that name one bit range of a vector; the pin of an instance only names a range of another pin."""
    return {
        name
        for name, vector in RANGE.findall(code)
        if "__" not in name or re.match(rf"{vector}_[a-z]", name) is not None
    }


def numbered_names(code: str) -> list[str]:
    """Wires and registers called by a number: `_012_` or `name$3`."""
    return [name for name in declared(code) if NUMBERED.fullmatch(name)]


def single_use_wires(code: str) -> list[str]:
    """Wires with one use, which their own expression could replace on a line.

    A wire with a bit range must stay: an expression has none. A connection to an instance is a use.
    """
    uses = Counter(NAME.findall(statements(code)))
    sliced = set(re.findall(r"(\w+)\s*\[", code))
    wires = {name for name, kind in declared(code).items() if kind == "wire"} - named_fields(code)
    found = []
    for assign in ASSIGN.finditer(code):
        name, expression = (assign[1], assign[2]) if assign[1] else (assign[3], assign[4])
        # One more place is where the wire gets its value.
        if (
            name in wires
            and uses[name] == 2
            and name not in sliced
            and len(" ".join(expression.split())) <= MAX_INLINED
        ):
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
