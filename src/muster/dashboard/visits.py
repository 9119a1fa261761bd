"""Define a visit, which is one request of a viewer, and the kinds of routes that handle it."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlencode

import re2
from msgspec import Struct, field

from muster.cluster.apiserver.answers import Stream
from muster.dashboard.root import ROOT
from muster.dashboard.viewing.copy import Copy
from muster.dashboard.viewing.hosts import Viewer
from muster.runtime.transport import Response

_MOST_SHOWN = 80  # the number of characters to show of an invalid name


class Visit(Struct, frozen=True):
    """One request of a viewer, as passed to views.

    path: the path below `ROOT`.
    names: the parts of the path by their name in the page's pattern.
    query: the first value of each query parameter.
    copy: a client with the viewer's rights whose lists come from memory.
    now: the time of the request or, in an open page, of the rendering.
    read_only: whether pages offer no changes.
    """

    viewer: Viewer
    copy: Copy
    path: str
    query: Mapping[str, str]
    now: datetime
    names: Mapping[str, str] = field(default_factory=dict)
    read_only: bool = False


class PageError(Exception):
    """A page that cannot be shown: its title, the reason and the remedy, and the HTTP status."""

    def __init__(self, title: str, text: str, status: int = 404) -> None:
        super().__init__(title)
        self.title, self.text, self.status = title, text, status


class Page(Struct, frozen=True):
    """A page made of a template and the values that its view returns.

    pattern: a path below `ROOT`; each part in braces matches one segment of an address.
    view: returns the values of the template; raises `PageError`, `ApiError`, `TransportError`.
    section: the current section of the menu.
    live: whether the page is updated after changes.
    """

    pattern: str
    template: str
    view: Callable[[Visit], Awaitable[Mapping[str, Any]]]
    section: str
    live: bool = True


class Download(Struct, frozen=True):
    """A route whose response is not a page, but a file or a stream of events.

    answer: returns the response; raises `PageError`, `ApiError`, `TransportError`.
    """

    pattern: str
    answer: Callable[[Visit], Awaitable[Response | Stream]]


class Deed(Struct, frozen=True):
    """A change that a viewer confirms: GET shows what will happen, and POST makes the change.

    pattern: the path of both requests.
    view: returns the values of the page that GET shows: `title`, `will` (sentences about what will happen), `button`,
    `danger` (whether something ends), `back` (an address), `fields` (of the form), and `uid` (of the object).
    act: makes the change with the values of the form, and returns a sentence about what was done. It raises the errors
    of a view; the page then asks again, with the message of the error.
    after: returns the address of the page that follows, from the visit and the values of the form.
    """

    pattern: str
    view: Callable[[Visit], Awaitable[Mapping[str, Any]]]
    act: Callable[[Visit, Mapping[str, str]], Awaitable[str]]
    after: Callable[[Visit, Mapping[str, str]], str]
    section: str
    template: str = "deed.html"


Route = Page | Download | Deed


class Router:
    """The routes, in the order in which their path patterns are tried."""

    def __init__(self, routes: tuple[Route, ...]) -> None:
        self._routes = [(_compile(one.pattern), one) for one in routes]

    def find(self, path: str) -> tuple[Route, Mapping[str, str]] | None:
        """Return the first route that matches a path, with the named parts of the path; None for an unknown path."""
        for pattern, route in self._routes:
            if (match := pattern.fullmatch(path)) is not None:
                return route, match.groupdict()
        return None


def require_name(kind: str, name: str, check: Callable[[str], Iterable[str]]) -> None:
    """Raise `PageError` (404) if no object of a kind can have this name.

    kind: the kind, for the message.
    check: returns what is wrong with a name.
    """
    if [*check(name)]:
        shown = name if len(name) <= _MOST_SHOWN else f"{name[:_MOST_SHOWN]}…"
        raise PageError(f"There is no such {kind}", f"No {kind} can have the name {shown!r}.")


def _compile(pattern: str) -> Any:
    pieces = re2.split(r"\{([a-z]+)\}", pattern)
    return re2.compile(
        "".join(f"(?P<{piece}>[^/]+)" if at % 2 else re2.escape(piece) for at, piece in enumerate(pieces))
    )


def make_address(*parts: str, **query: str) -> str:
    """Return the address of a page from the segments of its path. Parameters without a value are left out."""
    path = "/".join((ROOT, *(quote(part, safe="") for part in parts)))
    said = {name: value for name, value in query.items() if value}
    return f"{path}?{urlencode(said)}" if said else path
