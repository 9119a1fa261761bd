"""Keeps, for each viewer, the live copy and the open pages, for as long as the viewer has a page open."""

import asyncio
from collections.abc import Callable

from muster.dashboard.live import Render, Screen
from muster.dashboard.viewing.copy import IDLE_SECONDS, Copy
from muster.dashboard.viewing.hosts import Viewer
from muster.runtime.clock import Clock
from muster.runtime.ids import Random
from muster.runtime.tasks import cancel

# At most so many viewers have a copy at a time; the one who was away for longest makes room.
_MOST_BOARDS = 200


class Board:
    """What one viewer sees: the copy, and a screen for each address that is open."""

    def __init__(self, copy: Copy, clock: Clock) -> None:
        self.copy = copy
        self.used = clock.monotonic()
        self._clock = clock
        self._screens: dict[str, Screen] = {}

    def screen(self, address: str, render: Render) -> Screen:
        """Return the screen of an address, which renders once for all who have it open."""
        self._screens = {name: one for name, one in self._screens.items() if one.is_watched}
        if address not in self._screens:
            self._screens[address] = Screen(self.copy, render, self._clock)
        return self._screens[address]

    @property
    def is_watched(self) -> bool:
        """Whether the viewer has a page open."""
        return any(one.is_watched for one in self._screens.values())

    async def close(self) -> None:
        """End everything that the board follows."""
        for screen in self._screens.values():
            await screen.close()
        await self.copy.close()


class Boards:
    """The boards of all viewers. `sweep` drops what nobody uses, again and again."""

    def __init__(self, clock: Clock, random: Random) -> None:
        self._clock = clock
        self._random = random
        self._boards: dict[str, Board] = {}
        self._sweeping: asyncio.Task[None] | None = None

    def find(self, viewer: Viewer) -> Board:
        """Return the board of a viewer."""
        board = self._boards.get(viewer.key)
        if board is None:
            self._make_room()
            board = self._boards[viewer.key] = Board(Copy(viewer.client, self._clock, self._random), self._clock)
            if self._sweeping is None:
                self._sweeping = asyncio.create_task(self._sweep())
        board.used = self._clock.monotonic()
        return board

    async def close(self) -> None:
        """End everything."""
        if self._sweeping is not None:
            await cancel([self._sweeping])
        for board in self._boards.values():
            await board.close()
        self._boards.clear()

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


BoardOf = Callable[[Viewer], Board]
