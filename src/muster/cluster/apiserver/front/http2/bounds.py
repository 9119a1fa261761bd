"""What a client can have done or kept for it on one connection.

Streams at once; headers; what has come of bodies and is not read, by the windows that are opened to it; and, by our
`Patience`, what costs it nothing to send.
"""

from muster.cluster.apiserver.front.http2.frames import BadConnection, Code

# At once. kube-apiserver has 250; but programs in Go begin another connection for each request beyond it, and a TLS
# handshake costs more than what most requests ask for.
MAX_STREAMS = 5_000
MAX_GIVEN_UP = 250  # requests that are worked on though the client has given them up
MAX_HEADER_BYTES = 64 * 1024  # of a request
MAX_HEADERS_BYTES = 16 << 20  # of all that are under way
# Of a body that the application has not asked for yet; those that are read get more.
BODY_WINDOW = 16 * 1024
READ_WINDOW = 256 * 1024
# Of all bodies: those that wait never keep those that are read from coming.
WINDOW = MAX_STREAMS * BODY_WINDOW + (4 << 20)
SMALL_BYTES = 256  # a client that lets a long answer out in smaller pieces costs more than it is worth

# How often a client may send what costs it nothing and leads to nothing: requests that it takes back, pings, settings.
# What programs do of that in earnest is little: a few for each connection, one for each watch that ends.
BURST = 10_000.0  # a program may take back all the requests of a connection at once, and again
PER_SECOND = 100.0


class Patience:
    """A bucket that fills by itself."""

    def __init__(self, now: float) -> None:
        self._left = BURST
        self._at = now

    def spend(self, now: float, count: int = 1) -> None:
        """Spend so many. Raises `BadConnection` if there are none left."""
        self._left = min(BURST, self._left + (now - self._at) * PER_SECOND)
        self._at = now
        if self._left < count:
            raise BadConnection(Code.ENHANCE_YOUR_CALM, "too much that leads to nothing")
        self._left -= count
