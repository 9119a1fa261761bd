"""Act on several names. A failure is printed, and the command continues with the other names."""

from collections.abc import Awaitable, Callable, Sequence

import click

from muster.actions.errors import UserError
from muster.api.status import ApiError
from muster.cli.terminal.output import say


async def try_and_say(what: str, work: Awaitable[object], say: Callable[[str], None] = say) -> bool:
    """Await `work`, and print an error with `what` before it. Return whether `work` succeeded.

    A `TransportError` is raised, because the server cannot be reached for the other names either.
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


async def act_on_each(names: Sequence[str], act: Callable[[str], Awaitable[object]]) -> None:
    """Call `act` for each name once, in order, also after failures, which are printed.

    Raises `click.exceptions.Exit` with code 1 if any failed, and `TransportError` at once.
    """
    successes = [await try_and_say(name, act(name)) for name in dict.fromkeys(names)]
    if not all(successes):
        raise click.exceptions.Exit(1)
