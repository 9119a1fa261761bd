"""Keep, for each viewer, the live copy and the open pages, for as long as the viewer has a page open.

The pages of all viewers are rendered in rounds, each with the pages that are due. The work is bounded: the viewers
share a 25th of the time evenly, and so do the open pages of each. A page that takes long is rendered less often.
While more changes than `_CALM_CHANGES` come in a second, the server has other work, and the viewers share a 50th of the
processor time that it uses instead. A page that is kept back for long says how old it is.

The age of a page is bounded, too, and this bound comes before that of the work: no page pauses for longer than
`_MOST_PAUSE_SECONDS`. Pages that together take longer than a 25th of that time for one rendering of each (1.2 s) use a
larger part. A pause cannot grow with the time that such a page takes, because most of that may be the wait for a
cluster that answers slowly, and the page would stay old long after the cluster has recovered.

The pages of one viewer share what they read in a round. The time for that counts evenly for the pages of the round, and
a page that is due soon is rendered with those that are due now. Pages that cost the same thus stay together.
"""

import asyncio
from collections.abc import Callable, Sequence

from muster.dashboard.live import Render, Screen
from muster.dashboard.viewing.copy import IDLE_SECONDS, Copy
from muster.dashboard.viewing.hosts import Viewer
from muster.dashboard.viewing.lists import Lists
from muster.runtime.clock import Clock, process_seconds
from muster.runtime.ids import Random
from muster.runtime.tasks import cancel

# At most so many viewers have a copy at a time; the one who was away for longest makes room.
_MOST_BOARDS = 200
# The shortest time between two renderings of a page; or so many times as long as one took, for each open page.
_PAUSE_SECONDS, _PAUSE_FACTOR = 0.3, 24.0
# A page that is the only open one follows changes within a second, so it gets a tenth.
_PAUSE_FACTOR_ALONE = 9.0
# The first rendering waits for lists and compiles templates, so it does not tell what the next ones take.
_FIRST_PAUSE_SECONDS = 1.0
# A page that takes long, or whose cluster answers slowly, is not kept still for longer.
_MOST_PAUSE_SECONDS = 30.0
# With more changes in a second than this, the pauses are so many times as long for a server that uses a whole core.
_CALM_CHANGES, _BUSY_STRETCH = 100.0, 2.0
_CALMED_PART = 0.5  # of these changes end it, so that a second in which a busy machine does little is no calm
_LEAST_BUSY = 0.05  # a server that uses less of a core takes long for each change because others use the machine
# The changes of so many seconds are counted for that. After a burst the pages are rendered at once.
_COUNTING_SECONDS = 1.0
# A page with changes that are not shown says so when it is older than this.
_LATE_SECONDS = 2.0
# A page is rendered with others if no more than this part of its pause is left, which is added to its next pause.
_EARLY_PART = 0.5
_ROUND_SECONDS = 0.1  # the shortest time between two rounds
# From the request for the changes of a page to its stream.
_OPENING_SECONDS = 60.0
# A page is rendered anew after this time without a change, for what depends on the time alone.
_STILL_SECONDS = 15.0


class Board:
    """The pages that one viewer has open: the viewer's lists, and a screen for each open address."""

    def __init__(self, copy: Copy, clock: Clock, news: asyncio.Event, processor: Callable[[], float]) -> None:
        self.copy = copy
        self.used = clock.monotonic()
        self._clock = clock
        self._news = news
        self._screens: dict[str, Screen] = {}
        self._kept_back: list[Screen] = []  # those that changed and are not due
        self._processor = processor
        self._counted, self._counted_at = 0, self.used  # the revision of the copy at a time
        self._processed = processor()  # at the same time
        self._stretch = 1.0  # the factor of all pauses

    def screen(self, address: str, render: Render) -> Screen:
        """Return the screen of an address, which renders once for all browser tabs that have it open.

        A screen is created if there is none; screens without a watching browser are dropped.
        """
        now = self._clock.monotonic()
        # Whoever asked for a screen just now is about to watch it.
        self._screens = {
            name: one for name, one in self._screens.items() if one.is_watched or now - one.made < _OPENING_SECONDS
        }
        if address not in self._screens:
            self._screens[address] = Screen(render, lambda: self.copy.trouble, self._news.set, now)
        return self._screens[address]

    @property
    def watched(self) -> list[Screen]:
        """The screens that at least one browser tab has open."""
        return [one for one in self._screens.values() if one.is_watched]

    def choose(self) -> list[Screen]:
        """Return the watched screens that have changed and may be rendered now.

        A screen that has changed but must wait for long tells its pages that they are old.
        """
        now, revision = self._clock.monotonic(), self.copy.revision
        changed = [one for one in self.watched if one.revision != revision or now - one.rendered >= _STILL_SECONDS]
        self._count_changes(now, revision)
        due = []
        if any(self._find_due(one) <= now for one in changed):
            due = [one for one in changed if self._find_due(one, 1 - _EARLY_PART) <= now]
        self._kept_back = [one for one in changed if one not in due]
        for screen in self._kept_back:
            if now - screen.rendered > _LATE_SECONDS:
                screen.say_late(now - screen.rendered)
        return due

    def find_next(self) -> float:
        """Return when the next screen may be rendered, on the monotonic clock."""
        now = self._clock.monotonic()
        soonest = min(map(self._find_due, self._kept_back), default=now + _STILL_SECONDS)
        return min(soonest, now + _COUNTING_SECONDS) if self._kept_back else soonest

    async def refresh(self, due: Sequence[Screen], share: int) -> None:
        """Render these screens, send their changes, and set how long each then pauses.

        share: how many viewers' boards share the processor; a pause is longer with several.
        """
        now, revision, before = self._clock.monotonic(), self.copy.revision, self.copy.sharing_seconds
        self.copy.begin_round()
        own_seconds = [await self._render(screen) for screen in due]
        ended, shared_seconds = self._clock.monotonic(), self.copy.sharing_seconds - before
        for screen, seconds in zip(due, own_seconds, strict=True):
            cost = seconds + shared_seconds / len(due)
            pause = cost * (_PAUSE_FACTOR * share if share > 1 else _PAUSE_FACTOR_ALONE)
            if screen.revision < 0:
                pause = min(pause, _FIRST_PAUSE_SECONDS)
            early = max(0.0, self._find_due(screen) - now) / self._stretch
            screen.pause = min(max(_PAUSE_SECONDS, pause) + early, _MOST_PAUSE_SECONDS)
            screen.revision, screen.rendered = revision, ended

    def _count_changes(self, now: float, revision: int) -> None:
        """Set the factor of all pauses from the changes a second and the processor use of the server.

        Do nothing until some seconds have passed since the last time.
        """
        if (seconds := now - self._counted_at) < _COUNTING_SECONDS:
            return
        processed, most = self._processor(), _CALM_CHANGES * (1.0 if self._stretch == 1.0 else _CALMED_PART)
        is_calm = revision - self._counted <= most * seconds
        busy = max((processed - self._processed) / seconds, _LEAST_BUSY)
        self._stretch = 1.0 if is_calm else max(1.0, _BUSY_STRETCH / busy)
        self._counted, self._counted_at, self._processed = revision, now, processed

    def _find_due(self, screen: Screen, part: float = 1.0) -> float:
        """Return when a part of a screen's pause will have passed, on the monotonic clock."""
        return screen.rendered + part * min(screen.pause * self._stretch, _MOST_PAUSE_SECONDS)

    async def _render(self, screen: Screen) -> float:
        """Render a screen; return the seconds that this took, without work whose result other screens share."""
        began, shared = self._clock.monotonic(), self.copy.sharing_seconds
        await self._clock.sleep(0)  # waiting for a busy server counts: its pages are rendered less often
        await screen.refresh()
        return self._clock.monotonic() - began - (self.copy.sharing_seconds - shared)

    async def close(self) -> None:
        """End the watches of the viewer's lists."""
        await self.copy.close()


class Boards:
    """The boards of all viewers, and the tasks that render them. Boards that no viewer uses are dropped.

    processor: returns the seconds of processor time that the server has used.
    """

    def __init__(self, clock: Clock, random: Random, processor: Callable[[], float] = process_seconds) -> None:
        self._clock = clock
        self._processor = processor
        self._random = random
        self._boards: dict[str, Board] = {}
        self._lists: Lists | None = None
        self._news = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def find(self, viewer: Viewer) -> Board:
        """Return the board of a viewer, and create it if there is none; the first one starts the tasks that render."""
        board = self._boards.get(viewer.key)
        if board is None:
            self._make_room()
            copy = Copy(viewer.client, self._clock, self._random, self._news.set, self._find_lists(viewer))
            board = self._boards[viewer.key] = Board(copy, self._clock, self._news, self._processor)
            if not self._tasks:
                self._tasks = [asyncio.create_task(self._render()), asyncio.create_task(self._sweep())]
        board.used = self._clock.monotonic()
        return board

    def has(self, viewer: Viewer) -> bool:
        """Return whether a viewer has a board."""
        return viewer.key in self._boards

    def _find_lists(self, viewer: Viewer) -> Lists | None:
        """Return the lists that all viewers share; None if each viewer's lists are followed separately."""
        if self._lists is None and viewer.follower is not None:
            self._lists = Lists(viewer.follower, self._clock, self._random, has_all_rights=True)
        return self._lists if viewer.follower is not None else None

    async def close(self) -> None:
        """Stop the tasks that render, and close all boards."""
        await cancel(self._tasks)
        for board in self._boards.values():
            await board.close()
        self._boards.clear()

    async def _render(self) -> None:
        """Render screens in rounds, for ever: after a change, or when a screen that changed before is due."""
        next_due = self._clock.monotonic() + _STILL_SECONDS
        while True:
            try:
                async with asyncio.timeout(max(next_due - self._clock.monotonic(), _ROUND_SECONDS)):
                    await self._news.wait()
            except TimeoutError:
                pass  # a page is due, or is rendered anew for what depends on the time alone
            self._news.clear()
            boards = [*self._boards.values()]
            viewers = sum(bool(board.watched) for board in boards)
            due = [(board, screens) for board in boards if (screens := board.choose())]
            if due:
                await asyncio.gather(*(one.refresh(screens, viewers * len(one.watched)) for one, screens in due))
            next_due = min((one.find_next() for one in boards), default=self._clock.monotonic() + _STILL_SECONDS)
            await self._clock.sleep(_ROUND_SECONDS)

    def _make_room(self) -> None:
        idle = [key for key, board in self._boards.items() if not board.watched]
        if len(self._boards) >= _MOST_BOARDS and idle:
            oldest = self._boards.pop(min(idle, key=lambda key: self._boards[key].used))
            asyncio.get_running_loop().create_task(oldest.close())

    async def _sweep(self) -> None:
        while True:
            await self._clock.sleep(IDLE_SECONDS / 2)
            for key, board in [*self._boards.items()]:
                follows = await board.copy.drop_idle()
                if not follows and not board.watched and self._clock.monotonic() - board.used > IDLE_SECONDS:
                    if self._boards.get(key) is board:
                        del self._boards[key]
                    await board.close()
