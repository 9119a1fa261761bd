"""Whether JobSet's own controller works on this cluster: it holds its Lease, and has renewed it not long ago."""

import logging
from collections.abc import Callable

from muster.api.coordination import LEASE, Lease
from muster.runtime.manager import Manager
from muster.runtime.objects import key_of

# Of the configuration that it is installed with; the namespace may be any.
LEASE_NAME = "6d4f6a47.jobset.x-k8s.io"

log = logging.getLogger(__name__)


class Upstream:
    """Follows the Lease. How long ago it was renewed is told by our own clock alone.

    freed: called when it was given back; that it ran out is seen when `works` is asked again.
    """

    def __init__(self, manager: Manager, freed: Callable[[], None]) -> None:
        self._clock = manager.clock
        self._freed = freed
        self._renewed: dict[str, tuple[Lease, float]] = {}  # by key, those that are held
        self._standing_back = manager.registry.gauge(
            "muster_jobset_standing_back", "Whether JobSets are left to JobSet's own controller, which holds its Lease"
        )
        manager.informer(LEASE, fields=f"metadata.name={LEASE_NAME}").on_change(self._lease_changed)

    def works(self) -> tuple[str, float] | None:
        """Who holds the Lease, in words, and for how many seconds it lasts if it is not renewed."""
        now = self._clock.monotonic()
        for key, (lease, since) in list(self._renewed.items()):
            left = since + (lease.spec.lease_duration_seconds or 0) - now
            if left > 0:
                return f"{lease.spec.holder_identity} holds the Lease {key}", left
            del self._renewed[key]
            log.warning("JobSets are run here again: the Lease %s has not been renewed", key)
        self._standing_back.set(0)
        return None

    def _lease_changed(self, old: Lease | None, new: Lease | None) -> None:
        lease = new if new is not None else old
        assert lease is not None
        key = key_of(lease)
        if new is None or not new.spec.holder_identity:
            if self._renewed.pop(key, None) is not None:
                log.warning("JobSets are run here again: the Lease %s has been given back", key)
                self._freed()
            return
        if key not in self._renewed:
            log.warning(
                "JobSets are left to JobSet's own controller: %s holds the Lease %s", new.spec.holder_identity, key
            )
        self._renewed[key] = new, self._clock.monotonic()
        self._standing_back.set(1)
