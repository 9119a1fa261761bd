"""Sends changes to open pages: one stream of server-sent events for each, and one rendering for all who see the same.

The work is bounded. A page is rendered at most twice a second, and never more than a tenth of the time, however much
changes and however many have it open.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec

from muster.api.status import ApiError
from muster.dashboard.pieces import Shown, find_changes
from muster.dashboard.viewing.copy import Copy
from muster.dashboard.visits import PageError
from muster.runtime.clock import Clock
from muster.runtime.tasks import cancel
from muster.runtime.transport import TransportError

# The shortest time between two renderings of a page, and how many times as long as a rendering took.
_PAUSE_SECONDS, _PAUSE_FACTOR = 0.3, 9.0
# A page is rendered anew after this time without a change, for what depends on the time alone.
_STILL_SECONDS = 15.0
_HEARTBEAT_SECONDS = 5.0
_MOST_WAITING = 4  # events for a page that reads slowly; then it gets the whole page instead

log = logging.getLogger(__name__)

Render = Callable[[], Awaitable[str]]


class Screen:
    """A page as one viewer sees it, for all who have it open."""

    def __init__(self, copy: Copy, render: Render, clock: Clock) -> None:
        self._copy = copy
        self._render = render
        self._clock = clock
        self._watchers: set[asyncio.Queue[bytes]] = set()
        self._shown: Shown | None = None
        self._whole = b""
        self._trouble = b""  # the event by which the pages say that something is the matter
        self._task: asyncio.Task[None] | None = None

    @property
    def is_watched(self) -> bool:
        """Whether anybody has the page open."""
        return bool(self._watchers)

    async def follow(self) -> AsyncIterator[bytes]:
        """Yield the whole page, then what changes, as server-sent events, until the reader goes."""
        waiting: asyncio.Queue[bytes] = asyncio.Queue()
        self._watchers.add(waiting)
        if self._whole:
            waiting.put_nowait(self._whole)
        if self._trouble:
            waiting.put_nowait(self._trouble)
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        try:
            yield b"retry: 1000\n\n"
            while True:
                try:
                    async with asyncio.timeout(_HEARTBEAT_SECONDS):
                        event = await waiting.get()
                except TimeoutError:
                    event = b"event: alive\ndata:\n\n"
                yield event
        finally:
            self._watchers.discard(waiting)
            if not self._watchers and self._task is not None:
                self._task.cancel()
                self._task = None

    async def close(self) -> None:
        """Stop rendering."""
        if self._task is not None:
            await cancel([self._task])

    async def _run(self) -> None:
        """Render the page at every change."""
        revision = -1
        while True:
            began = self._clock.monotonic()
            revision = max(revision, self._copy.revision)
            try:
                self._publish(await self._render(), self._copy.trouble)
            except PageError as error:
                self._say_trouble(f"{error.title}. {error.text}")
            except (ApiError, TransportError) as error:
                self._say_trouble(str(error))
            except Exception:
                log.exception("a page of the dashboard cannot be rendered")
                self._say_trouble("This page cannot be shown: the server's log says why.")
            took = self._clock.monotonic() - began
            await self._clock.sleep(max(_PAUSE_SECONDS, took * _PAUSE_FACTOR))
            try:
                async with asyncio.timeout(_STILL_SECONDS):
                    await self._copy.wait_for_change(revision)
            except TimeoutError:
                continue

    def _publish(self, html: str, trouble: str) -> None:
        """Send what changed. trouble: what is the matter nevertheless; "" for nothing."""
        is_over = bool(self._trouble) and not trouble
        self._shown, changed = find_changes(None if is_over else self._shown, html)
        event = _encode("trouble", {"text": trouble}) if trouble else b""
        is_new, self._trouble = event != self._trouble, event
        if changed != {}:
            self._whole = _encode("whole", {"html": html})
            self._send(self._whole if changed is None else _encode("pieces", {"html": changed}))
        if event and (is_new or changed != {}):  # a page takes any change for the end of a trouble
            self._send(event)

    def _say_trouble(self, text: str) -> None:
        self._trouble = _encode("trouble", {"text": text})
        self._send(self._trouble)

    def _send(self, event: bytes) -> None:
        for waiting in self._watchers:
            if waiting.qsize() >= _MOST_WAITING:  # it reads slowly, and needs the newest only
                while not waiting.empty():
                    waiting.get_nowait()
                waiting.put_nowait(self._whole)
            else:
                waiting.put_nowait(event)


def _encode(name: str, data: object) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(data))
