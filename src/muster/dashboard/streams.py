"""Bound the streams of events that viewers have open, and end those whose viewer is no longer signed in."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import msgspec

from muster.cluster.apiserver.answers import Stream
from muster.dashboard.viewing.hosts import Viewer
from muster.dashboard.viewing.sessions import Session, Sessions
from muster.dashboard.visits import PageError

# Open pages and outputs of one viewer. A browser opens six to one server at a time.
_MOST_STREAMS = 100
# The event that lets a page open its stream anew.
_AGAIN = b"event: again\ndata:\n\n"


class OpenStreams:
    """The counter of the open streams of each viewer of one dashboard."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._streams: Counter[str] = Counter()  # that are open, by the key of the viewer

    def count(self, viewer: Viewer, session: Session, stream: Stream, seconds: float | None = None) -> Stream:
        """Return a stream that counts among those of its viewer while it is read, and ends with the session.

        seconds: after which the browser has to open it again, so that a proxy in front checks the viewer again; None
        for never. Raises `PageError` (429) if the viewer has too many streams.
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
                self._streams += Counter()  # forgets viewers without a stream
                await stream.close()

        return msgspec.structs.replace(stream, chunks=pass_on())
