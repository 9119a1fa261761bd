"""What a replica serves: probes over HTTP, and metrics over HTTPS for those who may read them."""

import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

from aiohttp import web

from muster.api.config.types import Health
from muster.api.status import ApiError
from muster.runtime.metrics import CONTENT_TYPE, Registry
from muster.runtime.transport import TransportError

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
# Whether a token may read a path, as an HTTP status.
Judge = Callable[[str, str], Awaitable[int]]

_LAST_WORDS_SECONDS, _LAST_ANSWERS_SECONDS = 1.0, 60.0  # for what is being answered when it ends

OFF = "0"  # an address that is this serves nothing (controller-runtime)

log = logging.getLogger(__name__)


class BadAddressError(ValueError):
    """A bind address that is none; says which."""


def address(text: str) -> tuple[str, int]:
    """Of `:8081` or `127.0.0.1:8081` or `[::1]:8081`: the host, "" for all, and the port. Raises `BadAddressError`."""
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise BadAddressError(f"{text!r} is no address to serve at, such as :8081 or 127.0.0.1:8081")
    return host.removeprefix("[").removesuffix("]"), int(port)


def probes(settings: Health, unready: Callable[[], str], lacks: Callable[[], str] = str) -> dict[str, Handler]:
    """`/healthz` answers for as long as the process turns; `/readyz` says why it is not ready.

    lacks: what is waited for by one that is ready all the same.
    """

    async def live(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def ready(_: web.Request) -> web.Response:
        problem = unready()
        return web.Response(text=problem or lacks() or "ok", status=503 if problem else 200)

    live_path, ready_path = settings.liveness_endpoint_name or "healthz", settings.readiness_endpoint_name or "readyz"
    return {f"/{live_path.strip('/')}": live, f"/{ready_path.strip('/')}": ready}


def metrics(registry: Registry, judge: Judge | None) -> dict[str, Handler]:
    """`/metrics`, for all if there is no judge."""

    async def scrape(request: web.Request) -> web.Response:
        if judge is not None:
            scheme, _, token = request.headers.get("Authorization", "").partition(" ")
            try:
                status = await judge(token.strip() if scheme.lower() == "bearer" else "", request.path)
            except (ApiError, TransportError) as error:
                log.warning("metrics: whether they may be read could not be asked: %s", error)
                status = 503
            if status != 200:
                return web.Response(status=status)
        return web.Response(body=registry.text(), headers={"Content-Type": CONTENT_TYPE})

    return {"/metrics": scrape}


@asynccontextmanager
async def serving(
    where: str,
    handlers: Mapping[str, Handler],
    context: ssl.SSLContext | None = None,
    method: str = "GET",
    *,
    streaming: bool = False,
) -> AsyncIterator[int]:
    """Serve within the context, at an address or nowhere; the port. Raises `BadAddressError`, `OSError`.

    streaming: answers may go on for ever, until who has asked leaves or we do.
    """
    if where == OFF:
        yield 0
        return
    host, port = address(where)
    application = web.Application()
    application.add_routes([web.route(method, path, handler) for path, handler in handlers.items()])
    patience = _LAST_WORDS_SECONDS if streaming else _LAST_ANSWERS_SECONDS
    runner = web.AppRunner(
        application, access_log=None, handle_signals=False, handler_cancellation=streaming, shutdown_timeout=patience
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, host or None, port, ssl_context=context)
        await site.start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()
