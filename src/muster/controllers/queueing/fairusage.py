"""Account for the past usage of LocalQueues, which orders them under admission fair sharing (Kueue KEP-4136).

As in upstream, all LocalQueues have an account; the order depends on it only if the ClusterQueue requests that. With
Muster's fairSharingOnDemand alone, only the LocalQueues of such ClusterQueues have accounts, so an idle system writes
nothing.

The accounts are in memory. LocalQueueController writes them to the status, from which a restart restores them. A
LocalQueue whose past usage has decayed completely has no account, no timer, and no writes.
"""

from collections.abc import Callable
from datetime import datetime

import msgspec

from muster.api.config import Configuration
from muster.api.config.types import AdmissionFairSharing
from muster.api.kueue import (
    LOCAL_QUEUE,
    AdmissionFairSharingStatus,
    ClusterQueue,
    LocalQueue,
    LocalQueueFairSharingStatus,
)
from muster.controllers.queueing.cache import QueueingCache
from muster.controllers.queueing.indexes import LOCAL_QUEUES_BY_CLUSTER_QUEUE, by_cluster_queue
from muster.queueing.elastic.growth import whole_key
from muster.queueing.model import Usage, WorkloadInfo
from muster.queueing.pending import usagestatus
from muster.queueing.pending.usage import ON_DEMAND, Accounts, Decay, RecentUsage
from muster.queueing.quota.tree import Node
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.objects import key_of


def fair_usage(manager: Manager, cache: QueueingCache, configuration: Configuration) -> "FairUsageController | None":
    """Return the controller of past usage, if the Configuration enables admission fair sharing; None otherwise."""
    sharing = find_sharing(configuration)
    if sharing is None:
        return None
    everywhere = configuration.admission_fair_sharing is not None
    return FairUsageController(manager, cache, sharing, everywhere=everywhere)


def find_sharing(configuration: Configuration) -> AdmissionFairSharing | None:
    """Return the settings of admission fair sharing; None if past usage orders no LocalQueues."""
    if not configuration.features.is_enabled("AdmissionFairSharing"):
        return None
    on_demand = ON_DEMAND if configuration.muster.fair_sharing_on_demand else None
    return configuration.admission_fair_sharing or on_demand


class FairUsageController(Reconciler):
    """The reconciler of LocalQueues' accounts of past usage.

    The manager runs it before admission, so that past usage counts from the first decision. Without a half-life, past
    usage neither decays nor grows. Then there is nothing to sample, and only weights of 0 matter.
    """

    name = "admission-fair-sharing"

    def __init__(
        self, manager: Manager, cache: QueueingCache, sharing: AdmissionFairSharing, *, everywhere: bool = True
    ) -> None:
        """Create the controller.

        everywhere: whether LocalQueues have accounts even if no order depends on them.
        """
        super().__init__(manager)
        self._everywhere = everywhere
        self._cache = cache
        self._decay = Decay.of(sharing)
        self._accounts = Accounts(self._decay)
        self._shown: dict[str, AdmissionFairSharingStatus] = {}
        self._listeners: list[Callable[[str], None]] = []
        self._queues = manager.informer(LOCAL_QUEUE, indexes={LOCAL_QUEUES_BY_CLUSTER_QUEUE: by_cluster_queue})
        self._controller.watch(self._queues, when=lambda old, new: old is None or new is None or old.spec != new.spec)
        cache.cluster_queues.on_change(self._on_cluster_queue_changed)
        if self._decay.half_life:
            cache.notifier.on_change(self._on_usage_changed)
            cache.queues.on_charge(self._charge)

    def on_sample(self, listener: Callable[[str], None]) -> None:
        """Register a listener that gets the key of each LocalQueue whose status must show another past usage."""
        self._listeners.append(listener)

    def make_status(self, local: LocalQueue) -> LocalQueueFairSharingStatus | None:
        """Return the past usage to write to the LocalQueue's status; before the first sample, the stored one."""
        old, sharing_status = local.status.fair_sharing, self._shown.get(key_of(local))
        if sharing_status is None:
            return old
        sharing = old if old is not None else LocalQueueFairSharingStatus(weighted_share=0)
        return msgspec.structs.replace(sharing, admission_fair_sharing_status=sharing_status)

    async def run(self) -> None:
        """Keep the accounts of all LocalQueues up to date until `stop`."""
        for local in self._queues.all():
            self._update(key_of(local))
        await super().run()

    # Changes of the cluster.

    def _on_usage_changed(self, queue: str, local_queue: str) -> None:
        node = self._cache.tree.queues.get(queue) if local_queue else None
        if node is not None and (self._has_accounts(node) or self._accounts.get(local_queue) is not None):
            self._controller.queue.add(local_queue)

    def _has_accounts(self, node: Node) -> bool:
        """Return whether the LocalQueues of a ClusterQueue have accounts."""
        return self._everywhere or node.policy.by_usage

    def _on_cluster_queue_changed(self, old: ClusterQueue | None, new: ClusterQueue | None) -> None:
        queue = new if new is not None else old
        assert queue is not None
        if old is None or new is None or old.spec.admission_scope != new.spec.admission_scope:
            for local in self._queues.by(LOCAL_QUEUES_BY_CLUSTER_QUEUE, queue.metadata.name):
                self._controller.queue.add(key_of(local))

    def _charge(self, workload: WorkloadInfo, usage: Usage) -> None:
        """Charge a newly admitted workload to its LocalQueue's account, before the next decision of the cycle."""
        key, now = workload.local_queue, self._clock.now()
        local = self._queues.get(key)
        self._open_account(key, local, now)
        self._accounts.charge(key, workload.key, usagestatus.by_resource(usage), now)
        self._cache.set_usage(key, self._accounts.score(key, usagestatus.weight_of(local)))

    # Accounting.

    async def _reconcile(self, key: str) -> Result:
        return self._update(key)

    def _update(self, key: str) -> Result:
        """Update the account of a LocalQueue; return the seconds until the next update, or None."""
        local = self._queues.get(key)
        node = self._cache.tree.queues.get(local.spec.cluster_queue) if local is not None else None
        if local is None or node is None or not self._has_accounts(node):
            self._accounts.forget(key)
            self._shown.pop(key, None)
            self._cache.set_usage(key, 0.0)
            return None
        after = None
        if self._decay.half_life:
            after = self._update_account(key, local, usagestatus.by_resource(node.tallies.of(key).used))
        self._cache.set_usage(key, self._accounts.score(key, usagestatus.weight_of(local)))
        return after

    def _update_account(self, key: str, local: LocalQueue, current: dict[str, float]) -> Result:
        now, sampling = self._clock.now(), self._decay.sampling
        settled = self._settle(key, self._open_account(key, local, now), current, now)
        account = self._open_account(key, local, now)
        if settled or now - account.updated >= sampling:
            account = self._accounts.sample(key, current, now)
            self._show(key, local, account, used=settled or bool(current))
        elif key not in self._shown and usagestatus.status_of(local) is None:
            self._show(key, local, account, used=False)
        if account.has_faded and not current:
            self._accounts.forget(key)
            return None
        return min(sampling, sampling - (now - account.updated)).total_seconds()

    def _open_account(self, key: str, local: LocalQueue | None, now: datetime) -> RecentUsage:
        """Return the account of a LocalQueue. A new account starts from the status."""
        account = self._accounts.get(key)
        if account is not None:
            return account
        past = usagestatus.read_account(usagestatus.status_of(local), now)
        self._accounts.restore(key, past.consumed, past.updated)
        return past

    def _settle(self, key: str, account: RecentUsage, current: dict[str, float], now: datetime) -> bool:
        """Move the penalties of written reservations into the consumed usage; return whether there were any.

        Penalties of workloads that finally got no quota are refunded.
        """
        settled = False
        for workload in account.penalties:
            whole = whole_key(workload)
            if self._cache.is_assumed(whole):
                continue
            if workload in self._cache.queues or self._cache.tree.holder(whole) is None:
                self._accounts.refund(key, workload)
            else:
                self._accounts.settle(key, workload, current, now)
                settled = True
        return settled

    def _show(self, key: str, local: LocalQueue, account: RecentUsage, *, used: bool) -> None:
        old = self._shown.get(key) or usagestatus.status_of(local)
        node = self._cache.tree.queues.get(local.spec.cluster_queue)
        covered = [name for group in node.policy.groups for name in group.resources] if node is not None else []
        new = usagestatus.make_status(account, old, used=used, half_life=self._decay.half_life, covered=covered)
        if new is not None and new != old:
            self._shown[key] = new
            for listener in self._listeners:
                listener(key)
