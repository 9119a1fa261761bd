"""Show the output of a command on a whole terminal, and refresh it whenever the cluster changes."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from muster.actions.server import session
from muster.actions.server.session import Session, Target
from muster.actions.watching import Watch
from muster.api.kinds import Kind
from muster.api.status import ApiError
from muster.cli.terminal.screen import Screen, watch_for_exit
from muster.runtime.ids import Random
from muster.runtime.realclock import RealClock
from muster.runtime.tasks import run_until_first
from muster.runtime.transport import TransportError

# Returns the current text. It passes remarks to its argument.
Picture: TypeAlias = Callable[[Session, Callable[[str], None]], Awaitable[str]]


async def show(target: Target, title: str, kinds: Sequence[Kind[Any]], picture: Picture, *, everywhere: bool) -> None:
    """Show a text on the whole terminal until the user leaves; draw it again whenever objects of these kinds change.

    An error before the first text is raised; a later error is shown as a note below the text. Raises `SystemExit` if
    the user leaves by a signal other than Ctrl-C.

    title: the text of the first line.
    picture: returns the text.
    everywhere: whether to watch all namespaces.
    """
    with Screen() as screen:
        async with session.connect(target, screen.note) as connected:
            where = "" if everywhere else connected.namespace
            watch = Watch(connected.client, RealClock(), Random(), kinds, where)

            async def look() -> None:
                notes: dict[str, None] = {}
                if connected.unused_home is not None:
                    notes[connected.describe_cluster()] = None
                try:
                    text = await picture(connected, notes.setdefault)
                except (ApiError, TransportError) as error:
                    if screen.is_empty:
                        raise
                    note = session.describe_outage(target, error) if isinstance(error, TransportError) else error
                    screen.note(f"{_format_time()}  {note}")
                else:
                    screen.show(f"{title}   {_format_time()}   q: leave", text, "; ".join(notes))

            def resized() -> None:
                screen.draw()
                watch.look_again()

            with watch_for_exit(resized) as left:
                await run_until_first(watch.run(look), _wait_until_left(left))
    if left.done() and left.result():
        raise SystemExit(128 + left.result())


async def _wait_until_left(left: asyncio.Future[int]) -> None:
    await left


def _format_time() -> str:
    return f"{RealClock().now().astimezone():%H:%M:%S}"
