"""Carries a question to a webhook over TLS and brings the answer back.

A webhook is a stranger: its certificate is checked against the bundle of its configuration, it gets so many seconds,
its answer may be so long, and where it would send us on to, nobody goes.
"""

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol
from urllib.parse import urlsplit

import aiohttp

from muster.api.admissionregistration import WebhookClientConfig
from muster.cluster.apiserver.decode import MAX_BODY_BYTES
from muster.cluster.apiserver.webhooks.services import Address, ServiceError
from muster.runtime.https_tls import client_context, explain
from muster.runtime.kubeconfig import ClusterConfig
from muster.runtime.transport import JSON, TransportError

_SHOWN = 200  # characters of an answer that is no answer
_CONNECTIONS = 100  # at once, to one webhook's server: a slow one holds up nobody who asks others
# OpenSSL's codes for a chain that ends in no certificate of the bundle (X509_V_ERR_*).
_UNKNOWN_AUTHORITY = frozenset({2, 18, 19, 20, 21})


class CallError(Exception):
    """There is no answer; the message says why."""


class Calls(Protocol):
    """Asks webhooks."""

    async def post(self, config: WebhookClientConfig, body: bytes, seconds: float) -> bytes:
        """The answer of a webhook. Raises `CallError`."""
        ...


# Where a service answers: (namespace, name, port). Raises `ServiceError`.
Resolve = Callable[[str, str, int], Address]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where to send a question, in the words of the configuration."""

    url: str
    host: str  # what the certificate must be for, and the Host header says


class HttpCalls:
    """Asks over HTTPS; connections are kept for the next question. Used from one event loop, until `close`."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._session: aiohttp.ClientSession | None = None

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
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _post(self, config: WebhookClientConfig, place: _Place, body: bytes) -> bytes:
        try:
            context = _context(config.ca_bundle)
            url = self._reached(config, place)
        except (TransportError, ServiceError) as error:
            raise _failed(place, str(error)) from None
        try:
            try:
                status, answer = await self._exchange(place, url, context, body)
            except aiohttp.ServerDisconnectedError:
                # A connection that was kept may have gone stale; a webhook must bear to be asked twice.
                status, answer = await self._exchange(place, url, context, body)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _failed(place, _why(error)) from None
        if len(answer) > MAX_BODY_BYTES:
            raise _failed(place, f"the answer is longer than {MAX_BODY_BYTES} bytes")
        if not 200 <= status < 300:
            raise CallError(_refused(status, answer))
        return answer

    async def _exchange(self, place: _Place, url: str, context: ssl.SSLContext, body: bytes) -> tuple[int, bytes]:
        headers = {"Content-Type": JSON, "Accept": JSON, "Host": place.host, "User-Agent": "muster-admission"}
        name = urlsplit(f"//{place.host}").hostname
        async with self._open_session().post(
            url, data=body, headers=headers, ssl=context, server_hostname=name, allow_redirects=False
        ) as response:
            answer = bytearray()
            while len(answer) <= MAX_BODY_BYTES and (piece := await response.content.read(MAX_BODY_BYTES)):
                answer += piece
            return response.status, bytes(answer)

    def _reached(self, config: WebhookClientConfig, place: _Place) -> str:
        if config.service is None:
            return place.url
        service = config.service
        address = self._resolve(service.namespace, service.name, service.port or 443)
        host = f"[{address.host}]" if ":" in address.host else address.host
        return place.url.replace(place.host, f"{host}:{address.port}", 1)

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, limit_per_host=_CONNECTIONS),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None),
                auto_decompress=False,
                skip_auto_headers=("Accept-Encoding",),
            )
        return self._session


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


def _why(error: Exception) -> str:
    """Why there was no answer, in one line, as far as that goes in the words of Go's client."""
    cause = getattr(error, "certificate_error", error)
    if isinstance(cause, ssl.SSLCertVerificationError):
        stranger = cause.verify_code in _UNKNOWN_AUTHORITY
        reason = "certificate signed by unknown authority" if stranger else cause.verify_message.rstrip(".")
        return f"tls: failed to verify certificate: x509: {reason}"
    why = explain(error)
    return why[:1].lower() + why[1:]


def _refused(status: int, answer: bytes) -> str:
    text = answer[:_SHOWN].decode(errors="replace").strip()
    if status == 404:
        why = "the server could not find the requested resource"
    elif status < 500:
        why = f"the server rejected our request for an unknown reason (HTTP {status})"
    else:
        why = f'an error on the server ("{text or status}") has prevented the request from succeeding'
    return f"failed to call webhook: {why}"


@lru_cache(maxsize=256)
def _context(authority: bytes) -> ssl.SSLContext:
    """How to speak TLS with a webhook of that authority. Raises `TransportError`."""
    return client_context(ClusterConfig("", certificate_authority=authority or None), None)
