"""Every command's help ends with examples, and what they, and the pages for readers, show is what the commands take."""

import contextlib
import re
import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from muster.cli.main import cli


def commands(group, names=("muster",)):
    """Every command, with the words that call it."""
    yield names, group
    if isinstance(group, click.Group):
        context = click.Context(group)
        for name in group.list_commands(context):
            yield from commands(group.get_command(context, name), (*names, name))


COMMANDS = {" ".join(names): command for names, command in commands(cli)}


def examples(command):
    """The lines below `Examples:`."""
    _, _, lines = (command.epilog or "").partition("Examples:\n")
    return [line.strip() for line in lines.splitlines()]


EXAMPLES = [(names, line) for names, command in COMMANDS.items() for line in examples(command)]


GROUPS = [names for names, command in COMMANDS.items() if isinstance(command, click.Group)]


@pytest.mark.parametrize("names", GROUPS)
def test_what_a_group_says_of_its_commands_is_not_cut_short(names):
    done = CliRunner().invoke(cli, [*names.split()[1:], "--help"], terminal_width=80)
    _, _, lines = done.stdout.partition("Commands:\n")
    assert lines
    assert "..." not in lines.partition("Examples:")[0]


@pytest.mark.parametrize("names", COMMANDS)
def test_every_command_has_examples_of_itself_that_fit_a_terminal(names):
    found = examples(COMMANDS[names])
    assert found
    assert all(names in line for line in found)
    assert max(map(len, found)) <= 76


def taken(line):
    """Whether `muster` takes it, up to what a shell keeps for itself: remarks, redirections, the next command."""
    plain = re.search(r"muster ((?!\.\.\.)[^#<>&|)'\"]|'[^']*'|\"[^\"]*\")*", line).group()
    words = shlex.split(plain)
    depth = max(n for n in range(1, len(words) + 1) if " ".join(words[:n]) in COMMANDS)
    with contextlib.suppress(click.exceptions.Exit):  # --version
        COMMANDS[" ".join(words[:depth])].make_context(words[depth - 1], words[depth:])
    return True


@pytest.mark.parametrize(("names", "line"), EXAMPLES)
def test_the_command_takes_its_examples(names, line):
    assert taken(line)


ROOT = Path(__file__).parents[4]
# The reference is made from the commands, and shows how each is used in general.
WRITTEN = [page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent.name != "reference"]
PAGES = [ROOT / "README.md", *WRITTEN]
SHOWN = [
    pytest.param(line, id=f"{page.name}:{line}")
    for page in PAGES
    for _, block in re.findall(r"^```(.*?)\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
    for line in dict.fromkeys(re.findall(r"^(?:\$ )?(muster .*)$", block, re.MULTILINE))
]


@pytest.mark.parametrize("line", SHOWN)
def test_the_command_takes_what_pages_show(line):
    assert taken(line)


@pytest.mark.parametrize("names", COMMANDS)
def test_help_shows_them_line_by_line(names):
    command = COMMANDS[names]
    shown = command.get_help(click.Context(command, info_name=names))
    assert [line.strip() for line in shown.partition("Examples:\n")[2].splitlines()] == examples(command)
