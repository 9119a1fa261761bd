"""Which pods belong together and what the nodes have free, followed from events and from what was written here."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from muster.api.core import Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod
from muster.api.kueue.names import CLUSTER_QUEUE_NAME_LABEL, LOCAL_QUEUE_NAME_LABEL, QUEUE_NAME_LABEL
from muster.api.podgroups.names import QUEUE_ANNOTATIONS
from muster.api.pods import is_finished
from muster.controllers.gangs import Gang, GangSource, gang_of
from muster.gang.nodes.capacity import Capacity, Strategy
from muster.gang.order.ends import End, expected_end
from muster.gang.order.ledger import Ledger, Running
from muster.gang.order.shares import Shares
from muster.gang.shapes import Guest, guest_of, shape_of
from muster.runtime.objects import key_of, meta_of

# A pod that is being deleted has so long, besides its grace, to be gone.
LATE_SECONDS = 60.0

# What the carrier of a gang that started then says of its end.
Carried: TypeAlias = Callable[[str, Gang, float], End | None]


class Change(Struct, frozen=True):
    """What a pod's event means for the gangs.

    key: the pod's gang.
    before: the gang that it was in until now.
    due: its gang has one more that waits for a node, or one fewer; where others count, one more or fewer of those.
    freed: room came free.
    moved: a pod came to a node, or is another to those around it.
    """

    key: str
    before: str
    due: bool
    freed: bool
    moved: bool


class Roster:
    """The gangs with unfinished pods, by key, and the capacity of the nodes. All of it is a cache, and nothing waits.

    names: the schedulers that we are; the pods of others take room and count as members, and are never placed.
    """

    def __init__(self, sources: Sequence[GangSource[Any]], names: Collection[str], strategy: Strategy) -> None:
        self.capacity = Capacity(strategy)
        self.gangs: dict[str, Gang] = {}
        self.leaving: dict[str, float] = {}  # pods that are being deleted and still hold room: when they are to be gone
        self._sources = sources
        self._others: dict[str, dict[str, Pod]] = {}  # by gang of a source that counts them, by UID
        self._names = names
        self.shares = Shares()
        self._running = Ledger()  # brought up to date by need
        self._stale: set[str] = set()  # gangs of which the ledger does not know what became
        self._nodes_version = 0
        self._assumed: set[str] = set()  # pods that hold room from the decision on, and are not known to be bound
        self._sent: dict[str, str] = {}  # nodes of pods that we have bound and not yet seen bound, by UID

    def node_changed(self, old: Node | None, new: Node | None) -> bool:
        """A node came, changed or went. Whether that could help a waiting pod."""
        if new is not None:
            changed = self.capacity.set_node(new)
            self._nodes_version += changed
            return changed
        assert old is not None
        self.capacity.remove_node(old.metadata.name)
        self._nodes_version += 1
        return False

    def namespace_changed(self, old: Namespace | None, new: Namespace | None) -> bool:
        """A namespace came, changed or went. Whether that may matter to a pod."""
        labels = new.metadata.labels if new is not None else None
        return self.capacity.set_namespace(meta_of(new if new is not None else old).name, labels)

    def claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> bool:
        """A claim came, changed or went. Whether that may matter to a pod."""
        return self.capacity.set_claim(key_of(new if new is not None else old), new)

    def volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> bool:
        """A volume came, changed or went. Whether that may matter to a pod."""
        return self.capacity.set_volume(meta_of(new if new is not None else old).name, new)

    def pod_changed(self, old: Pod | None, new: Pod | None) -> Change:
        """A pod came, changed or went."""
        pod = new if new is not None else old
        assert pod is not None
        uid, (key, source) = pod.metadata.uid, gang_of(pod, self._sources)
        before = gang_of(old, self._sources)[0] if old is not None else key
        if before != key:
            self._leave(before, uid)
        gang = self.gangs.setdefault(key, Gang(source))
        was_unbound = gang.unbound.pop(uid, None) is not None
        gang.bound.pop(uid, None)
        self.leaving.pop(uid, None)
        holds = new is not None and not is_finished(new)
        # What we see may be older than what we have written: a pod that we have bound is bound.
        node = pod.spec.node_name or self._sent.get(uid, "")
        if pod.spec.node_name or not holds:
            self._sent.pop(uid, None)
        moved = False
        if holds and node:
            guest = guest_of(pod)
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
        freed = not holds and self.capacity.release(uid)
        if not holds:
            self.shares.release(uid)
            self._assumed.discard(uid)
        self._stale.add(key)
        gang.version += 1
        if not gang.unbound and not gang.bound:
            del self.gangs[key]
        due = was_unbound != (uid in gang.unbound)
        if source is not None and source.counts_others:
            self._count(key, uid, new if uid not in gang.unbound and uid not in gang.bound else None)
            due |= _standing(old) != _standing(new)
        return Change(key, before, due=due, freed=freed, moved=moved)

    def seat(self, pod: Pod) -> tuple[str, Guest] | None:
        """The node that a pod is on, and what it is to others there; None if it holds none."""
        return (pod.spec.node_name, guest_of(pod)) if pod.spec.node_name and not is_finished(pod) else None

    def is_assumed(self, pod: Pod) -> bool:
        """Whether, if it has a node, that is known by what was written here alone."""
        return not pod.spec.node_name and not is_finished(pod)

    def carrier_changed(self, key: str) -> None:
        """What the carrier of a gang says may be another: of its end, and of what it needs."""
        self._stale.add(key)
        if (gang := self.gangs.get(key)) is not None:
            gang.version += 1

    @property
    def nodes_version(self) -> int:
        """Another whenever a node is another."""
        return self._nodes_version

    def is_open(self, pod: Pod, node: str) -> bool:
        """Whether a pod may go to a node by what is known of the node now, whatever is free there."""
        index = self.capacity.index_of(node)
        return index is not None and bool(self.capacity.eligible(shape_of(pod))[index])

    def assume(self, pod: Pod, node: str) -> None:
        """A pod holds room from now on, as it is about to be bound."""
        self.capacity.assign(pod.metadata.uid, node, guest_of(pod))
        self._assumed.add(pod.metadata.uid)

    def unassume(self, uid: str) -> bool:
        """A pod holds no room after all. Whether it did."""
        self._assumed.discard(uid)
        return self.capacity.release(uid)

    def is_bound(self, pod: Pod, node: str) -> None:
        """Count a pod as bound from now on, not only once that is seen."""
        key, uid = gang_of(pod, self._sources)[0], pod.metadata.uid
        self._assumed.discard(uid)
        if (gang := self.gangs.get(key)) is not None and gang.unbound.pop(uid, None) is not None:
            gang.bound[uid] = pod
            self._stale.add(key)
            gang.version += 1
            self._sent[uid] = node
            self.shares.hold(uid, tenant_of(pod), guest_of(pod).requests)

    def running(self, now: float, carried: Carried) -> Ledger:
        """What holds room, since when, and when it is expected to end. now: seconds since the epoch."""
        for key in self._stale:
            gang = self.gangs.get(key)
            if gang is not None and gang.bound:
                self._running.set(key, _running(key, gang, now, carried), self.capacity)
            else:
                self._running.drop(key)
        self._stale.clear()
        going = self.going(now)
        others = {
            "assumed": Running(tuple(self._assumed), now),
            "going": Running(tuple(going), 0.0, End(now, sure=True)),
            "late": Running(tuple(self.leaving.keys() - going), 0.0),
        }
        for name, running in others.items():  # no gang has such a key: theirs have a slash
            self._running.set(name, running, self.capacity)
        return self._running

    def renew(self) -> None:
        """What was recorded of pods was wrong: what is known of all that runs is made anew."""
        self._running, self._stale = Ledger(), set(self.gangs)

    def going(self, now: float) -> frozenset[str]:
        """Pods that will soon be gone. Of those that should have gone long since it is not known when they will."""
        return frozenset(uid for uid, deadline in self.leaving.items() if now < deadline + LATE_SECONDS)

    def others(self, key: str) -> Collection[Pod]:
        """Of a gang whose source counts them, the pods that are neither bound nor could be."""
        return self._others.get(key, {}).values()

    def _count(self, key: str, uid: str, pod: Pod | None) -> None:
        """One of the others is like this now; None: it is none of them."""
        if pod is not None:
            self._others.setdefault(key, {})[uid] = pod
        elif others := self._others.get(key):
            others.pop(uid, None)
            if not others:
                del self._others[key]

    def _leave(self, key: str, uid: str) -> None:
        """A pod that lives on is of another gang now."""
        self._count(key, uid, None)
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
    """For whom a pod runs: its ClusterQueue, or Volcano's queue; else its LocalQueue, or none, of its namespace."""
    labels, annotations = pod.metadata.labels, pod.metadata.annotations
    if queue := labels.get(CLUSTER_QUEUE_NAME_LABEL):
        return queue
    if annotations and (queues := [annotations[key] for key in QUEUE_ANNOTATIONS if key in annotations]):
        return queues[0]
    return f"{pod.metadata.namespace}/{labels.get(LOCAL_QUEUE_NAME_LABEL) or labels.get(QUEUE_NAME_LABEL, '')}"


def started_at(pod: Pod, now: float) -> float:
    """When a pod was taken by its node; one that is just bound is about to be."""
    return pod.status.start_time.timestamp() if pod.status.start_time is not None else now


def _running(key: str, gang: Gang, now: float, carried: Carried) -> Running:
    started = min(started_at(pod, now) for pod in gang.bound.values())
    end = carried(key, gang, started)
    ends = [expected_end(pod, started, end) for pod in gang.bound.values()]
    last = None if None in ends else max((end for end in ends if end is not None), key=lambda end: end.at)
    return Running(tuple(gang.bound), started, last)


def _standing(pod: Pod | None) -> tuple[bool, ...]:
    """What those who count a gang's pods see of one."""
    if pod is None:
        return ()
    leaving, gated = pod.metadata.deletion_timestamp is not None, bool(pod.spec.scheduling_gates)
    return pod.status.phase == "Succeeded", is_finished(pod), bool(pod.spec.node_name), leaving, gated
