"""The options with which commands select jobs or runs."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import click

from muster.cli.completion import names

Command = TypeVar("Command", bound=Callable[..., object])


def add_selection_options(noun: str, states: Sequence[str], *, by_state: str) -> Callable[[Command], Command]:
    """Return a decorator that adds the options --queue, --state and --user to a command.

    noun: what they select, for their help texts.
    states: the choices of --state.
    by_state: the help text of --state.
    """
    queue = click.option(
        "-q",
        "--queue",
        metavar="Q",
        default="",
        help=f"{noun} of this LocalQueue.",
        shell_complete=names.complete_local_queues,
    )
    state = click.option(
        "--state",
        "states",
        metavar="STATE",
        multiple=True,
        type=click.Choice(states, case_sensitive=False),
        help=by_state,
    )
    user = click.option("-u", "--user", metavar="NAME", default="", help=f"{noun} that this user submitted.")
    return lambda command: queue(state(user(command)))
