"""Write into each ResourceQuota how much of it is used.

The API server itself counts the usage (`apiserver.admission.plugins`), because no write may bypass a quota. This
controller reports the usage to users and controllers. It follows only the resources that some quota limits.
"""

import asyncio
from typing import Any

from muster.api.core.quota import RESOURCE_QUOTA, ResourceQuota
from muster.cluster.apiserver.admission.plugins.quotaledger import QuotaLedger
from muster.cluster.apiserver.admission.plugins.quotausage import Scope, resource_of, resources_of, to_quantities
from muster.cluster.store import Closed, Compacted, Store, Watch
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.objects import BY_NAMESPACE, by_namespace
from muster.runtime.refusals import ignoring
from muster.runtime.tasks import cancel


class QuotaController(Reconciler):
    """The controller that writes the status of ResourceQuotas. A `Manager` runs it; its keys are quotas."""

    name = "resourcequota-controller"

    def __init__(self, manager: Manager, store: Store, ledger: QuotaLedger) -> None:
        super().__init__(manager)
        self._store = store
        self._ledger = ledger
        self._quotas = manager.informer(RESOURCE_QUOTA, indexes={BY_NAMESPACE: by_namespace})
        self._controller.watch(self._quotas)
        self._followers: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Write the usage of quotas until `stop`."""
        try:
            await super().run()
        finally:
            await cancel(self._followers.values())

    async def _follow(self, resource: str, watch: Watch) -> None:
        """Queue the quotas of a namespace whenever an object of this resource changes in it."""
        while True:
            try:
                changes = await watch.next()
            except Compacted:
                watch = self._store.watch(resource, self._store.revision)
                namespaces = {_get_namespace(quota) for quota in self._quotas.all()}
            except Closed:
                return
            else:
                namespaces = {change.entry.key.namespace for change in changes}
            for namespace in namespaces:
                for quota in self._quotas.by(BY_NAMESPACE, namespace):
                    if resource in resources_of(quota.spec):
                        self._controller.queue.add(f"{namespace}/{quota.metadata.name}")

    async def _reconcile(self, key: str) -> Result:
        quota = self._quotas.get(key)
        if quota is None:
            return None
        for resource in resources_of(quota.spec):
            if resource not in self._followers:
                following = self._follow(resource, self._store.watch(resource, self._store.revision))
                self._followers[resource] = asyncio.create_task(following, name=f"quota of {resource}")
        status = self._make_status(quota)
        if status == {"hard": dict(quota.status.hard), "used": dict(quota.status.used)}:
            return None
        await self._write(quota, status)
        return None

    def _make_status(self, quota: ResourceQuota) -> dict[str, dict[str, Any]]:
        namespace, scope = _get_namespace(quota), Scope.of(quota.spec)
        names = quota.spec.hard
        used = {name: self._ledger.sum_usage(resource_of(name), namespace, scope)[name] for name in names}
        return {"hard": dict(names), "used": dict(to_quantities(used))}

    async def _write(self, quota: ResourceQuota, status: dict[str, dict[str, Any]]) -> None:
        gone = {"hard": quota.status.hard.keys(), "used": quota.status.used.keys()}
        patch = {field: dict.fromkeys(gone[field] - status[field].keys()) | status[field] for field in status}
        with ignoring("NotFound", "Conflict"):  # gone, or replaced by now
            await self._client.patch_object(RESOURCE_QUOTA, quota, {"status": patch}, lock=False, subresource="status")


def _get_namespace(quota: ResourceQuota) -> str:
    return quota.metadata.namespace
