"""Slow down a controller's writes when it and another writer undo each other's writes again and again.

Two programs may disagree about a field, or about whether an object exists. Then both would write as fast as the server
responds, for ever. A write that has been undone several times waits, longer each time: it is refused with 429, as a
busy server would refuse it, and an event names the field and the rival. `runtime.control.rivals` decides.
"""

import math
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec
from msgspec.structs import replace

from muster.api.core import ObjectReference
from muster.api.status import ApiError, too_many_requests
from muster.runtime.clock import Clock
from muster.runtime.control.rivals import (
    ANOTHER,
    Document,
    FieldChange,
    Quarrel,
    WriteRecord,
    count_write,
    find_changes,
    judge_write,
    meet_object,
)
from muster.runtime.events.recorder import Recorder
from muster.runtime.transport import Request, Response, Transport

# The maximum number of objects whose writes are counted. The object with the oldest write is dropped first.
OBJECTS = 4096
_LONGEST_VALUE = 64


class YieldingTransport:
    """A transport that delays a write which another writer keeps undoing. All other requests pass unchanged."""

    def __init__(self, inner: Transport, clock: Clock, recorder: Recorder) -> None:
        self._inner = inner
        self._clock = clock
        self._recorder = recorder
        self._known: OrderedDict[str, WriteRecord] = OrderedDict()

    async def request(self, request: Request) -> Response:
        """Send the request, and return the server's response.

        A write that another writer keeps undoing is not sent: the method itself returns a refusal (429). Raises
        `TransportError` if the server does not respond.
        """
        path = "" if request.method == "GET" or "dryRun" in request.query else _find_written_path(request)
        if not path:
            return await self._inner.request(request)
        now = self._clock.monotonic()
        record = count_write(self._known.pop(path, _UNKNOWN), now)
        self._remember(path, record)
        if record.are_suspicious(of_fields=request.method not in ("POST", "DELETE")):
            answer = await self._send_watched(request, path, record, now)
        else:
            answer = await self._inner.request(request)
        if request.method == "DELETE":
            self._forget_listed(path, answer)
        return answer

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a stream of the inner transport, without delay because streams only read.

        Raises the inner transport's errors.
        """
        return self._inner.stream(request)

    async def close(self) -> None:
        """Close the inner transport."""
        await self._inner.close()

    async def _send_watched(self, request: Request, path: str, record: WriteRecord, now: float) -> Response:
        """Send a write, and record whether it undid a write of another client; return the response.

        If this process and another client keep undoing each other's writes, the write is refused for a while (429).
        """
        us = request.query.get("fieldManager", "")
        before = None if request.method == "POST" else _decode_document(await self._inner.request(Request("GET", path)))
        if before is None and request.method != "POST":  # nothing to compare with
            return await self._inner.request(request)
        record = meet_object(record, _get_uid(before))
        if record.waits(now):
            held = record.held_by(await self._predict_changes(request, before, us), now)
            if held is not None:
                wait = math.ceil(held.free_at - now)
                return _make_refusal(
                    too_many_requests(f"{_describe_quarrel(held, us)}; the next try is in {wait} s", wait)
                )
        answer = await self._inner.request(request)
        if answer.status >= 400:  # the write changed nothing
            return answer
        after = None if request.method == "DELETE" else _decode_document(answer)
        known = judge_write(record, find_changes(before, after, us), now)
        self._remember(path, known)
        for quarrel in known.quarrels.values():
            if quarrel.at == now and quarrel.is_noticed:
                reason = "FieldContested" if quarrel.about.path else "ObjectContested"
                self._recorder.event(
                    _make_reference(after or before or {}), "Warning", reason, _describe_quarrel(quarrel, us)
                )
        return answer

    async def _predict_changes(self, request: Request, before: Document | None, us: str) -> list[FieldChange]:
        """Return the changes that a write would make, according to a dry run on the server.

        before: the object before the write; None if it does not exist.
        us: the field manager of this process's writes.
        """
        if request.method == "DELETE":
            return find_changes(before, None, us)
        after = _decode_document(await self._inner.request(replace(request, query={**request.query, "dryRun": "All"})))
        return [] if after is None else find_changes(before, after, us)

    def _forget_listed(self, path: str, answer: Response) -> None:
        """Drop the records of the objects of a collection that this process has just deleted.

        No rival deleted these objects.
        """
        if answer.status < 400 and not (body := _body(answer.body)).metadata.uid:
            for item in _bodies(body.items):
                self._known.pop(f"{path}/{item.metadata.name}", None)

    def _remember(self, path: str, record: WriteRecord) -> None:
        self._known[path] = record
        if len(self._known) > OBJECTS:
            self._known.popitem(last=False)


class _Meta(msgspec.Struct):
    name: str = ""
    uid: str = ""


class _Body(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    items: msgspec.Raw = msgspec.Raw(b"[]")


_UNKNOWN = WriteRecord()
_body = msgspec.json.Decoder(_Body).decode
_bodies = msgspec.json.Decoder(list[_Body]).decode


def _find_written_path(request: Request) -> str:
    """Return the path of the object that a request writes; "" if its name is not known yet."""
    if request.method != "POST":
        return request.path
    name = _body(request.body).metadata.name
    return name and f"{request.path}/{name}"


def _decode_document(answer: Response) -> dict[str, Any] | None:
    return msgspec.json.decode(answer.body) if answer.status < 400 else None


def _get_uid(document: Document | None) -> str:
    return str(document["metadata"].get("uid", "")) if document is not None else ""


def _describe_quarrel(quarrel: Quarrel, us: str) -> str:
    about, who = quarrel.about, us or "the controller"
    rival = about.rival if about.rival == ANOTHER else f'"{about.rival}"'
    return f"{who} {_describe_change(about, rival)}, again and again: {who} slows down"


def _describe_change(about: FieldChange, rival: str) -> str:
    if about.path:
        return f"sets {about.name} to {_render_value(about.ours)} and {rival} sets it to {_render_value(about.theirs)}"
    return f"creates it and {rival} deletes it" if about.ours else f"deletes it and {rival} creates it"


def _render_value(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."


def _make_reference(document: Document) -> ObjectReference:
    meta = document["metadata"]
    return ObjectReference(
        api_version=document.get("apiVersion", ""),
        kind=document.get("kind", ""),
        namespace=meta.get("namespace", ""),
        name=meta.get("name", ""),
        uid=meta.get("uid", ""),
        resource_version=meta.get("resourceVersion", ""),
    )


def _make_refusal(error: ApiError) -> Response:
    return Response(error.code, msgspec.json.encode(error.status))
