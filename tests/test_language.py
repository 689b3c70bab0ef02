"""Words that CONTRIBUTING.md forbids are in no source, page, message or emitted Verilog."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash.emission.core_files import core_verilog
from tensordash.emission.verilog import render

ROOT = Path(__file__).parents[1]
FOLDERS = ("hdl", "sim", "synth", "formal", "runtime", "cli", "bench", "examples", "tests")
SUFFIXES = {".py", ".j2", ".toml", ".md", ".cpp", ".h", ".js", ".css", ".html", ".yml"}
MIN_FILES = 900

GAP = r"""(?:\s|[#*/]|"\s+f?")+"""
"""Separator of a phrase's words: a line or string may end there, and a comment or string may continue in the next."""


@dataclass(frozen=True)
class Rule:
    """A pattern, what to write instead, and a text that the pattern must find."""

    pattern: str
    instead: str
    example: str

    def matches(self, text: str) -> Iterator[re.Match[str]]:
        """Find the pattern in a text. A space in the pattern matches any gap between words."""
        return _compiled(self.pattern).finditer(text)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.replace(" ", GAP))


NAMES = [
    Rule(
        r"\b_?(?:given|Given\w*|kept|either|load_either|there|told|Told|told_values)\b", "a noun", "self.kept = given"
    ),
    Rule(r"\b_?(?:comes|again|twice|at_once|due|following|beside|thought)\b", "a noun or is_...", "if due or again:"),
    Rule(r"\bdef _?(?:made|laid|moves|whole|gives|goes|takes|apart|mixed)\b", "a verb", "    def moves(self):"),
    Rule(r"\b(?:Stands?|stands?|Fates?|fates?|[Ss]poiler|spoiled)\b", "stub, MutantResult, corruptor", "Fate(1)"),
    Rule(r"\b_?(?:giver|taker)\b", "producer, consumer", "for giver, taker in pairs:"),
    Rule(r"\b_?(?:MOST|LEAST|FARTHEST|LONGEST)(?:_[A-Z_]+)?\b", "MAX_..., MIN_...", "MOST_STRIDE = 4"),
    Rule(r"\b(?:first_look|LOOK|AT_ONCE|ODD_TILES)\b", "screening run, SCREEN_EFFORT, BATCH_SIZE", "LOOK = 3"),
    Rule(r"\b(?:golden_after|left_open|write_whole)\b", "expected_outcome, atomic_write", "golden_after(program)"),
    Rule(r"\b(?:kept_(?!\d)|fetch_kept)\w*", "cached_..., or a noun", "kept_outputs = 1"),
]
NETLIST = Rule(r"\b(?:asked|came|begun|goes|behind|made|rooms|on_way)(?:_\w+)?\b", "a noun", "wire came_0_bank;")
"""Only for emitted Verilog."""
FILES = Rule(
    r"(?:^|/)(?:stands|given|fates|judgement|described|choice|rounds|beside|either|whole)\.py$",
    "a noun",
    "hdl/fates.py",
)
PHRASES = [
    Rule(r"[Ll]ikewise", "repeat the noun or the verb", "Likewise of one that waits."),
    Rule(r"(?i)\bthat of\b", "repeat the noun", "its bias is that of fp16"),
    Rule(r"(?i)\bof it\b", "its, or the noun", "the first bit\n    # of it"),
    Rule(r"(?i)\bsuch a one\b", "repeat the noun", "it takes such a one"),
    Rule(r"(?i)\bso many\b", "the number's name", "after so many cycles"),
    Rule(r"(?i)\bat the begin\b", "at the start", "zeros at the begin"),
    Rule(r"\b(?:looks away|is thought to|[Tt]he wish was)\b", "say what happens", "the core looks away"),
    Rule(r"(?<!there)\s(?:is|are|was|were|be) any[.,;:)]|, any[.)]", "undefined", "values that are any."),
    Rule(r"\b(?:says|tells|knows)\b", "prints, returns, raises, reports, defines", "as docs/core.md says"),
    Rule(r"\b[Nn]othing is said of\b", "port X is unchecked", "nothing is said of X"),
    Rule(r"\b[Aa] word of Verilog\b", "a Verilog keyword", "is a word of Verilog"),
    Rule(r"\bfinds what is none of\b|\bnone of the program\b", "outside the program", "It finds what is none of it"),
    Rule(r"\bways to cut\b", "tilings", "of all ways to cut a layer"),
    Rule(r"\b[Oo]dd tiles\b|\bfirst look\b", "corner configurations, screening run", "on odd tiles"),
    Rule(r"\bbehind (?:the|an?|its?|them|their|each|every|that|those|one|two)\b", "after", "the step behind it"),
]


@dataclass(frozen=True)
class Allowed:
    """A place where a match is allowed: a prefix of a path, a text in the line, and the reason."""

    path: str
    line: str
    reason: str


ALLOWED: list[Allowed] = [
    Allowed("tests/test_language.py", "", "the patterns and their examples"),
    Allowed("tests/", "@given(", "a decorator of Hypothesis"),
    Allowed("tests/", "from hypothesis import", "a decorator of Hypothesis"),
]

TOKEN = re.compile(
    r"""\#[^\n]*|(?:\b[rbfuRBFU]{1,2})?(?:\"\"\"(?:[^\\]|\\.)*?\"\"\"|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')""",
    re.DOTALL,
)


def split_python(text: str) -> tuple[str, str]:
    """Split a source into its code, and its comments and strings. Both have the source's lines."""
    code, prose, place = [], [], 0
    for match in TOKEN.finditer(text):
        begin, end = match.span()
        code += [text[place:begin], _blank(match[0])]
        prose += [_blank(text[place:begin]), match[0]]
        place = end
    return "".join([*code, text[place:]]), "".join([*prose, _blank(text[place:])])


def _blank(text: str) -> str:
    return "\n" * text.count("\n") if "\n" in text else " "


def sources() -> list[Path]:
    """List the files that people write."""
    inside = (path for folder in (*FOLDERS, "docs") for path in (ROOT / folder).rglob("*"))
    named = [path for path in inside if path.suffix in SUFFIXES and ".trace" not in str(path)]
    return sorted([*named, *ROOT.glob("*.md"), ROOT / "pyproject.toml", ROOT / "Makefile"])


def hits(text: str, rules: list[Rule], path: str) -> list[str]:
    """Find the rules' patterns in a text. Return a line for each match."""
    found, lines = [], text.splitlines()
    for rule in rules:
        for match in rule.matches(text):
            number = text.count("\n", 0, match.start()) + 1
            line = lines[number - 1]
            if any(path.startswith(each.path) and each.line in line for each in ALLOWED):
                continue
            found.append(f"{path}:{number}: {' '.join(match[0].split())!r}: write {rule.instead}")
    return found


def test_sources_and_pages() -> None:
    found: list[str] = []
    read = 0
    for path in sources():
        name = path.relative_to(ROOT).as_posix()
        text = path.read_text(encoding="utf-8")
        if FILES.matches(name) and any(FILES.matches(name)):
            found.append(f"{name}: write {FILES.instead}")
        code, prose = split_python(text) if path.suffix == ".py" else ("", text)
        found += hits(code, NAMES, name) + hits(prose, PHRASES, name)
        read += 1
    assert read >= MIN_FILES
    assert not found, "\n".join([f"{len(found)} faults", *found])


@pytest.mark.parametrize("preset", ["paper", pytest.param("core-drop", marks=pytest.mark.slow)])
def test_emitted_verilog(preset: str) -> None:
    config = load_any_preset(preset)
    files = {"core.v": core_verilog(config)} if isinstance(config, CoreConfig) else render(config)
    text = "\n".join(each for name, each in files.items() if name.endswith(".v"))
    lines = [line.partition("//") for line in text.splitlines()]
    code, comments = "\n".join(code for code, _, _ in lines), "\n".join(comment for _, _, comment in lines)
    assert len(comments.split()) > 1000
    found = hits(code, [*NAMES, NETLIST], f"hdl/ -> {preset}.v") + hits(comments, PHRASES, f"hdl/ -> {preset}.v")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("rule", [*NAMES, NETLIST, *PHRASES, FILES], ids=lambda rule: rule.pattern)
def test_each_pattern_finds_its_example(rule: Rule) -> None:
    assert any(rule.matches(rule.example))


def test_glossary() -> None:
    """Terms are sorted and unique, each meaning is a sentence, and README links the page."""
    rows = re.findall(r"^\| (.+?) \| (.+) \|$", (ROOT / "docs/glossary.md").read_text(encoding="utf-8"), re.MULTILINE)
    terms = [term.casefold() for term, _ in rows if term not in ("term", "---")]
    assert len(terms) >= 60
    assert terms == sorted(set(terms))
    assert all(meaning.endswith(".") for term, meaning in rows if term not in ("term", "---"))
    assert "(docs/glossary.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
