"""`Client`: the typed verbs of the Kubernetes API over any `Transport`.

Every part of the system sees the world through this and nothing else.
"""

import gc
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import msgspec

from muster.api.kinds import Kind, Page
from muster.api.meta import ObjectMeta
from muster.api.status import ApiError, Status
from muster.runtime.transport import JSON, MERGE_PATCH, Request, Response, Transport

T = TypeVar("T")

Propagation = Literal["Orphan", "Background", "Foreground"]

# Pages of this size bound what one list holds in memory on both sides (client-go's default).
PAGE_SIZE = 500


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    """One change. A BOOKMARK's object has only a resource version."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    object: T
    resource_version: str


class Client:
    """Talks to one API server as one user."""

    def __init__(self, transport: Transport, *, field_manager: str = "muster") -> None:
        self.transport = transport
        self._manager = {"fieldManager": field_manager}

    async def get(self, kind: Kind[T], name: str, namespace: str = "") -> T:
        """One object. Raises `ApiError` (NotFound)."""
        return kind.decode((await self._send("GET", kind.path(namespace, name))).body)

    async def page(
        self,
        kind: Kind[T],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        limit: int = PAGE_SIZE,
        continue_: str = "",
        resource_version: str | None = None,
    ) -> Page[T]:
        """One page of a list; `labels` and `fields` are selectors in their text form."""
        query = _query(
            labelSelector=labels,
            fieldSelector=fields,
            limit=str(limit or ""),
            resourceVersion=resource_version or "",
            **{"continue": continue_},
        )
        response = await self._send("GET", kind.path(namespace), query)
        with _collector_paused():
            return kind.decode_page(response.body)

    async def list(self, kind: Kind[T], namespace: str = "", *, labels: str = "", fields: str = "") -> Page[T]:
        """The whole list, read page by page at one revision."""
        page = await self.page(kind, namespace, labels=labels, fields=fields)
        items = page.items
        while page.metadata.continue_:
            page = await self.page(kind, namespace, labels=labels, fields=fields, continue_=page.metadata.continue_)
            items.extend(page.items)
        return Page(metadata=page.metadata, items=items)

    @asynccontextmanager
    async def watch(
        self,
        kind: Kind[T],
        namespace: str = "",
        *,
        resource_version: str = "",
        labels: str = "",
        fields: str = "",
        timeout_seconds: int | None = None,
    ) -> AsyncIterator[AsyncIterator[WatchEvent[T]]]:
        """Changes after a resource version, with bookmarks, until the server or the connection ends them.

        The iterator ends when the server ends the stream; it raises `ApiError` for an ERROR event (Expired when
        the version is too old), `TransportError` when the connection breaks.
        """
        query = _query(
            watch="true",
            allowWatchBookmarks="true",
            resourceVersion=resource_version,
            labelSelector=labels,
            fieldSelector=fields,
            timeoutSeconds=str(timeout_seconds or ""),
        )
        async with self.transport.stream(Request("GET", kind.path(namespace), query)) as chunks:
            yield _events(kind, chunks)

    async def create(self, kind: Kind[T], obj: T, namespace: str = "", *, dry_run: bool = False) -> T:
        """Store a new object; its namespace is `namespace`, or what its metadata says."""
        path = kind.path(namespace or _meta(obj).namespace)
        query = self._manager | _query(dryRun="All" if dry_run else "")
        return kind.decode((await self._send("POST", path, query, kind.encode(obj))).body)

    async def update(self, kind: Kind[T], obj: T, *, subresource: str = "", dry_run: bool = False) -> T:
        """Replace a whole object; only for objects of which we know every field (our own kinds, leases)."""
        meta = _meta(obj)
        query = self._manager | _query(dryRun="All" if dry_run else "")
        path = kind.path(meta.namespace, meta.name, subresource)
        return kind.decode((await self._send("PUT", path, query, kind.encode(obj))).body)

    async def patch(
        self,
        kind: Kind[T],
        name: str,
        patch: Any,
        namespace: str = "",
        *,
        type: str = MERGE_PATCH,
        subresource: str = "",
        dry_run: bool = False,
        force: bool = False,
    ) -> T:
        """Change part of an object. With `metadata.resourceVersion` in a merge patch, a conflict is a 409."""
        query = self._manager | _query(dryRun="All" if dry_run else "", force="true" if force else "")
        path = kind.path(namespace, name, subresource)
        response = await self._send("PATCH", path, query, msgspec.json.encode(patch), type)
        return kind.decode(response.body)

    async def delete(
        self,
        kind: Kind[T],
        name: str,
        namespace: str = "",
        *,
        propagation: Propagation = "Background",
        grace_period_seconds: int | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> None:
        """Ask for deletion; returns when the request is stored. Raises `ApiError` (NotFound, Conflict)."""
        options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}
        if grace_period_seconds is not None:
            options["gracePeriodSeconds"] = grace_period_seconds
        if uid is not None or resource_version is not None:
            options["preconditions"] = _query(uid=uid or "", resourceVersion=resource_version or "")
        await self._send("DELETE", kind.path(namespace, name), {}, msgspec.json.encode(options))

    async def post(self, kind: Kind[Any], name: str, namespace: str, subresource: str, body: Mapping[str, Any]) -> None:
        """Create a subresource: `binding`, `eviction`."""
        path = kind.path(namespace, name, subresource)
        await self._send("POST", path, dict(self._manager), msgspec.json.encode(body))

    async def raw(self, request: Request) -> Response:
        """Send any request. Raises `ApiError` if it is refused."""
        response = await self.transport.request(request)
        if response.status >= 400:
            raise error_of(response)
        return response

    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: bytes = b"",
        content_type: str = JSON,
    ) -> Response:
        return await self.raw(Request(method, path, query or {}, body, content_type))


class _Line(msgspec.Struct):
    """A watch event before its object is decoded."""

    type: str
    object: msgspec.Raw


_line_decoder = msgspec.json.Decoder(_Line)


async def _events(kind: Kind[T], chunks: AsyncIterator[bytes]) -> AsyncIterator[WatchEvent[T]]:
    async for line in lines(chunks):
        event = _line_decoder.decode(line)
        if event.type == "ERROR":
            raise ApiError(msgspec.json.decode(event.object, type=Status))
        obj = kind.decode(event.object)
        version = _meta(obj).resource_version
        yield WatchEvent(event.type, obj, version)  # type: ignore[arg-type]


async def lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The lines of a stream, without their ends; an unfinished last line is dropped (the stream broke in it)."""
    rest = b""
    async for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if line:
                yield line


def error_of(response: Response) -> ApiError:
    """The `ApiError` in a refused response, made up from the HTTP status where the body is no Status."""
    try:
        status = msgspec.json.decode(response.body, type=Status)
    except msgspec.DecodeError:
        status = Status()
    if status.code == 0:
        text = response.body[:200].decode(errors="replace").strip()
        status = Status(
            status="Failure", code=response.status, reason="Unknown", message=text or f"HTTP {response.status}"
        )
    return ApiError(status)


def _meta(obj: Any) -> ObjectMeta:
    if isinstance(obj, dict):
        return msgspec.convert(obj.get("metadata") or {}, ObjectMeta)
    meta: ObjectMeta = obj.metadata
    return meta


def _query(**parameters: str) -> dict[str, str]:
    return {name: value for name, value in parameters.items() if value}


@contextmanager
def _collector_paused() -> Iterator[None]:
    """A big decode makes only live objects: collecting in the middle of it is wasted work."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
