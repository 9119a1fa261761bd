"""Watch and renew the certificate of the webhooks and the visibility API.

All replicas watch one Secret. The first replica that sees a due renewal writes it, by optimistic concurrency. A Secret
that another program writes (cert-manager) is only watched.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from muster.api.core import SECRET, Secret
from muster.api.meta import ObjectMeta
from muster.api.status import ApiError
from muster.runtime.control.manager import Manager
from muster.runtime.informer import Informer
from muster.runtime.kube.tls import load_pair, server_context
from muster.runtime.refusals import ignoring
from muster.runtime.tasks import run_until_first
from muster.runtime.transport import TransportError
from muster.webhooks import certificates
from muster.webhooks.certificates import AUTHORITIES, CERTIFICATE, KEY

# The retry after a failed write, and the longest wait, because clocks may be set.
RETRY_SECONDS, LONGEST_SECONDS = 10.0, 86_400.0

log = logging.getLogger(__name__)


class Certificates:
    """The component that loads and renews the serving certificate. A `Manager` runs it.

    names: the host names in the certificate.
    ready: set when there is a certificate.
    bundle: the authorities that clients must trust; empty if another program distributes them.
    """

    name = "serving-certificates"

    def __init__(self, manager: Manager, namespace: str, secret: str, names: tuple[str, ...], *, ours: bool) -> None:
        """Watch the Secret. ours: whether this program issues the certificate; otherwise another program does."""
        self.ready = asyncio.Event()
        self.bundle = b""
        self._contexts: list[ssl.SSLContext] = []
        self._listeners: list[Callable[[], None]] = []
        self._client, self._clock = manager.client, manager.clock
        self._meta = ObjectMeta(name=secret, namespace=namespace)
        self.names, self._ours = names, ours
        self._informer: Informer[Secret] = manager.informer(
            SECRET, namespace=namespace, fields=f"metadata.name={secret}"
        )
        self._changed = asyncio.Event()
        self._informer.on_change(lambda _old, _new: self._changed.set())
        self._loaded: tuple[bytes, bytes] | None = None
        self._stopping = False

    def on_renewed(self, listener: Callable[[], None]) -> None:
        """Call `listener` when the bundle changes."""
        self._listeners.append(listener)

    @contextmanager
    def context(self) -> Iterator[ssl.SSLContext]:
        """Yield a TLS context that always has the current certificate, even after renewals, inside the `with` block."""
        context = server_context()
        if self._loaded is not None:
            load_pair(context, *self._loaded)
        self._contexts.append(context)
        try:
            yield context
        finally:
            self._contexts.remove(context)

    async def run(self) -> None:
        """Load the certificate in the Secret, and renew what is due, until `stop`."""
        while not self._stopping:
            self._changed.clear()
            wait = LONGEST_SECONDS
            try:
                wait = await self._renew_if_due()
            except (ApiError, TransportError) as error:
                log.warning("the certificate to serve with cannot be stored: %s", error)
                wait = RETRY_SECONDS
            await run_until_first(self._changed.wait(), self._clock.sleep(wait))

    async def stop(self) -> None:
        """Make `run` return soon."""
        self._stopping = True
        self._changed.set()

    def _get_secret(self) -> Secret | None:
        return self._informer.get(f"{self._meta.namespace}/{self._meta.name}")

    async def _renew_if_due(self) -> float:
        """Load the certificate in the Secret, and renew what is due; return the seconds until the next check."""
        secret, now = self._get_secret(), self._clock.now()
        held = certificates.read(secret.data if secret is not None else {})
        if secret is not None:  # first: a due certificate may still be valid, and its renewal may be refused
            self._load(secret.data.get(CERTIFICATE, b""), secret.data.get(KEY, b""))
            self._replace_bundle(secret.data.get(AUTHORITIES, b""))
        if self._ours and any(what := certificates.find_due(held, self.names, now)):
            log.info("the certificates to serve with are renewed: %s", " and ".join(
                part for part, is_due in zip(("the authority", "the server's"), what, strict=True) if is_due
            ))  # fmt: skip
            if held.unusable:
                log.warning("an authority in Secret %s does not count: %s", self._meta.name, "; ".join(held.unusable))
            with ignoring("AlreadyExists", "Conflict"):  # another replica wrote first, and the change is on the way
                await self._write(
                    secret, certificates.list_changes(held, certificates.renew_what_is_due(held, self.names, now))
                )
            return RETRY_SECONDS
        at = certificates.next_due(held) if self._ours else None
        return max(1.0, min((at - now).total_seconds(), LONGEST_SECONDS)) if at is not None else LONGEST_SECONDS

    async def _write(self, secret: Secret | None, data: dict[str, bytes]) -> None:
        if secret is None:
            await self._client.create(SECRET, Secret(metadata=self._meta, data=data))
        else:
            await self._client.patch_object(SECRET, secret, {"data": data})

    def _replace_bundle(self, authorities: bytes) -> None:
        if self._ours and authorities != self.bundle:
            self.bundle = authorities
            for listener in self._listeners:
                listener()

    def _load(self, certificate: bytes, key: bytes) -> None:
        if not certificate or (certificate, key) == self._loaded:
            return
        try:
            # The first context is a test: an unusable certificate must reach no server.
            for context in (server_context(), *self._contexts):
                load_pair(context, certificate, key)
        except ssl.SSLError as error:
            why = error.reason or "it or its key is not PEM, or the key is encrypted"
            log.warning("Secret %s holds no certificate to serve with: %s", self._meta.name, why)
            return
        self._loaded = certificate, key
        self.ready.set()
