"""The webhooks of a replica: served by all, whether they lead or not.

A server lists Kueue's kinds only once what is stored in their old version can be converted. So nothing that it takes
to convert waits for a list of these: neither the certificate, nor the leader's word to the server, nor readiness.
"""

import asyncio
from collections.abc import Callable

from muster.api.config import Configuration
from muster.operator.endpoints import serving
from muster.operator.replica import Replica
from muster.runtime.manager import Manager
from muster.runtime.tasks import together
from muster.webhooks.bundles import WEBHOOKS, Bundles
from muster.webhooks.decisions import Decisions
from muster.webhooks.keeping import Certificates
from muster.webhooks.serving import Reader, handlers


class Webhooks:
    """Those of a replica."""

    def __init__(
        self,
        keeping: Manager,
        following: Manager,
        certificates: Certificates,
        settings: Configuration,
        replica: Replica,
        said: Callable[[str], None],
    ) -> None:
        """keeping: runs the certificates. following: is to run here. said: told where they are served."""
        self._keeping, self._following, self._certificates = keeping, following, certificates
        keeping.add(Bundles(keeping, certificates, replica.began, WEBHOOKS))
        self._answers = handlers(Decisions(settings), Reader(following).read)
        self._where = f"{settings.webhook.host}:{settings.webhook.port}"
        self._said = said
        self._serves = False

    def unready(self) -> str:
        """Why they are not served; "" if they are."""
        return "" if self._serves else f"webhooks: {self._keeping.unready() or 'waiting for a certificate'}"

    async def run(self) -> None:
        """Serve until cancelled. Raises `BadAddressError`, `OSError`, or what made a part fail."""
        await together(self._serve(), self._following.run())

    async def _serve(self) -> None:
        await self._certificates.ready.wait()
        with self._certificates.context() as context:
            async with serving(self._where, self._answers, context, "POST") as port:
                self._said(f"webhooks at port {port}")
                self._serves = True
                try:
                    await asyncio.Event().wait()
                finally:
                    self._serves = False
