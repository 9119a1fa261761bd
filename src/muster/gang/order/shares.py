"""How much of the cluster each tenant's pods hold: dominant resource fairness. Mutable, but pure."""

from collections import Counter
from collections.abc import Mapping

from muster.gang.shapes import Amounts


class Shares:
    """What pods hold, by tenant: what they belong to when it is asked who has more, such as a queue."""

    def __init__(self) -> None:
        self._pods: dict[str, tuple[str, Amounts]] = {}  # by UID
        self._held: dict[str, Counter[str]] = {}  # by tenant

    def hold(self, uid: str, tenant: str, requests: Amounts) -> None:
        """A pod holds so much from now on; the same call again changes nothing."""
        if self._pods.get(uid) == (tenant, requests):
            return
        self.release(uid)
        self._pods[uid] = tenant, requests
        self._held.setdefault(tenant, Counter()).update(dict(requests))

    def release(self, uid: str) -> None:
        """A pod holds nothing any more."""
        tenant, requests = self._pods.pop(uid, ("", ()))
        if requests:
            held = self._held[tenant]
            held.subtract(dict(requests))
            if not any(held.values()):
                del self._held[tenant]

    def share(self, tenant: str, totals: Mapping[str, int]) -> float:
        """The largest part of any resource of the cluster that a tenant's pods hold. totals: all that there is."""
        held: Counter[str] | None = self._held.get(tenant)
        if held is None:
            return 0.0
        return max(
            (amount / totals[resource] for resource, amount in held.items() if totals.get(resource)), default=0.0
        )
