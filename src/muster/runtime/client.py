"""Send the typed verbs of the Kubernetes API over any `Transport`.

Controllers, nodes and commands read and write objects through `Client`.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Generic, Literal, TypeVar

import msgspec

from muster.api.kinds import Kind, Page
from muster.api.meta import Object
from muster.api.status import ANOTHER_OBJECT, ApiError, Status, StatusDetails, bad_request, conflict
from muster.runtime.limits import Limits
from muster.runtime.objects import meta_of, remove_managed_fields
from muster.runtime.process.garbage import collector_paused
from muster.runtime.refusals import ignoring
from muster.runtime.transport import (
    JSON,
    JSON_PATCH,
    MERGE_PATCH,
    EventType,
    Neighbor,
    RawEvent,
    Request,
    Response,
    Transport,
    TransportError,
    UnreadableAnswerError,
)

T = TypeVar("T")

Propagation = Literal["Orphan", "Background", "Foreground"]

# Pages of this size bound what one list holds in memory on both sides (client-go's default).
PAGE_SIZE = 500
# A client with smaller pages requests more objects per page once so many fit into this size: 100 pods, or 500 Jobs.
PAGE_BYTES = 1_500_000
# Selectors may leave some pages empty; after this many empty pages in a row the list counts as endless.
MOST_EMPTY_PAGES = 1000
# The longest line of a stream; objects are at most a few megabytes.
LINE_LIMIT = 64 << 20
# Programs that draw progress bars may never end a line: at most this much of a line is held back.
TEXT_LINE_BYTES = 1 << 20
# Decoding raises these errors when the bytes are no JSON, do not fit the type, or are nested too deeply.
_UNREADABLE = (msgspec.DecodeError, RecursionError)


class WatchEvent(msgspec.Struct, Generic[T], frozen=True):
    """One change of an object.

    A BOOKMARK has a resource version and no object, because the server sends no object with all required fields.
    """

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    object: T | None
    resource_version: str


class Client:
    """The API of one server, used as one user.

    neighbor: the server, if it is in this process; otherwise None.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        field_manager: str = "muster",
        limits: Limits | None = None,
        neighbor: Neighbor | None = None,
        page_size: int = PAGE_SIZE,
    ) -> None:
        """Make a client over a transport.

        limits: the limits on memory and time, for a server that is not trusted; None for no limits.
        neighbor: the server behind the transport, if it is in this process. The client then shares decoded objects with
        it.
        page_size: how many objects a list requests in its first page, if there are no limits. If the objects are small,
        the next pages have up to `PAGE_SIZE` objects.
        """
        self.transport = transport
        self._limits = limits
        self._page_size = limits.page if limits is not None else page_size
        self.neighbor = neighbor
        self._manager = {"fieldManager": field_manager}
        self._version: str | None = None  # None until it was asked for

    async def get(self, kind: Kind[T], name: str, namespace: str = "") -> T:
        """Return one object. Raises `ApiError` (NotFound).

        Like every verb, it raises `TransportError` if no usable response arrives.
        """
        return self._decode(kind, (await self._send("GET", _make_path(kind, name, namespace))).body)

    async def find(self, kind: Kind[T], name: str, namespace: str = "") -> T | None:
        """Return one object; None if it does not exist."""
        with ignoring("NotFound"):
            return await self.get(kind, name, namespace)
        return None

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
        """Return one page of a list.

        labels, fields: selectors in their text form.
        continue_: the token of the previous page; "" for the first page.
        resource_version: the version to list at; None for the newest.
        """
        page, _ = await self._get_page(
            kind,
            namespace,
            labelSelector=labels,
            fieldSelector=fields,
            limit=str(limit or ""),
            resourceVersion=resource_version or "",
            **{"continue": continue_},
        )
        return page

    async def _get_page(self, kind: Kind[T], namespace: str, **parameters: str) -> tuple[Page[T], int]:
        """Return one page and its size in bytes."""
        body = (await self._send("GET", kind.path(namespace), _query(**parameters))).body
        try:
            with collector_paused():
                return kind.decode_page(body), len(body)
        except _UNREADABLE as error:
            raise _make_unreadable_error(kind, body, error) from error

    async def list(
        self,
        kind: Kind[T],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        transform: Callable[[T], T] | None = None,
    ) -> Page[T]:
        """Return the whole list at one revision, read page by page.

        transform: applied to each object before its page is dropped. It returns the part of the object that the caller
        needs, in less memory.

        If the server drops the revision before the last page (410), the client lists once more, in a single request.
        With limits, it raises that error instead.
        """
        items: list[T] = []
        continue_, size, empty, limits = "", 0, 0, self._limits
        where = {"labelSelector": labels, "fieldSelector": fields}
        limit = self._page_size
        while True:
            try:
                page, more = await self._get_page(kind, namespace, **where, limit=str(limit), **{"continue": continue_})
            except ApiError as error:
                if error.code != 410 or not continue_ or limits is not None:
                    raise
                whole = await self.page(kind, namespace, labels=labels, fields=fields, limit=0)
                return (
                    whole if transform is None else Page(metadata=whole.metadata, items=[*map(transform, whole.items)])
                )
            items.extend(page.items if transform is None else map(transform, page.items))
            size, empty = size + more, 0 if page.items else empty + 1
            if limits is not None:
                limits.admit_list(kind.plural, len(items), size)
            else:
                limit = max(self._page_size, min(PAGE_SIZE, PAGE_BYTES * len(items) // size))
            if not (continue_ := page.metadata.continue_):
                return Page(metadata=page.metadata, items=items)
            if empty >= MOST_EMPTY_PAGES:
                raise TransportError(f"the server lists no {kind.plural}, and always says that there are more")

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
        """Open a watch for changes after a resource version, with bookmarks.

        The iterator ends when the server ends the stream. It raises `ApiError` for an ERROR event (Expired when the
        version is too old) and `TransportError` when the connection breaks.
        """
        query = _query(
            watch="true",
            allowWatchBookmarks="true",
            resourceVersion=resource_version,
            labelSelector=labels,
            fieldSelector=fields,
            timeoutSeconds=str(timeout_seconds or ""),
        )
        request = Request("GET", kind.path(namespace), query)
        if self.neighbor is not None:
            async with self.neighbor.follow(request) as batches:
                yield _NeighborEvents(kind, batches, self.neighbor)
            return
        async with self.transport.stream(request) as chunks:
            yield _Events(kind, chunks, self._limits)

    async def create(self, kind: Kind[T], obj: T, namespace: str = "", *, dry_run: bool = False) -> T:
        """Create an object; return its stored form. Its namespace is `namespace`, or else the one in its metadata."""
        path = kind.path(namespace or meta_of(obj).namespace)
        query = self._manager | _query(dryRun="All" if dry_run else "")
        return self._decode(kind, (await self._send("POST", path, query, kind.encode(remove_managed_fields(obj)))).body)

    async def update(self, kind: Kind[T], obj: T, *, subresource: str = "", dry_run: bool = False) -> T:
        """Replace a whole object, and return its stored form. Use it only for kinds whose type has every field."""
        meta = meta_of(obj)
        query = self._manager | _query(dryRun="All" if dry_run else "")
        path = _make_path(kind, meta.name, meta.namespace, subresource)
        return self._decode(kind, (await self._send("PUT", path, query, kind.encode(obj))).body)

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
        """Patch an object; return its stored form.

        If a merge patch contains `metadata.resourceVersion` or `uid`, the server refuses it (409) for another version
        or object.
        """
        query = self._manager | _query(dryRun="All" if dry_run else "", force="true" if force else "")
        path = _make_path(kind, name, namespace, subresource)
        try:
            response = await self._send("PATCH", path, query, msgspec.json.encode(patch), type)
        except ApiError as error:
            raise (_convert_uid_conflict(error, kind, name) or error) from None
        return self._decode(kind, response.body)

    async def patch_object(
        self,
        kind: Kind[T],
        obj: Any,
        patch: Mapping[str, Any],
        *,
        lock: bool = True,
        type: str = MERGE_PATCH,
        subresource: str = "",
    ) -> T:
        """Patch an object only if the server's object has the same UID; return its stored form.

        obj: the object that the caller has read, in any type of its kind.
        lock: whether to require the same resourceVersion, too.

        Raises `ApiError` (NotFound, Conflict).
        """
        meta = meta_of(obj)
        guard = {"uid": meta.uid} | ({"resourceVersion": meta.resource_version} if lock else {})
        guarded = {**patch, "metadata": guard | patch.get("metadata", {})}
        return await self.patch(kind, meta.name, guarded, meta.namespace, type=type, subresource=subresource)

    async def edit_object(
        self,
        kind: Kind[T],
        obj: T,
        operations: Sequence[Mapping[str, Any]],
        *,
        subresource: str = "",
        dry_run: bool = False,
    ) -> T:
        """Apply a JSON patch, which can also edit within lists, if UID and resourceVersion are unchanged.

        Return the object as stored. Raises `ApiError` (NotFound, Conflict).
        """
        meta = meta_of(obj)
        guard = {"op": "replace", "path": "/metadata/resourceVersion", "value": meta.resource_version}
        edits = [guard, *operations]
        return await self.patch(
            kind, meta.name, edits, meta.namespace, type=JSON_PATCH, subresource=subresource, dry_run=dry_run
        )

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
        """Request the deletion of an object; return when the request is stored. Raises `ApiError` (NotFound, Conflict).

        uid, resource_version: delete the object only if it has these; None accepts any.
        """
        options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}
        if grace_period_seconds is not None:
            options["gracePeriodSeconds"] = grace_period_seconds
        if uid is not None or resource_version is not None:
            options["preconditions"] = _query(uid=uid or "", resourceVersion=resource_version or "")
        await self._send("DELETE", _make_path(kind, name, namespace), {}, msgspec.json.encode(options))

    async def delete_object(self, kind: Kind[T], obj: T, *, grace_period_seconds: int | None = None) -> None:
        """Request the deletion of an object if the server's object has the same UID.

        Raises `ApiError` (NotFound, Conflict).
        """
        meta = meta_of(obj)
        await self.delete(kind, meta.name, meta.namespace, grace_period_seconds=grace_period_seconds, uid=meta.uid)

    async def post(self, kind: Kind[Any], name: str, namespace: str, subresource: str, body: Mapping[str, Any]) -> None:
        """Create a subresource of an object on the server, such as `binding` or `eviction`."""
        path = _make_path(kind, name, namespace, subresource)
        await self._send("POST", path, dict(self._manager), msgspec.json.encode(body))

    async def raw(self, request: Request) -> Response:
        """Send any request, and return the response.

        Raises `ApiError` if the server refuses it, `TransportError` if no response comes or it exceeds the limits.
        """
        response = await self.transport.request(request)
        if self._limits is not None:
            self._limits.admit(response.body)
        if response.status >= 400:
            raise error_of(response, request.method, request.path)
        return response

    async def find_version(self) -> str:
        """Return the server's version at this client's first request for it; "" if the server reports none.

        Raises `ApiError`.
        """
        if self._version is None:
            body = (await self.raw(Request("GET", "/version"))).body
            try:
                self._version = str(msgspec.json.decode(body, type=dict).get("gitVersion", ""))
            except msgspec.DecodeError:
                self._version = ""
        return self._version

    def _decode(self, kind: Kind[T], body: bytes) -> T:
        try:
            return kind.decode(body) if self.neighbor is None else self.neighbor.decode(kind, body)
        except _UNREADABLE as error:
            raise _make_unreadable_error(kind, body, error) from error

    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: bytes = b"",
        content_type: str = JSON,
    ) -> Response:
        return await self.raw(Request(method, path, query or {}, body, content_type))


def _make_path(kind: Kind[Any], name: str, namespace: str, subresource: str = "") -> str:
    """Return the path of one object. Raises `ApiError` (400) for an empty name, which would mean all objects."""
    if not name:
        raise bad_request("resource name may not be empty")
    return kind.path(namespace, name, subresource)


def _convert_uid_conflict(error: ApiError, kind: Kind[Any], name: str) -> ApiError | None:
    """Return a Conflict error if the server refused (422) to change a UID; otherwise None.

    The refusal means that the object was deleted, and that another object has its name.
    """
    details = error.status.details
    if error.code != 422 or details is None or not any(cause.field == "metadata.uid" for cause in details.causes):
        return None
    return conflict(kind.resource, name, ANOTHER_OBJECT)


class _Line(msgspec.Struct):
    """A watch event whose object is not decoded yet."""

    type: EventType
    object: msgspec.Raw


_line_decoder = msgspec.json.Decoder(_Line)


class _Events(Generic[T]):
    """The watch events in a stream of lines."""

    def __init__(self, kind: Kind[T], chunks: AsyncIterator[bytes], limits: Limits | None) -> None:
        self._kind = kind
        self._chunks = chunks
        self._limits = limits
        self._splitter = _Splitter(limits.line if limits is not None else LINE_LIMIT)
        self._lines: deque[bytes] = deque()

    def __aiter__(self) -> AsyncIterator[WatchEvent[T]]:
        return self

    async def __anext__(self) -> WatchEvent[T]:
        while not self._lines:
            self._lines.extend(self._splitter.feed(await anext(self._chunks)))
        line = self._lines.popleft()
        if self._limits is not None:
            self._limits.admit_line(line)
        try:
            event = _line_decoder.decode(line)
            return _read_event(self._kind, event.type, event.object, Kind.decode)
        except _UNREADABLE as error:
            raise _make_unreadable_error(self._kind, line, error) from error


class _NeighborEvents(Generic[T]):
    """The watch events of a server in this process, which come in batches."""

    def __init__(self, kind: Kind[T], batches: AsyncIterator[Sequence[RawEvent]], neighbor: Neighbor) -> None:
        self._kind = kind
        self._batches = batches
        self._neighbor = neighbor
        self._ready: deque[RawEvent] = deque()

    def __aiter__(self) -> AsyncIterator[WatchEvent[T]]:
        return self

    async def __anext__(self) -> WatchEvent[T]:
        while not self._ready:
            self._ready.extend(await anext(self._batches))
        type_, body = self._ready.popleft()
        try:
            return _read_event(self._kind, type_, body, self._neighbor.decode)
        except _UNREADABLE as error:
            raise _make_unreadable_error(self._kind, body, error) from error


B = TypeVar("B", bytes, msgspec.Raw)


def _read_event(kind: Kind[T], type_: EventType, body: B, decode: Callable[[Kind[T], B], T]) -> WatchEvent[T]:
    """Return the event about a body. Raises `ApiError` for an ERROR event, and the errors of `decode`."""
    if type_ == "ERROR":
        raise ApiError(msgspec.json.decode(body, type=Status))
    if type_ == "BOOKMARK":
        marker = msgspec.json.decode(body, type=Object)
        return WatchEvent(type_, None, marker.metadata.resource_version)
    obj = decode(kind, body)
    return WatchEvent(type_, obj, meta_of(obj).resource_version)


class _Splitter:
    """A splitter that turns pieces of any size into lines, in time proportional to their size."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest: list[bytes] = []
        self.size = 0  # the size of the incomplete line

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that end in this piece, without line ends and without empty lines.

        Raises `TransportError` if a line exceeds the limit.
        """
        first, *others = chunk.split(b"\n")
        self._rest.append(first)
        self.size += len(first)
        if self.size > self._limit:
            raise TransportError(f"the server sent a line of more than {self._limit >> 20} MiB")
        if not others:
            return []
        lines = [b"".join(self._rest), *others]
        self._rest = [lines.pop()]
        self.size = len(self._rest[0])
        return list(filter(None, lines))

    def take_rest(self) -> bytes:
        """Return and drop the beginning of an unfinished line. Its remainder will count as a separate line."""
        rest = b"".join(self._rest)
        self._rest, self.size = [], 0
        return rest


async def iterate_lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the lines of a text that arrives in pieces, without line ends and without empty lines.

    The last line need not have a line end. If the stream breaks in it, the line is dropped. A line of more than
    `TEXT_LINE_BYTES` is yielded in several parts.
    """
    splitter = _Splitter(LINE_LIMIT)
    async for chunk in chunks:
        for line in splitter.feed(chunk):
            yield line
        if splitter.size > TEXT_LINE_BYTES:
            yield splitter.take_rest()
    if rest := splitter.take_rest():
        yield rest


def _make_unreadable_error(kind: Kind[Any], body: bytes, error: Exception) -> TransportError:
    start = body[:120].decode(errors="replace")
    return UnreadableAnswerError(f"the server's answer is not a {kind.kind} as we know it: {error}: {start!r}")


def error_of(response: Response, method: str = "GET", path: str = "") -> ApiError:
    """Return the `ApiError` for a refused response. If its body has no Status, make one from the HTTP status.

    path: the requested path, for the error of a server that does not serve it.
    """
    try:
        status = msgspec.json.decode(response.body, type=Status)
    except _UNREADABLE:
        status = Status()
    if status.code == 0:
        text = response.body[:200].decode(errors="replace").strip()
        reason = _REASONS.get(response.status, "Unknown")
        if response.status == 409 and method == "POST":
            reason = "AlreadyExists"
        message = text or f"HTTP {response.status}"
        if response.status == 404 and path:
            message = f"{message}: the server does not serve {path}"
        status = Status(status="Failure", code=response.status, reason=reason, message=message)
    wait = response.headers.get("retry-after", "")
    details = status.details or StatusDetails()
    if wait.isdecimal() and len(wait) < 6 and not details.retry_after_seconds:
        details = msgspec.structs.replace(details, retry_after_seconds=int(wait))
        status = msgspec.structs.replace(status, details=details)
    return ApiError(status)


# Proxies in front of an API server answer with a bare HTTP status.
_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    410: "Expired",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


def _query(**parameters: str) -> dict[str, str]:
    return {name: value for name, value in parameters.items() if value}
