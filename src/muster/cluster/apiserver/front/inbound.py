"""Hold a request for a handler in a form that is independent of the protocol.

Handlers are small servers and pages.
"""

from collections.abc import Mapping

from muster.cluster.apiserver.front.asgi import Caller, Scope, get_text, query_of
from muster.cluster.apiserver.front.incoming import Body
from muster.cluster.apiserver.identity.users import User


class InboundRequest:
    """A request for a handler.

    user: the user in the client certificate that the TLS layer has checked; None without one.
    headers: the headers, with names in lower case.
    """

    def __init__(self, scope: Scope, headers: Mapping[bytes, bytes], caller: Caller, body: Body) -> None:
        """Parse a request. Raises `ApiError` (400) for an unreadable query."""
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query = query_of(scope["query_string"])
        self.headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
        self.user: User | None = caller.user
        self.is_secure = caller.slot.is_secure
        self.length = body.length
        self.read = body.read
        self._by_name = headers

    def header(self, name: str) -> str:
        """Return a header by its lower-case name; "" if it is missing."""
        return get_text(self._by_name, name.encode())
