"""Which pods belong together and what the nodes have free, followed from events and from what was written here."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from msgspec import Struct

from muster.api.core import Node, Pod
from muster.api.pods import is_finished
from muster.controllers.gangs import Gang, GangSource, gang_of
from muster.gang.capacity import Capacity
from muster.gang.shapes import guest_of


class Change(Struct, frozen=True):
    """What a pod's event means for the gangs.

    key: the pod's gang.
    before: the gang that it was in until now.
    due: its gang has one more that waits for a node, or one fewer.
    freed: room came free.
    """

    key: str
    before: str
    due: bool
    freed: bool


class Roster:
    """The gangs with unfinished pods, by key, and the capacity of the nodes. All of it is a cache, and nothing waits.

    names: the schedulers that we are; the pods of others take room and count as members, and are never placed.
    """

    def __init__(self, sources: Sequence[GangSource[Any]], names: Collection[str]) -> None:
        self.capacity = Capacity()
        self.gangs: dict[str, Gang] = {}
        self.leaving: set[str] = set()  # pods that are being deleted and still hold room
        self._sources = sources
        self._counting = [source for source in sources if source.counts_others]
        self._names = names
        self._sent: dict[str, str] = {}  # nodes of pods that we have bound and not yet seen bound, by UID

    def node_changed(self, old: Node | None, new: Node | None) -> bool:
        """A node came, changed or went. Whether that could help a waiting pod."""
        if new is not None:
            return self.capacity.set_node(new)
        assert old is not None
        self.capacity.remove_node(old.metadata.name)
        return False

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
        self.leaving.discard(uid)
        holds = new is not None and not is_finished(new)
        # What we see may be older than what we have written: a pod that we have bound is bound.
        node = pod.spec.node_name or self._sent.get(uid, "")
        if pod.spec.node_name or not holds:
            self._sent.pop(uid, None)
        if holds and node:
            self.capacity.assign(uid, node, guest_of(pod))
            if pod.metadata.deletion_timestamp is None:
                gang.bound[uid] = pod
            else:
                self.leaving.add(uid)
        elif holds and self._is_ours(pod):
            gang.unbound[uid] = pod
        if uid in gang.unbound or uid in gang.bound:
            gang.priority = max(gang.priority, pod.spec.priority or 0)
        freed = not holds and self.capacity.release(uid)
        if not gang.unbound and not gang.bound:
            del self.gangs[key]
        return Change(key, before, due=was_unbound != (uid in gang.unbound), freed=freed)

    def is_bound(self, pod: Pod, node: str) -> None:
        """Count a pod as bound from now on, not only once that is seen."""
        gang, uid = self.gangs.get(gang_of(pod, self._sources)[0]), pod.metadata.uid
        if gang is not None and gang.unbound.pop(uid, None) is not None:
            gang.bound[uid] = pod
            self._sent[uid] = node

    def counted_in(self, pod: Pod) -> Iterable[str]:
        """The gang of which it has to be known how many have succeeded, if the pod is of such a one: an index."""
        for source in self._counting:  # most pods are of none of them, and that is soon said
            if source.key(pod):
                key, first = gang_of(pod, self._sources)
                return [key] if first is source else []
        return []

    def _leave(self, key: str, uid: str) -> None:
        """A pod that lives on is of another gang now."""
        if (gang := self.gangs.get(key)) is None:
            return
        gang.unbound.pop(uid, None)
        gang.bound.pop(uid, None)
        if not gang.unbound and not gang.bound:
            del self.gangs[key]

    def _is_ours(self, pod: Pod) -> bool:
        return (
            pod.metadata.deletion_timestamp is None
            and not pod.spec.scheduling_gates
            and pod.spec.scheduler_name in self._names
        )
