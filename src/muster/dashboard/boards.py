"""Keeps, for each viewer, the live copy and the open pages, for as long as the viewer has a page open.

The pages of all viewers are rendered in rounds. The work is bounded: a round takes what has changed since the last one,
and rounds take a tenth of the time at most, however much changes and however many pages are open.
"""

import asyncio

from muster.dashboard.live import Render, Screen
from muster.dashboard.viewing.copy import IDLE_SECONDS, Copy
from muster.dashboard.viewing.hosts import Viewer
from muster.runtime.clock import Clock
from muster.runtime.ids import Random
from muster.runtime.tasks import cancel

# At most so many viewers have a copy at a time; the one who was away for longest makes room.
_MOST_BOARDS = 200
# The shortest time between two rounds, and how many times as long as a round took.
_PAUSE_SECONDS, _PAUSE_FACTOR = 0.3, 9.0
# A cluster that answers slowly does not keep its pages still for longer.
_MOST_PAUSE_SECONDS = 5.0
# From the request for the changes of a page to its stream.
_OPENING_SECONDS = 60.0
# A page is rendered anew after this time without a change, for what depends on the time alone.
_STILL_SECONDS = 15.0


class Board:
    """What one viewer sees: the copy, and a screen for each address that is open."""

    def __init__(self, copy: Copy, clock: Clock, news: asyncio.Event) -> None:
        self.copy = copy
        self.used = clock.monotonic()
        self._clock = clock
        self._news = news
        self._screens: dict[str, Screen] = {}
        self._revision = -1  # of the copy, as the last round had it
        self._rendered = clock.monotonic()

    def screen(self, address: str, render: Render) -> Screen:
        """Return the screen of an address, which renders once for all who have it open."""
        now = self._clock.monotonic()
        # Whoever asked for a screen just now is about to watch it.
        self._screens = {
            name: one for name, one in self._screens.items() if one.is_watched or now - one.made < _OPENING_SECONDS
        }
        if address not in self._screens:
            self._screens[address] = Screen(render, lambda: self.copy.trouble, self._news.set, now)
        return self._screens[address]

    @property
    def is_watched(self) -> bool:
        """Whether the viewer has a page open."""
        return any(one.is_watched for one in self._screens.values())

    async def refresh(self) -> None:
        """Render the open pages that may have changed since the last time."""
        revision, now = self.copy.revision, self._clock.monotonic()
        has_changed = revision != self._revision or now - self._rendered > _STILL_SECONDS
        screens = [one for one in self._screens.values() if one.is_watched and (has_changed or one.is_fresh)]
        if not screens:
            return
        if has_changed:
            self._revision, self._rendered = revision, now
            self.copy.begin_round()
        for screen in screens:
            await screen.refresh()

    async def close(self) -> None:
        """End everything that the board follows."""
        await self.copy.close()


class Boards:
    """The boards of all viewers. Those that nobody uses are dropped."""

    def __init__(self, clock: Clock, random: Random) -> None:
        self._clock = clock
        self._random = random
        self._boards: dict[str, Board] = {}
        self._news = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def find(self, viewer: Viewer) -> Board:
        """Return the board of a viewer."""
        board = self._boards.get(viewer.key)
        if board is None:
            self._make_room()
            copy = Copy(viewer.client, self._clock, self._random, self._news.set)
            board = self._boards[viewer.key] = Board(copy, self._clock, self._news)
            if not self._tasks:
                self._tasks = [asyncio.create_task(self._render()), asyncio.create_task(self._sweep())]
        board.used = self._clock.monotonic()
        return board

    async def close(self) -> None:
        """End everything."""
        await cancel(self._tasks)
        for board in self._boards.values():
            await board.close()
        self._boards.clear()

    async def _render(self) -> None:
        """Render in rounds, whenever something has changed."""
        while True:
            try:
                async with asyncio.timeout(_STILL_SECONDS):
                    await self._news.wait()
            except TimeoutError:
                pass  # ages and forecasts go on without a change
            self._news.clear()
            began = self._clock.monotonic()
            await asyncio.gather(*(board.refresh() for board in self._boards.values()))
            took = self._clock.monotonic() - began
            await self._clock.sleep(min(max(_PAUSE_SECONDS, took * _PAUSE_FACTOR), _MOST_PAUSE_SECONDS))

    def _make_room(self) -> None:
        idle = [key for key, board in self._boards.items() if not board.is_watched]
        if len(self._boards) >= _MOST_BOARDS and idle:
            oldest = self._boards.pop(min(idle, key=lambda key: self._boards[key].used))
            asyncio.get_running_loop().create_task(oldest.close())

    async def _sweep(self) -> None:
        while True:
            await self._clock.sleep(IDLE_SECONDS / 2)
            for key, board in [*self._boards.items()]:
                follows = await board.copy.drop_idle()
                if not follows and not board.is_watched and self._clock.monotonic() - board.used > IDLE_SECONDS:
                    del self._boards[key]
                    await board.close()
