"""Send changes to open pages: a stream of server-sent events per tab, and one rendering for all tabs of a page.

A screen knows how to render a page and which tabs show it. `boards` decides when to render.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec

from muster.api.status import ApiError
from muster.dashboard.pieces import Shown, find_changes
from muster.dashboard.refusals import explain_error
from muster.dashboard.visits import PageError
from muster.runtime.transport import TransportError

# The timeout of a rendering in seconds; a slower page waits for a server that does not respond.
_RENDER_SECONDS = 10.0
_HEARTBEAT_SECONDS = 5.0
_MOST_WAITING = 4  # events per slow reader; beyond that the reader gets the whole page instead

log = logging.getLogger(__name__)

Render = Callable[[], Awaitable[str]]


class Screen:
    """An open page of one viewer, rendered once for all browser tabs that show it.

    began: called when a tab opens the page.
    find_trouble: returns what keeps the page from being up to date; "" for nothing.
    made: the time at which the screen was created, on the clock of the boards.
    revision: the revision of the viewer's lists at the last rendering.
    rendered: the time of the last rendering.
    pause: the seconds until the next rendering while few other objects change.
    """

    def __init__(self, render: Render, find_trouble: Callable[[], str], began: Callable[[], None], made: float) -> None:
        self.made = self.rendered = made
        self.revision, self.pause = -1, 0.0
        self._find_trouble = find_trouble
        self._render = render
        self._began = began
        self._watchers: set[asyncio.Queue[bytes]] = set()
        self._shown: Shown | None = None
        self._whole = b""
        self._trouble = b""  # the event with which the page reports a problem
        self._is_late = False  # whether the page shows its age

    @property
    def is_watched(self) -> bool:
        """Whether any browser tab shows the page."""
        return bool(self._watchers)

    async def follow(self) -> AsyncIterator[bytes]:
        """Yield the whole page, then its changes, as server-sent events, until the browser closes the stream."""
        waiting: asyncio.Queue[bytes] = asyncio.Queue()
        self._watchers.add(waiting)
        if self._whole:
            waiting.put_nowait(self._whole)
        if self._trouble:
            waiting.put_nowait(self._trouble)
        self._is_late = False  # so that the new tab is told about the age, too
        self._began()
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

    def say_late(self, seconds: float) -> None:
        """Tell the open tabs, once until the next rendering, that the page is outdated.

        seconds: the age of the page.
        """
        if not self._is_late:
            self._is_late = True
            self._send(_encode("late", {"seconds": seconds}))

    async def refresh(self) -> None:
        """Render the page, and send the changes to the open tabs. An error is sent as a remark."""
        try:
            async with asyncio.timeout(_RENDER_SECONDS):
                html = await self._render()
            self._publish(html, self._find_trouble())
        except TimeoutError:
            self._say_trouble(f"The API server has not answered within {_RENDER_SECONDS:.0f} s.")
        except PageError as error:
            self._say_trouble(f"{error.title}. {error.text}")
        except (ApiError, TransportError) as error:
            self._say_trouble(explain_error(error))
        except Exception:
            log.exception("a page of the dashboard cannot be rendered")
            self._say_trouble("This page cannot be shown: the server's log says why.")

    def _publish(self, html: str, trouble: str) -> None:
        """Send what has changed since the last rendering.

        trouble: a remark about what keeps the page from being up to date; "" for none.
        """
        is_over = bool(self._trouble) and not trouble
        self._shown, changed = find_changes(None if is_over else self._shown, html)
        event = _encode("trouble", {"text": trouble}) if trouble else b""
        is_new, self._trouble = event != self._trouble, event
        if changed != {}:
            self._whole = _encode("whole", {"html": html})
            self._send(self._whole if changed is None else _encode("pieces", {"html": changed}))
        elif self._is_late:
            self._send(_encode("late", {"seconds": 0.0}))
        self._is_late = False
        if event and (is_new or changed != {}):  # a page takes any change as the end of a problem
            self._send(event)

    def _say_trouble(self, text: str) -> None:
        self._trouble = _encode("trouble", {"text": text})
        self._send(self._trouble)

    def _send(self, event: bytes) -> None:
        for waiting in self._watchers:
            if waiting.qsize() >= _MOST_WAITING:  # the tab reads slowly, and only needs the newest state
                while not waiting.empty():
                    waiting.get_nowait()
                waiting.put_nowait(self._whole)
            else:
                waiting.put_nowait(event)


def _encode(name: str, data: object) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(data))
