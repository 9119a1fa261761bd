"""Ask the user before an action that cannot be undone."""

import sys
from collections.abc import Sequence

import click

_SHOWN = 20


def ask_to_go_on(question: str, names: Sequence[str], *, yes: bool) -> bool:
    """Ask the user whether to continue; return whether the user agrees.

    Raises `click.UsageError` if there is no user to ask.

    question: a sentence that says how many things are affected.
    names: the names of the affected things.
    yes: whether the user agreed beforehand with --yes.
    """
    if yes:
        return True
    if not can_ask():
        raise click.UsageError(f"{question}: {', '.join(_shorten_list(names))}; --yes skips the question")
    for line in _shorten_list(names):
        click.echo(f"  {line}", err=True)
    return click.confirm(f"{question}?", err=True)


def can_ask() -> bool:
    """Return whether a user can see a question and answer it."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _shorten_list(names: Sequence[str]) -> list[str]:
    more = len(names) - _SHOWN
    return [*names[:_SHOWN], *([f"and {more} more"] if more > 0 else [])]
