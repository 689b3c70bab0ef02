"""Test that pages have short sentences, valid links, and commands with existing options."""

import shlex
from pathlib import Path

import click
import pytest

from tensordash_cli.main import COMMANDS, cli

from .pages import ROOT, anchors, commands, links, pages, sentences

MAX_MEAN_WORDS = 25
MAX_WORDS = 40
GENERATED = {"docs/evaluation-tables.md"}


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def words(sentence: str) -> int:
    return sum(any(letter.isalnum() for letter in word) for word in sentence.split())


every_page = pytest.mark.parametrize("page", pages(), ids=name_of)


@every_page
def test_sentences_are_short(page: Path) -> None:
    if name_of(page) in GENERATED:
        pytest.skip("is not written by hand")
    found = sentences(page.read_text(encoding="utf-8"))
    assert [each for each in found if words(each) > MAX_WORDS] == []
    assert sum(map(words, found)) <= MAX_MEAN_WORDS * max(len(found), 1)


@every_page
def test_links_are_resolved(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for link in links(text):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target.read_text(encoding="utf-8")), link


@every_page
def test_options_exist(page: Path) -> None:
    for line in commands(page.read_text(encoding="utf-8")):
        check_options(line)


def check_options(line: str) -> None:
    """Parse a command with its own parser, and run nothing. A page may omit the value of a command's last option."""
    _, name, *arguments = shlex.split(line)
    assert name in COMMANDS, line
    command = cli.get_command(click.Context(cli), name)
    if isinstance(command, click.Group) and arguments:
        command = command.get_command(click.Context(command), arguments.pop(0))
    assert command is not None, line
    try:
        command.make_parser(click.Context(command)).parse_args(arguments)
    except click.BadOptionUsage:
        pass
    except click.UsageError as error:
        pytest.fail(f"{line}: {error.format_message()}")


def test_sentences_of_an_example() -> None:
    page = """# A heading. With two.

It runs `a. B. c.` once, e.g. here. See Fig. 3 for
the rest! Then (as said.) "It ends."

- An item with [a link. Or two.](x.md)
- 1.5 times faster than v. 2:

| a table. With |
|---|
| sentences. More. |

```sh
code. More.
```

![an image. With text.](y.svg)
"""
    assert sentences(page) == [
        "It runs Code once, e.g. here.",
        "See Fig. 3 for the rest!",
        "Then (as said.)",
        '"It ends."',
        "An item with a link.",
        "Or two.",
        "1.5 times faster than v.",
        "2:",
    ]


def test_links_anchors_and_commands_of_an_example() -> None:
    page = "## The `a_b`: c, d\n\n[x](y.md#z) ![p](q.svg) `tensordash map --size 8`\n\n"
    page += "```sh\ntensordash synth  # cost\n```\n"
    assert links(page) == ["y.md#z", "q.svg"]
    assert anchors(page) == {"the-a_b-c-d"}
    assert list(commands(page)) == ["tensordash map --size 8", "tensordash synth"]


@pytest.mark.parametrize(
    "line", ["tensordash synth --colour", "tensordash data fetch --force", "tensordash synthesise"]
)
def test_wrong_options_are_found(line: str) -> None:
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        check_options(line)
