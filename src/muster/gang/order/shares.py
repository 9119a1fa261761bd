"""Track how much of the cluster the pods of each tenant use (dominant resource fairness). Mutable, but pure."""

from collections import Counter
from collections.abc import Mapping

from muster.gang.shapes import Amounts


class Shares:
    """The amounts that running pods use, by tenant.

    Tenants share resources fairly. A tenant is, for example, a queue.
    """

    def __init__(self) -> None:
        self._pods: dict[str, tuple[str, Amounts]] = {}  # by UID
        self._held: dict[str, Counter[str]] = {}  # by tenant
        self._totals: Mapping[str, int] | None = None
        self._shares: dict[str, float] = {}  # by tenant, as fractions of the current totals

    def hold(self, uid: str, tenant: str, requests: Amounts) -> None:
        """Record the amounts that a pod uses from now on. A repeated call changes nothing."""
        if self._pods.get(uid) == (tenant, requests):
            return
        self.release(uid)
        self._pods[uid] = tenant, requests
        self._shares.pop(tenant, None)
        self._held.setdefault(tenant, Counter()).update(dict(requests))

    def release(self, uid: str) -> None:
        """Record that a pod uses nothing any more."""
        tenant, requests = self._pods.pop(uid, ("", ()))
        self._shares.pop(tenant, None)
        if requests:
            usage = self._held[tenant]
            usage.subtract(dict(requests))
            if not any(usage.values()):
                del self._held[tenant]

    def share(self, tenant: str, totals: Mapping[str, int]) -> float:
        """Return the largest fraction of any resource that a tenant's pods use.

        totals: the amounts of the whole cluster by resource. The caller creates a new object whenever they change.
        """
        if totals is not self._totals:
            self._totals = totals
            self._shares.clear()
        cached = self._shares.get(tenant)
        if cached is None:
            cached = self._shares[tenant] = self._compute_share(tenant, totals)
        return cached

    def _compute_share(self, tenant: str, totals: Mapping[str, int]) -> float:
        usage: Counter[str] | None = self._held.get(tenant)
        if usage is None:
            return 0.0
        return max(
            (amount / totals[resource] for resource, amount in usage.items() if totals.get(resource)), default=0.0
        )
