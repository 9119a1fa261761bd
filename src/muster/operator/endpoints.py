"""Serve a replica's probes over HTTP, and its metrics over HTTPS for authorized readers."""

import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

from muster.api.config.types import Health
from muster.api.status import ApiError
from muster.cluster.apiserver.front.inbound import InboundRequest
from muster.cluster.apiserver.front.listener import Listener
from muster.operator.addresses import OFF, parse_address
from muster.operator.routes import Handler, Routes, text_answer
from muster.runtime.metrics import CONTENT_TYPE, Registry
from muster.runtime.transport import Response, TransportError

# Returns an HTTP status: whether the owner of a token may read a path.
Judge = Callable[[str, str], Awaitable[int]]

_LAST_ANSWERS_SECONDS = 60.0  # for answers still being sent when the server stops

log = logging.getLogger(__name__)


def make_probe_handlers(
    settings: Health, unready: Callable[[], str], lacks: Callable[[], str] = str
) -> dict[str, Handler]:
    """Return the handlers of the probes: liveness always answers ok, and readiness says why the replica is not ready.

    unready: returns why the replica is not ready; "" if it is.
    lacks: returns a note for the response of a ready replica; "" for none.
    """

    async def live(_: InboundRequest) -> Response:
        return text_answer(200, "ok")

    async def ready(_: InboundRequest) -> Response:
        problem = unready()
        return text_answer(503 if problem else 200, problem or lacks() or "ok")

    live_path, ready_path = settings.liveness_endpoint_name or "healthz", settings.readiness_endpoint_name or "readyz"
    return {f"/{live_path.strip('/')}": live, f"/{ready_path.strip('/')}": ready}


def make_metrics_handler(registry: Registry, judge: Judge | None) -> dict[str, Handler]:
    """Return the handler of `/metrics`. judge: decides whether a caller may read it; None allows all callers."""

    async def scrape(request: InboundRequest) -> Response:
        if judge is not None:
            scheme, _, token = request.header("authorization").partition(" ")
            try:
                status = await judge(token.strip() if scheme.lower() == "bearer" else "", request.path)
            except (ApiError, TransportError) as error:
                log.warning("metrics: whether they may be read could not be asked: %s", error)
                status = 503
            if status != 200:
                return text_answer(status, "")
        return Response(200, await registry.scrape(), CONTENT_TYPE)

    return {"/metrics": scrape}


@asynccontextmanager
async def serve_handlers(
    where: str, handlers: Mapping[str, Handler], context: ssl.SSLContext | None = None, method: str = "GET"
) -> AsyncIterator[int]:
    """Serve the handlers until the context closes, and yield the port; yield 0 and serve nothing if `where` is `OFF`.

    where: the bind address.
    method: the only HTTP method that is served.

    Raises `BadAddressError`, `OSError`.
    """
    if where == OFF:
        yield 0
        return
    listener = Listener(Routes(handlers, method), context)
    port = await listener.start(*parse_address(where))
    try:
        yield port
    finally:
        await listener.stop(_LAST_ANSWERS_SECONDS)
