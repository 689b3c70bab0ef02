"""Parse hand-written pages: sentences, links, anchors and commands."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

__all__ = ["anchors", "commands", "fences", "links", "pages", "sentences"]

ROOT = Path(__file__).parents[1]
PARSER = MarkdownIt("commonmark").enable("table")
OUTSIDE_SENTENCES = ("heading", "table")
ABBREVIATIONS = ("e.g.", "i.e.", "vs.", "Fig.", "Figs.", "Eq.", "No.", "cf.", "etc.")
SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[^a-z\s])|(?<=[.!?])[\"')\]]*$")


def pages() -> list[Path]:
    """List all pages: README, CONTRIBUTING and the pages under docs."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def sentences(text: str) -> list[str]:
    """Return the sentences of paragraphs and list items; code between backticks is one word of its sentence.

    Headings, tables, code blocks, HTML and images have none. A paragraph that ends in a colon is one sentence.
    """
    found: list[str] = []
    outside = 0
    for token in PARSER.parse(text):
        if token.type.removesuffix("_open").removesuffix("_close") in OUTSIDE_SENTENCES:
            outside += token.nesting
        elif token.type == "inline" and not outside:
            found += _split(_plain(token))
    return found


def _plain(inline: Token) -> str:
    parts: dict[str, Callable[[Token], str]] = {
        "text": lambda each: each.content,
        "code_inline": lambda _: "Code",
        "softbreak": lambda _: " ",
    }
    return "".join(parts[each.type](each) for each in inline.children or () if each.type in parts)


def _split(paragraph: str) -> Iterator[str]:
    begin = 0
    for match in SENTENCE_END.finditer(paragraph):
        sentence = paragraph[begin : match.end()].strip()
        if sentence.endswith(ABBREVIATIONS) and match.end() < len(paragraph):
            continue
        begin = match.end()
        if sentence:
            yield sentence
    if rest := paragraph[begin:].strip():
        yield rest


def links(text: str) -> list[str]:
    """Return the targets of all links and images."""
    children = (each for token in PARSER.parse(text) for each in token.children or ())
    targets = (each.attrGet("href") or each.attrGet("src") for each in children if each.type in ("link_open", "image"))
    return [str(target) for target in targets if target]


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and MyST name them."""
    tokens = PARSER.parse(text)
    titles = [_plain_title(tokens[k + 1]) for k, token in enumerate(tokens) if token.type == "heading_open"]
    return {re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-") for title in titles}


def _plain_title(inline: Token) -> str:
    return "".join(each.content for each in inline.children or () if each.type in ("text", "code_inline"))


def commands(text: str) -> Iterator[str]:
    """Return the `tensordash` commands in code blocks and between backticks, without comments, pipes and variables."""
    for token in PARSER.parse(text):
        spans = [each.content for each in token.children or () if each.type == "code_inline"]
        if token.type == "fence" and token.info.split()[:1] in ([], ["sh"], ["console"]):
            spans += re.sub(r"\\\n\s*", "", token.content).splitlines()
        for span in spans:
            if match := re.match(r"(?:\$ )?(?:\S+/)?(tensordash [a-z][^#|<>;&]*)", span):
                yield re.split(r"\s{2}", match[1].strip())[0]


def fences(text: str, language: str) -> list[str]:
    """Return the code blocks in a language; "" finds blocks without a language, which show output of commands."""
    return [token.content for token in PARSER.parse(text) if token.type == "fence" and token.info == language]
