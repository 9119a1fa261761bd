"""Track which pods form a gang, and the free amounts of nodes, from watch events and the scheduler's own writes."""

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from muster.api.core import Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod
from muster.api.groups.resource import DeviceClass, ResourceClaim, ResourceSlice
from muster.api.kueue.names import CLUSTER_QUEUE_NAME_LABEL, LOCAL_QUEUE_NAME_LABEL, QUEUE_NAME_LABEL
from muster.api.podgroups.names import QUEUE_ANNOTATIONS
from muster.api.pods import is_finished
from muster.controllers.gangs import Gang, GangSource, gang_of, is_preempted
from muster.gang.nodes.capacity import Capacity, Strategy
from muster.gang.nodes.devices import Devices, Matcher, match_nothing
from muster.gang.order.ends import EndTime, expected_end
from muster.gang.order.ledger import GangLedger, RunningGang
from muster.gang.order.shares import Shares
from muster.gang.shapes import Guest, guest_of, shape_of
from muster.runtime.objects import is_same_but_status, key_of, meta_of

# The seconds after its grace period from which a deleted pod is overdue.
LATE_SECONDS = 60.0

# Returns when a gang that started at the given time ends, by its carrier.
Carried: TypeAlias = Callable[[str, Gang, float], EndTime | None]


class RosterChange(Struct, frozen=True):
    """The effect of a pod's event on the gangs.

    key: the key of the pod's gang.
    before: the key of the pod's previous gang, usually the same.
    due: whether the gang must be reconciled: a pod began or ceased to wait for a node or to be a victim of preemption,
    a pod that the gang's source counts changed, or resource claims of a pod were created.
    freed: whether room became free.
    moved: whether a pod was bound to a node, or changed a field that affinity or spread rules of other pods read.
    """

    key: str
    before: str
    due: bool
    freed: bool
    moved: bool


class Roster:
    """The gangs with unfinished pods, by key, and the capacity of the nodes.

    All state is a cache, and no method waits.

    names: the names of this scheduler. Pods of other schedulers use room and count as members, but are never placed.
    matches: returns whether a device matches an expression.
    """

    def __init__(
        self,
        sources: Sequence[GangSource[Any]],
        names: Collection[str],
        strategy: Strategy,
        matches: Matcher = match_nothing,
    ) -> None:
        self._strategy = strategy
        self.devices = Devices(matches)
        self._nodes: dict[str, Node] = {}
        self.gangs: dict[str, Gang] = {}
        self.leaving: dict[str, float] = {}  # pods being deleted that still use room, and their deadlines
        self._sources = sources
        self._others: dict[str, dict[str, Pod]] = {}  # by gang and UID: the pods that `others` returns
        self._names = names
        self.shares = Shares()
        self._stale: set[str] = set()  # gangs to update in the ledger
        self._nodes_version = 0
        self._assumed: set[str] = set()  # pods that use room since their decision, whose binding is not observed yet
        self._sent: dict[str, str] = {}  # by UID, the nodes of pods whose binding was written but not yet observed

    @cached_property
    def capacity(self) -> Capacity:
        """The free amounts of the nodes, in arrays that are created at the first use."""
        return Capacity(self._strategy)

    @cached_property
    def _running(self) -> GangLedger:
        """The running gangs, updated at each use."""
        return GangLedger()

    def node_changed(self, old: Node | None, new: Node | None) -> bool:
        """Update a node that was added, changed or deleted; return whether that could help a waiting pod."""
        if new is not None:
            self._nodes[new.metadata.name] = new
            changed = self.capacity.set_node(self.add_devices(new))
            self._nodes_version += changed
            return changed
        assert old is not None
        self._nodes.pop(old.metadata.name, None)
        self.capacity.remove_node(old.metadata.name)
        self._nodes_version += 1
        return False

    def namespace_changed(self, old: Namespace | None, new: Namespace | None) -> bool:
        """Update a namespace that was added, changed or deleted; return whether that may affect a pod."""
        labels = new.metadata.labels if new is not None else None
        return self.capacity.set_namespace(meta_of(new if new is not None else old).name, labels)

    def claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> bool:
        """Update a volume claim that was added, changed or deleted; return whether that may affect a pod."""
        return self.capacity.set_claim(key_of(new if new is not None else old), new)

    def volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> bool:
        """Update a volume that was added, changed or deleted; return whether that may affect a pod."""
        return self.capacity.set_volume(meta_of(new if new is not None else old).name, new)

    def slice_changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> bool:
        """Update devices that were added, changed or deleted; return whether that may affect a pod."""
        return self._equip_again(self.devices.set_slice(meta_of(new if new is not None else old).name, new))

    def device_class_changed(self, old: DeviceClass | None, new: DeviceClass | None) -> bool:
        """Update a device class that was added, changed or deleted; return True, because it may affect a pod."""
        self._equip_again(self.devices.set_class(meta_of(new if new is not None else old).name, new))
        return True

    def resource_claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> bool:
        """Update a resource claim that was added, changed or deleted.

        Return whether that may affect a pod, such as a pod that waits for the claim.
        """
        changed = self._equip_again(self.devices.set_claim(key_of(new if new is not None else old), new))
        self.capacity.retire(self.devices.take_forgotten())
        return changed or (old is None and new is not None and self.devices.is_awaited(new))

    def add_devices(self, node: Node) -> Node:
        """Return the node with the devices that it offers to pods, as resources."""
        devices = self.devices.count_devices(node.metadata.name)
        if not devices:
            return node
        allocatable = node.status.allocatable | {resource: str(number) for resource, number in devices.items()}
        return msgspec.structs.replace(node, status=msgspec.structs.replace(node.status, allocatable=allocatable))

    def _equip_again(self, names: Iterable[str]) -> bool:
        """Recompute the capacity of nodes whose devices changed; return whether that may let a waiting pod start.

        names: the names of the nodes.
        """
        names, changed = frozenset(names), False
        for pod, name in self.devices.seated_on(names):
            if self.capacity.assigned(pod.metadata.uid) is not None:
                self.capacity.assign(pod.metadata.uid, name, self._make_guest(pod))
        for name in sorted(names & self._nodes.keys()):
            changed |= self.capacity.set_node(self.add_devices(self._nodes[name]))
        return changed

    def _make_guest(self, pod: Pod) -> Guest:
        return guest_of(pod, self.devices.held_by(pod.metadata.uid) if pod.spec.resource_claims else ())

    def _seat(self, pod: Pod, node: str) -> None:
        """Count the devices of a pod's claims as used on the pod's node."""
        if pod.spec.resource_claims:
            self._equip_again(self.devices.seat(pod, node))

    def pod_changed(self, old: Pod | None, new: Pod | None) -> RosterChange:
        """Update a pod that was added, changed or deleted; return the effect on the gangs."""
        pod = new if new is not None else old
        assert pod is not None
        uid, (key, source) = pod.metadata.uid, gang_of(pod, self._sources)
        before = key if old is None or is_same_but_status(old, pod) else gang_of(old, self._sources)[0]
        if before != key:
            self._leave(before, uid)
        gang = self.gangs.setdefault(key, Gang(source))
        was_unbound = gang.unbound.pop(uid, None) is not None
        gang.bound.pop(uid, None)
        self.leaving.pop(uid, None)
        holds = new is not None and not is_finished(new)
        # An event may be older than this scheduler's binding, so a pod that this scheduler bound stays bound.
        node = pod.spec.node_name or self._sent.get(uid, "")
        if pod.spec.node_name or not holds:
            self._sent.pop(uid, None)
        moved = False
        if holds and node:
            self._seat(pod, node)
            guest = self._make_guest(pod)
            self._assumed.discard(uid)
            moved = self.capacity.assign(uid, node, guest)
            self.shares.hold(uid, tenant_of(pod), guest.requests)
            if (deadline := pod.metadata.deletion_timestamp) is None:
                gang.bound[uid] = pod
            else:
                self.leaving[uid] = deadline.timestamp()
        elif holds and self._is_ours(pod):
            gang.unbound[uid] = pod
        if uid in gang.unbound or uid in gang.bound:
            gang.priority = max(gang.priority, pod.spec.priority or 0)
        freed = not holds and self._release(uid)
        if not holds:
            self._assumed.discard(uid)
        self._stale.add(key)
        gang.version += 1
        if not gang.unbound and not gang.bound:
            del self.gangs[key]
        due = was_unbound != (uid in gang.unbound) or _learns_claims(old, new)
        due |= old is not None and is_preempted(old) != is_preempted(pod)
        if source is not None and source.counts_others:
            self._update_other(key, uid, new if uid not in gang.unbound and uid not in gang.bound else None)
            due |= _summarise(old) != _summarise(new)
        elif pod.spec.scheduling_gates or (old is not None and old.spec.scheduling_gates):
            self._update_other(key, uid, new if holds and pod.spec.scheduling_gates else None)
        return RosterChange(key, before, due=due, freed=freed, moved=moved)

    def _release(self, uid: str) -> bool:
        """Free the room and the devices that a pod uses, and reduce its tenant's share; return whether it used room."""
        released = self.capacity.release(uid)
        self.shares.release(uid)
        if nodes := self.devices.unseat(uid):
            self._equip_again(nodes)
        return released

    def seat(self, pod: Pod) -> tuple[str, Guest] | None:
        """Return a pod's node, and the fields on which the placement of other pods depends.

        Return None for a pod without a node or an ended pod.
        """
        return (pod.spec.node_name, self._make_guest(pod)) if pod.spec.node_name and not is_finished(pod) else None

    def carrier_changed(self, key: str) -> None:
        """Record that a gang's carrier changed, so that the gang's expected end and quorums are computed again."""
        self._stale.add(key)
        if (gang := self.gangs.get(key)) is not None:
            gang.version += 1

    @property
    def nodes_version(self) -> int:
        """A number that changes with every change of a node."""
        return self._nodes_version

    def is_open(self, pod: Pod, node: str) -> bool:
        """Return whether a node accepts a pod (selectors, taints, readiness), regardless of the free amounts there."""
        index = self.capacity.index_of(node)
        return index is not None and bool(self.capacity.eligible(shape_of(pod, asking=self.devices.ask))[index])

    def assume(self, pod: Pod, node: str) -> None:
        """Count a pod's requests as used on a node, because the pod is about to be bound there."""
        self._seat(pod, node)
        guest = self._make_guest(pod)
        self.capacity.assign(pod.metadata.uid, node, guest)
        self.shares.hold(pod.metadata.uid, tenant_of(pod), guest.requests)  # the next gang is compared with it
        self._assumed.add(pod.metadata.uid)

    def unassume(self, uid: str) -> bool:
        """Undo `assume`; return whether the pod used room."""
        self._assumed.discard(uid)
        return self._release(uid)

    def count_as_bound(self, pod: Pod, node: str) -> None:
        """Count a pod as bound, before the event about its binding arrives."""
        key, uid = gang_of(pod, self._sources)[0], pod.metadata.uid
        self._assumed.discard(uid)
        if (gang := self.gangs.get(key)) is not None and gang.unbound.pop(uid, None) is not None:
            gang.bound[uid] = pod
            self._stale.add(key)
            gang.version += 1
            self._sent[uid] = node

    def make_ledger(self, now: float, carried: Carried) -> GangLedger:
        """Return the running gangs with their starts and expected ends, updated where pods or carriers changed.

        now: the current time, in seconds since the epoch.
        carried: returns a gang's end by its carrier.
        """
        for key in self._stale:
            gang = self.gangs.get(key)
            if gang is not None and gang.bound:
                self._running.set(key, _make_running(key, gang, now, carried), self.capacity)
            else:
                self._running.drop(key)
        self._stale.clear()
        going = self.list_leaving_pods(now)
        others = {
            "assumed": RunningGang(tuple(self._assumed), now),
            "going": RunningGang(tuple(going), 0.0, EndTime(now, is_enforced=True)),
            "late": RunningGang(tuple(self.leaving.keys() - going), 0.0),
        }
        for name, running in others.items():  # keys of gangs contain a slash, so these names differ from them
            self._running.set(name, running, self.capacity)
        return self._running

    def list_leaving_pods(self, now: float) -> frozenset[str]:
        """Return the UIDs of pods that are being deleted, except pods that are overdue, whose end is unknown."""
        return frozenset(uid for uid, deadline in self.leaving.items() if now < deadline + LATE_SECONDS)

    def others(self, key: str) -> Collection[Pod]:
        """Return the pods of a gang that are neither bound nor ready to be bound, such as gated or succeeded pods.

        If the gang's source does not count others, return only the gated pods.
        """
        return self._others.get(key, {}).values()

    def _update_other(self, key: str, uid: str, pod: Pod | None) -> None:
        """Add or replace one of the pods that `others` returns. If the pod is None, remove it."""
        if pod is not None:
            self._others.setdefault(key, {})[uid] = pod
        elif others := self._others.get(key):
            others.pop(uid, None)
            if not others:
                del self._others[key]

    def _leave(self, key: str, uid: str) -> None:
        """Remove a pod from its former gang."""
        self._update_other(key, uid, None)
        if (gang := self.gangs.get(key)) is None:
            return
        gang.unbound.pop(uid, None)
        gang.bound.pop(uid, None)
        gang.version += 1
        self._stale.add(key)
        if not gang.unbound and not gang.bound:
            del self.gangs[key]

    def _is_ours(self, pod: Pod) -> bool:
        return (
            pod.metadata.deletion_timestamp is None
            and not pod.spec.scheduling_gates
            and pod.spec.scheduler_name in self._names
        )


def tenant_of(pod: Pod) -> str:
    """Return the tenant of a pod, which fair sharing of nodes compares with other tenants.

    The tenant is the pod's ClusterQueue or Volcano queue; without either, its namespace and LocalQueue.
    """
    labels, annotations = pod.metadata.labels, pod.metadata.annotations
    if queue := labels.get(CLUSTER_QUEUE_NAME_LABEL):
        return queue
    if annotations and (queues := [annotations[key] for key in QUEUE_ANNOTATIONS if key in annotations]):
        return queues[0]
    return f"{pod.metadata.namespace}/{labels.get(LOCAL_QUEUE_NAME_LABEL) or labels.get(QUEUE_NAME_LABEL, '')}"


def started_at(pod: Pod, now: float) -> float:
    """Return the pod's `status.startTime`, in seconds since the epoch; `now` if the node has not started it yet."""
    return pod.status.start_time.timestamp() if pod.status.start_time is not None else now


def _make_running(key: str, gang: Gang, now: float, carried: Carried) -> RunningGang:
    started = min(started_at(pod, now) for pod in gang.bound.values())
    end = carried(key, gang, started)
    ends = [expected_end(pod, started, end) for pod in gang.bound.values()]
    last = None if None in ends else max((end for end in ends if end is not None), key=lambda end: end.at)
    return RunningGang(tuple(gang.bound), started, last)


def _learns_claims(old: Pod | None, new: Pod | None) -> bool:
    if old is None or new is None or not new.spec.resource_claims:
        return False
    return old.status.resource_claim_statuses != new.status.resource_claim_statuses


def _summarise(pod: Pod | None) -> tuple[bool, ...]:
    """Return the fields of a pod that a gang's source reads to count pods, for comparison of two versions."""
    if pod is None:
        return ()
    leaving, gated = pod.metadata.deletion_timestamp is not None, bool(pod.spec.scheduling_gates)
    return pod.status.phase == "Succeeded", is_finished(pod), bool(pod.spec.node_name), leaving, gated
