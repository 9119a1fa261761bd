"""Route the requests of a small HTTP server: find the handler of a path, and answer with its result or error.

It serves one method and keeps no state. The listener handles connections, limits and timeouts.
"""

from collections.abc import Awaitable, Callable, Mapping

from muster.api.status import ApiError
from muster.cluster.apiserver.answers import Stream
from muster.cluster.apiserver.front.asgi import AUDIT_ID, EXTENSION, Caller, Receive, Scope, Send
from muster.cluster.apiserver.front.inbound import InboundRequest
from muster.cluster.apiserver.front.incoming import Body
from muster.cluster.apiserver.front.sending import respond
from muster.runtime.transport import Response

ANY = "*"  # the method of a route for all methods

_TEXT = "text/plain; charset=utf-8"


Handler = Callable[[InboundRequest], Awaitable[Response | Stream]]
"""Answers a request. Raises `ApiError`."""


class Routes:
    """Handlers by path. A path with a final slash matches all paths below it; the longest match wins."""

    def __init__(self, handlers: Mapping[str, Handler], method: str = "GET") -> None:
        self._exact = handlers
        self._prefixes = sorted((path for path in handlers if path.endswith("/")), key=len, reverse=True)
        self._method = method

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request with the handler of its path.

        Answer 404 if there is none, and 405 for any other method.
        """
        caller: Caller = scope["extensions"][EXTENSION]
        # If all clients had one owner, a greedy client would use up the connections of the others.
        caller.slot.owner = caller.user.name if caller.user is not None else caller.slot.address
        headers = dict(reversed(scope["headers"]))  # the first of repeated headers counts
        headers.pop(AUDIT_ID, None)
        body = Body(scope["method"], headers, receive)
        try:
            answer = await self._answer_request(InboundRequest(scope, headers, caller, body))
        except ApiError as error:
            answer = text_answer(error.code, f"{error}\n")
        await respond(answer, scope, headers, body, caller, send, _skip_rest)

    async def _answer_request(self, request: InboundRequest) -> Response | Stream:
        handler = self._exact.get(request.path)
        if handler is None:
            prefix = next((path for path in self._prefixes if request.path.startswith(path)), None)
            if prefix is None:
                return text_answer(404, "nothing is served at this path\n")
            handler = self._exact[prefix]
        if self._method not in (ANY, request.method):
            answer = text_answer(405, f"this path takes {self._method}\n")
            return Response(answer.status, answer.body, answer.content_type, {"allow": self._method})
        return await handler(request)


def text_answer(status: int, text: str) -> Response:
    """Return a plain-text response."""
    return Response(status, text.encode(), _TEXT)


async def _skip_rest() -> None:
    """Return at once, because this server need not pause between the pieces of a stream to serve other clients."""
