"""Parse the roles of `muster run`: `--role NAME[:N][,cpus=Q][,memory=Q][,gpus=N]`, and the command of each role.

A command belongs to the roles before it. Further roles with a command of their own follow a colon, as with mpirun:
`--role driver -- python driver.py : --role worker:8,gpus=1 -- python worker.py`.
"""

import re
from collections.abc import Sequence

import click
from msgspec import Struct

from muster.actions.parsing.quantities import Amount
from muster.cli.names.types import parse_gpus, parse_worker_cpus, parse_worker_memory

_OPTION, _END, COLON = "--role", "--", ":"
# A role's name is part of host names, together with the name of the job.
_NAME = "(?!.{21})[a-z]([-a-z0-9]*[a-z0-9])?"
_FORM = "NAME[:N][,cpus=Q][,memory=Q][,gpus=N]"
_MOST_DIGITS = 6

BEHIND_A_COLON = "behind a colon comes --role NAME -- COMMAND; for a word of the command, write it within sh -c '...'"


class RoleOptions(Struct, frozen=True):
    """The options in one `--role`. None means that the job's option applies to the role."""

    name: str
    workers: int = 1
    cpus: Amount | None = None
    memory: Amount | None = None
    gpus: int | None = None


class Segment(Struct, frozen=True):
    """A list of roles that run the same command, from the words after a colon on the command line."""

    roles: tuple[RoleOptions, ...]
    command: tuple[str, ...]


def parse_role(text: str) -> RoleOptions:
    """Parse one `--role NAME[:N][,cpus=Q][,memory=Q][,gpus=N]`. Raises `click.BadParameter`."""
    head, *more = text.split(",")
    name, colon, number = head.partition(":")
    if not re.fullmatch(_NAME, name):
        raise click.BadParameter(
            f"{name!r} is no name of a role: at most 20 of a-z, 0-9 and '-', a letter first, in {_FORM}"
        )
    settings: dict[str, str] = {}
    for part in more:
        what, _, value = part.partition("=")
        if what not in ("cpus", "memory", "gpus") or what in settings or not value:
            raise click.BadParameter(f"{part!r} in {text!r}: expected {_FORM}")
        settings[what] = value
    return RoleOptions(
        name,
        _parse_number(number, text, least=1) if colon else 1,
        parse_worker_cpus(settings["cpus"]) if "cpus" in settings else None,
        parse_worker_memory(settings["memory"]) if "memory" in settings else None,
        parse_gpus(settings["gpus"]) if "gpus" in settings else None,
    )


def _parse_number(text: str, of: str, *, least: int) -> int:
    is_one = text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS
    if not is_one or int(text) < least:
        raise click.BadParameter(f"{text!r} in {of!r} is no number of at least {least}")
    return int(text)


def split(words: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """Split the command line at each colon before a role.

    Return the words before the first such colon, then the words of each segment.
    """
    parts: list[list[str]] = [[]]
    for at, word in enumerate(words):
        following = words[at + 1].partition("=")[0] if at + 1 < len(words) else ""
        if word == COLON and following == _OPTION:
            parts.append([])
        else:
            parts[-1].append(word)
    return parts[0], parts[1:]


def parse_segment(words: Sequence[str]) -> Segment:
    """Parse the words after a colon: roles and their command. Raises `click.UsageError`."""
    roles, left = [], list(words)
    while left and left[0].partition("=")[0] == _OPTION:
        word = left.pop(0)
        if "=" not in word and not left:
            raise click.UsageError(f"{_OPTION} wants {_FORM}")
        roles.append(parse_role(word.partition("=")[2] if "=" in word else left.pop(0)))
    if left and left[0] == _END:
        left.pop(0)
    elif left and left[0].startswith("-"):
        raise click.UsageError(
            f"{left[0]}: only {_OPTION} may follow a colon; move other options before the first colon"
        )
    if not left:
        raise click.UsageError(f"role {roles[-1].name} has no command")
    return Segment(tuple(roles), tuple(left))
