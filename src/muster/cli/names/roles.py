"""Parses the roles of `muster run`: `--role NAME[:N][,cpus=Q][,memory=Q][,gpus=N]`, and the command of each role.

A command belongs to the roles before it. Further roles with a command of their own follow a colon, as with mpirun:
`--role driver -- python driver.py : --role worker:8,gpus=1 -- python worker.py`.
"""

import re
from collections.abc import Sequence

import click
from msgspec import Struct

from muster.actions.quantities import Amount
from muster.cli.names.types import gpus, worker_cpus, worker_memory

_OPTION, _END, COLON = "--role", "--", ":"
# A role's name is part of host names, beside the name of the job.
_NAME = "(?!.{21})[a-z]([-a-z0-9]*[a-z0-9])?"
_FORM = "NAME[:N][,cpus=Q][,memory=Q][,gpus=N]"
_MOST_DIGITS = 6

BEHIND_A_COLON = "behind a colon comes --role NAME -- COMMAND; for a word of the command, write it within sh -c '...'"


class RoleAsked(Struct, frozen=True):
    """A role from the command line; None where the line does not say."""

    name: str
    workers: int = 1
    cpus: Amount | None = None
    memory: Amount | None = None
    gpus: int | None = None


class Segment(Struct, frozen=True):
    """Roles that run the same command."""

    roles: tuple[RoleAsked, ...]
    command: tuple[str, ...]


def role(text: str) -> RoleAsked:
    """Parse one `--role`. Raises `click.BadParameter`."""
    head, *more = text.split(",")
    name, colon, number = head.partition(":")
    if not re.fullmatch(_NAME, name):
        raise click.BadParameter(
            f"{name!r} is no name of a role: at most 20 of a-z, 0-9 and '-', a letter first, in {_FORM}"
        )
    asked: dict[str, str] = {}
    for part in more:
        what, _, value = part.partition("=")
        if what not in ("cpus", "memory", "gpus") or what in asked or not value:
            raise click.BadParameter(f"{part!r} in {text!r}: expected {_FORM}")
        asked[what] = value
    return RoleAsked(
        name,
        _parse_number(number, text, least=1) if colon else 1,
        worker_cpus(asked["cpus"]) if "cpus" in asked else None,
        worker_memory(asked["memory"]) if "memory" in asked else None,
        gpus(asked["gpus"]) if "gpus" in asked else None,
    )


def _parse_number(text: str, of: str, *, least: int) -> int:
    is_one = text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS
    if not is_one or int(text) < least:
        raise click.BadParameter(f"{text!r} in {of!r} is no number of at least {least}")
    return int(text)


def split(words: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """Return the words up to the first colon that precedes a role, and the words after each such colon."""
    parts: list[list[str]] = [[]]
    for at, word in enumerate(words):
        following = words[at + 1].partition("=")[0] if at + 1 < len(words) else ""
        if word == COLON and following == _OPTION:
            parts.append([])
        else:
            parts[-1].append(word)
    return parts[0], parts[1:]


def segment(words: Sequence[str]) -> Segment:
    """Parse the words after a colon: roles and their command. Raises `click.UsageError`."""
    asked, left = [], list(words)
    while left and left[0].partition("=")[0] == _OPTION:
        word = left.pop(0)
        if "=" not in word and not left:
            raise click.UsageError(f"{_OPTION} wants {_FORM}")
        asked.append(role(word.partition("=")[2] if "=" in word else left.pop(0)))
    if left and left[0] == _END:
        left.pop(0)
    elif left and left[0].startswith("-"):
        raise click.UsageError(
            f"{left[0]}: only {_OPTION} may follow a colon; move other options before the first colon"
        )
    if not left:
        raise click.UsageError(f"role {asked[-1].name} has no command")
    return Segment(tuple(asked), tuple(left))
