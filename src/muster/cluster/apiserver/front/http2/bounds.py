"""The limits on what one connection of HTTP/2 may cost the server.

The limits cover open streams, headers, and unread bodies (by the windows that the server opens). `Patience` limits
frames that cost the client nothing and the server some work.
"""

from muster.cluster.apiserver.front.http2.frames import BadConnection, Code

# Streams open at once. kube-apiserver allows 250, but a Go client opens another connection for each request beyond the
# limit, and a TLS handshake costs more than most requests.
MAX_STREAMS = 5_000
MAX_RESET_RUNNING = 250  # requests that the application still works on after the client has reset them
MAX_HEADER_BYTES = 64 * 1024  # the limit of one request
MAX_HEADERS_BYTES = 16 << 20  # the limit for the sum of all open streams
BODY_WINDOW = 16 * 1024  # the window of a body that the application does not read yet
READ_WINDOW = 256 * 1024  # the window of a body that the application reads
# The window of the connection, for all bodies. Unread bodies can never fill the part for bodies that are read.
WINDOW = MAX_STREAMS * BODY_WINDOW + (4 << 20)
SMALL_BYTES = 256  # smaller pieces of a long body or response cost patience
UPDATE_BYTES = 4 * 1024  # the bytes that a Go client with small reads (`kubectl logs`) takes between two window updates

# The budget for frames that cost a client nothing: resets, pings, settings. Honest clients send few of them, some for
# each connection and one for each watch that finishes.
BURST = 10_000.0  # a client may reset all the requests of a connection at once, twice
PER_SECOND = 100.0


class Patience:
    """A token bucket that limits how many useless frames one client may send."""

    def __init__(self, now: float) -> None:
        self._left = BURST
        self._at = now

    def spend(self, now: float, count: int = 1) -> None:
        """Take `count` tokens from the bucket. Raises `BadConnection` if fewer are left."""
        self._left = min(BURST, self._left + (now - self._at) * PER_SECOND)
        self._at = now
        if self._left < count:
            raise BadConnection(Code.ENHANCE_YOUR_CALM, "too much that leads to nothing")
        self._left -= count
