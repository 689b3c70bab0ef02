"""Test help texts: groups, complete summaries, valid examples, and an explanation of every option."""

import shlex
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from tensordash_cli.help_texts import EXAMPLES, GROUPS
from tensordash_cli.main import COMMANDS, cli


def leaves() -> Iterator[tuple[str, click.Command]]:
    """Yield every command, those of groups included, by the words that a user types after `tensordash`."""
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from ((f"{name} {each}", command.commands[each]) for each in command.commands)
        yield name, command


LEAVES = dict(leaves())


def help_of(command: str) -> str:
    result = CliRunner().invoke(cli, [*command.split(), "--help"])
    assert result.exit_code == 0
    return result.output


def test_every_command_is_in_one_group() -> None:
    listed = [name for names in GROUPS.values() for name in names]
    assert sorted(listed) == sorted(COMMANDS)


@pytest.mark.parametrize("group", ["", "data"])
def test_summaries_are_not_truncated(group: str) -> None:
    text = " ".join(help_of(group).split())
    assert "..." not in text.partition("Commands:")[2]
    for heading in GROUPS if not group else ():
        assert f"{heading}:" in text
    for name, command in LEAVES.items():
        if name.rpartition(" ")[0] == group:
            assert " ".join((command.help or "").split("\n\n")[0].split()) in text, name


@pytest.mark.parametrize("name", LEAVES)
def test_every_command_shows_its_examples(name: str) -> None:
    examples = [each for each in EXAMPLES[name.split()[0]] if f"{each} ".startswith(f"tensordash {name} ")]
    assert examples
    text = help_of(name)
    assert text.endswith("\n  Examples:\n" + "".join(f"    {each}\n" for each in examples))


@pytest.mark.parametrize("example", [each for examples in EXAMPLES.values() for each in examples])
def test_every_example_parses(example: str) -> None:
    """Options exist, and all values, including defaults, are allowed; nothing runs."""
    program, *arguments = shlex.split(example.partition(" > ")[0])
    assert program == "tensordash"
    name = next(each for each in LEAVES if f"{example} ".startswith(f"tensordash {each} "))
    LEAVES[name].make_context(name, arguments[len(name.split()) :])


@pytest.mark.parametrize("name", LEAVES)
def test_every_option_is_explained(name: str) -> None:
    for option in LEAVES[name].params:
        if isinstance(option, click.Option):
            assert option.help, option.name
            assert "below" not in option.help
