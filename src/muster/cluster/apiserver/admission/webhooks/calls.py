"""Call a webhook over TLS, and return its response.

A webhook is not trusted. Its certificate is checked against the caBundle of its configuration. Its time and the length
of its response are limited, and redirects are not followed.
"""

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from msgspec import Struct

from muster.api.server.admissionregistration import WebhookClientConfig
from muster.cluster.apiserver.admission.webhooks.services import Address, SendError, ServiceError
from muster.cluster.apiserver.decode import MAX_BODY_BYTES

if TYPE_CHECKING:
    from muster.cluster.apiserver.admission.webhooks.sending import Sender

_SENDING = "muster.cluster.apiserver.admission.webhooks.sending"
_SHOWN = 200  # characters of an error page that the message repeats


class CallError(Exception):
    """A call of a webhook that got no response. The message says why."""


class Calls(Protocol):
    """A way to call webhooks."""

    async def post(self, config: WebhookClientConfig, body: bytes, seconds: float) -> bytes:
        """Send a body to a webhook and return the body of its response. Raises `CallError`."""
        ...


# Returns the address of a service, from its namespace, name and port. Raises `ServiceError`.
Resolve = Callable[[str, str, int], Address]


class _Place(Struct, frozen=True):
    """The URL of a webhook as its configuration states it, before a service is resolved to an address."""

    url: str
    host: str  # the name in the certificate and in the Host header


class HttpCalls:
    """Calls of webhooks over HTTPS, which reuse their connections. One event loop uses them, until `close`."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._sender: Sender | None = None

    async def post(self, config: WebhookClientConfig, body: bytes, seconds: float) -> bytes:
        """Send a body as JSON to the configured webhook; return the body of the response. Raises `CallError`."""
        place = _read_place(config, seconds)
        try:
            async with asyncio.timeout(seconds):
                return await self._send_request(config, place, body)
        except TimeoutError:
            raise _call_error(place, "context deadline exceeded") from None

    async def close(self) -> None:
        """Close all connections."""
        if self._sender is not None:
            await self._sender.close()
            self._sender = None

    async def _send_request(self, config: WebhookClientConfig, place: _Place, body: bytes) -> bytes:
        try:
            url = self._resolve_url(config, place)
            sender = await self._ensure_sender()
            status, answer = await sender.send(url, place.host, config.ca_bundle, body)
        except (SendError, ServiceError) as error:
            raise _call_error(place, str(error)) from None
        if len(answer) > MAX_BODY_BYTES:
            raise _call_error(place, f"the answer is longer than {MAX_BODY_BYTES} bytes")
        if not 200 <= status < 300:
            raise CallError(_explain_status(status, answer))
        return answer

    def _resolve_url(self, config: WebhookClientConfig, place: _Place) -> str:
        if config.service is None:
            return place.url
        service = config.service
        address = self._resolve(service.namespace, service.name, service.port or 443)
        host = f"[{address.host}]" if ":" in address.host else address.host
        return place.url.replace(place.host, f"{host}:{address.port}", 1)

    async def _ensure_sender(self) -> "Sender":
        if self._sender is None:
            await asyncio.to_thread(import_module, _SENDING)  # slow, so the import must not block the event loop
        return self._sender or self._open()

    def _open(self) -> "Sender":
        from muster.cluster.apiserver.admission.webhooks.sending import Sender

        self._sender = Sender()
        return self._sender


def _read_place(config: WebhookClientConfig, seconds: float) -> _Place:
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


def _call_error(place: _Place, why: str) -> CallError:
    return CallError(f'failed to call webhook: Post "{place.url}": {why}')


def _explain_status(status: int, answer: bytes) -> str:
    text = answer[:_SHOWN].decode(errors="replace").strip()
    if status == 404:
        why = "the server could not find the requested resource"
    elif status < 500:
        why = f"the server rejected our request for an unknown reason (HTTP {status})"
    else:
        why = f'an error on the server ("{text or status}") has prevented the request from succeeding'
    return f"failed to call webhook: {why}"
