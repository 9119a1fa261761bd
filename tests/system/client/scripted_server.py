"""An API server that does what a test says, over TLS on loopback, and remembers what it was asked."""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import trustme
from aiohttp import web

from muster.runtime.ids import Random
from muster.runtime.kube.https import HttpsTransport
from muster.runtime.kube.kubeconfig import ConnectionConfig
from muster.runtime.kube.kubeconfig_parse import from_dict
from muster.runtime.transport import Request

AUTHORITY = trustme.CA()  # of servers and clients
OTHER_AUTHORITY = trustme.CA()  # that nobody trusts
PODS = Request("GET", "/api/v1/pods")

Step = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Seen:
    """One request."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    user: str  # the common name of the client's certificate
    connection: int  # the client's port: the same for requests on one connection

    @property
    def token(self) -> str:
        return self.headers.get("Authorization", "").removeprefix("Bearer ")

    @property
    def is_watch(self) -> bool:
        return self.query.get("watch") == "true"


class ScriptedServer:
    """Each path has steps, and watches of it have their own; a request takes the next one, and the last one stays."""

    def __init__(self, *, name: str = "127.0.0.1") -> None:
        self.seen: list[Seen] = []
        self.tokens: set[str] | None = None  # those that are let in; None: no token is needed
        self._steps: dict[str, list[Step]] = {}
        self._changed = asyncio.Condition()
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        AUTHORITY.issue_cert(name).configure_cert(self._context)
        AUTHORITY.configure_trust(self._context)
        self._context.verify_mode = ssl.CERT_OPTIONAL
        self.url = ""

    def on(self, path: str, *steps: Step) -> None:
        self._steps[path] = list(steps)

    def on_watch(self, path: str, *steps: Step) -> None:
        self._steps[f"{path}?watch"] = list(steps)

    async def __aenter__(self) -> Self:
        application = web.Application(client_max_size=1 << 26)
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(application, shutdown_timeout=0.01, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._context).start()
        self.url = f"https://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    def kubeconfig(
        self, user: Mapping[str, Any] | None = None, cluster: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """A kubeconfig for this server, as a dict."""
        ca = {"certificate-authority-data": encoded(AUTHORITY.cert_pem.bytes())}
        return {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": self.url} | ca | dict(cluster or {})}],
            "users": [{"name": "u", "user": dict(user or {})}],
        }

    def connection(
        self, user: Mapping[str, Any] | None = None, cluster: Mapping[str, Any] | None = None
    ) -> ConnectionConfig:
        return from_dict(self.kubeconfig(user, cluster), "test").connection()

    async def until_watched(self, times: int) -> None:
        """Wait until so many watches have been asked for."""
        async with asyncio.timeout(10), self._changed:
            await self._changed.wait_for(lambda: len(self.watches) >= times)

    @property
    def watches(self) -> list[Seen]:
        return [seen for seen in self.seen if seen.is_watch]

    @property
    def lists(self) -> list[Seen]:
        return [seen for seen in self.seen if not seen.is_watch]

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        subject = (request.transport.get_extra_info("peercert") or {}).get("subject", ())
        names = {key: value for part in subject for key, value in part}
        seen = Seen(
            request.method,
            request.path,
            dict(request.query),
            request.headers.copy(),
            await request.read(),
            names.get("commonName", ""),
            request.transport.get_extra_info("peername")[1],
        )
        async with self._changed:
            self.seen.append(seen)
            self._changed.notify_all()
        if self.tokens is not None and seen.token not in self.tokens:
            return refusal(401, "Unauthorized")
        steps = self._steps.get(f"{seen.path}?watch" if seen.is_watch else seen.path, [answer({})])
        return await (steps.pop(0) if len(steps) > 1 else steps[0])(request)


def answer(document: Any, status: int = 200, **headers: str) -> Step:
    """Answer with a JSON document."""

    async def step(_: web.Request) -> web.StreamResponse:
        return web.json_response(document, status=status, headers={k.replace("_", "-"): v for k, v in headers.items()})

    return step


def refuse(status: int, reason: str, **headers: str) -> Step:
    """Answer with a Status."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status, "reason": reason}
    return answer(body, status, **headers)


def refusal(status: int, reason: str) -> web.Response:
    return web.json_response({"kind": "Status", "status": "Failure", "code": status, "reason": reason}, status=status)


def stream(*documents: Any, stay: bool = False, abort: bool = False) -> Step:
    """Send one line for each document, then end the stream, stay silent, or break the connection."""

    async def step(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for document in documents:
            await response.write(json.dumps(document).encode() + b"\n")
        if stay:
            await asyncio.Event().wait()
        if abort:
            assert request.transport is not None
            request.transport.abort()
        return response

    return step


async def silence(_: web.Request) -> web.StreamResponse:
    """Never answer."""
    await asyncio.Event().wait()
    raise AssertionError


async def hang_up(request: web.Request) -> web.StreamResponse:
    """Break the connection instead of answering."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


class ManualClock:
    """Time goes on when somebody sleeps, by as much as was asked for and at once; every sleep is remembered."""

    def __init__(self) -> None:
        self.sleeps: list[float] = []
        self._seconds = 0.0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self._seconds)

    def monotonic(self) -> float:
        return self._seconds

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.advance(seconds)
        await asyncio.sleep(0)

    def advance(self, seconds: float) -> None:
        self._seconds += seconds


def encoded(data: bytes) -> str:
    """Base64, as kubeconfigs hold data."""
    return base64.b64encode(data).decode()


@dataclass
class World:
    """A server, a clock, and how to reach the one by the other."""

    server: ScriptedServer
    clock: ManualClock

    @asynccontextmanager
    async def as_user(
        self, user: Mapping[str, Any] | None = None, cluster: Mapping[str, Any] | None = None
    ) -> AsyncIterator[HttpsTransport]:
        async with self.over(self.server.connection(user, cluster)) as transport:
            yield transport

    @asynccontextmanager
    async def over(self, config: ConnectionConfig, **options: Any) -> AsyncIterator[HttpsTransport]:
        transport = HttpsTransport(config, self.clock, Random(1), **options)
        try:
            yield transport
        finally:
            await transport.close()


def play(scenario: Callable[[World], Awaitable[None]], **server: Any) -> None:
    async def main() -> None:
        async with ScriptedServer(**server) as running:
            await scenario(World(running, ManualClock()))

    asyncio.run(main())


async def status(transport: HttpsTransport, request: Request = PODS) -> int:
    return (await transport.request(request)).status


def client_certificate(name: str) -> tuple[bytes, bytes]:
    """A certificate that the server believes, and its key, in PEM."""
    issued = AUTHORITY.issue_cert(f"{name}.example.com", common_name=name)
    return b"".join(pem.bytes() for pem in issued.cert_chain_pems), issued.private_key_pem.bytes()
