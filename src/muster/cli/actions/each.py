"""Does one thing for each of several names: what fails is said, and the others are done all the same."""

from collections.abc import Awaitable, Callable, Sequence

import click

from muster.actions.errors import UserError
from muster.api.status import ApiError
from muster.cli.terminal.output import say


async def attempt(what: str, work: Awaitable[object], say: Callable[[str], None] = say) -> bool:
    """Whether the work succeeded; why it did not is said, with `what` in front.

    A server that cannot be reached is the failure of all of them: its `TransportError` ends the command.
    """
    try:
        await work
    except (ApiError, UserError) as error:
        say(f"Error: {what}: {error}")
    except click.ClickException as error:
        say(f"Error: {what}: {error.message}")
    else:
        return True
    return False


async def each(names: Sequence[str], act: Callable[[str], Awaitable[object]]) -> None:
    """Do it for every name, once. Raises `click.exceptions.Exit` with code 1 if it failed for any."""
    done = [await attempt(name, act(name)) for name in dict.fromkeys(names)]
    if not all(done):
        raise click.exceptions.Exit(1)
