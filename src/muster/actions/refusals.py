"""Rewrite a server's refusals for users: name what is missing, and what the user can do.

The missing thing may be a valid credential, a right, a kind, or the response of a webhook.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

import msgspec
from msgspec.structs import replace

from muster.api.status import ApiError, path_not_found
from muster.insight.jobs.refusal import (
    UNKNOWN_CREDENTIAL,
    explain_missing_kind,
    explain_missing_right,
    explain_silent_webhook,
)
from muster.runtime.client import error_of
from muster.runtime.transport import Conversation, Request, Response, Transport, Tunnels

_REFUSED = (401, 403, 404, 500)
# The message of a 401 response without details.
_BARE = "Unauthorized"


class _Both(Transport, Tunnels, Protocol):
    """A transport for requests that can also open tunnels."""


class PlainRefusals:
    """A transport that turns unclear refusals of a server into errors that name the missing right or kind.

    To a user without rights to a kind, a server sends the same refusal whether or not it serves the kind. The transport
    therefore requests the list of served kinds. A refusal for a kind that is not served becomes a 404.
    """

    def __init__(self, transport: _Both) -> None:
        self._transport = transport
        self._served: dict[str, frozenset[str] | None] = {}

    async def request(self, request: Request) -> Response:
        """Forward a request. If the server refuses it, the response names the missing right or kind."""
        response = await self._transport.request(request)
        if response.status not in _REFUSED:
            return response
        original = error_of(response, request.method)
        error = await self._explain(original, request)
        if error is original:
            return response
        return replace(
            response, status=error.code, body=msgspec.json.encode(error.status), content_type="application/json"
        )

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a stream. If the server refuses it, the error names the missing right or kind."""
        async with self._explain_refusals(request), self._transport.stream(request) as chunks:
            yield chunks

    @asynccontextmanager
    async def converse(self, request: Request, protocol: str) -> AsyncIterator[Conversation]:
        """Open a conversation. If the server refuses it, the error names the missing right or kind."""
        async with self._explain_refusals(request), self._transport.converse(request, protocol) as conversation:
            yield conversation

    async def close(self) -> None:
        """Close the inner transport."""
        await self._transport.close()

    @asynccontextmanager
    async def _explain_refusals(self, request: Request) -> AsyncIterator[None]:
        try:
            yield
        except ApiError as error:
            raise (await self._explain(error, request)) if error.code in _REFUSED else error from None

    async def _explain(self, error: ApiError, request: Request) -> ApiError:
        if error.code == 401:
            server_message = "" if error.status.message == _BARE else f" (the server says: {error.status.message})"
            return ApiError(replace(error.status, message=UNKNOWN_CREDENTIAL + server_message))
        if error.code == 500:
            silent = explain_silent_webhook(str(error))
            return ApiError(replace(error.status, message=silent)) if silent else error
        right = explain_missing_right(str(error)) if error.code == 403 else ""
        is_object = error.status.details is not None and error.status.details.name
        if (right or not is_object) and (lacking := await self._describe_missing_kind(request.path)):
            return ApiError(replace(path_not_found().status, message=lacking))
        return ApiError(replace(error.status, message=right)) if right else error

    async def _describe_missing_kind(self, path: str) -> str:
        """Return a sentence that the server does not serve this kind; "" if it does, or if that is unknown."""
        match path.split("/"):
            case ["", "apis", group, version, "namespaces", _, plural, *_] | ["", "apis", group, version, plural, *_]:
                served = await self._list_served(group, version)
                return (
                    explain_missing_kind(group, version, plural) if served is not None and plural not in served else ""
                )
        return ""

    async def _list_served(self, group: str, version: str) -> frozenset[str] | None:
        """Return the plural names of the kinds in an API group version; None if they cannot be read."""
        path = f"/apis/{group}/{version}"
        if path not in self._served:
            answer = await self._transport.request(Request("GET", path))
            self._served[path] = _read_plurals(answer)
        return self._served[path]


class _Resource(msgspec.Struct, frozen=True):
    name: str


class _Resources(msgspec.Struct, frozen=True):
    resources: list[_Resource]


def _read_plurals(answer: Response) -> frozenset[str] | None:
    if answer.status == 404:
        return frozenset()
    if answer.status != 200:
        return None
    try:
        resources = msgspec.json.decode(answer.body, type=_Resources).resources
    except msgspec.MsgspecError:  # the response is from a proxy in front of the server
        return None
    return frozenset(one.name.partition("/")[0] for one in resources)
