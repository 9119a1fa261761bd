"""Answer the paths that belong to no resource: health, version, metrics, discovery and OpenAPI documents."""

import platform
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from muster.api.status import path_not_found
from muster.cluster.apiserver.answers import Stream
from muster.cluster.apiserver.discovery import Discovery
from muster.cluster.apiserver.identity.users import Access, User
from muster.cluster.apiserver.registry.resources import Registry
from muster.cluster.apiserver.static import StaticAnswer
from muster.cluster.release import GIT_VERSION, MAJOR, MINOR
from muster.runtime import metrics
from muster.runtime.metrics import CONTENT_TYPE
from muster.runtime.transport import Request, Response

if TYPE_CHECKING:  # imported at the first request for a document, because most servers get none
    from muster.cluster.apiserver.openapi import OpenApi

# A health check: returns the problem that it has found, or None.
Check = Callable[[], str | None]

_TEXT = "text/plain; charset=utf-8"
_HEALTH = ("healthz", "livez", "readyz")


class Inquiry(NamedTuple):
    """A path outside the resources that only users with a right to a resource may read.

    access: returns the right that the user needs.
    answer: answers a GET of a user who has the right; raises `ApiError`.
    """

    access: Callable[[Request, User], Access]
    answer: Callable[[Request], Awaitable[Response]]


class Endpoints:
    """The paths of a server that belong to no resource.

    documents: functions that make the documents that other modules add, by path.
    streams: functions that make a new stream for each request, by path.
    inquiries: answers that need a right and depend on the query, by path.
    live_checks, ready_checks: the health checks; a server is ready if all of both pass.
    """

    def __init__(self, registry: Registry, metrics: metrics.Registry) -> None:
        self._registry = registry
        self._documents: tuple[int, Discovery, OpenApi] | None = None  # the registry's generation, and its documents
        self._metrics = metrics
        self.documents: dict[str, Callable[[], StaticAnswer]] = {}
        self.streams: dict[str, Callable[[], Stream]] = {}
        self.inquiries: dict[str, Inquiry] = {}
        self.live_checks: dict[str, Check] = {"ping": lambda: None}
        self.ready_checks: dict[str, Check] = {}

    async def answer(self, request: Request) -> Response | Stream:
        """Answer a GET of a path that belongs to no resource. Raises `ApiError`: 404, 406, or an inquiry's error."""
        path = _get_path(request)
        if path == "/metrics":
            return Response(200, await self._metrics.scrape(), CONTENT_TYPE)
        inquiry = self.inquiries.get(path)
        return await inquiry.answer(request) if inquiry is not None else self.respond(request)

    def access(self, request: Request, user: User) -> Access | None:
        """Return the right that an inquiry's path needs; None if the path only needs the right to GET it."""
        inquiry = self.inquiries.get(_get_path(request))
        return inquiry.access(request, user) if inquiry is not None else None

    def respond(self, request: Request) -> Response | Stream:
        """Answer a GET of any path except the metrics and the paths of an `Inquiry`. Raises `ApiError` (404, 406)."""
        path = _get_path(request)
        first, _, rest = path.strip("/").partition("/")
        if first in _HEALTH:
            return self._check_health(first, rest, request.query)
        if path == "/version":
            return Response(200, _encode_version())
        if path == "/":
            return Response(200, msgspec.json.encode({"paths": self._list_paths()}))
        if path in self.streams:
            return self.streams[path]()
        discovery, openapi = self._get_documents()
        make_answer = self.documents.get(path)
        answer = make_answer() if make_answer is not None else None
        answer = answer or discovery.find(path, request.accept) or openapi.find(path, request.accept)
        if answer is None:
            raise path_not_found()
        return _make_static_response(answer)

    def _get_documents(self) -> "tuple[Discovery, OpenApi]":
        """Return the discovery and OpenAPI documents of the resources served now."""
        from muster.cluster.apiserver.openapi import OpenApi

        generation = self._registry.generation
        if self._documents is None or self._documents[0] != generation:
            resources = list(self._registry)
            if self._documents is None:
                openapi = OpenApi(resources, GIT_VERSION)
            else:
                openapi = self._documents[2]
                openapi.serve(resources)
            self._documents = generation, Discovery(resources), openapi
        return self._documents[1:]

    def _list_paths(self) -> list[str]:
        return [
            "/api",
            "/apis",
            *(f"/{name}" for name in _HEALTH),
            "/metrics",
            "/openapi/v2",
            "/openapi/v3",
            *self.documents,
            *self.streams,
            *self.inquiries,
            "/version",
        ]

    def _check_health(self, kind: str, name: str, query: Mapping[str, str]) -> Response:
        """Answer a health check: `ok` if all checks pass, or a list of them if one fails or the query has `verbose`.

        name: the only check to run; "" for all checks.
        """
        checks = self.live_checks if kind == "livez" else self.live_checks | self.ready_checks
        if name:
            if name not in checks:
                raise path_not_found()
            problem = checks[name]()
            return _make_text_response(
                500 if problem else 200, f"internal server error: {problem}\n" if problem else "ok"
            )
        excluded = set(query.get("exclude", "").split(","))
        problems = {name: check() for name, check in checks.items() if name not in excluded}
        lines = [f"[-]{name} failed: {why}" if why else f"[+]{name} ok" for name, why in problems.items()]
        if any(problems.values()):
            return _make_text_response(500, "\n".join([*lines, f"{kind} check failed\n"]))
        return _make_text_response(200, "\n".join([*lines, f"{kind} check passed\n"]) if "verbose" in query else "ok")


def _get_path(request: Request) -> str:
    return request.path.rstrip("/") or "/"


def _encode_version() -> bytes:
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return msgspec.json.encode({
        "major": MAJOR,
        "minor": MINOR,
        "gitVersion": GIT_VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": f"python{platform.python_version()}",
        "compiler": platform.python_implementation(),
        "platform": f"{sys.platform}/{machine}",
    })  # fmt: skip


def _make_static_response(answer: StaticAnswer) -> Response:
    headers = {name.lower(): value for name, value in answer.headers.items() if name.lower() != "content-type"}
    return Response(200, answer.body, answer.content_type, headers)


def _make_text_response(code: int, text: str) -> Response:
    return Response(code, text.encode(), _TEXT)
