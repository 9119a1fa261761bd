"""Tells kube-apiserver what tests of the embedded server tell that, in a namespace of each test's own.

The namespace is called `default` in what a test says and reads, as it is there.
"""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace
from tests.system.apiserver.harness import Api

from muster.cluster.apiserver.identity.users import ADMIN, User
from muster.runtime.clock import RealClock
from muster.runtime.kube.https import HttpsTransport
from muster.runtime.transport import Request, Response


class RealApi(Api):
    """The same words, for a server that is reached over HTTPS."""

    plane = server = store = property(lambda _: pytest.skip("it looks behind the wire"))

    def __init__(self, transport: HttpsTransport, namespace: str) -> None:
        self.clock = RealClock()
        self._transport = transport
        self._namespace = namespace
        self._made: list[str] = []  # paths of objects that are of no namespace

    async def answered(self, request: Request, user: User) -> Response:
        response = await self._transport.request(self._asked(request, user))
        if request.method == "POST" and response.status == 201 and "/namespaces/" not in request.path:
            self._made.append(f"{request.path}/{json.loads(response.body)['metadata']['name']}")
        return replace(response, body=self._inward(response.body))

    @asynccontextmanager
    async def chunks(self, request: Request, user: User) -> AsyncIterator[AsyncIterator[bytes]]:
        async with self._transport.stream(self._asked(request, user)) as chunks:
            yield self._told(chunks)

    async def clean(self) -> None:
        """Remove what is of no namespace."""
        for path in reversed(self._made):
            await self._transport.request(Request("DELETE", path))

    def _asked(self, request: Request, user: User) -> Request:
        path = re.sub(r"/namespaces/default(?=/|$)", f"/namespaces/{self._namespace}", request.path)
        body = request.body.replace(b'"namespace": "default"', f'"namespace": "{self._namespace}"'.encode())
        return replace(request, path=path, body=body, headers=(*request.headers, *_as(user)))

    def _inward(self, body: bytes) -> bytes:
        return body.replace(self._namespace.encode(), b"default")

    async def _told(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for chunk in chunks:
            yield self._inward(chunk)


def _as(user: User) -> tuple[tuple[str, str], ...]:
    if user == ADMIN:
        return ()
    return (("impersonate-user", user.name), *(("impersonate-group", group) for group in sorted(user.groups)))
