"""Act on several names. A failure is printed, and the command continues with the other names."""

from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import aclosing
from typing import Any

import click

from muster.actions.errors import UserError
from muster.api.status import ApiError
from muster.cli.terminal.output import say
from muster.runtime.eventloop import ensure_loop

# The most requests for different objects that a command sends at a time. The server stores those of a moment together.
AT_ONCE = 64
# Names that are acted on one after the other, because the import of asyncio takes as long.
_FEW = 8


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


async def act_on_each(names: Iterable[str], act: Callable[[str], Coroutine[Any, Any, str]]) -> None:
    """Call `act` for each name once, for several at a time, and print the outcomes in order; failures are printed, too.

    Raises `click.exceptions.Exit` with code 1 if any failed, and `TransportError` at once.
    """
    each = list(dict.fromkeys(names))

    async def report(acting: Awaitable[str]) -> None:
        click.echo(await acting)

    if len(each) <= _FEW:
        successes = [await try_and_say(name, report(act(name))) for name in each]
    else:
        await ensure_loop()
        from muster.runtime.tasks import yield_ended_in_order  # imports asyncio

        async with aclosing(yield_ended_in_order(map(act, each), AT_ONCE)) as ended:
            titles = iter(each)
            successes = [await try_and_say(next(titles), report(acting)) async for acting in ended]
    if not all(successes):
        raise click.exceptions.Exit(1)
