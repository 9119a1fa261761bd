"""The page of commands, made from what click knows of them: usage, help, arguments, options and examples."""

import inspect
from collections.abc import Iterator

import click

from muster.cli.main import cli
from tools.reference.markdown import render_code, render_table, render_text

_INTRODUCTION = """\
This page lists every command with its options. `muster COMMAND --help` prints the same on the terminal. `run`, `wait`,
`shell` and `exec` return the exit code of the job or of the command. After a usage error, the exit code is 2."""


def render_commands() -> list[str]:
    """Return the lines of the page."""
    lines = ["# Commands", "", *_INTRODUCTION.splitlines(), ""]
    for context in find_commands(click.Context(cli, info_name="muster")):
        lines += _render_command(context)
    return lines


def find_commands(context: click.Context) -> Iterator[click.Context]:
    """Yield the context of every command below this one, in the order of the help page."""
    group = context.command
    assert isinstance(group, click.Group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        below = click.Context(command, info_name=name, parent=context)
        if not command.hidden:
            yield below
        if isinstance(command, click.Group):
            yield from find_commands(below)


def _render_command(context: click.Context) -> list[str]:
    command, depth = context.command, len(context.command_path.split())
    usage = " ".join((context.command_path, *command.collect_usage_pieces(context)))
    lines = [f"{'#' * depth} {context.command_path}", "", *_paragraphs(command.help or ""), "```", usage, "```", ""]
    # All commands have --help, which the introduction mentions.
    records = [each.get_help_record(context) for each in command.params if isinstance(each, click.Option)]
    options = [(render_code(name), render_text(text)) for name, text in filter(None, records)]
    lines += render_table(("Option", "Meaning"), options)
    _, _, examples = (command.epilog or "").partition("Examples:\n")
    if examples:
        lines += ["Examples:", "", "```", *(line.strip() for line in examples.splitlines()), "```", ""]
    return lines


def _paragraphs(text: str) -> Iterator[str]:
    """Yield help text as Markdown. A paragraph that click does not fill, after a backspace, keeps its lines as code."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if paragraph.startswith("\b\n"):
            yield from ("```", *paragraph.splitlines()[1:], "```", "")
        else:
            yield from (render_text(paragraph), "")
