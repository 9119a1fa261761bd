"""Define a visit, which is one request of a viewer, and the kinds of pages that answer it."""

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

_MOST_SHOWN = 80  # characters of a name that nothing can have


class Visit(Struct, frozen=True):
    """One request of a viewer, as views get it.

    path: below `ROOT`. names: the parts of the path that the pattern of the page names. query: the first value of each
    parameter. copy: a client with the viewer's rights whose lists come from memory. now: the time of the request.
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
    """The error of a page that cannot be shown: its title, what is wrong and what to do, and the HTTP status."""

    def __init__(self, title: str, text: str, status: int = 404) -> None:
        super().__init__(title)
        self.title, self.text, self.status = title, text, status


class Page(Struct, frozen=True):
    """A page made of a template and the values that its view returns.

    pattern: a path below `ROOT` whose parts in braces match one part of an address each. view: returns the values of
    the template. Raises `PageError`, `ApiError`, `TransportError`. section: the entry of the menu that is current.
    live: whether the page follows changes.
    """

    pattern: str
    template: str
    view: Callable[[Visit], Awaitable[Mapping[str, Any]]]
    section: str
    live: bool = True


class Download(Struct, frozen=True):
    """A route whose answer is no page: a file, or a stream of events.

    answer: returns it. Raises `PageError`, `ApiError`, `TransportError`.
    """

    pattern: str
    answer: Callable[[Visit], Awaitable[Response | Stream]]


class Deed(Struct, frozen=True):
    """A change that a viewer confirms: GET shows what will happen, POST makes the change.

    pattern: the path of both requests.
    view: returns the values of the page that GET shows: `title`, `will` (what will happen, sentence by sentence),
    `button`, `danger` (whether something ends), `back` (an address), and `fields` where the viewer has a choice.
    act: makes the change with the values of the form, and returns a sentence on what was done. Raises what a view does;
    the page then asks again, with the sentence of the error.
    after: returns where the viewer goes then, from the visit and the values of the form.
    """

    pattern: str
    view: Callable[[Visit], Awaitable[Mapping[str, Any]]]
    act: Callable[[Visit, Mapping[str, str]], Awaitable[str]]
    after: Callable[[Visit, Mapping[str, str]], str]
    section: str
    template: str = "deed.html"


Route = Page | Download | Deed


class Router:
    """The table of routes by the pattern of their path."""

    def __init__(self, routes: tuple[Route, ...]) -> None:
        self._routes = [(_compile(one.pattern), one) for one in routes]

    def find(self, path: str) -> tuple[Route, Mapping[str, str]] | None:
        """Return the first route that matches a path, with the named parts of the path; None for an unknown path."""
        for pattern, route in self._routes:
            if (match := pattern.fullmatch(path)) is not None:
                return route, match.groupdict()
        return None


def require_name(kind: str, name: str, check: Callable[[str], Iterable[str]]) -> None:
    """Raise `PageError` (404) if no object of a kind can have this name. check: returns what is wrong with a name."""
    if [*check(name)]:
        shown = name if len(name) <= _MOST_SHOWN else f"{name[:_MOST_SHOWN]}…"
        raise PageError(f"There is no such {kind}", f"No {kind} can have the name {shown!r}.")


def _compile(pattern: str) -> Any:
    pieces = re2.split(r"\{([a-z]+)\}", pattern)
    return re2.compile(
        "".join(f"(?P<{piece}>[^/]+)" if at % 2 else re2.escape(piece) for at, piece in enumerate(pieces))
    )


def make_address(*parts: str, **query: str) -> str:
    """Return the address of a page from the parts of its path; parameters without a value are left out."""
    path = "/".join((ROOT, *(quote(part, safe="") for part in parts)))
    said = {name: value for name, value in query.items() if value}
    return f"{path}?{urlencode(said)}" if said else path
