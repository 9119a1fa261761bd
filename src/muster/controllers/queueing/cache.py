"""What level 1 knows of the cluster: the quota tree with who holds what, and the queues with who waits for it.

The one place where both are changed, and all of it a function of what was seen: every object is put where it belongs
by its own state, whatever came before it. Between a decision and the moment at which its write is seen, the decision
counts: such a workload is `assumed`, and what is seen of it meanwhile is older.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import cast

from msgspec.structs import replace

from muster.api.config import Configuration
from muster.api.core import NAMESPACE, Namespace
from muster.api.kueue import (
    ADMISSION_CHECK,
    CLUSTER_QUEUE,
    COHORT,
    LOCAL_QUEUE,
    RESOURCE_FLAVOR,
    TOPOLOGY,
    WORKLOAD,
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    LocalQueue,
    ResourceFlavor,
    Topology,
    Workload,
)
from muster.api.kueue.names import MULTI_KUEUE_CONTROLLER
from muster.api.kueue.readiness import READY_ANNOTATION, ReadyAnnotationError, parse_annotation
from muster.api.values.quantity import QuantityError
from muster.controllers.queueing.additions import Additions, Concerned
from muster.controllers.queueing.indexes import (
    HOLDERS_BY_CLUSTER_QUEUE,
    WORKLOADS_BY_LOCAL_QUEUE,
    by_holding,
    by_local_queue,
)
from muster.controllers.queueing.topology import TopologyNodes
from muster.queueing import model
from muster.queueing.convert import ConversionSettings as Reading
from muster.queueing.convert import cohort_spec, flavor_spec, levels_of, queue_spec
from muster.queueing.convert import workload as read
from muster.queueing.elastic.growth import growth, growth_key
from muster.queueing.pending.activity import Activity, activity
from muster.queueing.pending.queues import Queues
from muster.queueing.quota.tree import Node, Tree
from muster.queueing.requests import ResourceRules
from muster.queueing.scheduling.blocking import Blocking
from muster.queueing.scheduling.fairness import FairSharing, Strategy
from muster.queueing.scheduling.nomination import AdmissionSettings
from muster.queueing.workload.place import Holds, Waits, place_of
from muster.runtime.manager import Manager
from muster.runtime.objects import key_of
from muster.runtime.ownwrites import MutationCache

Listener = Callable[[str, str], None]


class QueueingCache:
    """Follows the informers of a manager. Others read; `AdmissionController` tells what it decided."""

    def __init__(self, manager: Manager, configuration: Configuration) -> None:
        self.tree = Tree()
        self.queues = Queues()
        self.flavors: dict[str, model.FlavorSpec] = {}
        self.checks: dict[str, AdmissionCheck] = {}
        self.unfit: dict[str, str] = {}  # workloads that nothing can be done for, by key, and why
        self._base = configuration.wait_for_pods_ready
        self._by_queue: dict[str, bool] = {}  # whether a ClusterQueue says itself that its workloads block
        self._by_flavor: dict[str, bool] = {}
        self._by_workload = False  # whether any workload ever said so
        strategy = self._base.requeuing_strategy.timestamp if self._base is not None else "Eviction"
        self._reading = Reading(
            rules=ResourceRules.of(configuration.resources),
            by_eviction=strategy == "Eviction",
            boost=configuration.features.enabled("PriorityBoost"),
            topology=configuration.features.enabled("TopologyAwareScheduling"),
        )
        fair = configuration.fair_sharing
        self._fair = FairSharing(cast("tuple[Strategy, ...]", fair.preemption_strategies)) if fair is not None else None
        self._ignore_undeclared = configuration.resources.quota_check_strategy == "IgnoreUndeclared"
        self._assumed: dict[str, int] = {}  # by key, how many writes of ours are under way
        self._active: dict[str, Activity] = {}
        self._users: dict[str, set[str]] = {}  # ClusterQueues by flavor, and by `check/` and the name of a check
        self._listeners: list[Listener] = []
        self._wake_listeners: list[Callable[[], None]] = []
        self._wait_listeners: list[Callable[[str], None]] = []
        self.workloads = manager.informer(
            WORKLOAD, indexes={WORKLOADS_BY_LOCAL_QUEUE: by_local_queue, HOLDERS_BY_CLUSTER_QUEUE: by_holding}
        )
        self.local_queues = manager.informer(LOCAL_QUEUE)
        self.cluster_queues = manager.informer(CLUSTER_QUEUE)
        self.cohorts = manager.informer(COHORT)
        self._latest = MutationCache(self.workloads.get)
        self.workloads.on_change(self._workload_changed)
        self.local_queues.on_change(self._local_queue_changed)
        self.cluster_queues.on_change(self._queue_changed)
        self.cohorts.on_change(self._cohort_changed)
        self._resource_flavors = manager.informer(RESOURCE_FLAVOR)
        self._resource_flavors.on_change(self._flavor_changed)
        self._topologies = manager.informer(TOPOLOGY)
        self._topologies.on_change(self._topology_changed)
        self._topology_nodes = TopologyNodes(manager, self.tree.ledger, self._has_room)
        manager.informer(ADMISSION_CHECK).on_change(self._check_changed)
        manager.informer(NAMESPACE).on_change(self._namespace_changed)
        self._additions = Additions(manager, self._read_again)

    # What others ask.

    def on_change(self, listener: Listener) -> None:
        """Call `listener(cluster_queue, local_queue)` when something changed about who waits or holds quota there."""
        self._listeners.append(listener)

    def on_wake(self, listener: Callable[[], None]) -> None:
        """Call `listener()` when there may be something to decide."""
        self._wake_listeners.append(listener)

    def on_wait(self, listener: Callable[[str], None]) -> None:
        """Call `listener(workload)` when a workload waits that may have to be told why."""
        self._wait_listeners.append(listener)

    def wake(self) -> None:
        """There may be something to decide."""
        for listener in self._wake_listeners:
            listener()

    def waits(self, key: str) -> None:
        """A workload waits, and may have to be told why."""
        for listener in self._wait_listeners:
            listener(key)

    def activity(self, cluster_queue: str) -> Activity | None:
        """Whether a ClusterQueue admits; None if there is no such queue."""
        return self._active.get(cluster_queue)

    @property
    def settings(self) -> AdmissionSettings:
        """How admission decides now."""
        everything, blocking = self._base is not None and self._base.block_admission, None
        if everything or self._by_queue or self._by_flavor or self._by_workload:
            blocking = Blocking(everything=everything, queues=self._by_queue, flavors=self._by_flavor)
        return AdmissionSettings(
            fair=self._fair, blocking=blocking, ignore_undeclared=self._ignore_undeclared, past=self.queues.usage
        )

    # What admission tells.

    def latest(self, key: str) -> Workload | None:
        """The workload as last seen, or as our own write made it, if that is newer."""
        return self._latest.get(key)

    def is_still(self, workload: model.WorkloadInfo, obj: Workload) -> bool:
        """Whether a decision about the workload holds for what it is now."""
        if workload.growth_of:
            now = growth(self._additions.complete(obj), workload.queue, self._reading)
            return now is not None and now.podsets == workload.podsets
        local = self.local_queues.get(workload.local_queue)
        now = self._read(obj, workload.queue)
        return (
            isinstance(place_of(obj), Waits)
            and local is not None
            and local.spec.cluster_queue == workload.queue
            and (now.podsets, now.local_queue, now.priority)
            == (workload.podsets, workload.local_queue, workload.priority)
        )

    def assume(self, key: str) -> None:
        """A write about the workload is under way: the tree and the queues have it as it will be."""
        self._assumed[key] = self._assumed.get(key, 0) + 1

    def settle(self, key: str, written: Workload | None) -> None:
        """The write is done or has failed, and the workload is this now; None if it is gone."""
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
        """A write of ours made the workload this; what is seen meanwhile may be older."""
        self._latest.wrote(written)

    def is_assumed(self, key: str) -> bool:
        """Whether a write about the workload is under way."""
        return key in self._assumed

    # What admission fair sharing tells.

    def set_usage(self, local_queue: str, usage: float) -> None:
        """How much a LocalQueue used lately: of those of one ClusterQueue, the one with least comes first."""
        if self.queues.usage.get(local_queue, 0.0) != usage:
            self.queues.set_usage(local_queue, usage)
            self.wake()

    # What happens in the cluster.

    def _workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        workload = new if new is not None else old
        assert workload is not None
        key = key_of(workload)
        is_news = self._latest.is_news(key, new)
        if new is None:
            self._forget(key)
            self._tell(workload)
            return
        if key in self._assumed or not is_news:
            return
        self._place(new)
        if old is not None and old.spec.queue_name != new.spec.queue_name:
            self._tell(old)

    def _place_latest(self, key: str) -> None:
        """Put a workload where it belongs by what is known of it, unless more is being written."""
        if key in self._assumed:
            return
        workload = self.latest(key)
        if workload is None:
            self._forget(key)
        else:
            self._place(workload)

    def _place(self, obj: Workload) -> None:
        """Where the workload belongs by its state: in the tree, in a queue, or nowhere."""
        key = key_of(obj)
        try:
            self._put(key, obj)
        except QuantityError as error:  # the server should have refused it
            self._forget(key)
            self.unfit[key] = str(error)
            self.waits(key)
        self._tell(obj)

    def _put(self, key: str, obj: Workload) -> None:
        match place_of(obj):
            case None:
                self._forget(key)
            case Holds(cluster_queue):
                self.unfit.pop(key, None)
                self._hold(key, self._read(obj, cluster_queue))
                self._grow(key, obj, cluster_queue)
            case Waits(until):
                self._release(key)
                self._release(growth_key(key))
                self.queues.remove(growth_key(key))
                self._queue(key, obj, until)

    def _read(self, obj: Workload, cluster_queue: str) -> model.WorkloadInfo:
        workload = read(self._additions.complete(obj), cluster_queue, self._reading)
        text = obj.metadata.annotations.get(READY_ANNOTATION)
        if text is None:
            return workload
        blocks = self._blocks(text)
        self._by_workload = self._by_workload or bool(blocks)
        return replace(workload, blocks=blocks)

    def _blocks(self, text: str) -> bool | None:
        """What an annotation says about blocking; None where it says nothing that is understood."""
        try:
            settings = parse_annotation(text, self._base)
        except ReadyAnnotationError:
            return None
        return settings is not None and settings.block_admission

    def _hold(self, key: str, workload: model.WorkloadInfo) -> None:
        self.queues.remove(key)
        before = self.tree.holder(key)
        if workload.queue not in self.tree.queues:
            self._release(key)
            return
        self.tree.hold(workload)
        if (granted := self.tree.holder(growth_key(key))) is not None:
            self.tree.release(granted)  # it is part of the whole now, or was refused
            self._freed(granted, {})
        if before is None:
            return
        self._freed(before, workload.usage or {}, workload.places)
        if before.blocks != workload.blocks:
            self._unblock()
        if (before.evicted and not workload.evicted) or before.priority > workload.priority:
            self._flush(self.tree.queues[workload.queue])  # others may displace it
        elif before.ready != workload.ready or before.evicted != workload.evicted:
            self.wake()

    def _grow(self, key: str, obj: Workload, cluster_queue: str) -> None:
        more = growth(self._additions.complete(obj), cluster_queue, self._reading)
        node = self.tree.queues.get(more.queue) if more is not None else None
        if more is None or node is None or not all(map(self._lets_grow, node.policy.checks)):
            self.queues.remove(growth_key(key))
            return
        self.queues.add(more)
        self.wake()

    def _lets_grow(self, check: str) -> bool:
        """What a check has not seen is not granted; that of MultiKueue sees it: it asks the worker's quota."""
        found = self.checks.get(check)
        return found is not None and found.spec.controller_name == MULTI_KUEUE_CONTROLLER

    def _queue(self, key: str, obj: Workload, until: datetime | None) -> None:
        local = self.local_queues.get(f"{obj.metadata.namespace}/{obj.spec.queue_name}")
        missing = f"LocalQueue {obj.spec.queue_name} doesn't exist" if local is None else ""
        problem = missing or self._additions.problem(obj)
        self.unfit.pop(key, None)
        if local is None or problem:
            self.unfit[key] = problem
            self.waits(key)
            self.queues.remove(key)
            return
        self.queues.add(self._read(obj, local.spec.cluster_queue), until=until)
        self.waits(key)
        self.wake()

    def _forget(self, key: str) -> None:
        self.unfit.pop(key, None)
        self.queues.remove(key)
        self._release(key)
        self.queues.remove(growth_key(key))
        self._release(growth_key(key))

    def _release(self, key: str) -> None:
        before = self.tree.holder(key)
        if before is not None:
            self.tree.release(before)
            self._freed(before, {})
            self._say(before.queue, before.local_queue)

    def _freed(self, before: model.WorkloadInfo, now: model.Usage, places: tuple[model.Places, ...] = ()) -> None:
        """Those are looked at again that what became free could help."""
        freed = [fr for fr, amount in (before.usage or {}).items() if amount > now.get(fr, 0)]
        node = self.tree.queues.get(before.queue)
        if freed and node is not None:
            self.queues.flush(node, freed)
            self.wake()
        if before.places != places:
            self._has_room()

    def _has_room(self) -> None:
        """There is room on nodes of flavors with a topology."""
        self.queues.flush_places()
        self.wake()

    def _local_queue_changed(self, old: LocalQueue | None, new: LocalQueue | None) -> None:
        queue = new if new is not None else old
        assert queue is not None
        if _only_status(old, new):
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
                self.waits(key_of(workload))  # that it was stopped is a reason, or is none any more
        self.wake()
        self._say(queue.spec.cluster_queue, key)

    def _queue_changed(self, old: ClusterQueue | None, new: ClusterQueue | None) -> None:
        queue = new if new is not None else old
        assert queue is not None
        if _only_status(old, new):
            return
        name = queue.metadata.name
        for users in self._users.values():
            users.discard(name)
        said, checked = self._by_queue.pop(name, None), False
        before = self.tree.queues.get(name)
        roots = [before.root] if before is not None else []
        if new is None:
            self.tree.remove_queue(name)
            self.queues.remove_queue(name)
            self._active.pop(name, None)
            self._explain_all(name)
        else:
            spec = queue_spec(new)
            for flavor in dict.fromkeys(flavor for group in spec.groups for flavor in group.flavors):
                self._users.setdefault(flavor, set()).add(name)
            for check in spec.checks:
                self._users.setdefault(f"check/{check}", set()).add(name)
            if (text := new.metadata.annotations.get(READY_ANNOTATION)) is not None:
                self._by_queue[name] = bool(self._blocks(text))
            checked = before is not None and bool(before.policy.checks) != bool(spec.checks)
            roots.append(self.tree.set_queue(spec).root)
            if old is None or checked:
                self._take_in(name)
            self._review(name)
        for root in dict.fromkeys(roots):
            self._flush(root)
        if self._by_queue.get(name) != said:
            self._unblock()

    def _take_in(self, name: str) -> None:
        """A ClusterQueue appeared: what was seen before it holds its quota from now on."""
        for workload in self.workloads.by(HOLDERS_BY_CLUSTER_QUEUE, name):
            self._place_latest(key_of(workload))

    def _review(self, name: str) -> None:
        """Whether the ClusterQueue admits may have changed."""
        node, queue = self.tree.queues.get(name), self.cluster_queues.get(name)
        if node is None:
            return
        before = self._active.get(name)
        now = self._active[name] = activity(
            node.policy,
            self.flavors,
            self.checks,
            terminating=queue is not None and queue.metadata.deletion_timestamp is not None,
            in_circle=self.tree.in_circle(node),
        )
        self.queues.set_queue(node.policy, active=now.active)
        if before is None or before.active != now.active:
            self._explain_all(name)
        self.wake()
        self._say(name, "")

    def _explain_all(self, name: str) -> None:
        """Why its workloads wait is another reason now."""
        for key in self.queues.waiting(name):
            self.waits(key)

    def _unblock(self) -> None:
        """Those who wait for the pods of others may not have to any more."""
        for name, parked in list(self.queues.parked.items()):
            if parked.blocker:
                self.queues.retry(name)
        self.wake()

    def _flush(self, node: Node) -> None:
        """Everybody in the tree is looked at again."""
        self.queues.flush(node)
        self.wake()

    def _cohort_changed(self, old: Cohort | None, new: Cohort | None) -> None:
        cohort = new if new is not None else old
        assert cohort is not None
        if _only_status(old, new):
            return
        name = cohort.metadata.name
        before = self.tree.cohorts.get(name)
        touched = [before.root] if before is not None else []
        if new is not None:
            touched.append(self.tree.set_cohort(cohort_spec(new)).root)
        else:
            self.tree.remove_cohort(name)
            touched += [node.root for node in (self.tree.cohorts.get(name),) if node is not None]
        for root in dict.fromkeys(touched):
            for queue in list(root.queues()):
                self._review(queue.name)
            self._flush(root)

    def _flavor_changed(self, old: ResourceFlavor | None, new: ResourceFlavor | None) -> None:
        flavor = new if new is not None else old
        assert flavor is not None
        name = flavor.metadata.name
        said = self._by_flavor.pop(name, None)
        if new is None:
            self.flavors.pop(name, None)
        else:
            self._set_flavor(new)
            if (text := new.metadata.annotations.get(READY_ANNOTATION)) is not None:
                self._by_flavor[name] = bool(self._blocks(text))
        self._review_users(name)
        if self._by_flavor.get(name) != said:
            self._unblock()

    def _set_flavor(self, flavor: ResourceFlavor) -> None:
        if not self._reading.topology:
            self.flavors[flavor.metadata.name] = replace(flavor_spec(flavor), topology="")
            return
        topology = self._topologies.get(flavor.spec.topology_name) if flavor.spec.topology_name else None
        levels = levels_of(topology)
        self.flavors[flavor.metadata.name] = flavor_spec(flavor, levels)
        if levels:
            self._topology_nodes.follow()

    def _topology_changed(self, old: Topology | None, new: Topology | None) -> None:
        topology = new if new is not None else old
        assert topology is not None
        for flavor in self._resource_flavors.all():
            if flavor.spec.topology_name == topology.metadata.name:
                self._set_flavor(flavor)
                self._review_users(flavor.metadata.name)

    def _check_changed(self, old: AdmissionCheck | None, new: AdmissionCheck | None) -> None:
        check = new if new is not None else old
        assert check is not None
        if new is None:
            self.checks.pop(check.metadata.name, None)
        else:
            self.checks[check.metadata.name] = new
        self._review_users(users := f"check/{check.metadata.name}")
        if (old is None) != (new is None):
            for name in sorted(self._users.get(users, ())):
                self._take_in(name)

    def _review_users(self, what: str) -> None:
        for name in sorted(self._users.get(what, ())):
            self._review(name)
            if (node := self.tree.queues.get(name)) is not None:
                self._flush(node)

    def _namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        namespace = new if new is not None else old
        assert namespace is not None
        labels: Mapping[str, str] = new.metadata.labels if new is not None else {}
        self.queues.set_namespace(namespace.metadata.name, labels)
        self.wake()

    def _read_again(self, concerned: Concerned) -> None:
        """The pods of some workloads will be others."""
        for workload in self.workloads.all():
            if concerned(workload):
                self._place_latest(key_of(workload))

    def _tell(self, obj: Workload) -> None:
        local = f"{obj.metadata.namespace}/{obj.spec.queue_name}"
        queue, admission = self.local_queues.get(local), obj.status.admission
        if admission is not None:
            self._say(admission.cluster_queue, local)
        else:
            self._say(queue.spec.cluster_queue if queue is not None else "", local)

    def _say(self, cluster_queue: str, local_queue: str) -> None:
        for listener in self._listeners:
            listener(cluster_queue, local_queue)


def _only_status(
    old: ClusterQueue | LocalQueue | Cohort | None, new: ClusterQueue | LocalQueue | Cohort | None
) -> bool:
    """Whether a change is none that matters here: statuses are written all the time."""
    if old is None or new is None or old.spec != new.spec:
        return False
    before, after = old.metadata, new.metadata
    return before.annotations == after.annotations and before.deletion_timestamp == after.deletion_timestamp
