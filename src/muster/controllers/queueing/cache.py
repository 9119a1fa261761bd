"""Cache the state of level 1: the quota tree with admitted workloads, and the queues with waiting workloads.

Only this module changes both, and both are a function of the observed objects: every workload is placed by its own
state, whatever its state was before. Between a decision and the time at which its write is observed, the decision
counts. Such a workload is `assumed`, and events about it are older than the decision.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from muster.api.config import Configuration
from muster.api.config import FairSharing as FairSharingSettings
from muster.api.config.types import PREEMPTION_STRATEGIES
from muster.api.core import NAMESPACE, NODE, Namespace
from muster.api.core import Node as ClusterNode
from muster.api.kueue import (
    LOCAL_QUEUE,
    WORKLOAD,
    LocalQueue,
    Workload,
)
from muster.api.kueue.names import MULTI_KUEUE_CONTROLLER
from muster.api.kueue.readiness import READY_ANNOTATION
from muster.api.managed.variants import is_parent, is_variant
from muster.api.ours.teams import NO_LIMITS
from muster.api.values.quantity import QuantityError
from muster.controllers.queueing.additions import Additions, Concerned
from muster.controllers.queueing.definitions import Definitions, is_only_status
from muster.controllers.queueing.devices import ClaimedDevices
from muster.controllers.queueing.indexes import (
    HOLDERS_BY_CLUSTER_QUEUE,
    WORKLOADS_BY_LOCAL_QUEUE,
    by_holding,
    by_local_queue,
)
from muster.controllers.queueing.notifier import Notifier
from muster.gang.nodes.devices import Matcher
from muster.queueing import model
from muster.queueing.convert import ConversionSettings as Reading
from muster.queueing.convert import convert_workload as read
from muster.queueing.elastic.growth import find_growth, growth_key
from muster.queueing.pending.activity import Activity
from muster.queueing.pending.queues import Queues
from muster.queueing.quota.tree import Tree
from muster.queueing.scheduling.fairness import FairSharing
from muster.queueing.scheduling.nomination import AdmissionSettings
from muster.queueing.workload.place import Holds, Waits, place_of
from muster.runtime.control.manager import Manager
from muster.runtime.control.ownwrites import MutationCache
from muster.runtime.objects import key_of

# The settings of fair sharing if the first weight enables it.
ON_DEMAND: Final = FairSharingSettings(preemption_strategies=PREEMPTION_STRATEGIES)

# The message for a variant whose parent already requests the same pods.
_VARIANTS_OFF = "a variant of another Workload gets no quota while the feature gate ConcurrentAdmission is off"


class QueueingCache:
    """The state of all queues, workloads and quotas that admission reads, updated by the informers of a manager.

    Other modules read it. `AdmissionController` reports its decisions to it.
    """

    def __init__(self, manager: Manager, configuration: Configuration, matches: Matcher | None = None) -> None:
        """Create the cache.

        matches: returns whether a device matches an expression; None to ignore devices.
        """
        self.tree = Tree()
        self.queues = Queues()
        self.notifier = Notifier(self.queues)
        self.unfit: dict[str, str] = {}  # workloads that cannot be queued, by key, with the reason
        self._by_workload = False  # whether any workload ever had a blocking setting
        self._reading = Reading.of(configuration)
        self._fair = FairSharing.of(configuration.fair_sharing, configuration.features)
        by_weight = ON_DEMAND if configuration.muster.fair_sharing_on_demand else None
        self._fair_by_weight = FairSharing.of(by_weight, configuration.features)  # used once there is a weight
        self._ignore_undeclared = configuration.resources.quota_check_strategy == "IgnoreUndeclared"
        self._assumed: dict[str, int] = {}  # the number of running writes, by key
        self.workloads = manager.informer(
            WORKLOAD, indexes={WORKLOADS_BY_LOCAL_QUEUE: by_local_queue, HOLDERS_BY_CLUSTER_QUEUE: by_holding}
        )
        self.local_queues = manager.informer(LOCAL_QUEUE)
        self._latest = MutationCache(self.workloads.get)
        self.workloads.on_change(self._on_workload_changed)
        self.local_queues.on_change(self._on_local_queue_changed)
        self._definitions = definitions = Definitions(
            manager,
            configuration,
            self.tree,
            self.queues,
            self.notifier,
            place_holders=self._place_holders,
            place_waiting=self._place_waiting,
        )
        self.flavors, self.checks = definitions.flavors, definitions.checks
        self.cluster_queues, self.cohorts = definitions.cluster_queues, definitions.cohorts
        manager.informer(NODE).on_change(self._on_node_changed)
        manager.informer(NAMESPACE).on_change(self._on_namespace_changed)
        self._additions = Additions(manager, self._read_again)
        self.devices = ClaimedDevices(manager, configuration, self._read_again, self._place_latest, matches)

    # Queries.

    def activity(self, cluster_queue: str) -> Activity | None:
        """Return whether a ClusterQueue admits, and why not; None if there is no such queue."""
        return self._definitions.activity(cluster_queue)

    @property
    def settings(self) -> AdmissionSettings:
        """The settings of the next admission cycle: fair sharing, blocking by readiness, and past usage."""
        blocking = self._definitions.find_blocking(by_workload=self._by_workload)
        fair = self._fair or (self._fair_by_weight if self._definitions.has_weights else None)
        return AdmissionSettings(
            fair=fair, blocking=blocking, ignore_undeclared=self._ignore_undeclared, past=self.queues.usage
        )

    @property
    def can_share_fairly(self) -> bool:
        """Whether fair sharing is on, or becomes on with the first weight."""
        return self._fair is not None or self._fair_by_weight is not None

    def settle_quotas(self) -> None:
        """Compute the quotas that depend on nodes, if they are stale.

        Call this before a decision that reads the tree.
        """
        self._definitions.divisions.settle()

    # Reports of admission.

    def latest(self, key: str) -> Workload | None:
        """Return the workload as last observed, or as this engine wrote it if that is newer."""
        return self._latest.get(key)

    def is_still_valid(self, workload: model.WorkloadInfo, obj: Workload) -> bool:
        """Return whether a decision about the workload is still valid for the workload's current state."""
        if workload.growth_of:
            current = self._find_growth(obj, workload.queue)
            return current is not None and current.podsets == workload.podsets
        local = self.local_queues.get(workload.local_queue)
        current = self._read(obj, workload.queue)
        return (
            isinstance(place_of(obj), Waits)
            and local is not None
            and local.spec.cluster_queue == workload.queue
            and (current.podsets, current.local_queue, current.priority, current.owner)
            == (workload.podsets, workload.local_queue, workload.priority, workload.owner)
        )

    def assume(self, key: str) -> None:
        """Record that a write for the workload is running.

        Until the write ends, the tree and the queues have the state that the workload will have after it.
        """
        self._assumed[key] = self._assumed.get(key, 0) + 1

    def settle(self, key: str, written: Workload | None) -> None:
        """Record that the write has ended, with the resulting workload; None if it is deleted."""
        self._assumed[key] -= 1
        if written is not None:
            self.wrote(written)
        if self._assumed[key]:
            return
        del self._assumed[key]
        if written is None:
            self._forget(key)
        else:
            self._place_latest(key)

    def wrote(self, written: Workload) -> None:
        """Record a workload as this engine has just written it. Events that arrive after that may be older."""
        self._latest.wrote(written)

    def is_assumed(self, key: str) -> bool:
        """Return whether a write for the workload is running."""
        return key in self._assumed

    # Reports of admission fair sharing.

    def set_usage(self, local_queue: str, usage: float) -> None:
        """Set the past usage of a LocalQueue.

        Within a ClusterQueue, the LocalQueue with the least past usage comes first.
        """
        if self.queues.usage.get(local_queue, 0.0) != usage:
            self.queues.set_usage(local_queue, usage)
            self.notifier.wake()

    # Changes of the cluster.

    def _on_workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        workload = new if new is not None else old
        assert workload is not None
        key = key_of(workload)
        is_news = self._latest.is_news(key, new)
        if new is None:
            self._forget(key)
            self._notify_of(workload)
            return
        if key in self._assumed or not is_news:
            return
        self._place(new)
        if old is not None and old.spec.queue_name != new.spec.queue_name:
            self._notify_of(old)

    def _place_latest(self, key: str) -> None:
        """Place a workload by its latest state, unless a write for it is running."""
        if key in self._assumed:
            return
        workload = self.latest(key)
        if workload is None:
            self._forget(key)
        else:
            self._place(workload)

    def _place(self, obj: Workload) -> None:
        """Place the workload by its state: in the quota tree, in a queue, or in neither.

        A workload with an invalid quantity is in neither, and is recorded in `unfit` until it is placed again.
        """
        key = key_of(obj)
        try:
            self._place_by_state(key, obj)
        except QuantityError as error:  # the server should have refused the object
            self._forget(key)
            self.unfit[key] = str(error)
            self.notifier.notify_wait(key)
        self._notify_of(obj)

    def _place_by_state(self, key: str, obj: Workload) -> None:
        if self._reading.variants and self._is_parent(obj):
            self._forget(key)
            return
        match place_of(obj):
            case None:
                self._forget(key)
            case Holds(cluster_queue):
                self.unfit.pop(key, None)
                self._hold_quota(key, self._read(obj, cluster_queue))
                self._grow(key, obj, cluster_queue)
            case Waits(until):
                self._release(key)
                self._release(growth_key(key))
                self.queues.remove(growth_key(key))
                self._queue_workload(key, obj, until)

    def _is_parent(self, obj: Workload) -> bool:
        """Return whether the workload has or will have variants, which hold quota in its place.

        A workload that got quota before its ClusterQueue used variants keeps that quota, and gets no variants.
        """
        if is_parent(obj) or is_variant(obj) or isinstance(place_of(obj), Holds):
            return is_parent(obj)
        local = self.local_queues.get(f"{obj.metadata.namespace}/{obj.spec.queue_name}")
        node = self.tree.queues.get(local.spec.cluster_queue) if local is not None else None
        return node is not None and node.policy.migration is not None

    def _read(self, obj: Workload, cluster_queue: str) -> model.WorkloadInfo:
        completed = self._additions.complete(obj)
        workload = read(completed, cluster_queue, self._reading, self.devices.count(completed).by_podset)
        text = obj.metadata.annotations.get(READY_ANNOTATION)
        if text is None:
            return workload
        blocks = self._definitions.parse_blocking(text)
        self._by_workload = self._by_workload or bool(blocks)
        return replace(workload, blocks=blocks)

    def _hold_quota(self, key: str, workload: model.WorkloadInfo) -> None:
        self.queues.remove(key)
        before = self.tree.holder(key)
        if workload.queue not in self.tree.queues:
            self._release(key)
            return
        self.tree.hold(workload)
        if (growth_holder := self.tree.holder(growth_key(key))) is not None:
            self.tree.release(growth_holder)  # the growth was added to the workload, or was refused
            self._flush_freed(growth_holder, {})
        if before is None:
            return
        self._flush_freed(before, workload.usage or {}, workload.places)
        if before.blocks != workload.blocks:
            self.notifier.unblock()
        if (before.evicted and not workload.evicted) or before.priority > workload.priority:
            self.notifier.flush(self.tree.queues[workload.queue])  # other workloads may preempt it now
        elif before.ready != workload.ready or before.evicted != workload.evicted:
            self.notifier.wake()

    def _grow(self, key: str, obj: Workload, cluster_queue: str) -> None:
        more = self._find_growth(obj, cluster_queue)
        node = self.tree.queues.get(more.queue) if more is not None else None
        if more is None or node is None or not all(map(self._can_grow, node.policy.checks)):
            self.queues.remove(growth_key(key))
            return
        self.queues.add(more)
        self.notifier.wake()

    def _find_growth(self, obj: Workload, cluster_queue: str) -> model.WorkloadInfo | None:
        completed = self._additions.complete(obj)
        if self.devices.problem(completed):
            return None  # more pods would take uncounted devices
        return find_growth(completed, cluster_queue, self._reading, self.devices.count(completed).by_podset)

    def _can_grow(self, check: str) -> bool:
        """Return whether the admission check supports growth.

        Only MultiKueue's does, by requesting the worker cluster's quota.
        """
        admission_check = self.checks.get(check)
        return admission_check is not None and admission_check.spec.controller_name == MULTI_KUEUE_CONTROLLER

    def _queue_workload(self, key: str, obj: Workload, until: datetime | None) -> None:
        local = self.local_queues.get(f"{obj.metadata.namespace}/{obj.spec.queue_name}")
        missing_queue = f"LocalQueue {obj.spec.queue_name} doesn't exist" if local is None else ""
        orphaned = _VARIANTS_OFF if is_variant(obj) and not self._reading.variants else ""
        problem = orphaned or missing_queue or self.devices.problem(obj) or self._additions.problem(obj)
        self.unfit.pop(key, None)
        if local is None or problem:
            self.unfit[key] = problem
            self.notifier.notify_wait(key)
            self.queues.remove(key)
            return
        self.queues.add(self._read(obj, local.spec.cluster_queue), until=until)
        self.notifier.notify_wait(key)
        self.notifier.wake()

    def _forget(self, key: str) -> None:
        if (holder := self.tree.holder(key)) is not None and (node := self.tree.queues.get(holder.queue)) is not None:
            self.queues.forgive(node)
        self.unfit.pop(key, None)
        self.devices.forget(key)
        self.queues.forget(key)
        self._release(key)
        self.queues.remove(growth_key(key))
        self._release(growth_key(key))

    def _release(self, key: str) -> None:
        before = self.tree.holder(key)
        if before is not None:
            self.tree.release(before)
            self._flush_freed(before, {})
            self.notifier.notify_change(before.queue, before.local_queue)

    def _flush_freed(
        self, before: model.WorkloadInfo, usage: model.Usage, places: tuple[model.Places, ...] = ()
    ) -> None:
        """Wake the workloads that the freed quota and topology domains could help."""
        freed = [fr for fr, amount in (before.usage or {}).items() if amount > usage.get(fr, 0)]
        if freed and self._definitions.divisions.depends_on_use:
            self._definitions.divisions.mark_stale()
        node = self.tree.queues.get(before.queue)
        if node is not None and (freed or node.policy.limits != NO_LIMITS):
            self.queues.flush(node, freed)
            self.notifier.wake()
        if before.places != places:
            self.notifier.flush_places()

    def _on_node_changed(self, old: ClusterNode | None, new: ClusterNode | None) -> None:
        node = new if new is not None else old
        assert node is not None
        labels = new.metadata.labels if new is not None else None
        if self.tree.node_labels.set_node(node.metadata.name, labels):
            for root in dict.fromkeys(queue.root for queue in self.tree.queues.values()):
                self.queues.flush(root)
            self.notifier.wake()

    def _on_local_queue_changed(self, old: LocalQueue | None, new: LocalQueue | None) -> None:
        queue = new if new is not None else old
        assert queue is not None
        if is_only_status(old, new):
            return
        key = key_of(queue)
        if new is not None:
            leaving = new.metadata.deletion_timestamp is not None
            self.queues.stop_local(key, stopped=leaving or new.spec.stop_policy != "None")
        else:
            self.queues.stop_local(key, stopped=False)
        for workload in self.workloads.by(WORKLOADS_BY_LOCAL_QUEUE, key):
            if old is None or new is None:
                self._place_latest(key_of(workload))
            else:
                self.notifier.notify_wait(key_of(workload))  # a stopped queue becomes, or no longer is, the reason
        self.notifier.wake()
        self.notifier.notify_change(queue.spec.cluster_queue, key)

    def _place_waiting(self, name: str) -> None:
        """Place all workloads that wait in the LocalQueues of a ClusterQueue again, by their state."""
        for local in self.local_queues.all():
            if local.spec.cluster_queue == name:
                for workload in self.workloads.by(WORKLOADS_BY_LOCAL_QUEUE, key_of(local)):
                    self._place_latest(key_of(workload))

    def _place_holders(self, name: str) -> None:
        """Place all workloads that hold quota of a ClusterQueue again, by their state."""
        for workload in self.workloads.by(HOLDERS_BY_CLUSTER_QUEUE, name):
            self._place_latest(key_of(workload))

    def _on_namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        namespace = new if new is not None else old
        assert namespace is not None
        labels: Mapping[str, str] = new.metadata.labels if new is not None else {}
        self.queues.set_namespace(namespace.metadata.name, labels)
        self.notifier.wake()

    def _read_again(self, concerned: Concerned) -> None:
        """Place the workloads again whose requests may have changed.

        concerned: returns whether the requests of a workload may have changed.
        """
        for workload in self.workloads.all():
            if concerned(workload):
                self._place_latest(key_of(workload))

    def _notify_of(self, obj: Workload) -> None:
        local = f"{obj.metadata.namespace}/{obj.spec.queue_name}"
        queue, admission = self.local_queues.get(local), obj.status.admission
        if admission is not None:
            self.notifier.notify_change(admission.cluster_queue, local)
        else:
            self.notifier.notify_change(queue.spec.cluster_queue if queue is not None else "", local)
