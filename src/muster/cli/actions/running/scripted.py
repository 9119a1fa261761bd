"""Read job scripts for `muster run`, from a named file or from standard input."""

import os
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from muster.actions.parsing import scripts
from muster.actions.parsing.scripts import Directive, Script, ScriptError
from muster.cli.names.suggesting import make_suggestion
from muster.cli.terminal.output import say

_STDIN = 0
_BY_INPUT = "script"
_RUN_BY = {".py": "python", ".sh": "sh"}


def find(words: tuple[str, ...]) -> Script | None:
    """Read the batch script that the words name, or that standard input contains; None if the words are a command.

    Raises `click.UsageError`.
    """
    try:
        if not words or words[0] == "-":
            return _read_input(is_required=bool(words))
        return _read_file(words[0])
    except ScriptError as error:
        raise click.UsageError(str(error)) from None


def take(command: click.Command, ctx: click.Context, script: Script) -> None:
    """Change the parameters of the command in `ctx` so that it runs the script with the script's options.

    Options of the command line override options of the script. A script that has only `#SBATCH` lines becomes a Slurm
    batch script. Raises `click.UsageError`, which names the line.
    """
    words: tuple[str, ...] = ctx.params["arguments"]
    try:
        lines = list(scripts.list_directives(script))
        slurm = [] if lines else list(scripts.list_directives(script, scripts.SBATCH))
        ctx.params["arguments"] = tuple(scripts.make_command(script, words[1:]))
    except ScriptError as error:
        raise click.UsageError(str(error), ctx) from None
    contexts = [_parse_words(command, ctx, f"{script.name}, line {line.number}", line.words) for line in lines]
    if slurm:
        contexts.append(_translate(command, ctx, script, slurm))
    for parameter in command.params:
        values = [one.params[parameter.name] for one in contexts if _is_given(one, parameter)]
        if values:
            _set_option(ctx, parameter, values)


def _translate(command: click.Command, ctx: click.Context, script: Script, lines: list[Directive]) -> click.Context:
    """Return the options of Muster that correspond to the script's sbatch options; store the other ones in `ctx`.

    The names of ignored options are printed. Raises `click.UsageError`, which names the line.
    """
    from muster.slurm.translation import LineError, translate

    has_limit = ctx.params["time"] is not None
    try:
        translation = translate(((line.number, line.words) for line in lines), os.environ, has_limit=has_limit)
    except LineError as error:
        raise click.UsageError(f"{script.name}, line {error.number}: {error}", ctx) from None
    if translation.ignored:
        say(f"{script.name}: ignored: {', '.join(translation.ignored)}")
    ctx.params["batch"] = translation.batch
    return _parse_words(command, ctx, script.name, translation.words)


def _set_option(ctx: click.Context, parameter: click.Parameter, lines: list[Any]) -> None:
    """Merge an option's values in the script into those of the command line.

    A repeatable option gets the script's values, then the command line's; for an option in `_INSTEAD`, the command
    line's replace the script's. Any other option keeps the command line's value, or else gets the script's last one.

    lines: the values of the option in the script, one for each line.
    """
    name, is_given = parameter.name, _is_given(ctx, parameter)
    if parameter.multiple and not (is_given and name in _INSTEAD):
        before = ctx.params[name] if is_given else ()
        ctx.params[name] = (*(value for line in lines for value in line), *before)
    elif not is_given:
        ctx.params[name] = lines[-1]
    ctx.set_parameter_source(name, ParameterSource.COMMANDLINE)


# Repeatable options for which the command line's values replace the script's.
_INSTEAD = ("roles", "grid")


def _is_given(ctx: click.Context, parameter: click.Parameter) -> bool:
    return ctx.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE


def _parse_words(command: click.Command, ctx: click.Context, place: str, words: Sequence[str]) -> click.Context:
    """Parse options of the script; return a context with their values. Raises `click.UsageError`.

    place: the name of the script, and the line if all options are of one line, for errors.
    """
    within = click.Context(command, ctx.parent, ctx.info_name, help_option_names=[])
    try:
        click.Command.parse_args(command, within, list(words))
    except click.NoSuchOption as error:
        raise click.UsageError(f"{place}: {make_suggestion(error)}", ctx) from None
    except click.UsageError as error:
        raise click.UsageError(f"{place}: {error.format_message()}", ctx) from None
    if within.params["arguments"]:
        what = within.params["arguments"][0]
        raise click.UsageError(f"{place}: {what!r} is no option; the command is the script itself", ctx)
    return within


def _read_input(*, is_required: bool) -> Script | None:
    from muster.cli.terminal.stdin import can_come

    if not (is_required or can_come(_STDIN)):
        return None
    with open(_STDIN, "rb", closefd=False) as opened:
        data = opened.read(scripts.MOST_BYTES + 1)
    if not data.strip():
        if is_required:
            raise ScriptError("the script on the standard input is empty")
        return None
    return scripts.read(_BY_INPUT, data, by_input=True)


def _read_file(word: str) -> Script | None:
    """Return the script in a file; None if the word names no readable script. Raises `ScriptError`.

    A file is a script if it has lines with options. It is also a script if it begins with #! and the word is not the
    name or the path of a program on this machine. A line that looks like options but is a comment gets a warning.
    """
    try:
        path = Path(word)
        if not path.is_file():
            return None
        with path.open("rb") as opened:
            data = opened.read(scripts.MOST_BYTES + 1)
    except (OSError, ValueError):
        return None  # running the word as a command reports the error
    for number, mark, likely in scripts.find_misspelt_marks(data):
        say(f"{path.name}, line {number}: {mark} is a comment; did you mean {likely}?")
    is_program = shutil.which(word) is not None
    if (data.startswith(b"#!") and not is_program) or scripts.has_directives(data, (scripts.MUSTER,)):
        return scripts.read(path.name, data)
    if scripts.has_directives(data):
        if not (program := scripts.find_other_program(data)):
            return scripts.read(path.name, data)
        say(f"{path.name}: its #SBATCH lines are comments here: a job cannot carry the text of a script for {program}")
        return None
    if not is_program and path.suffix in _RUN_BY:
        how = f"{_RUN_BY[path.suffix]} {shlex.quote(word)}, or begin it with #!"
        if "/" in word:
            say(f"{word}: you may not execute the file here; run it by {how}")
        else:
            say(f"{word}: no program of that name is on PATH here; if the file is meant: {how}")
    return None
