"""A webhook to play with: HTTPS on loopback, answers as a test wants, and an API server that asks it in real time."""

import asyncio
import base64
import inspect
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import trustme
from aiohttp import web
from tests.system.apiserver.harness import Api

from muster.cluster.controlplane import control_plane
from muster.cluster.store import MemoryJournal
from muster.runtime.clock import RealClock
from muster.runtime.externalinputs import ExternalInputs
from muster.runtime.ids import Ids, Random

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
MUTATING = f"{CONFIGURATIONS}/mutatingwebhookconfigurations"
VALIDATING = f"{CONFIGURATIONS}/validatingwebhookconfigurations"
MAPS_RULE = {"operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}

Respond = Callable[[dict[str, Any]], "dict[str, Any] | web.Response | Awaitable[web.Response]"]


def allow(_request: Any) -> dict[str, Any]:
    return {"allowed": True}


def patching(*operations: Any, **more: Any) -> Respond:
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return lambda _: {"allowed": True, "patchType": "JSONPatch", "patch": patch} | more


@dataclass
class Hooks:
    """A server of webhooks: each path has its own answer, and remembers what it was asked."""

    authority: trustme.CA
    port: int = 0
    respond: dict[str, Respond] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    @property
    def bundle(self) -> str:
        return base64.b64encode(self.authority.cert_pem.bytes()).decode()

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.asked]

    def webhook(self, name: str, respond: Respond = allow, **fields: Any) -> dict[str, Any]:
        """The configuration of one webhook, which answers so."""
        self.respond[f"/{name}"] = respond
        return {
            "name": f"{name}.example.com",
            "clientConfig": {"url": f"https://127.0.0.1:{self.port}/{name}", "caBundle": self.bundle},
            "rules": [MAPS_RULE],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        } | fields

    async def answer(self, http: web.Request) -> web.StreamResponse:
        review = json.loads(await http.read())
        request = review["request"]
        self.asked.append((http.path, request))
        self.headers.append(dict(http.headers) | {"query": http.query_string})
        response: Any = self.respond[http.path](request)
        if isinstance(response, Awaitable):
            response = await response
        if isinstance(response, web.StreamResponse):
            return response
        return web.json_response(
            {
                "apiVersion": review["apiVersion"],
                "kind": "AdmissionReview",
                "response": {"uid": request["uid"]} | response,
            }
        )


@asynccontextmanager
async def hooks_server(*names: str) -> AsyncIterator[Hooks]:
    authority = trustme.CA()
    hooks = Hooks(authority)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*(names or ("127.0.0.1",))).configure_cert(context)
    app = web.Application(client_max_size=4 << 20)
    app.router.add_post("/{path:.*}", hooks.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    assert site._server is not None
    hooks.port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
    try:
        yield hooks
    finally:
        await runner.cleanup()


def webhooks(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a test that takes an `Api` and `Hooks` first, in real time."""

    async def body(**parameters: Any) -> None:
        inputs = ExternalInputs(RealClock(), Ids(1), Random(1))
        async with hooks_server() as hooks, control_plane(MemoryJournal(), inputs) as plane:
            await test(Api(plane), hooks, **parameters)

    def run(**parameters: Any) -> None:
        asyncio.run(body(**parameters))

    _api, _hooks, *rest = inspect.signature(test).parameters.values()
    vars(run).update(vars(test), __signature__=inspect.Signature(rest))
    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run
