"""Remember which workload was preempted for which, so that workloads do not preempt each other endlessly.

Two rules of preemption can form a circle of workloads, each of which may preempt the next: a ClusterQueue reclaims its
own quota whatever the priorities, and within a ClusterQueue priority decides whatever the shares.

So, until a workload ends or quota changes, a workload is not preempted twice for the same preemptor. It is also not
preempted for a workload that it preempted itself, directly or through others.

The record is only in memory: after a restart each workload may be preempted once more.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

_NOBODY: AbstractSet[str] = frozenset()


class Displacements:
    """A record of which workloads were preempted for which others.

    An entry is dropped when a workload of its tree ends or quota changes there. All workloads are named by their keys.
    """

    def __init__(self) -> None:
        self._leaving: dict[str, str] = {}  # the preemptor of each victim that still terminates
        self._awaited: dict[str, set[str]] = {}  # by preemptor, its victims that still terminate
        self._preemptors: dict[str, set[str]] = {}  # the preemptors of each victim that is back in its queue
        self._victims: dict[str, set[str]] = {}  # by preemptor, its victims that are back in their queues
        self._in_queue: dict[str, set[str]] = {}  # victims that are back in their queues, by ClusterQueue
        self._queues: dict[str, set[str]] = {}  # the ClusterQueues of each victim that is back in its queue

    def record(self, preemptor: str, victims: Iterable[str]) -> None:
        """Record that these victims are evicted for the preemptor.

        A victim that is already being evicted keeps its first preemptor.
        """
        for victim in victims:
            if victim not in self._leaving:
                self._leaving[victim] = preemptor
                self._awaited.setdefault(preemptor, set()).add(victim)

    def came_back(self, key: str, queue: str) -> None:
        """Record that a preempted workload is back in the queue of a ClusterQueue.

        From now on, the workload and its preemptor may not preempt each other.
        """
        if (preemptor := self._await_no_longer(key)) is not None:
            self._preemptors.setdefault(key, set()).add(preemptor)
            self._victims.setdefault(preemptor, set()).add(key)
            self._in_queue.setdefault(queue, set()).add(key)
            self._queues.setdefault(key, set()).add(queue)

    def protected_from(self, key: str) -> AbstractSet[str]:
        """Return the workloads that the workload with this key may not preempt.

        These are the workloads for which it was preempted, directly or through others, and the workloads that were
        preempted for it.
        """
        victims, preemptors = self._victims.get(key, _NOBODY), self._preemptors.get(key, _NOBODY)
        if not victims and not preemptors:
            return _NOBODY
        above = {key, *preemptors}
        path = list(preemptors)
        while path:
            further = self._preemptors.get(path.pop(), _NOBODY) - above
            above |= further
            path += further
        return (above | victims) - {key}

    def forget(self, queues: Iterable[str]) -> None:
        """Forget the preemptions in these ClusterQueues of one tree, because a workload ended there or quota changed.

        After such a change the same preemption may be justified again.
        """
        if self._in_queue:
            for queue in queues:
                for key in tuple(self._in_queue.get(queue, ())):
                    self._forget_preemptors(key)

    def forget_workload(self, key: str) -> None:
        """Forget a workload that was deleted, or that changed so much that it is treated as a new one."""
        self._await_no_longer(key)
        for victim in self._awaited.pop(key, ()):
            del self._leaving[victim]
        self._forget_preemptors(key)
        for victim in self._victims.pop(key, ()):
            _discard(self._preemptors, victim, key)
            if victim not in self._preemptors:
                self._forget_queues(victim)

    def _await_no_longer(self, key: str) -> str | None:
        """Remove a victim from those that will return to their queue; return its preemptor, or None without one."""
        if (preemptor := self._leaving.pop(key, None)) is not None:
            _discard(self._awaited, preemptor, key)
        return preemptor

    def _forget_preemptors(self, key: str) -> None:
        for preemptor in self._preemptors.pop(key, ()):
            _discard(self._victims, preemptor, key)
        self._forget_queues(key)

    def _forget_queues(self, key: str) -> None:
        for queue in self._queues.pop(key, ()):
            _discard(self._in_queue, queue, key)


def _discard(index: dict[str, set[str]], key: str, one: str) -> None:
    """Remove `one` from the set of a key, and the key itself once its set is empty."""
    index[key].discard(one)
    if not index[key]:
        del index[key]
