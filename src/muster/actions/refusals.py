"""Says of each refusal what is missing, in words of users: a right, a kind, or an answer that the server needs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

import msgspec
from msgspec.structs import replace

from muster.api.status import ApiError, path_not_found
from muster.insight.refusal import missing_right, no_answer, not_installed
from muster.runtime.client import error_of
from muster.runtime.transport import Conversation, Request, Response, Transport, Tunnels

_REFUSED = (403, 404, 500)


class _Both(Transport, Tunnels, Protocol):
    """A transport with tunnels."""


class PlainRefusals:
    """A transport whose refusals name what is missing.

    A server that lacks a kind refuses who has no right to it as if it had it: to know, it is asked what it serves. Such
    a refusal becomes what others get: that there is no such kind.
    """

    def __init__(self, transport: _Both) -> None:
        self._transport = transport
        self._served: dict[str, frozenset[str] | None] = {}

    async def request(self, request: Request) -> Response:
        """The answer of the transport behind."""
        response = await self._transport.request(request)
        if response.status not in _REFUSED:
            return response
        said = error_of(response, request.method)
        error = await self._plain(said, request)
        if error is said:
            return response
        return replace(
            response, status=error.code, body=msgspec.json.encode(error.status), content_type="application/json"
        )

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """The stream of the transport behind."""
        async with self._naming(request), self._transport.stream(request) as chunks:
            yield chunks

    @asynccontextmanager
    async def converse(self, request: Request, protocol: str) -> AsyncIterator[Conversation]:
        """The conversation of the transport behind."""
        async with self._naming(request), self._transport.converse(request, protocol) as conversation:
            yield conversation

    async def close(self) -> None:
        """Close the transport behind."""
        await self._transport.close()

    @asynccontextmanager
    async def _naming(self, request: Request) -> AsyncIterator[None]:
        try:
            yield
        except ApiError as error:
            raise (await self._plain(error, request)) if error.code in _REFUSED else error from None

    async def _plain(self, error: ApiError, request: Request) -> ApiError:
        if error.code == 500:
            silent = no_answer(str(error))
            return ApiError(replace(error.status, message=silent)) if silent else error
        right = missing_right(str(error)) if error.code == 403 else ""
        is_object = error.status.details is not None and error.status.details.name
        if (right or not is_object) and (lacking := await self._lacking(request.path)):
            return ApiError(replace(path_not_found().status, message=lacking))
        return ApiError(replace(error.status, message=right)) if right else error

    async def _lacking(self, path: str) -> str:
        """That the server has no such kind; "" if it has, or does not tell."""
        match path.split("/"):
            case ["", "apis", group, version, "namespaces", _, plural, *_] | ["", "apis", group, version, plural, *_]:
                served = await self._serves(group, version)
                return not_installed(group, version, plural) if served is not None and plural not in served else ""
        return ""

    async def _serves(self, group: str, version: str) -> frozenset[str] | None:
        """The plurals of its kinds; None if that may not be known."""
        path = f"/apis/{group}/{version}"
        if path not in self._served:
            answer = await self._transport.request(Request("GET", path))
            self._served[path] = _plurals(answer)
        return self._served[path]


class _Resource(msgspec.Struct, frozen=True):
    name: str


class _Resources(msgspec.Struct, frozen=True):
    resources: list[_Resource]


def _plurals(answer: Response) -> frozenset[str] | None:
    if answer.status == 404:
        return frozenset()
    if answer.status != 200:
        return None
    try:
        found = msgspec.json.decode(answer.body, type=_Resources).resources
    except msgspec.MsgspecError:  # of a proxy in front of the server
        return None
    return frozenset(one.name.partition("/")[0] for one in found)
