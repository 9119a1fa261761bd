"""Limit the number of open event streams per viewer, and end the streams of viewers who are no longer signed in."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import msgspec

from muster.cluster.apiserver.answers import Stream
from muster.dashboard.viewing.hosts import Viewer
from muster.dashboard.viewing.sessions import Session, Sessions
from muster.dashboard.visits import PageError

# The maximum number of open pages and outputs of one viewer. A browser opens at most six to one server at a time.
_MOST_STREAMS = 100
# The event that makes a page reopen its stream.
_AGAIN = b"event: again\ndata:\n\n"


class OpenStreams:
    """A counter of the open streams of each viewer of one dashboard."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._streams: Counter[str] = Counter()  # the number of open streams, by the key of the viewer

    def count(self, viewer: Viewer, session: Session, stream: Stream, seconds: float | None = None) -> Stream:
        """Return a stream that counts as one of the viewer's streams while it is read, and that ends with the session.

        seconds: the seconds after which the browser has to reopen it, so that a proxy in front authenticates the viewer
        again; None for never.

        Raises `PageError` (429) if the viewer has too many streams.
        """
        if self._streams[viewer.key] >= _MOST_STREAMS:
            raise PageError("Too many pages are open", f"Close some of your {_MOST_STREAMS} open pages.", 429)

        async def pass_on() -> AsyncIterator[bytes]:
            ends = None if seconds is None else asyncio.get_running_loop().time() + seconds
            self._streams[viewer.key] += 1
            try:
                async for chunk in stream.chunks:
                    if not self._sessions.is_open(session):
                        return
                    yield chunk
                    if ends is not None and asyncio.get_running_loop().time() >= ends:
                        yield _AGAIN
                        return
            finally:
                self._streams[viewer.key] -= 1
                self._streams += Counter()  # drops viewers without a stream
                await stream.close()

        return msgspec.structs.replace(stream, chunks=pass_on())
