"""Ask the user before an action that cannot be undone."""

import sys
from collections.abc import Sequence

import click

_SHOWN = 20


def ask_to_go_on(what: str, things: Sequence[str], *, yes: bool) -> bool:
    """Ask the user whether to continue; return whether the user agrees.

    Raises `click.UsageError` if there is no user to ask.

    what: a sentence that says how many things are affected.
    things: the names of these things.
    yes: whether the user agreed beforehand with --yes.
    """
    if yes:
        return True
    if not can_ask():
        raise click.UsageError(f"{what}: {', '.join(_shorten_list(things))}; --yes skips the question")
    for line in _shorten_list(things):
        click.echo(f"  {line}", err=True)
    return click.confirm(f"{what}?", err=True)


def can_ask() -> bool:
    """Return whether a user can see a question and answer it."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _shorten_list(things: Sequence[str]) -> list[str]:
    more = len(things) - _SHOWN
    return [*things[:_SHOWN], *([f"and {more} more"] if more > 0 else [])]
