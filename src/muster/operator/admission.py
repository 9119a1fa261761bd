"""Serve the webhooks of a replica, whether it leads or not.

An API server lists Kueue's kinds only when it can convert objects stored in the old version, for which it calls these
webhooks. So the parts that conversion needs must not wait for a list of these kinds: the certificate, the leader's
bundle, and readiness.
"""

import asyncio
from collections.abc import Callable

from muster.api.config import Configuration
from muster.operator.endpoints import serve_handlers
from muster.operator.replica import Replica
from muster.runtime.control.manager import Manager
from muster.runtime.tasks import run_together
from muster.webhooks.bundles import WEBHOOKS, Bundles
from muster.webhooks.decisions import ReviewDecisions
from muster.webhooks.keeping import Certificates
from muster.webhooks.serving import Reader, make_handlers


class Webhooks:
    """The webhook server of one replica, with its certificates and the caches that its decisions read."""

    def __init__(
        self,
        keeping: Manager,
        following: Manager,
        certificates: Certificates,
        settings: Configuration,
        replica: Replica,
        report: Callable[[str], None],
    ) -> None:
        """Make the webhooks of a replica.

        keeping: the manager that runs the certificates.
        following: the manager with the webhooks' informers, run by this object.
        report: called with the address when the webhooks are served.
        """
        self._keeping, self._following, self._certificates = keeping, following, certificates
        keeping.add(Bundles(keeping, certificates, replica.began, WEBHOOKS))
        self._answers = make_handlers(ReviewDecisions(settings), Reader(following).read)
        self._where = f"{settings.webhook.host}:{settings.webhook.port}"
        self._report = report
        self._serves = False

    def unready(self) -> str:
        """Return why the webhooks are not served; "" if they are."""
        return "" if self._serves else f"webhooks: {self._keeping.unready() or 'waiting for a certificate'}"

    async def run(self) -> None:
        """Serve until cancelled. Raises `BadAddressError`, `OSError`, or the error of a failed part."""
        await run_together(self._serve(), self._following.run())

    async def _serve(self) -> None:
        await self._certificates.ready.wait()
        with self._certificates.context() as context:
            async with serve_handlers(self._where, self._answers, context, "POST") as port:
                self._report(f"webhooks at port {port}")
                self._serves = True
                try:
                    await asyncio.Event().wait()
                finally:
                    self._serves = False
