"""Manage each viewer's open pages and local copy of the cluster's objects, and schedule the rendering of pages.

Pages are rendered in rounds; a round renders the pages that are due. The work is bounded: all viewers share 1/25 of the
time evenly, and so do the open pages of each viewer. A page that is slow to render is rendered less often. While the
cluster has more than `_CALM_CHANGES` changes per second, the server is busy with other work, and the viewers share 1/50
of the processor time that it uses instead. A page whose update is delayed for long shows its age.

The age of a page is bounded, too, and this bound takes precedence: no page pauses for longer than
`_MOST_PAUSE_SECONDS`. Pages that together take longer than 1/25 of that time for one rendering each (1.2 s) use a
larger share. The pause does not grow with the rendering time beyond that, because most of this time may be the wait for
a slow cluster, and the page would stay outdated long after the cluster has recovered.

The pages of one viewer share what they read in a round. The time for these reads is divided evenly among the pages of
the round, and a page that is due soon is rendered with the pages that are due now. Pages of equal cost thus stay in the
same round.
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

# The maximum number of viewers with a board. The viewer who has been inactive for longest is removed first.
_MOST_BOARDS = 200
# The minimum pause between two renderings of a page, and the pause as a multiple of its rendering time.
_PAUSE_SECONDS, _PAUSE_FACTOR = 0.3, 24.0
# A viewer's only open page should follow changes within a second, so it may use a tenth of the time.
_PAUSE_FACTOR_ALONE = 9.0
# The first rendering waits for lists and compiles templates, so its time does not predict later rendering times.
_FIRST_PAUSE_SECONDS = 1.0
# The maximum pause of a page, however long its rendering takes.
_MOST_PAUSE_SECONDS = 30.0
# Above this number of changes per second, pauses are multiplied by this factor for a server that uses one CPU core.
_CALM_CHANGES, _BUSY_STRETCH = 100.0, 2.0
_CALMED_PART = 0.5  # calm starts again below this part of the limit, so that one slow second does not count
_LEAST_BUSY = 0.05  # a server that uses less of a CPU core is slow because others use the machine
# The interval in which changes are counted for that. After a burst, the pages are rendered immediately.
_COUNTING_SECONDS = 1.0
# A page with changes that are not shown yet displays its age above this number of seconds.
_LATE_SECONDS = 2.0
# A page is rendered early with others if at most this part of its pause is left, which is added to its next pause.
_EARLY_PART = 0.5
_ROUND_SECONDS = 0.1  # the minimum time between two rounds
# The maximum time between the request for a page's changes and the start of its stream.
_OPENING_SECONDS = 60.0
# A page is rendered again after this time without a change, because some values depend only on the time.
_STILL_SECONDS = 15.0


class Board:
    """One viewer's open pages: a copy of the cluster objects they show, and a screen for each address."""

    def __init__(self, copy: Copy, clock: Clock, news: asyncio.Event, processor: Callable[[], float]) -> None:
        self.copy = copy
        self.used = clock.monotonic()
        self._clock = clock
        self._news = news
        self._screens: dict[str, Screen] = {}
        self._kept_back: list[Screen] = []  # the screens that have changed but are not due
        self._processor = processor
        self._counted, self._counted_at = 0, self.used  # the revision of the copy at the last count
        self._processed = processor()  # the processor seconds at the last count
        self._stretch = 1.0  # the factor of all pauses

    def screen(self, address: str, render: Render) -> Screen:
        """Return the screen for an address, which is rendered once for all browser tabs that show it.

        The screen is created if it does not exist. Screens without a browser tab are dropped after some time.
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
        """The screens that are open in at least one browser tab."""
        return [one for one in self._screens.values() if one.is_watched]

    def choose(self) -> list[Screen]:
        """Return the open screens that have changed and may be rendered now.

        A changed screen whose rendering is delayed for long shows its age.
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
        """Return the time at which to choose screens again, on the monotonic clock."""
        now = self._clock.monotonic()
        soonest = min(map(self._find_due, self._kept_back), default=now + _STILL_SECONDS)
        return min(soonest, now + _COUNTING_SECONDS) if self._kept_back else soonest

    async def refresh(self, due: Sequence[Screen], share: int) -> None:
        """Render these screens, send their changes, and set the length of each screen's next pause.

        share: the number of equal parts of the time for rendering, of which each of these screens gets one.
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
        """Set the factor of all pauses from the changes per second and the processor use of the server.

        Does nothing within `_COUNTING_SECONDS` of the last count.
        """
        if (seconds := now - self._counted_at) < _COUNTING_SECONDS:
            return
        processed, most = self._processor(), _CALM_CHANGES * (1.0 if self._stretch == 1.0 else _CALMED_PART)
        is_calm = revision - self._counted <= most * seconds
        busy = max((processed - self._processed) / seconds, _LEAST_BUSY)
        self._stretch = 1.0 if is_calm else max(1.0, _BUSY_STRETCH / busy)
        self._counted, self._counted_at, self._processed = revision, now, processed

    def _find_due(self, screen: Screen, part: float = 1.0) -> float:
        """Return the time at which `part` of a screen's pause has passed, on the monotonic clock."""
        return screen.rendered + part * min(screen.pause * self._stretch, _MOST_PAUSE_SECONDS)

    async def _render(self, screen: Screen) -> float:
        """Render a screen; return the seconds that this took, without the work that other screens share."""
        began, shared = self._clock.monotonic(), self.copy.sharing_seconds
        await self._clock.sleep(0)  # the wait counts, so that a busy server renders less often
        await screen.refresh()
        return self._clock.monotonic() - began - (self.copy.sharing_seconds - shared)

    async def close(self) -> None:
        """Stop the watches of the viewer's lists."""
        await self.copy.close()


class Boards:
    """The boards of all viewers, and the tasks that render them. Unused boards are dropped.

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
        """Return the board of a viewer, and create it if it does not exist.

        The first board starts the rendering tasks.
        """
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
        """Return the lists that all viewers share; None if each viewer's lists are watched separately."""
        if self._lists is None and viewer.follower is not None:
            self._lists = Lists(viewer.follower, self._clock, self._random, has_all_rights=True)
        return self._lists if viewer.follower is not None else None

    async def close(self) -> None:
        """Stop the rendering tasks, and close all boards."""
        await cancel(self._tasks)
        for board in self._boards.values():
            await board.close()
        self._boards.clear()

    async def _render(self) -> None:
        """Render screens in rounds forever.

        A round begins after a change, when a screen that changed earlier is due, or after `_STILL_SECONDS`.
        """
        next_due = self._clock.monotonic() + _STILL_SECONDS
        while True:
            try:
                async with asyncio.timeout(max(next_due - self._clock.monotonic(), _ROUND_SECONDS)):
                    await self._news.wait()
            except TimeoutError:
                pass  # a page is due, or is rendered again because values depend on the time
            self._news.clear()
            boards = [*self._boards.values()]
            viewers = sum(bool(board.watched) for board in boards)
            due = [(board, screens) for board in boards if (screens := board.choose())]
            if due:
                # Viewers share the time for rendering equally, and so do the screens of each viewer.
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
