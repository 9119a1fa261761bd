"""Find out whether JobSet's own controller runs on this cluster: it holds its Lease, and renewed it recently."""

import logging
from collections.abc import Callable

from muster.api.groups.coordination import LEASE, Lease
from muster.runtime.control.manager import Manager
from muster.runtime.objects import key_of

# The name of the Lease in the configuration with which JobSet's controller is installed.
LEASE_NAME = "6d4f6a47.jobset.x-k8s.io"
# The limit on a Lease's own duration, in seconds: a running controller renews its Lease sooner.
BELIEVED_SECONDS = 60.0

log = logging.getLogger(__name__)


class Upstream:
    """The Lease of JobSet's own controller. The time since its renewal is measured by this process's clock alone.

    namespace: where JobSet's controller is installed. Leases in other namespaces do not count, because users may create
    them.
    freed: called when the Lease is released. Its expiry is noticed only when `works` is called again.
    """

    def __init__(self, manager: Manager, namespace: str, freed: Callable[[], None]) -> None:
        self._clock = manager.clock
        self._freed = freed
        self._held: tuple[Lease, float] | None = None  # the Lease, and when it was renewed
        self._standing_back = manager.registry.gauge(
            "muster_jobset_standing_back", "Whether JobSets are left to JobSet's own controller, which holds its Lease"
        ).labels()
        leases = manager.informer(LEASE, namespace=namespace, fields=f"metadata.name={LEASE_NAME}")
        leases.on_change(self._on_lease_changed)

    def works(self) -> tuple[str, float] | None:
        """Return a description of the Lease's holder, and for how many seconds the Lease lasts without renewal.

        Return None if no controller holds the Lease, or if its holder did not renew it in time.
        """
        if self._held is None:
            return None
        lease, since = self._held
        lasts = min(lease.spec.lease_duration_seconds or 0, BELIEVED_SECONDS)
        remaining = since + lasts - self._clock.monotonic()
        if remaining > 0:
            return f"{lease.spec.holder_identity} holds the Lease {key_of(lease)}", remaining
        self._end("has not been renewed")
        return None

    def _on_lease_changed(self, _old: Lease | None, new: Lease | None) -> None:
        if new is None or not new.spec.holder_identity:
            if self._held is not None:
                self._end("has been given back")
                self._freed()
            return
        if self._held is None:
            who, key = new.spec.holder_identity, key_of(new)
            log.warning("JobSets are left to JobSet's own controller: %s holds the Lease %s", who, key)
        self._held = new, self._clock.monotonic()
        self._standing_back.set(1)

    def _end(self, why: str) -> None:
        log.warning("JobSets are run here again: the Lease %s %s", LEASE_NAME, why)
        self._held = None
        self._standing_back.set(0)
