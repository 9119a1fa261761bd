"""Asks the user before something is done that cannot be undone."""

import sys
from collections.abc import Sequence

import click

_SHOWN = 20


def agreed(what: str, things: Sequence[str], *, yes: bool) -> bool:
    """Whether the user agrees. what: as a sentence, that names how many things there are. yes: agreed beforehand.

    Raises `click.UsageError` where there is no user to ask.
    """
    if yes:
        return True
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise click.UsageError(f"{what}: {', '.join(_some(things))}; --yes does that without a question")
    for line in _some(things):
        click.echo(f"  {line}", err=True)
    return click.confirm(f"{what}?", err=True)


def _some(things: Sequence[str]) -> list[str]:
    more = len(things) - _SHOWN
    return [*things[:_SHOWN], *([f"and {more} more"] if more > 0 else [])]
