"""Shows what a command says of a cluster on the whole of a terminal, anew whenever that changes."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from muster.actions import session
from muster.actions.session import Session, Target
from muster.actions.watching import Watch
from muster.api.kinds import Kind
from muster.api.status import ApiError
from muster.cli.terminal.screen import Screen, told
from muster.runtime.clock import RealClock
from muster.runtime.ids import Random
from muster.runtime.tasks import first
from muster.runtime.transport import TransportError

# The text, as it is now; what is to be said besides goes to the callable.
Picture: TypeAlias = Callable[[Session, Callable[[str], None]], Awaitable[str]]


async def show(target: Target, what: str, kinds: Sequence[Kind[Any]], picture: Picture, *, everywhere: bool) -> None:
    """Show it until the user leaves. Raises what goes wrong before the first picture; later it is a note below it."""
    with Screen() as screen:
        async with session.connect(target, screen.note) as connected:
            where = "" if everywhere else connected.namespace
            watch = Watch(connected.client, RealClock(), Random(), kinds, where)

            async def look() -> None:
                notes: dict[str, None] = {}
                try:
                    text = await picture(connected, notes.setdefault)
                except (ApiError, TransportError) as error:
                    if screen.is_empty:
                        raise
                    screen.note(f"{_time()}  {error}")
                else:
                    screen.show(f"{what}   {_time()}   q: leave", text, "; ".join(notes))

            def resized() -> None:
                screen.draw()
                watch.look_again()

            with told(resized) as left:
                await first(watch.run(look), _until(left))
    if left.done() and left.result():
        raise SystemExit(128 + left.result())


async def _until(left: asyncio.Future[int]) -> None:
    await left


def _time() -> str:
    return f"{RealClock().now().astimezone():%H:%M:%S}"
