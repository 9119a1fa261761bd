"""Calls a webhook over TLS, its certificate checked against its caBundle, and brings the answer back.

A webhook is a stranger: its certificate is checked against the bundle of its configuration, it gets so many seconds,
its answer may be so long, and where it would send us on to, we do not go.
"""

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from msgspec import Struct

from muster.api.server.admissionregistration import WebhookClientConfig
from muster.cluster.apiserver.admission.webhooks.services import Address, ServiceError
from muster.cluster.apiserver.decode import MAX_BODY_BYTES

if TYPE_CHECKING:
    from muster.cluster.apiserver.admission.webhooks.sending import Sender

_SENDING = "muster.cluster.apiserver.admission.webhooks.sending"
_SHOWN = 200  # characters of an answer that is no answer


class CallError(Exception):
    """There is no answer; the message says why."""


class SendError(Exception):
    """A body got no answer; the message says why."""


class Calls(Protocol):
    """Asks webhooks."""

    async def post(self, config: WebhookClientConfig, body: bytes, seconds: float) -> bytes:
        """The answer of a webhook. Raises `CallError`."""
        ...


# Where a service answers: (namespace, name, port). Raises `ServiceError`.
Resolve = Callable[[str, str, int], Address]


class _Place(Struct, frozen=True):
    """Where to send a question, in the words of the configuration."""

    url: str
    host: str  # what the certificate must be for, and the Host header says


class HttpCalls:
    """Asks over HTTPS; connections are kept for the next question. Used from one event loop, until `close`."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._sender: Sender | None = None

    async def post(self, config: WebhookClientConfig, body: bytes, seconds: float) -> bytes:
        """Send a body as JSON to where a configuration leads; returns that of the answer. Raises `CallError`."""
        place = _shown_place(config, seconds)
        try:
            async with asyncio.timeout(seconds):
                return await self._post(config, place, body)
        except TimeoutError:
            raise _failed(place, "context deadline exceeded") from None

    async def close(self) -> None:
        """Let go of all connections."""
        if self._sender is not None:
            await self._sender.close()
            self._sender = None

    async def _post(self, config: WebhookClientConfig, place: _Place, body: bytes) -> bytes:
        try:
            url = self._reached(config, place)
            sender = await self._opened()
            status, answer = await sender.send(url, place.host, config.ca_bundle, body)
        except (SendError, ServiceError) as error:
            raise _failed(place, str(error)) from None
        if len(answer) > MAX_BODY_BYTES:
            raise _failed(place, f"the answer is longer than {MAX_BODY_BYTES} bytes")
        if not 200 <= status < 300:
            raise CallError(_refused(status, answer))
        return answer

    def _reached(self, config: WebhookClientConfig, place: _Place) -> str:
        if config.service is None:
            return place.url
        service = config.service
        address = self._resolve(service.namespace, service.name, service.port or 443)
        host = f"[{address.host}]" if ":" in address.host else address.host
        return place.url.replace(place.host, f"{host}:{address.port}", 1)

    async def _opened(self) -> "Sender":
        if self._sender is None:
            await asyncio.to_thread(import_module, _SENDING)  # takes a while: others have their turns meanwhile
        return self._sender or self._open()

    def _open(self) -> "Sender":
        from muster.cluster.apiserver.admission.webhooks.sending import Sender

        self._sender = Sender()
        return self._sender


def _shown_place(config: WebhookClientConfig, seconds: float) -> _Place:
    if config.service is not None:
        service = config.service
        host = f"{service.name}.{service.namespace}.svc"
        authority = f"{host}:{service.port or 443}"
        url = f"https://{authority}{service.path or '/'}"
    else:
        url = config.url or ""
        authority = urlsplit(url).netloc
    limited = f"{url}?timeout={seconds:g}s"
    return _Place(limited, authority)


def _failed(place: _Place, why: str) -> CallError:
    return CallError(f'failed to call webhook: Post "{place.url}": {why}')


def _refused(status: int, answer: bytes) -> str:
    text = answer[:_SHOWN].decode(errors="replace").strip()
    if status == 404:
        why = "the server could not find the requested resource"
    elif status < 500:
        why = f"the server rejected our request for an unknown reason (HTTP {status})"
    else:
        why = f'an error on the server ("{text or status}") has prevented the request from succeeding'
    return f"failed to call webhook: {why}"
