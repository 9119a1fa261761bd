"""Send bodies over HTTPS. The first call of a webhook imports this module, because aiohttp loads slowly."""

import ssl
from functools import lru_cache
from urllib.parse import urlsplit

import aiohttp

from muster.cluster.apiserver.admission.webhooks.services import SendError
from muster.cluster.apiserver.decode import MAX_BODY_BYTES
from muster.runtime.kube.kubeconfig import ClusterConfig
from muster.runtime.kube.tls import client_context, explain
from muster.runtime.transport import JSON, TransportError

_CONNECTIONS = 100  # the limit for one webhook's server. Each server has its own limit, so a slow one delays no other
# OpenSSL's codes for a chain that ends in no certificate of the bundle (X509_V_ERR_*).
_UNKNOWN_AUTHORITY = frozenset({2, 18, 19, 20, 21})


class Sender:
    """An HTTPS client that reuses its connections. One event loop makes and uses it, until `close`."""

    def __init__(self) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, limit_per_host=_CONNECTIONS),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
            skip_auto_headers=("Accept-Encoding",),
        )

    async def send(self, url: str, host: str, authority: bytes, body: bytes) -> tuple[int, bytes]:
        """Send JSON to a server whose certificate is for `host`; return the status and body of the response.

        If the body is longer than `MAX_BODY_BYTES`, return only a part that still exceeds this limit, so that the
        caller can refuse it. Raises `SendError`.
        """
        try:
            context = _make_tls_context(authority)
            try:
                return await self._exchange(url, host, context, body)
            except aiohttp.ServerDisconnectedError:
                if self._session.closed:
                    raise
                # A reused connection may be stale. A webhook must tolerate being called twice.
                return await self._exchange(url, host, context, body)
        except TransportError as error:
            raise SendError(str(error)) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise SendError(_explain(error)) from None

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def _exchange(self, url: str, host: str, context: ssl.SSLContext, body: bytes) -> tuple[int, bytes]:
        headers = {"Content-Type": JSON, "Accept": JSON, "Host": host, "User-Agent": "muster-admission"}
        name = urlsplit(f"//{host}").hostname
        async with self._session.post(
            url, data=body, headers=headers, ssl=context, server_hostname=name, allow_redirects=False
        ) as response:
            answer = bytearray()
            while len(answer) <= MAX_BODY_BYTES and (piece := await response.content.read(MAX_BODY_BYTES)):
                answer += piece
            return response.status, bytes(answer)


def _explain(error: Exception) -> str:
    """Return in one line why there was no response, in the words of Go's client where possible."""
    cause = getattr(error, "certificate_error", error)
    if isinstance(cause, ssl.SSLCertVerificationError):
        stranger = cause.verify_code in _UNKNOWN_AUTHORITY
        reason = "certificate signed by unknown authority" if stranger else cause.verify_message.rstrip(".")
        return f"tls: failed to verify certificate: x509: {reason}"
    why = explain(error)
    return why[:1].lower() + why[1:]


@lru_cache(maxsize=256)
def _make_tls_context(authority: bytes) -> ssl.SSLContext:
    """Return the TLS context for webhooks whose certificates this authority signed.

    authority: PEM; b"" for the system's authorities.

    Raises `TransportError`.
    """
    return client_context(ClusterConfig("", certificate_authority=authority or None), None)
