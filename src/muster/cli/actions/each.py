"""Act on several names. A failure is printed, and the command continues with the other names."""

from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import aclosing
from typing import Any

import click

from muster.actions.errors import UserError
from muster.api.status import ApiError
from muster.cli.terminal.output import say
from muster.runtime.eventloop import ensure_loop
from muster.runtime.kube.requests import MAX_CONCURRENT_REQUESTS

# The most objects that a command changes at a time. The server stores changes of the same moment in one write.
AT_ONCE = MAX_CONCURRENT_REQUESTS
# Names that are acted on one after the other, because the import of asyncio takes as long.
_FEW = 8


async def try_and_say(prefix: str, work: Awaitable[object], say: Callable[[str], None] = say) -> bool:
    """Await `work`, and print an error with `prefix` before it. Return whether `work` succeeded.

    A `TransportError` is raised, because the server cannot be reached for the other names either.
    """
    try:
        await work
    except (ApiError, UserError) as error:
        say(f"Error: {prefix}: {error}")
    except click.ClickException as error:
        say(f"Error: {prefix}: {error.message}")
    else:
        return True
    return False


async def act_on_each(names: Iterable[str], act: Callable[[str], Coroutine[Any, Any, str]]) -> None:
    """Call `act` once for each name; print the outcomes and failures in the order of the names.

    More than `_FEW` names are acted on concurrently, at most `AT_ONCE` at a time. Raises `click.exceptions.Exit` with
    code 1 if any name failed, and `TransportError` after the outcomes of the names before.
    """
    each = list(dict.fromkeys(names))

    async def report(acting: Awaitable[str]) -> None:
        click.echo(await acting)

    works = (try_and_say(name, report(act(name))) for name in each)
    if len(each) <= _FEW:
        successes = [await work for work in works]
    else:
        await ensure_loop()
        from muster.runtime.tasks import yield_ended_in_order  # imports asyncio

        async with aclosing(yield_ended_in_order(works, AT_ONCE)) as ended:
            successes = [task.result() async for task in ended]
    if not all(successes):
        raise click.exceptions.Exit(1)
