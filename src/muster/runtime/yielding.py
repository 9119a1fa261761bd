"""A transport for controllers that gives way: who and another undo each other's writes, again and again, slows down.

Two programs that disagree about a field would else write as fast as the server answers, for ever. A write that has been
undone several times waits, longer each time: it is refused with 429, as a busy server would refuse it, and an event
names the field and the rival. `runtime.rivals` decides.
"""

import math
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec

from muster.api.core import ObjectReference
from muster.api.status import ApiError, too_many_requests
from muster.runtime.clock import Clock
from muster.runtime.recorder import Recorder
from muster.runtime.rivals import Dealings, Quarrel, counted, judged, undone
from muster.runtime.transport import MERGE_PATCH, STRATEGIC_MERGE_PATCH, Request, Response, Transport

# Of so many objects it is known how often they were written; the one that was written longest ago is forgotten.
OBJECTS = 4096
_LONGEST_VALUE = 64


class YieldingTransport:
    """Passes everything on, but for patches that another writer keeps undoing."""

    def __init__(self, inner: Transport, clock: Clock, recorder: Recorder) -> None:
        self._inner = inner
        self._clock = clock
        self._recorder = recorder
        self._known: OrderedDict[str, Dealings] = OrderedDict()

    async def request(self, request: Request) -> Response:
        """The answer, whatever its status. Raises `TransportError` if there is none."""
        merges = request.content_type in (MERGE_PATCH, STRATEGIC_MERGE_PATCH)
        if request.method != "PATCH" or not merges or "dryRun" in request.query:
            return await self._inner.request(request)
        now = self._clock.monotonic()
        dealings = counted(self._known.pop(request.path, _UNKNOWN), now)
        self._remember(request.path, dealings)
        if not dealings.is_suspicious:
            return await self._inner.request(request)
        return await self._look(request, dealings, now)

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The body as it comes. Raises as the transport below does."""
        return self._inner.stream(request)

    async def close(self) -> None:
        """Let go of connections."""
        await self._inner.close()

    async def _look(self, request: Request, dealings: Dealings, now: float) -> Response:
        us, patch = request.query.get("fieldManager", ""), msgspec.json.decode(request.body)
        held = dealings.held_by(patch, now)
        if held is not None:
            wait = math.ceil(held.free_at - now)
            return _refusal(too_many_requests(f"{_sentence(held, us)}; the next try is in {wait} s", wait))
        there = await self._inner.request(Request("GET", request.path))
        answer = await self._inner.request(request)
        if there.status >= 400 or answer.status >= 400:  # nothing was set
            return answer
        current = msgspec.json.decode(there.body)
        known = judged(dealings, str(current["metadata"].get("uid", "")), patch, undone(patch, current, us), now)
        self._remember(request.path, known)
        for quarrel in known.quarrels.values():
            if quarrel.at == now and quarrel.is_noticed:
                self._recorder.event(_reference(current), "Warning", "FieldContested", _sentence(quarrel, us))
        return answer

    def _remember(self, path: str, dealings: Dealings) -> None:
        self._known[path] = dealings
        if len(self._known) > OBJECTS:
            self._known.popitem(last=False)


_UNKNOWN = Dealings()


def _sentence(quarrel: Quarrel, us: str) -> str:
    about = quarrel.about
    who, ours, theirs = us or "the controller", _written(about.ours), _written(about.theirs)
    return (
        f'{who} sets {about.name} to {ours} and "{about.rival}" sets it to {theirs}, again and again: {who} slows down'
    )


def _written(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."


def _reference(document: dict[str, Any]) -> ObjectReference:
    meta = document["metadata"]
    return ObjectReference(
        api_version=document.get("apiVersion", ""),
        kind=document.get("kind", ""),
        namespace=meta.get("namespace", ""),
        name=meta.get("name", ""),
        uid=meta.get("uid", ""),
        resource_version=meta.get("resourceVersion", ""),
    )


def _refusal(error: ApiError) -> Response:
    return Response(error.code, msgspec.json.encode(error.status))
