"""Job scripts on the command line of `muster run`: by the name of a file, or by the standard input."""

import shlex
import shutil
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from muster.actions import scripts
from muster.actions.scripts import Directive, Script, ScriptError
from muster.cli.names.suggesting import meant
from muster.cli.terminal.output import say

_STDIN = 0
_BY_INPUT = "script"
_RUN_BY = {".py": "python", ".sh": "sh"}


def find(words: tuple[str, ...]) -> Script | None:
    """The script that is meant; None where a command is. Raises `click.UsageError`."""
    try:
        if not words or words[0] == "-":
            return _from_input(asked=bool(words))
        return _from_file(words[0])
    except ScriptError as error:
        raise click.UsageError(str(error)) from None


def take(command: click.Command, ctx: click.Context, script: Script) -> None:
    """Let the script be the command, and its lines be options, over which those of the command line win.

    Raises `click.UsageError`, which names the line.
    """
    words: tuple[str, ...] = ctx.params["arguments"]
    try:
        said = [(line, _parsed(command, ctx, script, line)) for line in scripts.directives(script)]
        ctx.params["arguments"] = tuple(scripts.command(script, words[1:]))
    except ScriptError as error:
        raise click.UsageError(str(error), ctx) from None
    for parameter in command.params:
        lines = [one.params[parameter.name] for _, one in said if _is_given(one, parameter)]
        if lines:
            _settle(ctx, parameter, lines)


def _settle(ctx: click.Context, parameter: click.Parameter, lines: list[Any]) -> None:
    """The value of one option that lines give, the last of them counting, if not all do."""
    name, given = parameter.name, _is_given(ctx, parameter)
    if parameter.multiple and not (given and name in _INSTEAD):
        before = ctx.params[name] if given else ()
        ctx.params[name] = (*(value for line in lines for value in line), *before)
    elif not given:
        ctx.params[name] = lines[-1]
    ctx.set_parameter_source(name, ParameterSource.COMMANDLINE)


# Of these, the command line's are no addition to those of the script.
_INSTEAD = ("roles", "grid")


def _is_given(ctx: click.Context, parameter: click.Parameter) -> bool:
    return ctx.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE


def _parsed(command: click.Command, ctx: click.Context, script: Script, line: Directive) -> click.Context:
    """The options of a line."""
    place = f"{script.name}, line {line.number}"
    within = click.Context(command, ctx.parent, ctx.info_name, help_option_names=[])
    try:
        click.Command.parse_args(command, within, list(line.words))
    except click.NoSuchOption as error:
        raise click.UsageError(f"{place}: {meant(error)}", ctx) from None
    except click.UsageError as error:
        raise click.UsageError(f"{place}: {error.format_message()}", ctx) from None
    if within.params["arguments"]:
        what = within.params["arguments"][0]
        raise click.UsageError(f"{place}: {what!r} is no option; the command is the script itself", ctx)
    return within


def _from_input(*, asked: bool) -> Script | None:
    from muster.cli.terminal.stdin import can_come

    if not (asked or can_come(_STDIN)):
        return None
    with open(_STDIN, "rb", closefd=False) as opened:
        data = opened.read(scripts.MOST_BYTES + 1)
    if not data.strip():
        if asked:
            raise ScriptError("the script on the standard input is empty")
        return None
    return scripts.read(_BY_INPUT, data, by_input=True)


def _from_file(word: str) -> Script | None:
    """A file is one if it has lines for us, or begins with #! and is no program that would be found by its name."""
    try:
        path = Path(word)
        if not path.is_file():
            return None
        with path.open("rb") as opened:
            data = opened.read(scripts.MOST_BYTES + 1)
    except (OSError, ValueError):
        return None  # as a command it will say what is wrong
    bare, begins = "/" not in word and shutil.which(word) is None, data.startswith(b"#!")
    if (bare and begins) or scripts.has_directives(data):
        return scripts.read(path.name, data)
    if bare and path.suffix in _RUN_BY:
        how = f"{_RUN_BY[path.suffix]} {shlex.quote(word)}"
        say(f"{word}: no program of that name is on PATH here; if the file is meant: {how}, or begin it with #!")
    return None
