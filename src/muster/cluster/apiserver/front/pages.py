"""Serve pages for people next to the API, at the same address.

A browser does not know the certificate authority of this server, and warns of its certificate. So clients on this
machine may request the pages without TLS. At this address, the server answers nothing else without TLS.
"""

from collections.abc import Awaitable, Callable

from msgspec import Struct

from muster.cluster.apiserver.front.asgi import App, Receive, Scope, Send


async def _do_nothing() -> None:
    """Do nothing: the default of `Pages.close`."""


_NEEDS_TLS = b"Client sent an HTTP request to an HTTPS server.\n"  # as Go's servers say it


class Pages(Struct, frozen=True):
    """An application that serves pages for people below one path. It authenticates its viewers itself.

    root: the path, without a slash at its end.
    close: called when the server has stopped listening.
    """

    root: str
    app: App
    close: Callable[[], Awaitable[None]] = _do_nothing

    def has(self, path: str) -> bool:
        """Return whether a path is one of the pages."""
        return path == self.root or path.startswith(f"{self.root}/")


class PlainFront:
    """The application for clients that connect without TLS."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request: serve a page, redirect `/` to the pages, and answer 400 to any other path."""
        if self._pages.has(scope["path"]):
            await self._pages.app(scope, receive, send)
            return
        if scope["path"] == "/":  # somebody has typed the address into a browser
            fields = [(b"location", f"{self._pages.root}/".encode()), (b"content-length", b"0")]
            await send({"type": "http.response.start", "status": 303, "headers": fields})
            await send({"type": "http.response.body", "body": b""})
            return
        fields = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
        fields.append((b"content-length", str(len(_NEEDS_TLS)).encode()))
        await send({"type": "http.response.start", "status": 400, "headers": fields})
        await send({"type": "http.response.body", "body": _NEEDS_TLS})
