"""Two transports without a wire: one that plays a script, and a small API server in memory that can misbehave."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from muster.api.kinds import Kind
from muster.api.meta import ObjectMeta, Struct
from muster.api.status import ApiError, already_exists, conflict, expired, not_found, unavailable
from muster.runtime.client import error_of
from muster.runtime.transport import Request, Response, TransportError


class Thing(Struct):
    metadata: ObjectMeta = ObjectMeta()
    value: int = 0


THING = Kind("test.dev", "v1", "Thing", "things", Thing)


class ScriptedTransport:
    """Answers each request with the next line of the script, and remembers what was asked."""

    def __init__(self, *script: Response | Exception | list[bytes | Exception]) -> None:
        self.script = list(script)
        self.requests: list[Request] = []
        self.open_streams = 0
        self.closed = False

    def _next(self, request: Request) -> Response | list[bytes | Exception]:
        self.requests.append(request)
        step = self.script.pop(0)
        if isinstance(step, Exception):
            raise step
        return step

    async def request(self, request: Request) -> Response:
        step = self._next(request)
        assert isinstance(step, Response)
        return step

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        step = self._next(request)
        assert isinstance(step, list)

        async def chunks() -> AsyncIterator[bytes]:
            for chunk in step:
                if isinstance(chunk, Exception):
                    raise chunk
                yield chunk

        pieces = chunks()
        self.open_streams += 1
        try:
            yield pieces
        finally:
            self.open_streams -= 1
            await pieces.aclose()  # type: ignore[attr-defined]

    async def close(self) -> None:
        self.closed = True


class Stream:
    """One watch of a `MemoryServer`, as the server sees it."""

    def __init__(self) -> None:
        self._chunks: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()

    def send(self, chunk: bytes) -> None:
        self._chunks.put_nowait(chunk)

    def end(self, error: Exception | None = None) -> None:
        self._chunks.put_nowait(error)

    def __aiter__(self) -> "Stream":
        return self

    async def __anext__(self) -> bytes:
        chunk = await self._chunks.get()
        if chunk is None:
            raise StopAsyncIteration
        if isinstance(chunk, Exception):
            raise chunk
        return chunk


class MemoryServer:
    """An API server for namespaced kinds without selectors: lists in pages, watches, optimistic writes, faults."""

    def __init__(self) -> None:
        self.revision = 1
        self.compacted = 0  # watches from before this revision are refused
        self.objects: dict[str, dict[str, dict[str, Any]]] = {}  # collection path without namespace -> key -> object
        self.history: list[tuple[int, str, dict[str, Any]]] = []  # revision, event type, object
        self.streams: list[Stream] = []
        self.requests: list[Request] = []
        self.fault: Callable[[Request], Exception | Response | None] = lambda request: None
        self.writers: list[tuple[float, str]] = []  # loop time and field manager of every write

    # What a test does to the world.

    def put(self, name: str, value: int = 0, namespace: str = "default", kind: Kind[Any] = THING) -> dict[str, Any]:
        key = f"{namespace}/{name}"
        old = self._collection(kind).get(key)
        self.revision += 1
        metadata = {"name": name, "namespace": namespace, "resourceVersion": str(self.revision)}
        metadata["uid"] = old["metadata"]["uid"] if old else f"uid-{self.revision}"
        return self._store(kind, key, {"metadata": metadata, "value": value}, "MODIFIED" if old else "ADDED")

    def remove(self, name: str, namespace: str = "default", kind: Kind[Any] = THING) -> None:
        obj = self._collection(kind).pop(f"{namespace}/{name}", None)
        if obj is not None:
            self.revision += 1
            gone = obj | {"metadata": obj["metadata"] | {"resourceVersion": str(self.revision)}}
            self._announce("DELETED", gone)

    def bookmark(self) -> None:
        for stream in self.streams:
            stream.send(_line("BOOKMARK", {"metadata": {"resourceVersion": str(self.revision)}}))

    def break_streams(self, error: Exception | None = None) -> None:
        """End all watches: in order, or with an error."""
        for stream in self.streams:
            stream.end(error)
        self.streams.clear()

    def send_raw(self, data: bytes) -> None:
        for stream in self.streams:
            stream.send(data)

    def compact(self) -> None:
        """Forget the past."""
        self.compacted = self.revision
        self.history.clear()

    def state(self, kind: Kind[Any] = THING) -> dict[str, tuple[str, int]]:
        return {
            key: (obj["metadata"]["uid"], obj.get("value", 0)) for key, obj in sorted(self._collection(kind).items())
        }

    def count(self, *, watch: bool) -> int:
        """How many lists (first pages) or watches were asked for."""
        return sum(
            request.method == "GET" and ("watch" in request.query) is watch and "continue" not in request.query
            for request in self.requests
        )

    # What a client sees of it.

    async def request(self, request: Request) -> Response:
        self.requests.append(request)
        await asyncio.sleep(0)
        fault = self.fault(request)
        if isinstance(fault, Exception):
            raise fault
        if fault is not None:
            return fault
        try:
            return Response(200, self._handle(request))
        except ApiError as error:
            return Response(error.code, msgspec.json.encode(error.status))

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        self.requests.append(request)
        await asyncio.sleep(0)
        fault = self.fault(request)
        if isinstance(fault, Exception):
            raise fault
        if fault is not None:
            raise error_of(fault)
        since = int(request.query["resourceVersion"])
        stream = Stream()
        if since < self.compacted:
            stream.send(_line("ERROR", msgspec.to_builtins(expired("too old resource version").status)))
            stream.end()
        else:
            for revision, type, obj in self.history:
                if revision > since:
                    stream.send(_line(type, obj))
            self.streams.append(stream)
        try:
            yield stream
        finally:
            if stream in self.streams:
                self.streams.remove(stream)

    async def close(self) -> None:
        pass

    def _handle(self, request: Request) -> bytes:
        collection, namespace, name = _split(request.path)
        objects = self.objects.setdefault(collection, {})
        if request.method == "GET":
            return _encode(_get(objects, f"{namespace}/{name}", collection)) if name else self._list(objects, request)
        self.writers.append((asyncio.get_running_loop().time(), request.query.get("fieldManager", "")))
        body = json.loads(request.body)
        if request.method == "POST":
            body["metadata"]["namespace"] = namespace
            key = f"{namespace}/{body['metadata']['name']}"
            if key in objects:
                raise already_exists(collection, key)
            self.revision += 1
            body["metadata"] |= {"resourceVersion": str(self.revision), "uid": f"uid-{self.revision}"}
            return self._save(objects, key, body, "ADDED")
        key = f"{namespace}/{name}"
        old = _get(objects, key, collection)
        if request.method == "DELETE":
            self.revision += 1
            del objects[key]
            self._announce("DELETED", old | {"metadata": old["metadata"] | {"resourceVersion": str(self.revision)}})
            return _encode({"kind": "Status", "status": "Success"})
        meta = body.get("metadata", {})
        if meta.get("resourceVersion", old["metadata"]["resourceVersion"]) != old["metadata"]["resourceVersion"]:
            raise conflict(collection, name)
        self.revision += 1
        new = old | body | {"metadata": old["metadata"] | meta | {"resourceVersion": str(self.revision)}}
        return self._save(objects, key, new, "MODIFIED")

    def _list(self, objects: dict[str, dict[str, Any]], request: Request) -> bytes:
        if "continue" in request.query:
            revision, _, after = request.query["continue"].partition(":")
            if int(revision) != self.revision:  # this server keeps no old states at all
                raise expired("The provided continue parameter is too old to display a consistent list result.")
        else:
            after = ""
        keys = sorted(key for key in objects if key > after)
        limit = int(request.query.get("limit", "0")) or len(keys) or 1
        metadata = {"resourceVersion": str(self.revision)}
        if len(keys) > limit:
            metadata["continue"] = f"{self.revision}:{keys[limit - 1]}"
        return _encode({"metadata": metadata, "items": [objects[key] for key in keys[:limit]]})

    def _collection(self, kind: Kind[Any]) -> dict[str, dict[str, Any]]:
        return self.objects.setdefault(kind.path(), {})

    def _store(self, kind: Kind[Any], key: str, obj: dict[str, Any], type: str) -> dict[str, Any]:
        self._save(self._collection(kind), key, obj, type)
        return obj

    def _save(self, objects: dict[str, dict[str, Any]], key: str, obj: dict[str, Any], type: str) -> bytes:
        objects[key] = obj
        self._announce(type, obj)
        return _encode(obj)

    def _announce(self, type: str, obj: dict[str, Any]) -> None:
        self.history.append((self.revision, type, obj))
        for stream in self.streams:
            stream.send(_line(type, obj))


def _get(objects: dict[str, dict[str, Any]], key: str, collection: str) -> dict[str, Any]:
    if key not in objects:
        raise not_found(collection, key)
    return objects[key]


def _split(path: str) -> tuple[str, str, str]:
    """The collection's path without namespace, the namespace and the name."""
    head, separator, tail = path.partition("/namespaces/")
    if not separator:
        return path, "", ""
    namespace, plural, *name = tail.split("/")
    return f"{head}/{plural}", namespace, name[0] if name else ""


def _encode(value: Any) -> bytes:
    return json.dumps(value).encode()


def _line(type: str, obj: Any) -> bytes:
    return _encode({"type": type, "object": obj}) + b"\n"


def down(request: Request) -> Exception:
    """A fault: nobody answers."""
    return TransportError(f"cannot reach the server for {request.method} {request.path}")


def busy(request: Request) -> Response:
    """A fault: the server has no time."""
    return Response(503, msgspec.json.encode(unavailable("try again").status))


@pytest.fixture
def server() -> MemoryServer:
    return MemoryServer()
