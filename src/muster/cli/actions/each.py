"""Acts on several names: a failure is printed, and the other names are still acted on."""

from collections.abc import Awaitable, Callable, Sequence

import click

from muster.actions.errors import UserError
from muster.api.status import ApiError
from muster.cli.terminal.output import say


async def attempt(what: str, work: Awaitable[object], say: Callable[[str], None] = say) -> bool:
    """Return whether the work succeeded; print an error with `what` in front.

    A server that cannot be reached fails all names: its `TransportError` ends the command.
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
    """Act on every name once. Raises `click.exceptions.Exit` with code 1 if any failed."""
    successes = [await attempt(name, act(name)) for name in dict.fromkeys(names)]
    if not all(successes):
        raise click.exceptions.Exit(1)
